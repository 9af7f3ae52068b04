"""Reclaim: evict pods of queues above their shares in favour of queues below.

Volcano: actions/reclaim.
"""

from collections.abc import Mapping
from typing import ClassVar

from vscheduler.core.api import contracts
from vscheduler.core.model import durations, queues
from vscheduler.core.preemption import planner as eviction
from vscheduler.core.preemption import preemptors, victims
from vscheduler.core.session import ordering
from vscheduler.core.session import session as working


class Reclaim(contracts.Action[working.Session]):
    """Evict pods of other queues so that a starving job can start with the whole minimum."""

    name = "reclaim"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "predicateErrorCacheEnable": contracts.Argument(bool, default=True),
        **eviction.arguments("reclaim", victims.WholeGangs.PROPORTIONATE),
        eviction.KEEP: contracts.Argument(str, "60s", parse=durations.seconds),
    }

    def execute(self, session: working.Session) -> None:
        """Serve queue after queue; an overused queue gets nothing.

        Nor does a queue while no other queue holds anything to reclaim.
        """
        holding = {
            name
            for name, held in session.demands.held.items()
            if any(held) and name in session.queues and session.queues[name].reclaimable
        }
        served = {name for name in session.queues if len(holding) > (name in holding)}
        waiting, lines = preemptors.line_up(session, self.name, served)
        # They join with the first turn of their queue: those of overused queues stay parked.
        parked = dict(session.parking.of_queues(served))
        for name in parked.keys() - lines.keys():
            lines[name] = ordering.Line()
            queue = session.queues[name]
            waiting.join(preemptors.queue_place(session, queue, lines[name]), queue)
        planner = eviction.Planner(session, self, "reclaimable")
        while waiting and not session.work_budget.exhausted:
            queue = waiting.leave()
            line = lines[queue.name]
            if session.dispatch.any_says("overused", queue):
                continue
            if queue.name in parked:
                preemptors.join_parked(session, self.name, line, parked.pop(queue.name))
            if not line:
                continue
            preemptor = line.leave()
            session.work_budget.charge(preemptor.state.job.namespace)
            if not planner.plan(queue, preemptor, of_other_queues(session, queue)):
                session.eviction_history.fail(self.name, preemptor.state.job.id)
                self._skip_similar(session, planner, line)
            elif preemptor.tasks:
                line.join(preemptors.job_place(session, preemptor.state), preemptor)
            waiting.join(preemptors.queue_place(session, queue, line), queue)
        session.work_budget.charge()

    def _skip_similar(
        self,
        session: working.Session,
        planner: eviction.Planner,
        line: ordering.Line[preemptors.Preemptor],
    ) -> None:
        """Skip jobs similar to a job without victims."""
        while line and not session.work_budget.exhausted and planner.is_futile(line.first):
            session.spend("asked", eviction.SKIP_COST)
            session.eviction_history.fail(self.name, line.leave().state.job.id)


def of_other_queues(session: working.Session, queue: queues.Queue) -> victims.Scope:
    """Return a filter that passes pods of all other queues with spec.reclaimable."""
    others = session.queues.values()
    names = (each.name for each in others if each.reclaimable and each.name != queue.name)
    return victims.Scope(queues=frozenset(names))
