"""The end of a cycle: the CycleResult with a status for each job."""

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.claims import lifecycle
from vscheduler.core.claims.kind import Ending
from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.core.memo import unchanged_jobs
from vscheduler.core.memo.memos import Memos, NodeDomains
from vscheduler.core.memo.never_fitting import NeverFittingJobs
from vscheduler.core.memo.unchanged_jobs import UnchangedJobs
from vscheduler.core.session import excluded_nodes, queue_figures, reasons
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.waiting_status import WaitingStatus
from vscheduler.model import jobs, run_times
from vscheduler.model.claim_decisions import ClaimKind, ClaimWait
from vscheduler.model.decisions import (
    Bind,
    CycleResult,
    Fault,
    FreeByTier,
    GroupStatus,
    Reason,
    ReasonCode,
    RefusedBind,
)
from vscheduler.model.jobs import FINISHED, Job, JobId, Phase, Task, TaskId, TaskStatus
from vscheduler.model.jobs_by_id import JobsById, of_job
from vscheduler.model.snapshot import NO_MEMOS, Carried, LastNodes

NODES_HELP = frozenset(
    {
        ReasonCode.NEVER_FITS,
        ReasonCode.CLUSTER_FULL,
        ReasonCode.NO_NODES,
        ReasonCode.NO_ROOM,
    }
)
"""Reasons against admitting a group that additional nodes could remove."""

REPORTED_TO_PODS = NODES_HELP | {ReasonCode.QUEUE_BARRED}
"""Reasons against admitting a group that are written to the status of all of its pods."""

SOON_SECONDS = 0.001
"""When to go on with claims that are half read. The cycle isn't unfinished: all jobs had turns."""

Waits: TypeAlias = Mapping[JobId, ClaimWait]

UNCONFIRMED = (TaskStatus.ALLOCATED, TaskStatus.BINDING)


def close(session: Session, faults: tuple[Fault, ...]) -> CycleResult:
    """Return everything that the session decided, in canonical order."""
    decided, history = session.decided, session.eviction_history
    tried: frozenset[JobId] = frozenset()
    if session.work_budget.exhausted:
        # A job that waits for resources being released has had its turn, too: the job would wait
        # again in the next cycle, and could use up the next budget as well.
        # A job with too few pods has had no turn: the job may be complete by the next cycle.
        had_turns = {pipeline.task.job for pipeline in decided.pipelined.values()}
        had_turns |= {
            job
            for job, each in session.reasons.by_job.items()
            if each.code not in reasons.LACKS_PODS
        }
        started = {bind.task.job for bind in decided.binds}
        tried = session.snapshot.carried.attempted | (had_turns - started)
    used = session.dispatch.last(AllHooks.usages)
    claims = _conclude_claims(session)
    changeable, others, unchanged = _statuses(session, claims.waits)
    waiting, unschedulable = session.waiting_jobs(), session.unschedulable.uids()
    if session.devices.are_unread:
        session.wake(session.snapshot.now + SOON_SECONDS)
    return CycleResult(
        binds=_binds(session),
        pipelined=tuple(sorted(decided.pipelined.values(), key=lambda pipeline: pipeline.task.key)),
        evicts=tuple(sorted(decided.evicts.values(), key=lambda evict: evict.task.key)),
        ends_soon=tuple(sorted(decided.ends_soon, key=lambda each: each.task.key)),
        claims=claims.prepared,
        releases=claims.releases,
        changeable=changeable,
        others=others,
        queues=queue_figures.of(session, used),
        total=session.space.amounts(session.total),
        excluded=excluded_nodes.exclusions(session),
        free_by_tier=_free_by_tier(session),
        carried=Carried(
            attempted=tried,
            work_by_namespace=session.work_budget.carried(session.waiting_jobs),
            reclaim_failed=frozenset(history.failed if session.work_budget.exhausted else ()),
            nominations=_nominations(session),
            replacement_reservations=tuple(decided.replacement_reservations),
            reservations=session.reservations.carried(),
            admitted=session.admissions.still_admitted(
                waiting, unschedulable, session.unchanged.inqueue
            ),
            admission_expired=session.admissions.still_expired(waiting),
            shuffled_at=history.shuffled_at,
            partial_since=history.partial_since,
            stale_since=history.stale_since,
            memos=NO_MEMOS if faults else _memos(session, changeable, unchanged),
            seen=LastNodes(space=session.space, nodes=session.snapshot.nodes),
            node_losses=session.node_losses.carried(),
            past_usage=used,
            gang_searches=session.gang_searches.carried(session.reasons.not_attempted),
            claim_attempts=claims.attempts,
        ),
        finished=not session.work_budget.exhausted,
        cut_lending=session.work_budget.cut_lending,
        wake_at=decided.wake_at,
        spent=session.work_budget.spent,
        work=dict(session.work),
        costs=_costs(session),
        faults=faults,
    )


def _free_by_tier(session: Session) -> tuple[FreeByTier, ...]:
    """Return what domains of the network have free on nodes that take pods."""
    if not session.topology.is_used:
        return ()
    usable = session.layout.schedulable & session.layout.ready
    free = np.maximum(session.cluster.allocatable - session.cluster.used, 0)
    return tuple(
        FreeByTier(topology=topology, tier=tier, free=session.space.amounts(most))
        for topology, tier, most in session.topology.free_by_tier(free * usable[:, np.newaxis])
    )


def _memos(session: Session, changeable: Sequence[GroupStatus], unchanged: UnchangedJobs) -> Memos:
    """Return what the next cycle may reuse."""
    policy, known = session.policy, session.memos
    may_keep = policy.keeps_domains and policy.rules.leaves_jobs_out
    found = Memos(
        basis=known.basis,
        domains=NodeDomains(session.pools.known) if may_keep else NodeDomains(),
        never_fitting=known.never_fitting if policy.keeps_never_fitting else NeverFittingJobs(),
        unschedulable=session.unschedulable.memo(session, changeable),
        unchanged=unchanged,
        evictable=session.cluster.known_evictable,
    )
    active = list(session.active.values())
    if session.jobs_without_queue:
        active = sorted((*active, *session.jobs_without_queue), key=of_job)
    return found.with_active(active)


def _conclude_claims(session: Session) -> lifecycle.Conclusion:
    if not session.claims.exist:
        return lifecycle.NOTHING
    decided, without_turn = session.decided, session.reasons.not_attempted
    ending = Ending(
        binds=decided.binds,
        pipelined=decided.pipelined.values(),
        spared=[task for job in without_turn for task in session.job_states[job].job.tasks],
    )
    concluded = session.claims.conclude(
        session.held_pods.still_waiting(decided),
        ending,
        finished=not session.work_budget.exhausted,
    )
    for at in concluded.wake_at:
        session.wake(at)
    return concluded


def _costs(session: Session) -> Mapping[str, int]:
    """Return the costs by namespace, without the namespaces of which pods are bound."""
    bound = {bind.task.namespace for bind in session.decided.binds}
    costs = session.work_budget.costs(session.waiting_jobs())
    return {name: cost for name, cost in costs.items() if name not in bound}


def _nominations(session: Session) -> Mapping[TaskId, str]:
    """Return the nominations of tasks that still wait on the nominated node, oldest first."""
    pipelined = session.decided.pipelined
    return {
        task: node
        for task, node in session.decided.nominations.items()
        if task in pipelined and pipelined[task].node == node
    }


def phase(state: JobState, rules: CycleRules, *, unschedulable: bool) -> Phase:
    """Return the phase of a PodGroup after this cycle.

    Binds of this cycle don't count yet; a pod being deleted counts while the pod is on a node.
    Volcano: session.getPodGroupPhase. Here a group isn't Completed with a minMember of 0 when
    no pod ever ran, and it is Completed when only pods that have finished are left, or none. It is
    Unknown only if it has had its minimum.
    """
    if state.job.finished:
        return Phase.COMPLETED
    running = state.counts[TaskStatus.RUNNING]
    if running and unschedulable and rules.is_unknown(state):
        return Phase.UNKNOWN
    scheduled = state.scheduled_tasks + _releasing(state)
    if scheduled >= max(1, state.job.min_member):
        others = scheduled - sum(state.counts[status] for status in FINISHED)
        others += rules.unfinished_without_node(state)
        return Phase.RUNNING if others else Phase.COMPLETED
    return Phase.INQUEUE if state.phase is Phase.INQUEUE else Phase.PENDING


def _releasing(state: JobState) -> int:
    """Count the pods that are being deleted but still have a node."""
    if not state.counts[TaskStatus.RELEASING]:
        return 0
    return sum(task.node is not None for task in state.tasks(TaskStatus.RELEASING))


def _is_terminating(state: JobState) -> bool:
    """Whether the gang lacks members only because members are being deleted on their nodes.

    Volcano: gang shouldSkipUnschedulableForReleasing.
    """
    releasing = _releasing(state)
    if not releasing or state.counts[TaskStatus.PENDING] or state.waiting_tasks:
        return False
    return state.scheduled_tasks + releasing >= state.job.min_member


def _binds(session: Session) -> tuple[Bind, ...]:
    """Return the binds, with the run time of pods that will be ended after it."""
    found = sorted(session.decided.binds, key=lambda bind: bind.task.key)
    if all(queue.run_time_cap is None for queue in session.queues.values()):
        return tuple(found)
    return tuple(_with_limit(session, bind) for bind in found)


def _with_limit(session: Session, bind: Bind) -> Bind:
    job = session.job_states[bind.task.job].job
    queue = session.queues[job.queue]
    if queue.run_time_cap is None:
        return bind
    return replace(bind, limit=run_times.of(job, bind.task, queue))


def _statuses(
    session: Session,
    waits: Waits,
) -> tuple[tuple[GroupStatus, ...], JobsById, UnchangedJobs]:
    """Return the statuses of jobs that aren't unchanged, by job; the jobs that are; and those that
    the next cycles may leave out as unchanged.
    """
    rules = session.policy.rules
    statuses = [_without_queue(job, rules) for job in session.jobs_without_queue]
    more_unchanged: list[Job] = []
    refused = session.snapshot.carried.reported.refused_binds
    made = session.job_states.known
    for job, each in session.active.items():
        kept = None
        if made(job) is None and job not in refused:  # nobody has looked at it
            kept = each.recall("status")
        told = kept or _status(session, session.job_states[job], waits)
        if told is not None:
            statuses.append(told)
            state = made(job)
            phase = each.phase if state is None else state.phase
            waits_for_nothing = told.reason is None and told is each.recall("status")
            if waits_for_nothing and unchanged_jobs.may_skip(each, phase, bars=session.bars):
                more_unchanged.append(each)
    unchanged = session.unchanged
    looked_at = _looked_at(session)
    for job in looked_at:
        told = _status(session, session.job_states[job], waits)
        statuses += [] if told is None else [told]
    others = unchanged.jobs.changed(dict.fromkeys(looked_at))
    without_room = session.unschedulable.now().statuses if session.unschedulable else ()
    changeable = unchanged_jobs.in_order(without_room, statuses)
    if rules.leaves_jobs_out:
        unchanged = unchanged.with_more(more_unchanged)
    return tuple(changeable), others, unchanged


def _looked_at(session: Session) -> Collection[JobId]:
    """Return the unchanged jobs about which something was found or decided in this cycle."""
    unchanged, refused = session.unchanged, session.snapshot.carried.reported.refused_binds
    if not unchanged:
        return ()
    found = {
        job
        for job, state in session.job_states.made()
        if job not in session.active and job in unchanged and not _is_quiet(session, state)
    }
    return sorted(found.union(job for job in refused if job in unchanged))


def _is_quiet(session: Session, state: JobState) -> bool:
    """Whether no task of the job has moved, and nothing else is known of it than before."""
    reasons_ = session.reasons
    return (
        state.untouched
        and (state.phase is state.job.phase or unchanged_jobs.is_inqueue(state.job, state.phase))
        and state.job.id not in reasons_.by_job
        and state.job.id not in reasons_.not_attempted
    )


def _status(
    session: Session,
    state: JobState,
    waits: Waits,
) -> GroupStatus | None:
    """Return the status of a job; None if it had no turn, so that the stored one stays."""
    job, by_job = state.job.id, session.reasons.by_job
    if not state.untouched or job in session.snapshot.carried.reported.refused_binds:
        return _group(session, state, waits)
    if job in session.reasons.not_attempted:
        return None
    # Most jobs wait for nothing and haven't changed: their status is kept with the job.
    ask = functools.partial(_group, session, state, waits)
    known = session.memos.never_fitting
    if _is_quiet(session, state):
        return state.job.memo("status", ask)
    if job in known.entries:
        return known.status(job, state.phase, by_job.get(job), ask)
    if job in waits:
        return ask()
    last = state.job.memo("waiting status", WaitingStatus)
    return last.status(state.phase, by_job.get(job), session.policy.rules, ask)


def _group(
    session: Session,
    state: JobState,
    waits: Waits,
) -> GroupStatus:
    job, rules = state.job, session.policy.rules
    reason = session.reasons.by_job.get(job.id)
    wait = waits.get(job.id)
    if wait is not None and (reason is None or session.held_pods.holds_back(state)):
        reason = reasons.waits_for_claims(state, wait)
    # Pods are told nothing while devices are allocated, which takes a moment.
    reported = wait is not None and (wait.kind is ClaimKind.VOLUMES or bool(wait.refusal))
    reason = reason or _waits(state) or reasons.rejected(state)
    reason = reason or reasons.short_sub_group(state)
    refused = _refused_binds(session, state)
    if reason is None or (refused and reason.code is ReasonCode.GATED):
        reason = reasons.bind_refused(state, refused)
    reason = reasons.after_refusal(reason, _refused_before(session, state))
    unsure = sum(state.status(each.task) in UNCONFIRMED for each in refused)
    placed = _placed(session, state) if session.decided.pipelined else state.ready_tasks
    terminating = _is_terminating(state)
    if terminating and reason is not None and reason.code in reasons.LACKS_PODS:
        reason = None  # nobody knows yet whether more pods come
    unschedulable = bool(job.tasks) and rules.lacks_minimum(state, placed) and not terminating
    waiting: tuple[Task, ...] = ()
    if reason is not None and state.counts[TaskStatus.PENDING]:
        waiting = tuple(state.tasks(TaskStatus.PENDING))
    # Autoscalers add nodes for pods with the condition Unschedulable. Pods of a group that isn't
    # admitted get the condition only if more nodes would help the group.
    told = state.phase is not Phase.PENDING or reason is None or reason.code in REPORTED_TO_PODS
    return GroupStatus(
        job=job.id,
        uid=job.uid,
        queue=job.queue,
        phase=phase(state, rules, unschedulable=unschedulable),
        running=state.counts[TaskStatus.RUNNING],
        succeeded=state.counts[TaskStatus.SUCCEEDED],
        failed=state.counts[TaskStatus.FAILED],
        ready=placed - unsure >= job.min_member,
        unplaced=waiting if told else (),
        withheld=() if told else waiting,
        rejections=job.rejections,
        refused_binds=refused,
        without_claims=_held(session, state) if reported else (),
        claims=wait if reported else None,
        reason=_named(job, reason),
    )


def _named(job: Job, reason: Reason | None) -> Reason | None:
    """Return the reason, with what its sentence has to know of a PodGroup of Kubernetes' own."""
    if reason is None or not jobs.is_native(job.id):
        return reason
    return replace(reason, native=True, minimum_field=job.minimum_field)


def _held(session: Session, state: JobState) -> tuple[Task, ...]:
    """Return the pods of the job that wait on their nodes for claims, or with such pods."""
    pipelined = state.tasks(TaskStatus.PIPELINED)
    return tuple(task for task in pipelined if session.held_pods.is_held(task))


def _refused_binds(session: Session, state: JobState) -> tuple[RefusedBind, ...]:
    """Return the pods that count as bound, are bound now or are held back, and were refused the
    last time.
    """
    known = session.snapshot.carried.reported.refused_binds.get(state.job.id)
    if not known:
        return ()
    found = []
    for task in state.job.tasks:
        said = known.get(task.uid)
        if said is not None and state.status(task) in (*UNCONFIRMED, TaskStatus.GATED):
            found.append(RefusedBind(task=task, node=said.node, message=said.message))
    return tuple(found)


def _refused_before(session: Session, state: JobState) -> RefusedBind | None:
    """Return the first pod that waits again after its last bind was refused; None without any."""
    known = session.snapshot.carried.reported.refused_binds.get(state.job.id, {})
    for task in state.job.tasks if known else ():
        said = known.get(task.uid)
        if said is not None and state.status(task) is TaskStatus.PENDING:
            return RefusedBind(task=task, node=said.node, message=said.message)
    return None


def _placed(session: Session, state: JobState) -> int:
    """Count the pods that count towards minMember and run, or are bound now.

    Pods whose nodes are merely reserved for the rest of the cycle don't count.
    """
    if state.untouched:
        return state.ready_tasks
    allocated = state.tasks(TaskStatus.ALLOCATED)
    return state.ready_tasks - sum(task.uid in session.decided.pipelined for task in allocated)


def _waits(state: JobState) -> Reason | None:
    """Return a reason for a job with pipelined pods, for which no action recorded a reason."""
    if not state.waiting_tasks:
        return None
    return reasons.of(state, ReasonCode.WAITS_FOR_RELEASE)


def _without_queue(job: Job, rules: CycleRules) -> GroupStatus:
    """Return the status of a job whose queue doesn't exist, or that has no PodGroup: the phase
    stays as it was, but isn't Completed once pods are created again.
    """
    is_over = job.state.phase is Phase.COMPLETED
    after = phase(JobState(job, rules), rules, unschedulable=False) if is_over else job.state.phase
    reason = Reason(
        code=ReasonCode.POD_GROUP_ERROR if job.defect else ReasonCode.QUEUE_MISSING,
        queue=job.queue,
        subject=job.defect,
        tasks=job.task_count,
        minimum=job.min_member,
    )
    return GroupStatus(
        job=job.id,
        uid=job.uid,
        queue=job.queue,
        phase=after,
        running=job.counts[TaskStatus.RUNNING],
        succeeded=job.counts[TaskStatus.SUCCEEDED],
        failed=job.counts[TaskStatus.FAILED],
        ready=job.ready_tasks >= job.min_member,
        unplaced=tuple(task for task in job.tasks if task.status is TaskStatus.PENDING),
        rejections=job.rejections,
        reason=_named(job, reason),
    )
