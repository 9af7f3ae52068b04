"""The planner of evictions: finds a minimal set of victims that lets a starving job start.

A plan is made by placing the whole job, or the next pod of a job that has its minimum, on the
cluster as evictions would leave it. All filters, the queues' limits and PodDisruptionBudgets are
respected. Free resources are used first, and a victim is spared when the job fits without evicting
the victim. If no plan works, nothing is evicted.
"""

import functools
from collections.abc import Callable, Hashable, Mapping
from enum import Enum

from msgspec.structs import replace

from vscheduler.core.api.contracts import Argument, Configured
from vscheduler.core.api.depends import EQUAL_RESOURCES
from vscheduler.core.eviction import nominations
from vscheduler.core.eviction.bounds import KeptBounds, PreemptorBounds
from vscheduler.core.eviction.joint_search import Found, LeastLossSearch, WholeGangSearch
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.relocations import Exchange, Relocation
from vscheduler.core.eviction.rules import (
    EvictionRules,
    Limits,
    Scope,
    VictimCandidates,
    WholeGangs,
)
from vscheduler.core.eviction.search import VictimSearch
from vscheduler.core.eviction.victim_columns import EntitledGroups, VictimColumns
from vscheduler.core.model import durations
from vscheduler.core.model.jobs import Task
from vscheduler.core.model.queues import Queue
from vscheduler.core.placement import nominated_pods, unschedulable_classes
from vscheduler.core.placement.gang_search import attempt
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement

PLAN_COST = 20
"""Approximate microseconds for one job that asks for victims, whatever the result."""

PODS_PER_UNIT = 2
"""For how many pods that could be evicted columns are made in about a microsecond."""

SKIP_COST = 6
"""Approximate microseconds for one job skipped because a similar job found no victims."""


KEEP = "reclaim.keepRoom"


def arguments(action: str, whole_gangs: WholeGangs) -> Mapping[str, Argument]:
    """Return the arguments of an action that plans evictions, with the default of wholeGangs."""
    return {
        f"{action}.wholeGangs": Argument(str, whole_gangs.value, choices=tuple(WholeGangs)),
        f"{action}.minRuntime": Argument(str, "0s", parse=durations.seconds),
    }


class Moving(Enum):
    """Where pods of queues within their shares may go, the mildest first."""

    NOT = "not"
    TO_FREE = "to free resources"
    BY_EXCHANGE = "to resources that evictions free, too"


class Planner:
    """Plans evictions for one action in one cycle."""

    def __init__(
        self,
        session: Session,
        action: Configured,
        hook: str,
    ) -> None:
        """Read the action's arguments. hook is `preemptable` or `reclaimable`."""
        self.session = session
        self.action = action.name
        self.hook = hook
        self._limits = Limits.of(action, session.snapshot.now)
        self.keep = action.seconds(KEEP) if KEEP in action.arguments else 0.0
        """Seconds for which resources are reserved for the replacements of moved pods."""
        self._failed: set[Hashable] = set()
        """Likenesses of jobs that found no victims since the last successful plan."""
        self._has_failed = False
        """Whether a search was in vain since the last successful plan."""
        self._bounds: dict[str, PreemptorBounds] = {}
        """By claimant's queue, since the last successful plan."""
        self._only_moving: set[Hashable] = set()
        """Queues and similar pods for which no victims exist except pods that can be moved: evicted
        although their queue is within its share, because their replacements fit elsewhere. Such an
        entry stays valid during the cycle, since surpluses only shrink while plans succeed."""

    def plan(self, queue: Queue, preemptor: Preemptor, scope: Scope) -> bool:
        """Make room for the job's minimum, or for the next pod of a started job.

        Placed tasks are removed from the preemptor. Return False, with nothing changed, if no plan
        works.
        """
        session = self.session
        if not session.dispatch.first_tier("job_starving", preemptor.state):
            return False
        session.spend("asked", PLAN_COST)
        likeness = preemptor.likeness(session)
        if likeness in self._failed:
            return False
        equal = unschedulable_classes.representative(preemptor.state.job)
        self._kept.entitled.ask(queue, scope, preemptor.tasks if equal is None else [equal])
        if not self._is_excluded(queue, preemptor, scope):
            if self._finds_a_plan(queue, preemptor, scope):
                return True
            self._has_failed = True
        if likeness is not None:
            self._failed.add(likeness)
        return False

    def _finds_a_plan(self, queue: Queue, preemptor: Preemptor, scope: Scope) -> bool:
        """Whether one of several attempts finds a plan, the mildest first.

        Moving pods of queues within their shares is tried only if a search without moves has met
        such pods, and evictions in favour of these only if they find no free resources. Whole gangs
        go only if single pods don't suffice.
        """
        session = self.session
        gangs = (False,) if self._limits.whole_gangs is WholeGangs.NEVER else (False, True)
        pods = (queue.name, nominated_pods.alike(session, preemptor.tasks[0]))
        kinds: list[Callable[..., VictimSearch]] = [VictimSearch]
        known = Found()
        if attempt.could_help(session, preemptor.state):
            kinds.append(functools.partial(WholeGangSearch, known))
        kinds.append(functools.partial(LeastLossSearch, known))
        candidates = functools.partial(self._pool, queue, scope)
        for moving in Moving:
            if (moving is Moving.NOT) is (pods in self._only_moving):
                continue
            might_move = False
            for whole, kind in ((whole, kind) for whole in gangs for kind in kinds):
                rules = self._rules(whole=whole)
                relocation = self._relocation(preemptor, moving, candidates, rules)
                pool = candidates(replace(rules, relocation=relocation))
                tried = self._try(kind, preemptor, pool)
                if tried is None:
                    return True
                might_move |= tried.might_move
                if tried.has_minimum:
                    del kinds[1:]  # one more pod is all that is asked for
            if not might_move:
                return False
            self._only_moving.add(pods)
        return False

    def _try(
        self,
        kind: Callable[..., VictimSearch],
        preemptor: Preemptor,
        pool: VictimCandidates,
    ) -> VictimSearch | None:
        """Make one attempt, and return it if it fails; None if a plan is committed."""
        with self.session.statement() as trial:
            tried = kind(self.session, trial, preemptor, pool, self.action, self._kept)
            return None if self._carry_out(tried, trial, preemptor) else tried

    def _is_excluded(self, queue: Queue, preemptor: Preemptor, scope: Scope) -> bool:
        """Whether the bounds exclude every plan for the job.

        Bounds are computed once a search was in vain; until then, jobs may well find victims.
        Without searches, nothing would ask for a cycle after the pause of a node.
        """
        if not self._has_failed or self.hook != "reclaimable" or self.session.snapshot.refused:
            return False
        bounds = self._bounds.get(queue.name)
        if bounds is None:
            whole = self._limits.whole_gangs is not WholeGangs.NEVER
            pool = self._pool(queue, scope, self._rules(whole=whole))
            kept = self._kept
            bounds = PreemptorBounds(self.session, kept.columns, kept.entitled, pool)
            self._bounds[queue.name] = bounds
        return bounds.exclude(preemptor)

    def _pool(self, queue: Queue, scope: Scope, rules: EvictionRules) -> VictimCandidates:
        """Return the candidates of one attempt."""
        return VictimCandidates(
            self.session,
            hook=self.hook,
            claimant=queue,
            scope=scope,
            oldest=self._limits.oldest,
            rules=rules,
        )

    def _rules(self, *, whole: bool) -> EvictionRules:
        """Return the rules of an attempt that moves nobody: with whole gangs or without."""
        always = self._limits.whole_gangs is WholeGangs.ALWAYS
        return EvictionRules(whole=whole, always=always, relocation=None)

    def _relocation(
        self,
        preemptor: Preemptor,
        moving: Moving,
        candidates: Callable[[EvictionRules], VictimCandidates],
        rules: EvictionRules,
    ) -> Relocation | None:
        """Return where pods may move, with victims by these rules if any are needed."""
        if moving is Moving.NOT:
            return None
        if moving is Moving.TO_FREE:
            return Relocation(self.session)

        def on_behalf_of(preemptor: Task) -> VictimCandidates:
            return candidates(replace(rules, on_behalf=preemptor))

        exchange = Exchange(
            self.session, preemptor, on_behalf_of, self.action, self._kept_for_exchanges
        )
        return Relocation(self.session, exchange)

    def _carry_out(
        self,
        tried: VictimSearch,
        statement: Statement,
        preemptor: Preemptor,
    ) -> bool:
        """Whether the attempt finds a plan; if so, the plan is committed."""
        if not tried.succeeds():
            return False
        if statement.evicts:
            tried.spare_the_unneeded()
        if not tried.moves_the_displaced(self.session.snapshot.now + self.keep):
            return False
        if statement.evicts and not tried.leaves_plans_alone():
            return False
        if statement.evicts:
            statement.commit()
            nominations.extend(self.session, preemptor.state)
        else:
            statement.hold()
        # The earlier reason is obsolete: now the job waits for its victims to terminate.
        self.session.reasons.forget(preemptor.state.job.id)
        preemptor.drop(tried.placed)
        self._failed.clear()
        self._bounds.clear()
        self._kept.entitled.forget()
        self._has_failed = False
        return True

    def is_futile(self, preemptor: Preemptor) -> bool:
        """Whether a similar job has found no victims, with no successful plan since."""
        return preemptor.likeness(self.session) in self._failed

    @functools.cached_property
    def _kept(self) -> KeptBounds:
        """What searches on behalf of different jobs share."""
        return self._read_columns()

    @functools.cached_property
    def _kept_for_exchanges(self) -> KeptBounds:
        """The same for searches within a search, which would see what that one only tries."""
        return self._read_columns()

    def _read_columns(self) -> KeptBounds:
        session = self.session
        known = session.dispatch.any_depends(self.hook, EQUAL_RESOURCES)
        columns = VictimColumns(session, self._limits.oldest, by_resources=known)
        session.spend("columns", len(columns.queues) // PODS_PER_UNIT + columns.pods.read)
        entitled = EntitledGroups(session, columns, self.hook)
        return KeptBounds(columns, entitled)
