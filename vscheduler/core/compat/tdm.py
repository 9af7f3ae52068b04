"""VolcanoTdm: plugin tdm with Volcano's windows and budgets."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vscheduler.core.api import views
from vscheduler.core.model import decisions, jobs
from vscheduler.core.plugins import tdm


class VolcanoWindow(tdm.Window):
    """A window that includes its last second; a window across midnight is closed after midnight.

    Volcano: availableRevocableZone.
    """

    __slots__ = ()

    def open(self, second: float) -> bool:
        """Whether the window is open at this second of the day."""
        return self.start <= second and (self.start >= self.end or second < self.end + 1)

    def changes(self) -> tuple[int, ...]:
        """Return the seconds of the day at which the window may open or close."""
        return (self.start, self.end + 1) if self.start < self.end else (self.start, 0)


class VolcanoTdm(tdm.Tdm):
    """Evicts pods zone by zone, and pods of gangs one by one."""

    window_type: ClassVar[type[tdm.Window]] = VolcanoWindow

    def job_valid(self, state: views.JobState) -> decisions.Reason | None:
        """Abstain: an invalid number of pods is ignored."""
        del state
        return None

    def _going(
        self, zones: Mapping[jobs.TaskId, str], candidates: Sequence[jobs.Task]
    ) -> Sequence[jobs.Task]:
        """Return, zone by zone, as many pods of each job as the job can lose.

        Volcano: tdm victimsFn.
        """
        named = [task for task in candidates if task.uid in zones]
        return self._bearable(named, lambda task: (task.job, zones[task.uid]))

    def _spare(self, running: int, minimum: int | None) -> int:
        """Return how many running pods exceed the minimum; 1 for a job below the minimum.

        An invalid minimum counts as none.
        """
        spare = running - (minimum or 0)
        return 1 if spare < 0 else spare
