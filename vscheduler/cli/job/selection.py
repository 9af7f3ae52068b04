"""Which jobs `vscheduler job list` shows, and in which order."""

from collections.abc import Collection, Sequence

import msgspec

from vscheduler.cli.job.job_figures import Job
from vscheduler.mirror import workloads
from vscheduler.mirror.workloads import Workload
from vscheduler.model.jobs import Phase

WAITING = "Waiting"
STATES = (WAITING, *(str(phase) for phase in Phase))
OTHERS_MAX = 3
"""So many other namespaces with a job of that name are named."""

ORDERS = ("place", "name", "queue", "age", "waiting", "pods")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are shown, and in which order."""

    queues: Sequence[str] = ()
    states: Sequence[str] = ()
    order: str = "place"

    def of(self, found: Sequence[Job]) -> list[Job]:
        """Return the jobs to show."""
        chosen = [
            job
            for job in found
            if (not self.queues or job.queue in self.queues)
            and (not self.states or job.phase in self.states or self._waits(job))
        ]
        return sorted(chosen, key=lambda each: (*_rank(each, self.order), each.key))

    def none(self, *, everywhere: bool) -> str:
        """Return that there is no such job in the namespace, or anywhere."""
        where = "" if everywhere else " in this namespace; -A shows all namespaces"
        if not self.states and not self.queues:
            return f"No jobs found{where}."
        states = " or ".join(dict.fromkeys(state.lower() for state in self.states))
        queues = f"queue {' or '.join(dict.fromkeys(self.queues))}" if self.queues else ""
        return f"No {states}{' ' if states else ''}jobs{queues and f' of {queues}'}{where}."

    def _waits(self, job: Job) -> bool:
        return WAITING in self.states and job.waits


def _rank(job: Job, order: str) -> tuple[object, ...]:
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


def named(every: Sequence[Job], names: Sequence[str]) -> tuple[list[Job], list[str]]:
    """Return the jobs that are meant by names of workloads or PodGroups, and names without any."""
    found: dict[str, Job] = {}
    unknown = []
    for name in dict.fromkeys(names):
        wanted = workloads.parse(name)
        meant = {job.key: job for job in every if workloads.matches(wanted, job.names)}
        found.update(meant)
        if not meant:
            unknown.append(name)
    return list(found.values()), unknown


def not_there(
    name: str, namespace: str | None, everywhere: Collection[Job], *, seen: str = ""
) -> str:
    """Return that there is no such job in the namespace (None: in any), and what may be meant.

    `everywhere` are the jobs of all namespaces; `seen` says of whom.
    """
    wanted = workloads.parse(name)
    inside = [job for job in everywhere if namespace in {None, job.namespace}]
    others = {job.namespace for job in everywhere if workloads.matches(wanted, job.names)}
    near = workloads.similar(wanted, (name for job in inside for name in job.names))
    where = f" in namespace {namespace}" if namespace is not None else ""
    before, _, bare = name.partition("/")
    anything = Workload("", bare)
    hint = ""
    if any(
        job.namespace == before and workloads.matches(anything, job.names) for job in everywhere
    ):
        hint = f"; did you mean `{bare} -n {before}`?"
    elif others:
        names = sorted(others)[:OTHERS_MAX]
        have = f"s {' and '.join(names)} have" if len(names) > 1 else f" {names[0]} has"
        hint = f"; namespace{have} one: add -n {names[0]}"
    elif near:
        hint = f"; did you mean {' or '.join(near)}?"
    return f"there is no job {name}{where}{seen}{hint}"


def none_in(namespace: str | None) -> Sequence[str]:
    """Return that the user may see no job of the namespace, and where else to look."""
    if namespace is None:
        return ()
    said = f"There are no jobs in namespace {namespace} that you may see"
    return (f"{said}: name another one with -n, or all with -A.",)
