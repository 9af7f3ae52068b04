"""Preempt: what matters more takes the room of what matters less, inside one queue.

Volcano: actions/preempt.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from vscheduler.core.api import contracts
from vscheduler.core.compat import node_by_node
from vscheduler.core.model import jobs, queues
from vscheduler.core.preemption import planner as eviction
from vscheduler.core.preemption import preemptors, victims
from vscheduler.core.session import job_state, ordering
from vscheduler.core.session import session as working
from vscheduler.core.session import statement as journal


class Preempt(contracts.Action[working.Session]):
    """Evict pods of the same queue: of other jobs first, then less important ones of the job."""

    name = "preempt"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "predicateErrorCacheEnable": contracts.Argument(bool, default=True),
        "enableTopologyAwarePreemption": contracts.Argument(bool, default=False),
        "topologyAwarePreemptWorkerNum": contracts.Argument(int, 16, minimum=1),
        "minCandidateNodesPercentage": contracts.Argument(int, 10, minimum=0),
        "minCandidateNodesAbsolute": contracts.Argument(int, 1, minimum=0),
        "maxCandidateNodesAbsolute": contracts.Argument(int, 100, minimum=0),
        **eviction.arguments("preempt", victims.WholeGangs.ALWAYS),
    }

    def execute(self, session: working.Session) -> None:
        """Queue after queue: between jobs, then within each job that still starves."""
        waiting, lines = preemptors.line_up(session, self.name)
        if session.as_volcano:
            dry_run = bool(self.argument("enableTopologyAwarePreemption"))
            make_room = node_by_node.preempt_dry_run if dry_run else node_by_node.preempt
            while waiting and not session.spending.exhausted:
                _node_by_node(session, lines[waiting.leave().name], make_room)
            return
        planner = eviction.Planner(session, self, "preemptable")
        while waiting and not session.spending.exhausted:
            _in_queue(session, planner, waiting.leave(), lines)
        session.spending.payer = ""


def _in_queue(
    session: working.Session,
    planner: eviction.Planner,
    queue: queues.Queue,
    lines: Mapping[str, ordering.Line[preemptors.Preemptor]],
) -> None:
    """Other jobs of the queue lose pods to each starving job, then the job's own lesser pods."""
    line = lines[queue.name]
    while line and not session.spending.exhausted:
        _ask(session, planner, queue, line.leave())


def _ask(
    session: working.Session,
    planner: eviction.Planner,
    queue: queues.Queue,
    claim: preemptors.Preemptor,
) -> None:
    """Room for the job's minimum, then for one pod more after the other."""
    job = claim.gang.job
    session.spending.payer = job.namespace
    candidates = [_of_other_jobs(job)]
    if any(claim.gang.counts[status] for status in jobs.EVICTABLE):
        candidates.append(_of_same_job(job))
    for candidate in candidates:
        while claim.tasks and planner.claim(queue, claim, candidate):
            if session.spending.exhausted:  # it goes on in the next cycle
                return
    session.reclaim_failed.add((Preempt.name, job.id))


def _of_other_jobs(job: jobs.Job) -> victims.Candidate:
    def candidate(gang: job_state.JobState, task: jobs.Task) -> bool:
        del task
        return gang.job.queue == job.queue and gang.job.id != job.id

    return candidate


def _of_same_job(job: jobs.Job) -> victims.Candidate:
    def candidate(gang: job_state.JobState, task: jobs.Task) -> bool:
        del task
        return gang.job.id == job.id

    return candidate


MakeRoom = Callable[[node_by_node.NodeByNodeSearch], bool]


def _node_by_node(
    session: working.Session, line: ordering.Line[preemptors.Preemptor], make_room: MakeRoom
) -> None:
    """Volcano's way: each starving job gets one attempt, then its tasks try their own job.

    Volcano asks JobPipelined only of the attempt: a pod may take the place of another one in a job
    that can't start with either.
    """
    starving = []
    while line:
        claim = line.leave()
        starving.append(claim.gang)
        session.reclaim_failed.add((Preempt.name, claim.gang.job.id))
        candidate = _of_other_jobs(claim.gang.job)
        with session.statement() as trial:
            while claim.tasks and session.dispatch.first_tier("job_starving", claim.gang):
                _try(session, trial, claim.tasks.popleft(), candidate, make_room)
            node_by_node.conclude(session, trial, claim.gang)
    for gang in starving:
        own = _of_same_job(gang.job)
        left = sorted(
            gang.tasks(jobs.TaskStatus.PENDING),
            key=lambda task: ordering.task_key(session.dispatch, task),
        )
        for task in left:
            with session.statement() as trial:
                if not _try(session, trial, task, own, make_room):
                    break
                trial.commit()


def _try(
    session: working.Session,
    trial: journal.Statement,
    task: jobs.Task,
    candidate: victims.Candidate,
    make_room: MakeRoom,
) -> bool:
    """One task's attempt. A pod that asks for nothing only takes the place of its like."""
    if task.never_preempts:
        return False

    def allowed(gang: job_state.JobState, victim: jobs.Task) -> bool:
        return candidate(gang, victim) and (victim.best_effort or not task.best_effort)

    return make_room(
        node_by_node.NodeByNodeSearch(
            session=session,
            trial=trial,
            task=task,
            action="preempt",
            hook="preemptable",
            candidate=allowed,
        )
    )
