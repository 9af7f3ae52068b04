"""Gangs that could not start were all nodes empty: admission has nothing to promise to them.

A bound is proved, no packing is searched for: each class of pods has so many seats on the nodes
that it may use, and what a gang needs at least is no more than these nodes have together. A gang
for which neither bound is broken may still be one that fits nowhere.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from vscheduler.core.model import decisions, jobs, queues, resources
from vscheduler.core.session import job_state, reasons, unschedulable_jobs
from vscheduler.core.session.unschedulable_jobs import Need, Obstacle, Pods

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

SEATS_COST = 100
"""Microseconds, about: seats of one class counted, node by node."""


class Feasibility:
    """What one cycle knows of gangs that wait; gangs of the same pods share one answer.

    Nodes are taken as the survey has them: those that no taint, selector, size or queue forbids.
    """

    def __init__(self, session: "working.Session") -> None:
        self._session = session
        self._whole = session.dispatch.asks("job_ready")
        """Whether anybody asks for a minimum; else any pod may start by itself."""
        self._needs = f"needs {self._whole}"
        self._known: dict[tuple[str, tuple[Need, ...]], Obstacle | None] = {}
        self._seats: dict[tuple[int, jobs.PodClass], int] = {}
        self._totals: dict[frozenset[int], resources.Vector] = {}

    def obstacle(self, gang: job_state.JobState) -> Obstacle | None:
        """Why the gang can't start, whatever goes; None where that isn't proved."""
        job, whole = gang.job, self._whole
        entry = self._session.told_hopeless.entries.get(job.id)
        if entry is not None and gang.untouched:
            return entry.obstacle
        needs = job.memo(self._needs, lambda: _needs(job, whole=whole))
        if not needs:
            return None
        key = (job.queue, needs)
        try:
            return self._known[key]
        except KeyError:
            found = self._known[key] = self._find(*key)
            return found

    def reason(self, gang: job_state.JobState, obstacle: Obstacle) -> decisions.Reason:
        """The same, for people."""
        job, need = gang.job, obstacle.need
        if obstacle.homeless is not None:
            return self._homeless(gang, obstacle, obstacle.homeless)
        minimum = job.min_task_member[need.role] if need.role else job.min_member
        return reasons.of(
            gang,
            decisions.ReasonCode.NEVER_FITS,
            minimum=minimum,
            role=need.role,
            request=need.pods[0][0].request if len(need.pods) == 1 else {},
            seats=obstacle.seats + minimum - need.number,
            shortages=obstacle.shortages,
        )

    def _homeless(
        self, gang: job_state.JobState, obstacle: Obstacle, kind: jobs.PodClass
    ) -> decisions.Reason:
        """Why no node takes a pod of this class; as it was said in an earlier cycle, where nothing
        has changed since.
        """
        job, told = gang.job, self._session.told_hopeless.entries
        if job.id in told and gang.untouched:
            return told[job.id].reason
        pending = gang.tasks(jobs.TaskStatus.PENDING)
        task = next(each for each in pending if each.pod_class is kind)
        reason = reasons.no_room(self._session, gang, task, empty=True)
        if gang.untouched:
            told[job.id] = unschedulable_jobs.Entry(job=job, obstacle=obstacle, reason=reason)
        return reason

    def _find(self, queue: str, needs: tuple[Need, ...]) -> Obstacle | None:
        for need in needs:
            seats = [self._seats_of(queue, kind, count) for kind, count in need.pods]
            if sum(seats) < need.number:
                kinds = [kind for kind, _ in need.pods]
                homeless = kinds[seats.index(0)] if 0 in seats else None
                found = Obstacle(need=need, homeless=homeless, seats=sum(seats))
                return found if homeless or not self._is_capped(queue, need) else None
        need = needs[0]
        shortages = () if need.role or len(need.pods) == 1 else self._shortages(queue, need)
        if not shortages or self._is_capped(queue, need):
            return None
        return Obstacle(need=need, shortages=shortages)

    def _seats_of(self, queue: str, kind: jobs.PodClass, wanted: int) -> int:
        """How many of so many pods nodes could hold."""
        survey = self._session.usable
        domain, _ = survey.demands.get((queue, kind), (None, 0))
        # A domain's nodes hold a pod each; those of merged ones are more than the class may use.
        if domain is None or wanted <= (size := self._sizes[domain]):
            return wanted
        if not size:
            return 0
        key = (domain, kind)
        if key not in self._seats:
            self._session.spend("seats", SEATS_COST)
            request = self._session.space.vector(kind.request)
            asked = np.flatnonzero(request)
            rows = survey.reach[domain][survey.kinds]
            fitting = survey.ground.allocatable[rows][:, asked] // request[asked]
            self._seats[key] = int(fitting.min(axis=1).sum())
        return min(wanted, self._seats[key])

    def _shortages(self, queue: str, need: Need) -> tuple[decisions.Shortage, ...]:
        """Of what these pods need more than all nodes have."""
        least, total = self._least(need), self._total(queue, need.pods)
        return tuple(
            decisions.Shortage(
                resource=self._session.space.names[column],
                requested=int(least[column]),
                allocated=0,
                limit=int(total[column]),
            )
            for column in np.flatnonzero(least > total).tolist()
        )

    def _least(self, need: Need) -> resources.Vector:
        """What the cheapest of these pods ask for, resource by resource: (R,)."""
        requests = np.array([self._session.space.vector(kind.request) for kind, _ in need.pods])
        counts = np.array([count for _, count in need.pods], dtype=np.int64)[:, np.newaxis]
        order = np.argsort(requests, axis=0, kind="stable")
        counts = np.take_along_axis(np.broadcast_to(counts, requests.shape), order, axis=0)
        before = np.cumsum(counts, axis=0) - counts
        taken = np.clip(need.number - before, 0, counts)
        least: resources.Vector = (taken * np.take_along_axis(requests, order, axis=0)).sum(axis=0)
        return least

    def _total(self, queue: str, pods: Pods) -> resources.Vector:
        """What all nodes have together that some of these pods may use, (R,)."""
        survey = self._session.usable
        pairs = [(queue, kind) for kind, _ in pods]
        domains = frozenset(survey.demands.get(pair, (survey.anywhere, 0))[0] for pair in pairs)
        total = self._totals.get(domains)
        if total is None:
            rows = np.any(survey.reach[sorted(domains)], axis=0)[survey.kinds]
            total = self._totals[domains] = survey.ground.allocatable[rows].sum(axis=0)
        return total

    @cached_property
    def _sizes(self) -> list[int]:
        """How many nodes each domain has."""
        survey = self._session.usable
        of_kinds = np.bincount(survey.kinds, minlength=survey.reach.shape[1])
        sizes: list[int] = (survey.reach @ of_kinds).tolist()
        return sizes

    def _is_capped(self, queue: str, need: Need) -> bool:
        """Whether capabilities of its queue, or one above it, forbid it: no node helps then."""
        least = self._session.space.amounts(self._least(need))
        line: dict[str, queues.Queue] = {}
        name = queue
        while name in self._session.queues and name not in line:
            line[name] = self._session.queues[name]
            name = line[name].parent
        return any(
            least.get(resource, 0) > amount
            for each in line.values()
            for resource, amount in each.capability.items()
        )


def beyond(session: "working.Session", gang: job_state.JobState) -> tuple[decisions.Shortage, ...]:
    """Of what the group's minResources are more than all nodes have that its queue may use.

    It may have no pods yet: whose nodes they could use isn't known.
    """
    layout = session.layout
    allowed = session.queue_nodes(session.queues[gang.job.queue], layout)
    rows = layout.ready if allowed is None else layout.ready & allowed
    total = session.space.amounts(session.allocatable[rows].sum(axis=0))
    return tuple(
        decisions.Shortage(resource=name, requested=amount, allocated=0, limit=total.get(name, 0))
        for name, amount in sorted((gang.job.min_resources or {}).items())
        if name != resources.PODS and amount > total.get(name, 0)
    )


def _needs(job: jobs.Job, *, whole: bool) -> tuple[Need, ...]:
    """What of its pods the job needs to start; nothing is known while some don't exist yet.

    Pods that are gated, or ask for nothing, are taken for such as will find a node.
    """
    minimum = job.min_member if whole else 0
    if job.valid_tasks < minimum:
        return ()
    waiting = {
        kind: pending
        for kind, (_, pending) in job.classes.items()
        if pending and not kind.best_effort
    }
    sure = job.ready_tasks + job.pending_best_effort + job.counts[jobs.TaskStatus.GATED]
    needs = [Need(max(1, minimum) - sure, tuple(waiting.items()))]
    if whole and job.roles_count:
        needs += [
            _role_need(job, role, least) for role, least in sorted(job.min_task_member.items())
        ]
    return tuple(need for need in needs if need.number > 0 and need.pods)


def _role_need(job: jobs.Job, role: str, least: int) -> Need:
    waiting: dict[jobs.PodClass, int] = {}
    for task in job.tasks:
        if task.role == role and task.status in jobs.VALID:
            if task.status is jobs.TaskStatus.PENDING and not task.best_effort:
                waiting[task.pod_class] = waiting.get(task.pod_class, 0) + 1
            else:
                least -= 1
    return Need(least, tuple(waiting.items()), role)
