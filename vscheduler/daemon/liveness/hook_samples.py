"""Samples of hooks: in which hook of which plugin cycles spend their time.

The core has no clock, and measuring every call would cost more than most calls. So at each of its
checks, the watchdog looks where the running cycle is. Over minutes, the sums tell who is slow.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from types import CodeType

from vscheduler.core.config.policy import Policy
from vscheduler.daemon.liveness.progress import Cycles

OPENING = ("__init__", "open")
"""What a cycle calls of a plugin before any hook."""

Hook = tuple[str, str]
"""A plugin and a hook, by name."""


class HookSamples:
    """Looks at the running cycle. One thread looks; the policy may change meanwhile."""

    def __init__(
        self,
        cycles: Cycles,
        policy: Callable[[], Policy],
        observe: Callable[[str, str, float], None],
    ) -> None:
        """`observe` is told the plugin, the hook, and for how many seconds the sample counts."""
        self._cycles = cycles
        self._policy = policy
        self._observe = observe
        self._known: Policy | None = None
        self._hooks: Mapping[CodeType, Hook] = {}

    def look(self, seconds: float) -> None:
        """Count these seconds for the hook that runs now, if any does."""
        frame = self._cycles.frame()
        if frame is None:
            return
        policy = self._policy()
        if policy is not self._known:
            self._known, self._hooks = policy, _hooks(policy)
        while frame is not None:
            hook = self._hooks.get(frame.f_code)
            if hook is not None:
                self._observe(*hook, seconds)
                return
            frame = frame.f_back


def _hooks(policy: Policy) -> dict[CodeType, Hook]:
    """Return the hooks of a policy by the code that runs for them."""
    found: dict[CodeType, Hook] = {}
    for setting in chain.from_iterable(policy.tiers):
        for name in (*OPENING, *setting.answers):
            code = getattr(getattr(setting.plugin, name, None), "__code__", None)
            if code is not None:
                found.setdefault(code, (setting.plugin.name, name))
    return found
