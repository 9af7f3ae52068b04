"""JobStates: the state of each job in this cycle, made when first asked for.

Most jobs of a large cluster run, or wait in vain, and nobody asks for their states.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TypeVar

from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.core.memo.unchanged_jobs import UnchangedJobs
from vscheduler.core.session.job_state import JobState
from vscheduler.model.jobs import YOUNG, Job, JobId, Phase

Default = TypeVar("Default")


class JobStates(dict[JobId, JobState]):
    """The states of all jobs whose queue exists, in order of IDs.

    A dictionary, because placement looks up the state of a job for each pod. States are missing
    until asked for; whoever goes through all jobs has all states made.
    """

    def __init__(
        self,
        active: Mapping[JobId, Job],
        unschedulable: Mapping[JobId, Job],
        unchanged: UnchangedJobs,
        rules: CycleRules,
    ) -> None:
        """No job is in two of these. Unschedulable jobs are Inqueue, and so are unchanged ones
        whose phase isn't stored yet.
        """
        super().__init__()
        self._active, self._unschedulable, self._unchanged, self._rules = (
            active,
            unschedulable,
            unchanged,
            rules,
        )

    def known(self, job: JobId) -> JobState | None:
        """Return the state of a job if it is made by now."""
        return super().get(job)

    def __missing__(self, job: JobId) -> JobState:
        """Make the state of a job."""
        found = self._active.get(job)
        if found is not None:
            state = JobState(found, self._rules)
        elif (found := self._unschedulable.get(job)) is not None:
            state = JobState(found, self._rules)
            state.phase = Phase.INQUEUE
        else:
            found = self._unchanged.jobs.get(job)
            if found is None:
                raise KeyError(job)
            state = JobState(found, self._rules)
            state.fully_scheduled = True
            if state.phase in YOUNG:
                state.phase = Phase.INQUEUE
        self[job] = state
        return state

    def promised(self) -> list[JobState]:
        """Return the states of jobs with minResources, by ID. Unchanged ones hold all of
        them, and are left out.
        """
        every = (*self._active.values(), *self._unschedulable.values())
        return [self[job] for job in sorted(each.id for each in every if each.min_resources)]

    def unfinished(self) -> set[JobId]:
        """Return the jobs whose states are made, and that could still request something."""
        return {job for job, state in super().items() if not state.fully_scheduled}

    def made(self) -> ItemsView[JobId, JobState]:
        """Return the jobs whose states are made, with these."""
        return super().items()

    def moved(self) -> list[JobState]:
        """Return the jobs with a task that has moved."""
        return [state for state in super().values() if not state.untouched]

    def get(self, job: JobId, default: Default = None) -> JobState | Default:  # type: ignore[assignment]  # None is a Default
        """Return the state of the job, or the default for an unknown job."""
        return self[job] if job in self else default  # noqa: SIM401 - this is that method

    def __contains__(self, job: object) -> bool:
        """Whether there is such a job."""
        if super().__contains__(job) or job in self._active or job in self._unschedulable:
            return True
        return isinstance(job, str) and JobId(job) in self._unchanged

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self._active) + len(self._unschedulable) + len(self._unchanged.jobs)

    def __bool__(self) -> bool:
        """Whether there is any job."""
        return bool(self._active or self._unschedulable or self._unchanged)

    def __iter__(self) -> Iterator[JobId]:
        """Iterate over the IDs of all jobs."""
        self._make_all()
        return super().__iter__()

    def keys(self) -> KeysView[JobId]:  # type: ignore[override]  # dict has a class of its own
        """Return the IDs of all jobs."""
        return KeysView(self)

    def values(self) -> ValuesView[JobState]:  # type: ignore[override]  # as above
        """Return the states of all jobs."""
        self._make_all()
        return super().values()

    def items(self) -> ItemsView[JobId, JobState]:  # type: ignore[override]
        """Return all jobs with their states."""
        self._make_all()
        return super().items()

    def _make_all(self) -> None:
        """Make all states that are missing, and put the jobs in order."""
        if super().__len__() == len(self):
            return
        unchanged = (job.id for job in self._unchanged.jobs)
        ordered = [self[job] for job in sorted((*self._active, *self._unschedulable, *unchanged))]
        self.clear()
        self.update({state.job.id: state for state in ordered})
