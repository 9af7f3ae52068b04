"""Preempt: evict pods in favour of more important pods of the same queue.

Volcano: actions/preempt.
"""

from collections.abc import Mapping
from typing import ClassVar

from vscheduler.core.api.contracts import Action, Argument
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import planner as eviction
from vscheduler.core.eviction import preemptors
from vscheduler.core.eviction.planner import Planner
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.rules import Scope, WholeGangs
from vscheduler.core.session.ordering import Line
from vscheduler.core.session.session import Session
from vscheduler.model.jobs import EVICTABLE, Job
from vscheduler.model.queues import Queue


class Preempt(Action[Session]):
    """Evict pods of the queue's other jobs first, then less important pods of the starving job."""

    name = "preempt"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "predicateErrorCacheEnable": Argument(bool, default=True),
        "enableTopologyAwarePreemption": Argument(bool, default=False),
        "topologyAwarePreemptWorkerNum": Argument(int, 16, minimum=1),
        "minCandidateNodesPercentage": Argument(int, 10, minimum=0),
        "minCandidateNodesAbsolute": Argument(int, 1, minimum=0),
        "maxCandidateNodesAbsolute": Argument(int, 100, minimum=0),
        **eviction.arguments("preempt", WholeGangs.ALWAYS),
    }

    def execute(self, session: Session) -> None:
        """Serve queue after queue: preempt between jobs, then within each starving job."""
        planner = Planner(session, self, AllHooks.preemptable)
        session.activate_jobs(list(session.unschedulable.groups))
        session.preempting = session.policy.rules.lends
        waiting, lines = preemptors.line_up(session, self.name)
        while waiting and not session.work_budget.exhausted:
            _in_queue(session, planner, waiting.leave(), lines)
        session.preempting = False
        session.work_budget.charge()


def _in_queue(
    session: Session,
    planner: Planner,
    queue: Queue,
    lines: Mapping[str, Line[Preemptor]],
) -> None:
    """Serve the starving jobs of the queue in order."""
    line = lines[queue.name]
    while line and not session.work_budget.exhausted:
        _preempt_for(session, planner, queue, line.leave())


def _preempt_for(
    session: Session,
    planner: Planner,
    queue: Queue,
    preemptor: Preemptor,
) -> None:
    """Make room for the job's minimum, then for one more pod at a time."""
    job = preemptor.state.job
    session.work_budget.charge(job.namespace)
    candidates = [of_other_jobs(job)]
    if any(preemptor.state.counts[status] for status in EVICTABLE):
        candidates.append(of_same_job(job))
    for candidate in candidates:
        while preemptor.tasks and planner.plan(queue, preemptor, candidate):
            if session.work_budget.exhausted:  # the next cycle continues
                return
    session.eviction_history.fail(Preempt.name, job.id)


def of_other_jobs(job: Job) -> Scope:
    """Return a filter that passes pods of the queue's jobs except this job."""
    return Scope(queues=frozenset((job.queue,)), without=job.id)


def of_same_job(job: Job) -> Scope:
    """Return a filter that passes pods of this job."""
    return Scope(queues=frozenset((job.queue,)), only=job.id)
