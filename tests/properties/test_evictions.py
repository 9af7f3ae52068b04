from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters, lives
from vscheduler.core import cycle
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session.session import Session
from vscheduler.core.shares import fair_shares
from vscheduler.core.shares.fair_shares import FairShares
from vscheduler.core.shares.surplus import Surplus
from vscheduler.model import resources
from vscheduler.model.decisions import CycleResult, Evict
from vscheduler.model.jobs import HOLDING, READY, Job, JobId, Task, TaskId, TaskStatus
from vscheduler.model.snapshot import Snapshot

STARTING_CYCLES = 4
"""Victims leave in the cycle after their eviction and the preemptor binds in the next, or one
later, where another one's victims are still on its node."""

SETTLING_CYCLES = 30
QUIET_CYCLES = 50

CYCLES_MAX = 200
"""More than any cluster here has turns to give."""

Results = list[tuple[Snapshot, CycleResult]]


def live(picture: str, cycles: int) -> Results:
    """What is decided in so many cycles once the other half of the jobs has come."""
    life, later = lives.lived_in(picture)
    life.add(later)
    found = []
    for _ in range(cycles):
        taken = running.snapshot_of(life.documents, life.carried)
        found.append((taken, life.cycle()))
    return found


def by_preemptor(result: CycleResult) -> dict[JobId, list[Evict]]:
    """Evictions by the job that they are made for."""
    found: defaultdict[JobId, list[Evict]] = defaultdict(list)
    for evict in result.evicts:
        assert evict.beneficiary is not None
        found[evict.beneficiary].append(evict)
    return found


def ready(job: Job) -> int:
    """Pods that count towards the minimum."""
    return sum(job.counts.get(status, 0) for status in READY)


def whoever_others_were_evicted_for_starts(results: Results) -> None:
    """At most three cycles later the job has its minimum, or one pod more than it had."""
    for at, (taken, result) in enumerate(results[:-STARTING_CYCLES]):
        before = {job.id: job for job in taken.jobs}
        after = {job.id: job for job in results[at + STARTING_CYCLES][0].jobs}
        lost = Counter(
            evict.task.job
            for _, each in results[at : at + STARTING_CYCLES]
            for evict in each.evicts
        )
        for preemptor in by_preemptor(result):
            had, has = ready(before[preemptor]), ready(after[preemptor]) + lost[preemptor]
            assert has >= max(before[preemptor].min_member, had + 1), preemptor


def no_minimum_is_split(results: Results) -> None:
    """A job that had its minimum keeps it, or nothing of it stays."""
    for taken, result in results:
        known = {job.id: job for job in taken.jobs}
        for name, lost in Counter(evict.task.job for evict in result.evicts).items():
            job = known[name]
            left = ready(job) - lost
            holding = sum(job.counts.get(status, 0) for status in HOLDING) - lost
            assert left >= job.min_member or holding == 0, name


def reclaim_takes_from_those_above_their_share(results: Results) -> None:
    """Without the pods or the gang that it loses last, the queue is above what it deserves, or what
    its share leaves it on those nodes.
    """
    for taken, result in results:
        known = {job.id: job for job in taken.jobs}
        figures = {queue.name: queue for queue in result.queues}
        lost: defaultdict[str, Counter[str]] = defaultdict(Counter)
        largest: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for unit in _units(evict for evict in result.evicts if evict.action == "reclaim"):
            amounts: Counter[str] = Counter()
            for evict in unit:
                amounts.update(evict.task.pod_class.request)
            queue = known[unit[0].task.job].queue
            lost[queue].update(amounts)
            largest[queue] |= amounts
        for queue, amounts in lost.items():
            entitlement = figures[queue].entitlement
            assert entitlement is not None
            had = Counter[str]()
            for job in known.values():
                if job.queue == queue:
                    had.update(dict(job.allocated))
            # Room that was promised to the queue counts as its own, and is kept where its share
            # has shrunk since.
            placed = [bind.task for bind in result.binds]
            placed += [each.task for each in result.pipelined]
            for task in placed:
                if known[task.job].queue == queue:
                    had.update(task.pod_class.request)
            above = any(
                had[name] - amount + largest[queue][name] > entitlement.deserved.get(name, 0.0)
                for name, amount in amounts.items()
                if name != resources.PODS
            )
            assert above or _stands_in_the_way(taken, result, queue), queue


def _stands_in_the_way(taken: Snapshot, result: CycleResult, queue: str) -> bool:
    """Whether the queue holds more on some nodes that it loses pods on than its share leaves it
    there, what it was given in this cycle included.
    """
    opened = cycle.open_session(taken, running.policy_of(lives.TREE))
    limits = fair_shares.limits(opened.space, opened.queues, taken.used_by_other_schedulers)
    weights = [opened.queues[name].weight for name in limits.names]
    division = FairShares(opened.space, opened.pools, limits, weights)
    found = Surplus(opened, opened.pools, division)
    placed = [(bind.task, bind.node) for bind in result.binds]
    placed += [(each.task, each.node) for each in result.pipelined]
    for task, node in placed:
        opened.job_states[task.job].move(task, TaskStatus.PIPELINED, node)
        found.move(task, 1)
    for evict in result.evicts:
        if opened.job_states[evict.task.job].job.queue == queue:
            over = found.surplus(evict.task)
            if over is not None and (over[1] > 0).any():
                return True
    return False


def nobody_is_evicted_in_vain(results: Results) -> None:
    """With any one of the victims, or of the gangs, left in place the job doesn't fit.

    A gang of which several jobs took pods, until nothing was left, goes for all of them together.
    """
    for taken, result in results:
        for unit in _units(result.evicts):
            preemptors = {evict.beneficiary for evict in unit}
            kept = {evict.task.uid for evict in unit}
            if len(preemptors) == 1:
                (preemptor,) = preemptors
                assert preemptor is not None
                assert not _fits(taken, result, preemptor, kept), (preemptor, sorted(kept))


RULES: Mapping[Callable[[Results], None], int] = {
    whoever_others_were_evicted_for_starts: 12,
    no_minimum_is_split: 6,
    reclaim_takes_from_those_above_their_share: 6,
    nobody_is_evicted_in_vain: 3,
}
"""Each with the number of cycles that it is to look at."""


@clusters.bounded(60)
@given(lives.contested())
def test_evictions_keep_the_rules(picture: str) -> None:
    """On clusters that one or two queues have filled before the others come."""
    results = live(picture, max(RULES.values()))
    for rule, cycles in RULES.items():
        rule(results[:cycles])


@pytest.mark.at_length
@clusters.bounded(25)
@given(lives.contested())
def test_clusters_come_to_rest(picture: str) -> None:
    """When nothing comes or ends, evictions end: nobody is evicted back and forth."""
    results = live(picture, SETTLING_CYCLES + QUIET_CYCLES)
    for _, result in results[SETTLING_CYCLES:]:
        assert (result.binds, result.evicts) == ((), ())


@clusters.bounded(40)
@given(lives.contested(), strategies.sampled_from((1, 300, 3_000)))
def test_cycles_that_are_cut_short_come_to_an_end(picture: str, budget: int) -> None:
    """Each job asks once a round, so that those behind it have their turn; nobody is forgotten."""
    life, later = lives.lived_in(picture)
    life.add(later)
    documents, carried = life.documents, life.carried
    for _ in range(CYCLES_MAX):
        result = running.run(documents, lives.TREE, budget=budget, carried=carried)
        carried = result.carried
        if result.finished or result.binds or result.evicts:
            break
    else:
        raise AssertionError("the same jobs ask again and again")
    assert carried.reclaim_failed == frozenset() or not result.finished
    if not (result.binds or result.evicts):
        whole = running.run(documents, lives.TREE, carried=life.carried)
        assert (whole.binds, whole.evicts) == ((), ())


def _units(evicts: Iterable[Evict]) -> list[list[Evict]]:
    """What went together: the pods of a gang that went whole, else single pods."""
    found: defaultdict[object, list[Evict]] = defaultdict(list)
    every = list(evicts)
    gone = {evict.task.job for evict in every if evict.whole}
    for evict in every:
        found[evict.task.job if evict.task.job in gone else evict.task.uid].append(evict)
    return list(found.values())


def _fits(
    taken: Snapshot,
    result: CycleResult,
    preemptor: JobId,
    kept: set[TaskId],
) -> bool:
    """Whether the job's decided pods find room where only these victims stay."""
    opened = cycle.open_session(taken, running.policy_of(lives.TREE))
    with opened.statement() as trial:
        for bind in result.binds:
            trial.allocate(bind.task, opened.layout.rows[bind.node])
        for evict in result.evicts:
            if evict.task.uid not in kept:
                trial.evict(evict)
        for each in result.pipelined:
            if each.task.job != preemptor:
                row = opened.layout.rows[each.node]
                if not _may(opened, each.task) or not opened.placement.feasible(each.task, row):
                    return False
                trial.pipeline(each.task, row)
        for each in result.pipelined:
            if each.task.job == preemptor:
                choice = opened.placement.choose(each.task)
                if choice is None or not _may(opened, each.task):
                    return False
                trial.pipeline(each.task, choice.row)
    return True


def _may(opened: Session, task: Task) -> bool:
    """Whether its queue lets the task in."""
    queue = opened.queues[opened.job_state_of(task).job.queue]
    return opened.dispatch.all_agree(AllHooks.allocatable, queue, task)
