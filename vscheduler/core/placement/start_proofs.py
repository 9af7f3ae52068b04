"""StartProofs: on which nodes the minimum of a job fits at an instant to come, or not.

If nothing but amounts and shares tells pods of the job apart from those that end until then, arrays
say it. Else the core places the pods on a cluster from which the others are gone; nothing remains
of that.
"""

import functools
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np

from vscheduler.core.api.depends import On
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.placement import network_domains
from vscheduler.core.placement.expected_ends import ExpectedEnds, Rows
from vscheduler.core.session import ordering
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model import computed, resources, run_times
from vscheduler.model.decisions import Evict, NoPromise
from vscheduler.model.jobs import EVICTABLE, PLACED, JobId, PodClass, Task, TaskStatus
from vscheduler.model.nodes import Mask
from vscheduler.model.resources import Vector

ENDS = "ends"
"""In place of the action, for pods that are expected to have ended."""

Places = Sequence[tuple[Task, int]]
"""Pods, and the rows of their nodes."""


class Minimum(msgspec.Struct, frozen=True, eq=False):
    """What a job lacks of its minimum."""

    task: Task
    """One of its waiting pods."""
    request: Vector
    """Of which so many copies must fit, whichever pods start, (R,)."""
    needed: int
    limit: float
    """How many seconds the pods run at most; infinite if that isn't known of all."""
    alike: bool
    """Whether only amounts and shares decide about the pods, which are all equal."""


class _Waiting(NamedTuple):
    """The waiting pods of a job, but those without requests."""

    tasks: Sequence[Task]
    firsts: Sequence[Task]
    """The first of each class."""
    limits: frozenset[float | None]
    """How many seconds they run at most, as they say it."""


class StartProofs:
    """The proofs of a cycle."""

    def __init__(self, session: Session, ends: ExpectedEnds) -> None:
        self._session, self._ends = session, ends
        self._minimums: dict[tuple[JobId, int], Minimum] = {}
        """By job, and how many of its pods wait."""
        self._usable: dict[tuple[PodClass, str], tuple[Mask, Rows]] = {}

    def minimum(self, state: JobState) -> Minimum:
        """Return what the job lacks."""
        key = state.job.id, state.counts[TaskStatus.PENDING]
        found = self._minimums.get(key)
        if found is None:
            found = self._minimums[key] = self._minimum(state)
        return found

    def unknown(self, state: JobState) -> NoPromise | None:
        """Return what would have to be known to promise the job a start; None if all is."""
        session, waiting = self._session, self._waiting(state)
        if not self._filters_last:
            return NoPromise.PLUGINS
        for task in waiting.firsts:
            limits = task.pod_class.constraints
            if limits.ports or limits.volumes or limits.resource_claims:
                return NoPromise.CLAIMS
        topology = session.topology.of(state.job.id)
        if topology is None:
            follows = any(map(session.placement.follows_pods, waiting.firsts))
        else:
            follows = bool(topology.parts) or len(waiting.firsts) > 1
        near, nominated = session.affinity_counts, session.nominated
        if not follows and not (near.nobody and not nominated.anybody):
            follows = any(near.state_of(task) or nominated.of(task) for task in waiting.tasks)
        return NoPromise.OTHER_PODS if follows else None

    def usable(self, state: JobState, minimum: Minimum) -> tuple[Mask, Rows]:
        """Return the nodes (N,) that filters allow to equal pods, and their rows, best first."""
        session, task = self._session, minimum.task
        key = task.pod_class, state.job.queue
        if key not in self._usable:
            view, mask = session.cluster.view(), np.ones(session.layout.size, dtype=np.bool_)
            for result in session.placement.verdicts(task, view):
                mask &= result.passes
            asks, rows = session.dispatch.asks, np.flatnonzero(mask)
            if asks(AllHooks.score_nodes) or asks(AllHooks.score_node_set):
                rows = np.array(session.placement.ranked(task, mask), dtype=np.int64)
            self._usable[key] = mask, rows
        return self._usable[key]

    def filled(
        self, state: JobState, minimum: Minimum, copies: Vector, busy_until: Vector | None
    ) -> Places:
        """Return nodes for the minimum of equal pods, if so many fit on each, (N,); none if that
        doesn't suffice.

        Nodes that are busy for longest before the pods start come first, so that what is free stays
        for others. `busy_until` says for how long, (N,); None: the pods start now.
        """
        cluster = self._session.cluster
        idle = cluster.allocatable - cluster.used
        if busy_until is None:
            copies = np.minimum(copies, resources.copies(minimum.request, idle))
        _, ranked = self.usable(state, minimum)
        rows = ranked[copies[ranked] > 0]
        if busy_until is not None:
            rows = rows[np.argsort(-busy_until[rows], kind="stable")]
        before = copies[rows].cumsum()
        last = int(np.searchsorted(before, minimum.needed))
        if last == len(rows):
            return ()
        chosen = np.repeat(rows[: last + 1], copies[rows[: last + 1]])
        tasks = ordering.pending(self._session.dispatch, state)
        if len(tasks) < minimum.needed:
            return ()
        return list(zip(tasks, chosen[: minimum.needed].tolist(), strict=False))

    def within_share(self, state: JobState, minimum: Minimum, start: float) -> bool:
        """Whether the queue may have equal pods at an instant."""
        dispatch, queue = self._session.dispatch, self._session.queues[state.job.queue]
        if not self.shares_decide:
            return True
        task = minimum.task
        others = {queue.name: (1 - minimum.needed) * self._session.counted(task)}
        released = self._ends.by_queue(start)
        dispatch.notify(AllHooks.on_ended, released)
        within = not dispatch.any_says(AllHooks.overused, queue)
        dispatch.notify(AllHooks.on_ended, others)
        within = within and dispatch.all_agree(AllHooks.allocatable, queue, task)
        dispatch.notify(AllHooks.on_ended, _negative(others))
        dispatch.notify(AllHooks.on_ended, _negative(released))
        return within

    def placed(self, state: JobState, start: float, busy_until: Vector | None) -> Places:
        """Return nodes for the minimum of the job as the core places its pods, one by one, once
        others have ended; none if it doesn't fit, or isn't within the rights of its queue.
        `busy_until` as in `filled`.
        """
        session, topology = self._session, self._session.topology.of(state.job.id)
        with session.statement() as ended:
            for task in self._ends.before(start):
                self._remove(ended, task)
            if session.dispatch.any_says(AllHooks.overused, session.queues[state.job.queue]):
                return ()
            if topology is None:
                return self._placed_anywhere(state, busy_until)
            tasks, needed = network_domains.pending(state), network_domains.needed_of(state)
            for _ in network_domains.Tries(session, topology.whole, tasks, needed):
                places = self._placed_anywhere(state, busy_until)
                if places:
                    return places
        return ()

    def _placed_anywhere(self, state: JobState, busy_until: Vector | None) -> Places:
        """Return nodes for the minimum of the job, of those that it may use at this moment."""
        session, queue = self._session, self._session.queues[state.job.queue]
        places = []
        with session.statement() as trial:
            for task in ordering.pending(session.dispatch, state):
                if not session.dispatch.all_agree(AllHooks.allocatable, queue, task):
                    continue
                row = self._row(task, busy_until)
                if row is None:
                    continue
                trial.pipeline(task, row)
                places.append((task, row))
                if state.reaches(PLACED):
                    return places
        return ()

    def _row(self, task: Task, busy_until: Vector | None) -> int | None:
        """Return the best node for a pod, in the order of `filled`."""
        placement = self._session.placement
        now, later = placement.fits(task)
        rows = np.flatnonzero(now if busy_until is None else later)
        if not len(rows):
            return None
        if busy_until is not None:
            rows = rows[busy_until[rows] == busy_until[rows].max()]
        return int(rows[placement.scores(task)[rows].argmax()])

    def _remove(self, ended: Statement, task: Task) -> None:
        """Remove a pod from its node that runs, or starts in this cycle."""
        state = self._session.job_state_of(task)
        status = state.status(task)
        if status in EVICTABLE:
            node = state.node(task) or ""
            ended.evict(Evict(task=task, node=node, action=ENDS, beneficiary=None))
        elif status is TaskStatus.ALLOCATED:
            ended.lift(task)

    def _minimum(self, state: JobState) -> Minimum:
        session, job = self._session, state.job
        waiting = self._waiting(state)
        limits = {job.max_run_time} if job.max_run_time is not None else waiting.limits
        queue = session.queues[job.queue]
        every = (queue.max_run_time if each is None else each for each in limits)
        known = [run_times.capped(each, queue) for each in every]
        return Minimum(
            task=waiting.firsts[0],
            request=functools.reduce(np.minimum, map(session.request, waiting.firsts)),
            needed=state.missing_tasks,
            limit=max(inf if each is None else each for each in known),
            alike=len(waiting.firsts) == 1 and self._are_alike(state),
        )

    def _waiting(self, state: JobState) -> _Waiting:
        if state.untouched:
            return state.job.memo("waiting pods", lambda: _waiting(state))
        return _waiting(state)

    def _are_alike(self, state: JobState) -> bool:
        session, job = self._session, state.job
        if not self._amounts_decide or job.sub_groups or job.roles_count:
            return False
        if state.ready_tasks or state.waiting_tasks or state.pending_best_effort:
            return False
        return session.topology.of(job.id) is None and self.unknown(state) is None

    @computed.once
    def shares_decide(self) -> bool:
        """Whether any plugin limits what queues have."""
        dispatch = self._session.dispatch
        return dispatch.asks(AllHooks.overused) or dispatch.asks(AllHooks.allocatable)

    @computed.once
    def _filters_last(self) -> bool:
        """Whether plugins declare that their filters look neither at what pods use nor at the time:
        they will say the same then.
        """
        dispatch = self._session.dispatch
        changing = dispatch.filters_rest_on(On.USED | On.TIME)
        return dispatch.declares(AllHooks.filter_nodes) and not changing

    @computed.once
    def _amounts_decide(self) -> bool:
        """Whether plugins that count what queues have do so for pods that will have ended, too."""
        dispatch = self._session.dispatch
        asked = AllHooks.filter_nodes, AllHooks.overused, AllHooks.allocatable
        if not (self._filters_last and dispatch.declares(*asked)):
            return False
        deciding = {name for hook in asked for name in dispatch.plugins(hook)}
        counting = {*dispatch.plugins(AllHooks.on_deallocate)}
        return deciding & counting <= {*dispatch.plugins(AllHooks.on_ended)}


def _waiting(state: JobState) -> _Waiting:
    tasks = [task for task in state.tasks(TaskStatus.PENDING) if not task.best_effort]
    firsts = {task.pod_class: task for task in reversed(tasks)}
    limits = frozenset(task.max_run_time for task in tasks)
    return _Waiting(tasks, tuple(firsts.values()), limits)


def _negative(amounts: Mapping[str, Vector]) -> Mapping[str, Vector]:
    return {name: -vector for name, vector in amounts.items()}
