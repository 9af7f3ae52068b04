"""How answers of many plugins become one.

`Dispatch` is made once per session: it knows, hook by hook and tier by tier, which plugins have an
opinion, so that asking costs only the calls themselves.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NoReturn, TypeVar

import numpy as np

from vscheduler.core.framework import contracts, policy
from vscheduler.core.model import decisions

Answer = TypeVar("Answer")

ABSTAINS: tuple[float, ...] = ()
"""The key of a plugin that abstains: before every key, and equal to itself."""


KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("job_ready", "job_pipelined", "overused", "allocatable"), (bool, np.bool_, NoneType)
    ),
    "job_valid": (decisions.Reason, NoneType),
    "shortages": (tuple, list),
    "entitlements": (Mapping, NoneType),
}
"""What a plugin may answer, where nothing else would notice anything wrong with it."""


class PluginFailedError(Exception):
    """A plugin raised, or gave an answer of the wrong kind; the cycle starts again without it."""

    def __init__(self, plugin: str, hook: str, cause: Exception) -> None:
        error = f"{type(cause).__name__}: {cause}"
        self.fault = decisions.Fault(plugin=plugin, hook=hook, error=error)
        super().__init__(f"plugin {plugin}, {hook}: {error}")


class Unopened:
    """Stands in for a plugin that failed while it was made or opened: all its hooks fail, too.

    What it had worked out by then could be half of the truth.
    """

    def __getattr__(self, hook: str) -> Callable[..., NoReturn]:
        def fail(*_: object) -> NoReturn:
            raise RuntimeError(f"{hook} was asked of a plugin that didn't open")

        return fail


@dataclass(frozen=True, slots=True)
class Call:
    """One plugin's hook, ready to be asked."""

    plugin: str
    method: Callable[..., Any]


class Dispatch:
    """Every hook of every configured plugin.

    guarded names plugins that have failed in this cycle: where they fail again, a hook that
    guards placement refuses, and any other abstains.
    """

    def __init__(
        self,
        tiers: Sequence[Sequence[tuple[policy.PluginSetting, contracts.Plugin | Unopened]]],
        guarded: frozenset[str],
    ) -> None:
        self._guarded = guarded
        self._tiers: dict[str, tuple[tuple[Call, ...], ...]] = {}
        self._calls: dict[str, tuple[Call, ...]] = {}
        for hook in contracts.HOOKS:
            found = [
                tuple(
                    Call(setting.plugin.name, getattr(plugin, hook))
                    for setting, plugin in tier
                    if setting.has(hook)
                )
                for tier in tiers
            ]
            self._tiers[hook] = tuple(calls for calls in found if calls)
            self._calls[hook] = tuple(call for calls in found for call in calls)

    def key(self, hook: str, subject: object) -> tuple[tuple[float, ...], ...]:
        """What `subject` is sorted by: one part per plugin, in order of tiers."""
        parts = []
        for call in self._calls[hook]:
            try:
                parts.append(_sortable(call.method(subject)))
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                parts.append(self._stands_in(call, hook, error, ABSTAINS))
        return tuple(parts)

    def all_agree(self, hook: str, *subject: object) -> bool:
        """True unless someone says no; a guarding hook that fails says no."""
        default = not contracts.HOOKS[hook].closed
        for call in self._calls[hook]:
            answer = self._ask(call, hook, subject, default)
            if answer is not None and not answer:
                return False
        return True

    def any_says(self, hook: str, *subject: object) -> bool:
        """True if someone says yes; a guarding hook that fails says yes."""
        default = contracts.HOOKS[hook].closed
        return any(self._ask(call, hook, subject, default) for call in self._calls[hook])

    def vote(self, hook: str, *subject: object) -> bool:
        """A reject loses at once; a tier with a permit decides; all abstaining means yes.

        Volcano: session_plugins JobEnqueueable, JobPipelined.
        """
        for tier in self._tiers[hook]:
            permitted = False
            for call in tier:
                answer = self._ask(call, hook, subject, None)
                if answer is not None:
                    if not answer:
                        return False
                    permitted = True
            if permitted:
                return True
        return True

    def first(self, hook: str, default: object, *subject: object) -> Any:
        """The first answer that isn't None; `default` stands in for a plugin that fails."""
        for call in self._calls[hook]:
            answer = self._ask(call, hook, subject, default)
            if answer is not None:
                return answer
        return None

    def every(self, hook: str, *subject: object) -> list[Any]:
        """All answers, in order; a plugin that fails gives None."""
        return [self._ask(call, hook, subject, None) for call in self._calls[hook]]

    def each(
        self, hook: str, check: Callable[[Any, Any], Answer], default: Answer, *subject: object
    ) -> list[Answer]:
        """All answers, each held to `check(answer, view)`, which may raise; view is subject[1]."""
        answers = []
        for call in self._calls[hook]:
            try:
                answers.append(check(call.method(*subject), subject[1]))
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                answers.append(self._stands_in(call, hook, error, default))
        return answers

    def last(self, hook: str) -> Mapping[str, Any]:
        """The answer of the last plugin that has one."""
        answers = [answer for answer in self.every(hook) if answer is not None]
        return answers[-1] if answers else {}

    def _ask(self, call: Call, hook: str, subject: tuple[object, ...], default: Any) -> Any:
        try:
            answer = call.method(*subject)
            kinds = KINDS.get(hook)
            return answer if kinds is None or isinstance(answer, kinds) else _no_answer(answer)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            return self._stands_in(call, hook, error, default)

    def _stands_in(self, call: Call, hook: str, error: Exception, default: Answer) -> Answer:
        if call.plugin not in self._guarded:
            raise PluginFailedError(call.plugin, hook, error) from error
        return default


def _no_answer(answer: object) -> NoReturn:
    raise TypeError(f"{type(answer).__name__} is no answer to that")


def _sortable(key: contracts.Key | None) -> tuple[float, ...]:
    """A key that compares with every other key of its plugin."""
    if key is None:
        return ABSTAINS
    parts = key if isinstance(key, tuple) else (key,)
    if any(math.isnan(part) for part in parts):
        msg = f"a key with NaN in it: {key!r}"
        raise ValueError(msg)
    return parts
