"""Reclaim: evict pods of queues above their shares in favour of queues below.

Volcano: actions/reclaim.
"""

from collections.abc import Collection, Mapping
from typing import ClassVar

from vscheduler.core.api.contracts import Action, Argument
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import planner as eviction
from vscheduler.core.eviction import preemptors
from vscheduler.core.eviction.planner import Planner
from vscheduler.core.eviction.preemptors import EqualPreemptors, Preemptor
from vscheduler.core.eviction.rules import Scope, WholeGangs
from vscheduler.core.session.ordering import Line
from vscheduler.core.session.session import Session
from vscheduler.model import durations
from vscheduler.model.queues import Queue


class Reclaim(Action[Session]):
    """Evict pods of other queues so that a starving job can start with the whole minimum."""

    name = "reclaim"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "predicateErrorCacheEnable": Argument(bool, default=True),
        **eviction.arguments("reclaim", WholeGangs.PROPORTIONATE),
        eviction.KEEP: Argument(str, "60s", parse=durations.seconds),
    }

    def execute(self, session: Session) -> None:
        """Serve queue after queue; an overused queue gets nothing.

        Nor does a queue while no other queue holds anything to reclaim.
        """
        planner = Planner(session, self, AllHooks.reclaimable)
        served = _served(session)
        waiting, lines = preemptors.line_up(session, self.name, served)
        # They join with the first turn of their queue: those of overused queues stay unschedulable.
        unschedulable = EqualPreemptors(session, self.name, served)
        for name in unschedulable.names - lines.keys():
            lines[name] = Line()
            queue = session.queues[name]
            waiting.join(preemptors.queue_place(session, queue, lines[name]), queue)
        while waiting and not session.work_budget.exhausted:
            queue = waiting.leave()
            line = lines[queue.name]
            if session.dispatch.any_says(AllHooks.overused, queue):
                continue
            unschedulable.join(queue.name, line)
            if not line:
                continue
            preemptor = line.leave()
            session.work_budget.charge(preemptor.state.job.namespace)
            if not planner.plan(queue, preemptor, of_other_queues(session, queue)):
                unschedulable.fail(preemptor)
                _skip_similar(session, planner, line, unschedulable)
            else:
                unschedulable.succeed(preemptor, queue, lines)
                if preemptor.tasks:
                    preemptors.stand(session, line, preemptor)
            waiting.join(preemptors.queue_place(session, queue, line), queue)
        session.work_budget.charge()


def _served(session: Session) -> Collection[str]:
    """Return the queues for which another queue holds anything to reclaim."""
    holding = {
        name
        for name, held in session.demands.held.items()
        if any(held) and name in session.queues and session.queues[name].reclaimable
    }
    return {name for name in session.queues if len(holding) > (name in holding)}


def _skip_similar(
    session: Session,
    planner: Planner,
    line: Line[Preemptor],
    unschedulable: EqualPreemptors,
) -> None:
    """Skip jobs similar to a job without victims."""
    while line and not session.work_budget.exhausted and planner.is_futile(line.first):
        session.spend("asked", eviction.SKIP_COST)
        unschedulable.fail(line.leave())


def of_other_queues(session: Session, queue: Queue) -> Scope:
    """Return a filter that passes pods of all other queues with spec.reclaimable."""
    others = session.queues.values()
    names = (each.name for each in others if each.reclaimable and each.name != queue.name)
    return Scope(queues=frozenset(names))
