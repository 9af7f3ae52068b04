"""Reasons: why nodes refuse a task, and why a job isn't placed, with figures of the current state.

Actions and the end of a cycle use the same functions. A JobTurn holds the tasks that remain for a
job in a turn, and remembers what was reported for the job on the way.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session.dispatch import Objection
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.model import jobs, nodes, refusals, resources, unassigned_pods
from vscheduler.model.claim_decisions import ClaimWait
from vscheduler.model.constraints import Constraints
from vscheduler.model.decisions import (
    WAITS_FOR_CLAIMS,
    Reason,
    ReasonCode,
    RefusalCounts,
    RefusedBind,
    Shortage,
)
from vscheduler.model.gang_proof import GangProof
from vscheduler.model.jobs import PLACED, Job, PodClass, Task, TaskStatus
from vscheduler.model.queues import Queue
from vscheduler.model.refusals import RefusalCode
from vscheduler.model.resources import ResourceMap

LACKS_PODS = frozenset(
    {
        ReasonCode.TOO_FEW_PODS,
        ReasonCode.TOO_FEW_OF_ROLE,
        ReasonCode.TOO_FEW_SUB_GROUPS,
    }
)
"""Reason codes of jobs with too few pods, which might have enough if all pods were usable."""

FILTER_FAILED = RefusalCode.FILTER_FAILED


def of(state: JobState, code: ReasonCode, **numbers: object) -> Reason:
    """Return a Reason for this job; numbers are further fields of Reason."""
    fields = {
        "queue": state.job.queue,
        "tasks": state.job.task_count,
        "minimum": state.job.min_member,
        "placed": state.ready_tasks + state.waiting_tasks,
        **numbers,
    }
    return Reason(code=code, **fields)  # type: ignore[arg-type]  # fields by name


def barred(session: Session, state: JobState) -> Reason | None:
    """Return why a job may not start, regardless of plugins and free resources, or None.

    The job's phase doesn't matter, since tenants can write the phase. A queue created after a job
    named the queue is as closed to that job as to later jobs.
    """
    job, queue = state.job, session.queues[state.job.queue]
    if not queue.takes(job.namespace):
        return of(state, ReasonCode.QUEUE_BARRED, subject=job.namespace)
    return _topology(session, state)


def _topology(session: Session, state: JobState) -> Reason | None:
    """Return why a gang with hard network topology waits: no plugin considers the topology."""
    field = state.job.hard_topology
    if not field or session.topology.is_used or not session.policy.hard_topology_waits:
        return None
    demand = "required" if jobs.is_native(state.job.id) else "hard"
    problem = f"{field} is {demand}, and plugin network-topology-aware isn't configured"
    return of(state, ReasonCode.TOPOLOGY_UNKNOWN, subject=problem)


@contextlib.contextmanager
def kept(session: Session, state: JobState) -> Iterator[None]:
    """Let a job have another turn without its reason, which is its reason again for pods that still
    wait after the turn.
    """
    reason = session.reasons.by_job.get(state.job.id)
    session.reasons.forget(state.job.id)
    yield
    if reason is not None and state.counts[TaskStatus.PENDING]:
        session.reasons.forget(state.job.id)
        session.reasons.note(state.job.id, reason)


def leave(session: Session, state: JobState) -> bool:
    """Say nothing of a job with whose turn the next cycle goes on, and end the turns; False."""
    session.reasons.forget(state.job.id)
    session.reasons.skip(state.job.id)
    session.work_budget.end_turns()
    return False


def invalid(session: Session, state: JobState) -> Reason | None:
    """Return why this job can't be scheduled in its present state; None if the job can."""
    bar = barred(session, state) if session.bars else None
    if bar is not None:
        return bar
    objection = session.dispatch.objection(AllHooks.job_valid, state)
    if objection is None:
        return None
    call, reason = objection
    if not isinstance(reason, Reason):
        return _refused(state, objection)
    if not call.built_in:
        reason = replace(reason, plugin=call.plugin)
    if reason.code in LACKS_PODS:
        return rejected(state) or replace(reason, owner=state.job.owner)
    return reason


def _refused(state: JobState, objection: Objection) -> Reason:
    """Return that a plugin refuses the job, in the plugin's own words, or fails on it."""
    call, answer = objection
    if answer is None:
        return of(state, ReasonCode.PLUGIN_FAILED, subject=call.plugin)
    sentence = answer if isinstance(answer, str) else ""
    return of(state, ReasonCode.PLUGIN_REFUSED, plugin=call.plugin, subject=sentence)


def by_plugin(
    session: Session, state: JobState, queue: Queue, task: Task | None = None
) -> Reason | None:
    """Return why a plugin keeps the queue from starting any pod, or this one; None if the figures
    of `shortages` say it.
    """
    if task is None:
        objection = session.dispatch.objection(AllHooks.overused, queue)
    else:
        objection = session.dispatch.objection(AllHooks.allocatable, queue, task)
    if objection is None:
        return None
    has_figures = objection.call.plugin in session.dispatch.plugins(AllHooks.shortages)
    if has_figures and isinstance(objection.answer, bool):
        return None
    return _refused(state, objection)


def rejected(state: JobState) -> Reason | None:
    """Return the reason for pods of this job that can't be used; None if all pods can."""
    rejections, defect = state.job.rejections, state.job.defect
    if not rejections:
        return None
    if defect:
        return of(state, ReasonCode.POD_GROUP_ERROR, subject=defect)
    return of(
        state,
        ReasonCode.POD_REJECTED,
        tasks=state.job.task_count + len(rejections),
        rejected=len(rejections),
        rejection=rejections[0],
    )


def bind_refused(state: JobState, refused: Sequence[RefusedBind]) -> Reason | None:
    """Return the reason for pods that the API server refuses to bind; None without such pods."""
    if not refused:
        return None
    return of(
        state,
        ReasonCode.BIND_REFUSED,
        rejected=len(refused),
        refused_bind=refused[0],
    )


def after_refusal(reason: Reason | None, refused: RefusedBind | None) -> Reason | None:
    """Return the reason with the last refusal of a bind, which may be why the job has no room by
    now.
    """
    if reason is None or refused is None or reason.refused_bind is not None:
        return reason
    return replace(reason, refused_bind=refused)


def waits_for_claims(state: JobState, wait: ClaimWait) -> Reason:
    """Return the reason of a job with pods that wait for claims."""
    return of(state, WAITS_FOR_CLAIMS[wait.kind], claims=wait)


def short_sub_group(state: JobState) -> Reason | None:
    """Return the reason for a sub-group with too few pods, or None.

    Pods of a sub-group are placed only if the sub-group can become whole.
    """
    if state.sub_groups is None or not state.counts[TaskStatus.PENDING]:
        return None
    found = state.sub_groups.short(state.tasks(TaskStatus.PENDING))
    if found is None:
        return None
    (place, values), usable, gated = found
    policy = state.job.sub_groups[place]
    code = ReasonCode.TOO_FEW_OF_SUB_GROUP
    size = policy.size_of(values)
    if usable + gated >= size:
        code = ReasonCode.GATED
    return of(
        state,
        code,
        subject=policy.name,
        sub_group=dict(zip(policy.keys, values, strict=True)),
        tasks=usable,
        minimum=size,
        unassigned=unassigned_pods.of_sub_group(state.job, policy),
        owner=state.job.owner,
    )


def no_room(session: Session, state: JobState, task: Task, *, empty: bool = False) -> Reason:
    """Return why no node takes this task, or with `empty`, why no node would without any pods."""
    placement = session.placement
    paused = None if empty else session.claims.volumes.paused(task)
    if paused is not None:
        return waits_for_claims(state, paused)
    found = placement.empty_node_explanation(task) if empty else placement.explanation(task)
    code = ReasonCode.NO_ROOM if session.layout.size else ReasonCode.NO_NODES
    if found.outsized:
        code = ReasonCode.NEVER_FITS
    failed = failed_filter(found.refusals)
    if failed:
        code = ReasonCode.PLUGIN_FAILED
    return of(
        state,
        code,
        subject=failed,
        request=task.pod_class.request,
        role=task.role,
        nodes=session.layout.size,
        refusals=found.refusals,
        holes=found.outsized or found.holes,
        reserved=found.reserved,
        never_preempts=task.never_preempts and _evicts(session),
        unmatched=_unmatched(session, task, found.refusals),
    )


def _evicts(session: Session) -> bool:
    """Whether an action evicts pods for jobs without room."""
    return session.runs("preempt") or session.runs("reclaim")


def _unmatched(session: Session, task: Task, refused: RefusalCounts) -> tuple[tuple[str, str], ...]:
    """Return the labels in the nodeSelector of a task that no node has."""
    if all(each.code is not RefusalCode.NODE_AFFINITY for each, _ in refused):
        return ()
    return tuple(
        each
        for each in task.pod_class.constraints.node_selector
        if not nodes.selected(session.layout, Constraints(node_selector=(each,))).any()
    )


def failed_filter(refused: RefusalCounts) -> str:
    """Return the plugin whose filter failed, or "". It would fail on further nodes, too."""
    failed = (each.subject for each, _ in refused if each.code is FILTER_FAILED)
    return next(failed, "")


def shortages(session: Session, queue: Queue, task: Task) -> tuple[Shortage, ...]:
    """Return the shortages for which the queue may not take this task, under one limit: what a
    queue may have at most comes before what it deserves.
    """
    answers = session.dispatch.every(AllHooks.shortages, queue, task)
    found = [shortage for answer in answers for shortage in answer or ()]
    owner = next(filter(None, (each.owner for each in found)), "")
    return tuple(each for each in found if each.owner == owner)


class JobTurn:
    """The tasks that remain to be placed for one job in this cycle."""

    __slots__ = ("_tasks", "failed_classes", "failed_roles", "state")

    def __init__(
        self,
        state: JobState,
        tasks: Iterable[Task] | Callable[[], Iterable[Task]],
    ) -> None:
        """Start with these tasks; a function is called when the job has its first turn."""
        self.state = state
        self._tasks = tasks
        self.failed_roles: set[str] = set()
        """Roles with a task that found no node: further tasks of the role aren't tried (Volcano:
        TaskHasFitErrors). Tasks without a role are always tried."""
        self.failed_classes: set[PodClass] = set()

    @property
    def tasks(self) -> deque[Task]:
        """The remaining tasks, in the order of their turns."""
        if not isinstance(self._tasks, deque):
            self._tasks = deque(self._tasks() if callable(self._tasks) else self._tasks)
        return self._tasks

    def begin_anew(self, tasks: Iterable[Task]) -> None:
        """Go on with these tasks; what was refused before may fit now, and is reported anew."""
        self._tasks = tasks
        self.failed_roles.clear()
        self.failed_classes.clear()


def note_incomplete(session: Session, state: JobState) -> None:
    """Record why a job can't start although no node and no queue refused a task.

    A reason recorded before, for a refused task, is kept.
    """
    if state.sub_groups and (short := short_sub_group(state)) is not None:
        session.reasons.note(state.job.id, rejected(state) or short)
        return
    gated = state.counts[TaskStatus.GATED]
    code = ReasonCode.GATED if gated else ReasonCode.NO_ROOM
    if not session.reasons.is_news(state.job.id, code):
        return
    tasks = state.valid_tasks - gated
    session.reasons.note(state.job.id, of(state, code, tasks=tasks, nodes=session.layout.size))


def note_waiting(session: Session, state: JobState) -> None:
    """Record that the job waits for resources being released."""
    waits = ReasonCode.WAITS_FOR_RELEASE
    if session.reasons.is_news(state.job.id, waits):
        session.reasons.note(state.job.id, waiting(session, state))


def waiting(session: Session, state: JobState) -> Reason:
    """Return the reason of a job with pods that wait for other pods to be gone.

    If filters keep the first of its pods waiting, and not only a lack of resources, it names them.
    """
    code = ReasonCode.WAITS_FOR_RELEASE
    task = next(iter(state.tasks(TaskStatus.PIPELINED)), None)
    row = None if task is None else session.layout.rows.get(state.node(task) or "")
    if task is None or row is None:
        return of(state, code)
    view = session.cluster.view(np.array([row], dtype=np.int64))
    found = [
        (refusals.of(result.refusal), 1)
        for result in session.placement.verdicts(task, view)
        if not result.passes[0] and result.later is not None and result.later[0]
    ]
    return of(state, code, refusals=tuple(found))


def note_no_room(session: Session, turn: JobTurn, task: Task) -> None:
    """Record why no node takes this task, once for each pod class."""
    if task.pod_class in turn.failed_classes:
        return
    turn.failed_classes.add(task.pod_class)
    session.reasons.note(turn.state.job.id, no_room(session, turn.state, task))


def note_share(session: Session, queue: Queue, turn: JobTurn, task: Task | None = None) -> None:
    """Record that the queue has used up its share, or is closed, or that a plugin refuses the job.

    For a pod that no node could ever take, record the nodes' refusals instead: no share would help.
    """
    if queue.open and session.layout.size:
        refused = by_plugin(session, turn.state, queue, task)
        if refused is not None:
            session.reasons.note(turn.state.job.id, refused)
            return
    task = task or _task_without_node(session, turn) or turn.tasks[0]
    if queue.open and session.nowhere(task):
        note_no_room(session, turn, task)
        return
    code = ReasonCode.QUEUE_OVER_SHARE
    if not queue.open:
        code = ReasonCode.QUEUE_CLOSED
    elif not session.layout.size:
        code = ReasonCode.NO_NODES
    if not session.reasons.is_news(turn.state.job.id, code):
        return  # most pods of a gang are refused after one of them was
    over = code is ReasonCode.QUEUE_OVER_SHARE
    short = shortages(session, queue, task) if over else ()
    reason = of(
        turn.state,
        code,
        role="" if turn.state.reaches(PLACED) else task.role,
        request=task.pod_class.counted,
        shortages=short,
        never_preempts=bool(short) and task.never_preempts and session.runs("preempt"),
    )
    if short:
        reason = _of_sub_group(turn.state, _of_gang(session, turn.state, reason), task)
    session.reasons.note(turn.state.job.id, reason)


def _of_gang(session: Session, state: JobState, reason: Reason) -> Reason:
    """Return a reason about one pod as a reason about all pods that the gang lacks.

    The pods counted are the smallest that the gang could start with. A reason that these pods don't
    explain stays as it is: the queue refuses a larger pod, or a pod beyond the minimum.
    """
    lacking = state.minimum - state.job.ready_tasks
    if lacking < 2 or reason.placed >= reason.minimum:
        return reason
    placed = _placed_now(state) if reason.placed > state.job.ready_tasks else []
    wanted = {
        shortage.resource: smallest(session, state.job, shortage.resource, lacking)
        for shortage in reason.shortages
    }
    return _of_pods(reason, placed, wanted, lacking)


def _of_sub_group(state: JobState, reason: Reason, task: Task) -> Reason:
    """Return a reason about one pod as a reason about all that its sub-group lacks, if some of them
    had a place for the moment.
    """
    key = None if state.sub_groups is None or reason.lacking else state.sub_groups.of(task)
    if state.sub_groups is None or key is None:
        return reason
    placed = [each for each in _placed_now(state) if state.sub_groups.of(each) == key]
    lacking = len(placed) + state.sub_groups.missing(key)
    if not placed or lacking <= len(placed):
        return reason
    wanted = {
        shortage.resource: sum(
            other.pod_class.counted.get(shortage.resource, 0) for other in placed
        )
        + task.pod_class.counted.get(shortage.resource, 0)
        for shortage in reason.shortages
    }
    reason = replace(reason, placed=reason.placed - len(placed))
    return _of_pods(reason, placed, wanted, len(placed) + 1)


def _placed_now(state: JobState) -> list[Task]:
    """Return the pods that have found a place in this cycle."""
    found = (state.tasks(TaskStatus.ALLOCATED), state.tasks(TaskStatus.PIPELINED))
    return [task for tasks in found for task in tasks]


def _of_pods(
    reason: Reason,
    placed: Sequence[Task],
    wanted: ResourceMap,
    lacking: int,
) -> Reason:
    """Return the reason as one about so many pods together, of which some are placed already; as it
    is if these pods don't explain it.
    """
    whole = []
    for shortage in reason.shortages:
        requested = wanted[shortage.resource]
        allocated = shortage.allocated - sum(
            task.pod_class.counted.get(shortage.resource, 0) for task in placed
        )
        if requested <= shortage.limit - allocated:
            return reason
        whole.append(replace(shortage, requested=requested, allocated=allocated))
    return replace(reason, shortages=tuple(whole), lacking=lacking)


def smallest(session: Session, job: Job, resource: str, count: int) -> int:
    """Return the least that so many waiting pods of a job request of a resource."""
    if shared := _shared(session, job, resource):
        return _smallest_of_sharing(job, resource, count, shared)
    return job.least(resource, count)


def _shared(session: Session, job: Job, resource: str) -> dict[str, int]:
    """Return what each claim without devices that isn't for a single pod counts of a resource."""
    if not resource.startswith(resources.DEVICE_CLASS):
        return {}
    claims = session.snapshot.devices.claims
    uses = (use for each in job.classes for use in each.constraints.resource_claims)
    keys = {use.claim for use in uses if not use.owner} & claims.keys()
    counted = {key: claims[key].counted for key in sorted(keys) if claims[key].allocation is None}
    return {key: amounts[resource] for key, amounts in counted.items() if amounts.get(resource)}


def _smallest_of_sharing(job: Job, resource: str, count: int, amounts: Mapping[str, int]) -> int:
    """Return the least that so many waiting pods request, where shared claims count these amounts.

    A claim counts for the first of its pods, without which none of the others may start.
    """
    sizes: list[tuple[int, int, list[str]]] = []
    charged: set[str] = set()
    waiting = [task for task in job.tasks if task.status is TaskStatus.PENDING]
    for task in sorted(waiting, key=lambda task: (-task.priority, task.created, task.uid)):
        shared = {use.claim for use in task.pod_class.constraints.resource_claims} & amounts.keys()
        own = task.pod_class.counted.get(resource, 0)
        own -= sum(amounts[key] for key in shared - charged)
        charged |= shared
        sizes.append((own + sum(amounts[key] for key in shared), own, sorted(shared)))
    chosen = sorted(sizes)[:count]
    needed = {key for _, _, shared in chosen for key in shared}
    return sum(own for _, own, _ in chosen) + sum(amounts[key] for key in needed)


def note_limit(
    session: Session,
    state: JobState,
    proof: GangProof,
    shortages: tuple[Shortage, ...],
) -> None:
    """Record that the queue may not have the minimum of the job, whichever pods are chosen."""
    lacking = max(1, state.minimum - state.job.ready_tasks)
    whole = tuple(
        replace(each, requested=max(each.requested, least))
        for each in shortages
        for least in (smallest(session, state.job, each.resource, lacking),)
    )
    reason = of(state, ReasonCode.QUEUE_OVER_SHARE, shortages=whole, proof=proof)
    session.reasons.replace(state.job.id, reason)


def note_no_choice(session: Session, state: JobState) -> None:
    """Record that no choice of pods fits, if all that is known is that the queue may not have some.

    It may have others.
    """
    known = session.reasons.by_job.get(state.job.id)
    if known is None or known.code is not ReasonCode.QUEUE_OVER_SHARE:
        return
    code = ReasonCode.NO_ROOM
    numbers = {"tasks": state.valid_tasks, "nodes": session.layout.size}
    session.reasons.replace(state.job.id, of(state, code, **numbers))


def _task_without_node(session: Session, turn: JobTurn) -> Task | None:
    """Return a task of the job that no node could take even if empty, or None.

    A larger share of the queue wouldn't help such a task.
    """
    if len(turn.state.job.classes) < 2:  # all tasks are like the first one
        return None
    by_class = {task.pod_class: task for task in reversed(turn.tasks)}
    return next((task for task in by_class.values() if session.nowhere(task)), None)
