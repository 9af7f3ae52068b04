"""The planner of evictions: a least set of pods without which a starving job fits, or none.

Nothing is evicted before the whole job, or the next pod of one that has its minimum, was placed on
the cluster as it will be then: all filters, the queues' limits and PodDisruptionBudgets hold, free
room is used first, and nobody goes without whom it fits as well.
"""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from vscheduler.core.api import contracts
from vscheduler.core.model import durations, queues, resources
from vscheduler.core.placement import nominated_pods
from vscheduler.core.preemption import nominations, preemptors, relocations, search, victims
from vscheduler.core.session import statement

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

CLAIM_COST = 20
"""Microseconds, about: one job that asks, whatever comes of it."""

VAIN_COST = 20
"""Microseconds, about: one job like another that found nothing."""


KEEP = "reclaim.keepRoom"


def arguments(action: str, whole_gangs: victims.WholeGangs) -> Mapping[str, contracts.Argument]:
    """What an action that plans evictions takes; whole_gangs is its default."""
    return {
        f"{action}.wholeGangs": contracts.Argument(
            str, whole_gangs.value, choices=tuple(victims.WholeGangs)
        ),
        f"{action}.minRuntime": contracts.Argument(str, "0s", parse=durations.seconds),
    }


class Planner:
    """Plans for one action of one cycle."""

    def __init__(
        self,
        session: "working.Session",
        action: contracts.Configured,
        hook: str,
    ) -> None:
        """Action takes `arguments`; hook is the one that says who may lose pods to whom."""
        self.session = session
        self.action = action.name
        self.hook = hook
        self.whole_gangs = victims.WholeGangs(str(action.argument(f"{action.name}.wholeGangs")))
        self.min_runtime = action.seconds(f"{action.name}.minRuntime")
        self.keep = action.seconds(KEEP) if KEEP in action.arguments else 0.0
        """How long room is kept for the next pods of owners whose pods are moved."""
        self._vain: set[Hashable] = set()
        """What jobs are like that found nothing since something last changed."""
        self._only_moving: set[Hashable] = set()
        """Queues and pods alike for which nobody can go, but somebody may be moved: surpluses only
        get smaller while claims are met."""
        self._most: dict[str, resources.Vector] = {}

    def claim(
        self, queue: queues.Queue, claim: preemptors.Preemptor, candidate: victims.Candidate
    ) -> bool:
        """Make room for the job's minimum, or for one more pod; False: nothing was changed.

        Tasks that got room leave the claim.
        """
        session = self.session
        if not session.dispatch.first_tier("job_starving", claim.gang):
            return False
        session.spend("asked", CLAIM_COST)
        likeness = claim.likeness(session)
        if likeness in self._vain:
            return False
        gangs = (False,) if self.whole_gangs is victims.WholeGangs.NEVER else (False, True)
        pods = (queue.name, nominated_pods.alike(session, claim.tasks[0]))
        for moving in (False, True):
            if moving is not (pods in self._only_moving):
                continue
            for whole in gangs:
                with session.statement() as trial:
                    terms = self._terms(whole=whole, moving=moving)
                    attempt = search.VictimSearch(self, trial, queue, claim, candidate, terms)
                    if self._comes_off(attempt, trial, claim):
                        return True
                    if attempt.might_move:
                        self._only_moving.add(pods)
        if likeness is not None:
            self._vain.add(likeness)
        return False

    def _terms(self, *, whole: bool, moving: bool) -> victims.EvictionRules:
        return victims.EvictionRules(
            whole=whole,
            always=self.whole_gangs is victims.WholeGangs.ALWAYS,
            removal=relocations.Relocation(self.session) if moving else None,
        )

    def _comes_off(
        self, attempt: search.VictimSearch, trial: statement.Statement, claim: preemptors.Preemptor
    ) -> bool:
        """Whether the attempt finds room: then what it decided stands."""
        if not attempt.succeeds():
            return False
        if trial.evicts:
            attempt.spare_the_unneeded()
        if not attempt.moves_the_displaced(self.session.snapshot.now + self.keep):
            return False
        if trial.evicts:
            trial.commit()
            nominations.extend(self.session, claim.gang)
        else:
            trial.hold()
        # Whatever kept it waiting before, now it waits for others to go.
        self.session.reasons.pop(claim.gang.job.id, None)
        claim.drop(attempt.placed)
        self._vain.clear()
        return True

    def is_vain(self, claim: preemptors.Preemptor) -> bool:
        """Whether one like it has found nothing, and nothing has changed since."""
        return claim.likeness(self.session) in self._vain

    def most(self, queue: queues.Queue) -> resources.Vector:
        """The most that could ever be freed for the queue on each node; found once."""
        if queue.name not in self._most:
            self._most[queue.name] = victims.most(self.session, queue, self.hook)
        return self._most[queue.name]
