"""Small cycles: which cycles run right in the event loop.

A cycle in a thread of its own leaves the event loop free, but both share one interpreter. Handing
it over costs several times what a cycle costs that starts a single pod, most of all on a busy
machine. So a cycle that is expected to be as cheap as the last one runs in the event loop, within a
fixed number of counted units. A cycle that turns out to cost more is given up, and decided anew in
the thread: the decisions are the same.

Plugins and actions of other packages may wait or never end, so with any of them all cycles run in
the thread.
"""

from functools import partial

from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.core.model.decisions import CycleResult
from vscheduler.core.model.snapshot import Snapshot
from vscheduler.daemon.cycle_thread import CycleThread

UNITS_MAX = 2_000
"""About as long as other tasks may keep the event loop busy, with the cost of an empty cycle, which
is not counted."""

SECONDS_MAX = 0.008
"""After a cycle with more CPU time, whatever was counted, the next one runs in the thread."""

OURS = "vscheduler."
"""Modules of the built-in plugins and actions."""


class SmallCycles:
    """Predicts for each cycle whether it is small, and runs it where it belongs."""

    def __init__(self) -> None:
        self._last_was_small = False

    async def run(
        self,
        thread: CycleThread,
        snapshot: Snapshot,
        policy: Policy,
        budget: int | None,
    ) -> CycleResult:
        """Run a cycle: here if it is small, else in the thread. Raises cycle_thread.FailedError."""
        result = None
        given = snapshot, policy, budget
        if self.expects(policy):
            result = thread.run_here(partial(cycle.run_small_cycle, *given, most=UNITS_MAX))
        if result is None:
            result = await thread.run(partial(cycle.run_cycle, *given))
        self.ended(result.spent, thread.worked_seconds)
        return result

    def expects(self, policy: Policy) -> bool:
        """Whether the next cycle, with this policy, is to run in the event loop."""
        return self._last_was_small and policy.memo("is ours", partial(_is_ours, policy))

    def ended(self, units: int, cpu_seconds: float) -> None:
        """Record what a cycle has cost."""
        self._last_was_small = units <= UNITS_MAX and cpu_seconds <= SECONDS_MAX


def _is_ours(policy: Policy) -> bool:
    plugins = [setting.plugin for setting in policy.settings]
    actions = [setting.action for setting in policy.actions]
    return all(each.__module__.startswith(OURS) for each in (*plugins, *actions))
