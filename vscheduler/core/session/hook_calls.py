"""Calls of hooks: the methods of plugins by hook and tier, prepared once for each policy.

A method is kept as a function whose first argument is the plugin, so that every session can use it
with plugins of its own.
"""

from collections.abc import Callable, Collection
from itertools import chain
from typing import Any, NamedTuple, NoReturn

from vscheduler.core.api import hooks
from vscheduler.core.api.contracts import Plugin, VictimRole
from vscheduler.core.api.depends import Depends
from vscheduler.core.config.policy import Policy
from vscheduler.core.session import declared_reads

HookRef = Callable[..., Any]
"""A hook: a method of `further_hooks.AllHooks`."""


class Unopened:
    """A stand-in for a plugin that failed before its first hook was called: every hook raises.

    The plugin itself isn't used any more, since its state may be incomplete.
    """


UNOPENED = Unopened()

Opened = Plugin | Unopened


class Call(NamedTuple):
    """One plugin's method for a hook."""

    plugin: str
    place: int
    """The place of the plugin among all of the policy."""
    function: Callable[..., Any]
    """Its first argument is the plugin."""
    role: VictimRole
    types: tuple[type, ...]
    """The types of valid answers."""
    closed: bool
    """Whether a guarded plugin that fails refuses (`hooks.Hook.closed`)."""
    built_in: bool
    """Whether the plugin is one of vscheduler's own."""
    depends: Depends | None
    """What the plugin declares that its answers depend on; its functions are guarded as well."""


class CallsByTier(dict[HookRef, list[list[Call]]]):
    """The calls for each hook, by tier; tiers without any are left out."""

    def __init__(self, policy: Policy, unopened: Collection[int]) -> None:
        """`unopened` are the places of the plugins that failed to open."""
        super().__init__()
        self._tiers = policy.tiers
        self._unopened = unopened

    def __missing__(self, hook: HookRef) -> list[list[Call]]:
        """Return the calls for a hook that hasn't been called yet."""
        name = hook.__name__
        types, closed = hooks.ANSWER_TYPES.get(name, hooks.ANYTHING), hooks.HOOKS[name].closed
        found: list[list[Call]] = []
        place = 0
        for tier in self._tiers:
            calls = []
            for setting in tier:
                if name in setting.answers:
                    plugin = setting.plugin
                    failed = place in self._unopened
                    function = _failing(name) if failed else declared_reads.method(plugin, name)
                    role, declared = plugin.victim_role, declared_reads.depends(plugin, name)
                    own = plugin.__module__.startswith(declared_reads.BUILT_IN)
                    calls.append(
                        Call(plugin.name, place, function, role, types, closed, own, declared)
                    )
                place += 1
            if calls:
                found.append(calls)
        self[hook] = found
        return found


class Calls(dict[HookRef, list[Call]]):
    """The same calls, all tiers in one list."""

    def __init__(self, by_tier: CallsByTier) -> None:
        super().__init__()
        self._by_tier = by_tier

    def __missing__(self, hook: HookRef) -> list[Call]:
        """Return the calls for a hook that hasn't been called yet."""
        self[hook] = found = [*chain.from_iterable(self._by_tier[hook])]
        return found


def prepared(policy: Policy, unopened: Collection[int]) -> tuple[CallsByTier, Calls]:
    """Return the calls for the plugins of the policy; if all are open, they are the same for all
    sessions.
    """

    def compute() -> tuple[CallsByTier, Calls]:
        by_tier = CallsByTier(policy, unopened)
        return by_tier, Calls(by_tier)

    return compute() if unopened else policy.memo("calls of hooks", compute)


def _failing(hook: str) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise RuntimeError(f"{hook} was called on a plugin that failed to open")

    return fail
