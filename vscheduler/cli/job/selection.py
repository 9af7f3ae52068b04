"""Which jobs `vscheduler job list` shows, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass

from vscheduler.cli.job import job_figures
from vscheduler.core.model import jobs
from vscheduler.mirror import workloads

WAITING = "Waiting"
STATES = (WAITING, *(str(phase) for phase in jobs.Phase))
ORDERS = ("place", "name", "queue", "age", "waiting", "pods")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which jobs are shown, and in which order."""

    queues: Sequence[str] = ()
    states: Sequence[str] = ()
    order: str = "place"

    def of(self, found: Sequence[job_figures.Job]) -> list[job_figures.Job]:
        """Return the jobs to show."""
        chosen = [
            each
            for each in found
            if (not self.queues or each.queue in self.queues)
            and (not self.states or each.phase in self.states or self._waits(each))
        ]
        return sorted(chosen, key=lambda each: (*_rank(each, self.order), each.key))

    def _waits(self, job: job_figures.Job) -> bool:
        return WAITING in self.states and job.waits


def _rank(job: job_figures.Job, order: str) -> tuple[object, ...]:
    """Return a sort key."""
    match order:
        case "name":
            return (job.namespace, job.workload)
        case "queue":
            return (job.queue, *_rank(job, "place"))
        case "age":
            return (job.created,)
        case "waiting":
            return (not job.waits, job.since)
        case "pods":
            return (-(job.total or job.minimum),)
    place = job.place
    return (
        not job.waits,
        place is None,
        (job.scheduler, place.overall) if place else ("", 0),
        job.namespace,
        job.workload,
    )


def named(
    every: Sequence[job_figures.Job], names: Sequence[str]
) -> tuple[list[job_figures.Job], list[str]]:
    """Return the jobs that are meant by names of workloads or PodGroups, and names without any."""
    found: dict[str, job_figures.Job] = {}
    unknown = []
    for name in dict.fromkeys(names):
        wanted = workloads.parse(name)
        meant = {each.key: each for each in every if workloads.matches(wanted, each.names)}
        found.update(meant)
        if not meant:
            unknown.append(name)
    return list(found.values()), unknown
