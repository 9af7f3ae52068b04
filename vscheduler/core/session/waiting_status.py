"""The status of a job that waits, kept for as long as nothing changes it."""

from collections.abc import Callable
from typing import TypeAlias

from vscheduler.core.config import cycle_rules
from vscheduler.core.model import decisions, jobs

_Kept: TypeAlias = tuple[
    jobs.Phase, decisions.Reason | None, cycle_rules.CycleRules, decisions.GroupStatus
]
"""A status, after what it depends on besides the job."""


class WaitingStatus:
    """The last status of a job that waits, kept with the Job while its pods don't change."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: _Kept | None = None

    def status(
        self,
        phase: jobs.Phase,
        reason: decisions.Reason | None,
        rules: cycle_rules.CycleRules,
        make: Callable[[], decisions.GroupStatus],
    ) -> decisions.GroupStatus:
        """Return the last status if it is still right, otherwise what `make` returns."""
        last = self._last
        if last is not None and last[0] is phase and last[1] == reason and last[2] is rules:
            return last[3]
        made = make()
        self._last = phase, reason, rules, made
        return made
