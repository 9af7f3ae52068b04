"""The status of a job that waits, kept for as long as nothing changes it."""

from collections.abc import Callable
from typing import TypeAlias

from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.model.decisions import GroupStatus, Reason
from vscheduler.model.jobs import Phase

_Kept: TypeAlias = tuple[Phase, Reason | None, CycleRules, GroupStatus]
"""A status, after what it depends on besides the job."""


class WaitingStatus:
    """The last status of a job that waits, kept with the Job while its pods don't change."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: _Kept | None = None

    def status(
        self,
        phase: Phase,
        reason: Reason | None,
        rules: CycleRules,
        make: Callable[[], GroupStatus],
    ) -> GroupStatus:
        """Return the last status if it is still right, otherwise what `make` returns."""
        last = self._last
        if last is not None and last[0] is phase and last[1] == reason and last[2] is rules:
            return last[3]
        made = make()
        self._last = phase, reason, rules, made
        return made
