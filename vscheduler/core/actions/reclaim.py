"""Reclaim: a queue that is owed room gets it back from queues that have more than their share.

Volcano: actions/reclaim.
"""

from collections.abc import Mapping
from typing import ClassVar

from vscheduler.core.api import contracts
from vscheduler.core.model import durations, jobs, queues
from vscheduler.core.preemption import planner as eviction
from vscheduler.core.preemption import preemptors, victims
from vscheduler.core.session import job_state, ordering
from vscheduler.core.session import session as working


class Reclaim(contracts.Action[working.Session]):
    """Evict pods of other queues, so that a starving job of this one can start whole."""

    name = "reclaim"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "predicateErrorCacheEnable": contracts.Argument(bool, default=True),
        **eviction.arguments("reclaim", victims.WholeGangs.PROPORTIONATE),
        eviction.KEEP: contracts.Argument(str, "60s", parse=durations.seconds),
    }

    def execute(self, session: working.Session) -> None:
        """Queue after queue; one that has its share gets nothing."""
        waiting, lines = preemptors.line_up(session, self.name)
        planner = eviction.Planner(session, self, "reclaimable")
        while waiting and not session.spending.exhausted:
            queue = waiting.leave()
            line = lines[queue.name]
            if not line or session.dispatch.any_says("overused", queue):
                continue
            claim = line.leave()
            session.spending.payer = claim.gang.job.namespace
            if not planner.claim(queue, claim, of_other_queues(session, queue)):
                session.reclaim_failed.add((self.name, claim.gang.job.id))
                self._pass_over(session, planner, line)
            elif claim.tasks:
                line.join(preemptors.job_place(session, claim.gang), claim)
            waiting.join(preemptors.queue_place(session, queue, line), queue)
        session.spending.payer = ""

    def _pass_over(
        self,
        session: working.Session,
        planner: eviction.Planner,
        line: ordering.Line[preemptors.Preemptor],
    ) -> None:
        """Those like one that found nothing have had their turn with it."""
        while line and not session.spending.exhausted and planner.is_vain(line.first):
            session.spend("asked", eviction.VAIN_COST)
            session.reclaim_failed.add((self.name, line.leave().gang.job.id))


def of_other_queues(session: working.Session, queue: queues.Queue) -> victims.Candidate:
    """Return a filter that passes pods of other queues that are reclaimable (spec.reclaimable)."""

    def candidate(gang: job_state.JobState, task: jobs.Task) -> bool:
        del task
        return gang.job.queue != queue.name and session.queues[gang.job.queue].reclaimable

    return candidate
