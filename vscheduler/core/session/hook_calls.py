"""Calls of hooks: the methods of plugins, by hook and tier, found when a hook is first called."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, NoReturn, TypeAlias

from vscheduler.core.api import contracts, hooks
from vscheduler.core.config import policy
from vscheduler.core.session import declared_reads

ALIKE = ("alike_victims", "alike_claimants", "alike_resources")
"""Attributes with which plugins declare for which pods a hook's answers are equal."""

ABOUT_VICTIMS = ("preemptable", "reclaimable", "share_after")
"""Hooks that these attributes may name."""

NOBODY: frozenset[str] = frozenset()


class Unopened:
    """A stand-in for a plugin that failed before its first hook was called: every hook raises.

    The plugin itself isn't used any more, since its state may be incomplete.
    """

    alike_victims = alike_claimants = alike_resources = ()

    def __getattr__(self, hook: str) -> Callable[..., NoReturn]:
        def fail(*_: object) -> NoReturn:
            raise RuntimeError(f"{hook} was called on a plugin that failed to open")

        return fail


class Call(NamedTuple):
    """One plugin's method for a hook."""

    plugin: str
    method: Callable[..., Any]
    role: contracts.VictimRole
    types: tuple[type, ...]
    """The types of valid answers."""
    alike: frozenset[str]
    """The attributes of the plugin that name the hook: `alike_victims`, `alike_resources`, …"""


Tiers: TypeAlias = Sequence[Sequence[tuple[policy.PluginSetting, contracts.Plugin | Unopened]]]


class CallsByTier(dict[str, list[list[Call]]]):
    """The calls for each hook, by tier; tiers without any are left out."""

    def __init__(self, tiers: Tiers) -> None:
        super().__init__()
        self._tiers = tiers

    def __missing__(self, hook: str) -> list[list[Call]]:
        """Return the calls for a hook that hasn't been called yet."""
        assert hook in hooks.HOOKS, f"no hook {hook}"
        types = hooks.ANSWER_TYPES.get(hook, hooks.ANYTHING)
        found: list[list[Call]] = []
        for tier in self._tiers:
            calls = []
            for setting, plugin in tier:
                if hook in setting.answers:
                    method = declared_reads.method(plugin, hook)
                    alike = _declared_alike(plugin, hook) if hook in ABOUT_VICTIMS else NOBODY
                    name, role = setting.plugin.name, setting.plugin.victim_role
                    calls.append(Call(name, method, role, types, alike))
            if calls:
                found.append(calls)
        self[hook] = found
        return found


def _declared_alike(plugin: contracts.Plugin | Unopened, hook: str) -> frozenset[str]:
    """Return the attributes in which the plugin names the hook, as it is open."""
    return frozenset(each for each in ALIKE if hook in getattr(plugin, each))


class Calls(dict[str, list[Call]]):
    """The same calls, all tiers in one list."""

    def __init__(self, by_tier: CallsByTier) -> None:
        super().__init__()
        self._by_tier = by_tier

    def __missing__(self, hook: str) -> list[Call]:
        """Return the calls for a hook that hasn't been called yet."""
        self[hook] = found = [*chain.from_iterable(self._by_tier[hook])]
        return found
