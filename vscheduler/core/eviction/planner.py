"""The planner of evictions: finds a minimal set of victims that lets a starving job start.

A plan is made by placing the whole job, or the next pod of a job that has its minimum, on the
cluster as evictions would leave it. All filters, the queues' limits and PodDisruptionBudgets are
respected. Free resources are used first, and a victim is spared when the job fits without evicting
the victim. If no plan works, nothing is evicted.
"""

import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum

from msgspec.structs import replace

from vscheduler.core.api.contracts import Argument, Configured
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import nominations
from vscheduler.core.eviction.bounds import Bounds
from vscheduler.core.eviction.joint_search import LeastLossSearch, WholeGangSearch
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.relocations import Exchange, Relocation
from vscheduler.core.eviction.rules import (
    Cost,
    EvictionRules,
    Limits,
    Scope,
    VictimCandidates,
    WholeGangs,
)
from vscheduler.core.eviction.search import Problem, VictimSearch
from vscheduler.core.placement import network_domains, nominated_pods
from vscheduler.core.session.hook_calls import HookRef
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model import durations
from vscheduler.model.jobs import Task
from vscheduler.model.queues import Queue

PLAN_COST = 20
"""Approximate microseconds for one job that asks for victims, whatever the result."""

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


STRATEGIES: Sequence[type[VictimSearch]] = (VictimSearch, WholeGangSearch, LeastLossSearch)
"""How a plan is looked for, one after the other: each one only where those before have failed."""


class Planner:
    """Plans evictions for one action in one cycle."""

    def __init__(self, session: Session, action: Configured, hook: HookRef) -> None:
        """Read the action's arguments. hook is `AllHooks.preemptable` or `reclaimable`."""
        self.session = session
        self.action = action.name
        self.hook = hook
        self._limits = Limits.of(action, session.snapshot.now)
        self.keep = action.seconds(KEEP) if KEEP in action.arguments else 0.0
        """Seconds for which resources are reserved for the replacements of moved pods."""
        self._failed: set[Hashable] = set()
        """Class keys of jobs that found no victims since the last successful plan."""
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
        if not session.dispatch.first_tier(AllHooks.job_starving, preemptor.state):
            return False
        session.spend("asked", PLAN_COST)
        class_key = preemptor.class_key(session)
        if class_key in self._failed:
            return False
        candidates = functools.partial(self._pool, queue, scope)
        every = candidates(self._rules(whole=self._limits.whole_gangs is not WholeGangs.NEVER))
        with session.reservations.respected_by(preemptor.state, evicting=True):
            ruled_out = self._bounds.rule_out(preemptor, every)
            if not ruled_out and self._finds_where(queue, preemptor, candidates, every):
                return True
        if class_key is not None:
            self._failed.add(class_key)
        return False

    def _finds_where(
        self,
        queue: Queue,
        preemptor: Preemptor,
        candidates: Callable[[EvictionRules], VictimCandidates],
        every: VictimCandidates,
    ) -> bool:
        """Whether a plan is found; for pods that have to be near to each other, in the domain of
        the network where it costs least.
        """
        session, state = self.session, preemptor.state
        topology = session.topology.of(state.job.id)
        group = None if topology is None else topology.whole
        if group is None or not group.is_bounded or group.anchor is not None:
            return self._finds_a_plan(queue, preemptor, candidates) is not None
        tasks, needed = preemptor.tasks, network_domains.needed_of(state)
        free = network_domains.room_for(session, group.tree, tasks, needed, later=True)
        most = self._bounds.most_freed(every)
        after = network_domains.room_after(session, group.tree, tasks, needed, most)
        count = session.topology.evicts_in
        costs: dict[int, Cost] = {}
        tried = network_domains.with_fewest_victims(group, free, after, needed, count)
        for domain in tried:
            with network_domains.within(group, domain, after):
                cost = self._finds_a_plan(queue, preemptor, candidates, commits=False)
            if cost is not None:
                costs[domain] = cost
        if not costs:
            return False
        best = min(costs, key=lambda domain: (costs[domain], domain))
        with network_domains.within(group, best, after):
            return self._finds_a_plan(queue, preemptor, candidates) is not None

    def _finds_a_plan(
        self,
        queue: Queue,
        preemptor: Preemptor,
        candidates: Callable[[EvictionRules], VictimCandidates],
        *,
        commits: bool = True,
    ) -> Cost | None:
        """Return the cost of the plan that one of several attempts finds, the mildest first; None
        if none does. Unless it `commits`, nothing is changed.

        Moving pods of queues within their shares is tried only if a search without moves has met
        such pods, and evictions in favour of these only if they find no free resources. Whole gangs
        go only if single pods don't suffice.
        """
        gangs = (False,) if self._limits.whole_gangs is WholeGangs.NEVER else (False, True)
        pods = (queue.name, nominated_pods.alike(self.session, preemptor.tasks[0]))
        problem = Problem(self.session, preemptor, self.action, self._bounds)
        strategies = [strategy for strategy in STRATEGIES if strategy.applies(problem)]
        for moving in Moving:
            if (moving is Moving.NOT) is (pods in self._only_moving):
                continue
            might_move = False
            for whole, strategy in itertools.product(gangs, strategies):
                rules = self._rules(whole=whole)
                relocation = self._relocation(preemptor, moving, candidates, rules)
                with self.session.statement() as trial:
                    pool = candidates(replace(rules, relocation=relocation))
                    tried = strategy(problem, trial, pool)
                    if self._works(tried, trial):
                        cost = tried.cost
                        if commits:
                            self._carry_out(tried, trial, preemptor)
                        return cost
                might_move |= tried.might_move
            if not might_move:
                return None
            self._only_moving.add(pods)
        return None

    def _pool(self, queue: Queue, scope: Scope, rules: EvictionRules) -> VictimCandidates:
        """Return the candidates of one attempt."""
        return VictimCandidates(
            self.session,
            hook=self.hook,
            queue=queue,
            scope=scope,
            limits=self._limits,
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

        def problem() -> Problem:
            return Problem(self.session, preemptor, self.action, self._bounds_of_exchanges)

        exchange = Exchange(problem, on_behalf_of)
        return Relocation(self.session, exchange)

    def _works(self, tried: VictimSearch, statement: Statement) -> bool:
        """Whether the attempt finds a plan; the statement has it."""
        if not tried.succeeds():
            return False
        if statement.evicts:
            tried.spare_the_unneeded()
        if not tried.moves_the_displaced(self.session.snapshot.now + self.keep):
            return False
        return not statement.evicts or tried.leaves_plans_alone()

    def _carry_out(self, tried: VictimSearch, statement: Statement, preemptor: Preemptor) -> None:
        """Commit the plan in the statement."""
        if statement.evicts:
            statement.commit()
            nominations.extend(self.session, preemptor.state)
        else:
            statement.hold()
        # The earlier reason is obsolete: now the job waits for its victims to terminate.
        self.session.reasons.forget(preemptor.state.job.id)
        preemptor.drop(tried.placed)
        self._failed.clear()
        self._bounds.forget()

    def is_futile(self, preemptor: Preemptor) -> bool:
        """Whether a similar job has found no victims, with no successful plan since."""
        return preemptor.class_key(self.session) in self._failed

    @functools.cached_property
    def _bounds(self) -> Bounds:
        return Bounds(self.session, self.hook, self._limits)

    @functools.cached_property
    def _bounds_of_exchanges(self) -> Bounds:
        """Those of searches within a search, which would see what that one only tries."""
        return Bounds(self.session, self.hook, self._limits)
