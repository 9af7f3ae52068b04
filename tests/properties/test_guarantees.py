"""Guarantees that are more than there is: worked out by hand, and what holds for any queues."""

import dataclasses
import random
from fractions import Fraction

import numpy as np
import pytest
from msgspec.structs import replace

from tests import running
from tests.properties import shortages
from tests.properties.shortages import Case, Oracle
from vscheduler.core.shares import constrained_max_min
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures


def by_hand(total: int, weights: list[int], promised: list[int]) -> list[Fraction]:
    """One resource that all can use, by the text of the rule: queue by queue, in fractions."""
    if sum(promised) <= total:
        return [Fraction(each) for each in promised]
    modest = [each if each <= total else 0 for each in promised]
    fitted = leveled(Fraction(total), weights, modest)
    left = total - sum(fitted, start=Fraction(0))
    greedy = [each if each > total else 0 for each in promised]
    last = leveled(left, weights, greedy)
    together = [one + other for one, other in zip(fitted, last, strict=True)]
    return [
        max(Fraction(0), each - (promised - each))
        for each, promised in zip(together, promised, strict=True)
    ]


def leveled(total: Fraction, weights: list[int], wanted: list[int]) -> list[Fraction]:
    """The level at which all of `total` is wanted is one of those at which somebody has enough, or
    between two of them.
    """
    if sum(wanted) <= total:
        return [Fraction(each) for each in wanted]
    level = Fraction(0)
    for full in sorted(
        {Fraction(want, weight) for want, weight in zip(wanted, weights, strict=True)}
    ):
        if sum(min(Fraction(w), full * v) for w, v in zip(wanted, weights, strict=True)) > total:
            below = [(w, v) for w, v in zip(wanted, weights, strict=True) if Fraction(w, v) > level]
            rest = total - sum(
                w for w, v in zip(wanted, weights, strict=True) if Fraction(w, v) <= level
            )
            level = rest / sum(v for _, v in below)
            break
        level = full
    return [min(Fraction(w), level * v) for w, v in zip(wanted, weights, strict=True)]


def drawn(chance: random.Random) -> tuple[int, list[int], list[int]]:
    """What there is, weights and promised: some fit, some don't, some are far above."""
    total, count = chance.randint(0, 60), chance.randint(1, 7)
    most = chance.choice((5, 20, 60, 200))
    promised = [chance.choice((0, chance.randint(0, most))) for _ in range(count)]
    if chance.random() < 0.3:
        promised[chance.randrange(count)] = chance.choice((total, total + 1, 10**6))
    return total, [chance.randint(1, 4) for _ in range(count)], promised


def one_room(total: int, weights: list[int], promised: list[int], asks: int) -> Case:
    """As a case of sharing, where all ask for so much, and at least for their guarantee."""
    return Case(
        weights=tuple(map(float, weights)),
        demands=tuple((float(max(asks, each)),) for each in promised),
        reach=((1,),),
        supply=(float(total),),
        pinned=tuple(0.0 for _ in weights),
        guarantee=tuple(map(float, promised)),
        capability=tuple(shortages.INF for _ in weights),
    )


@pytest.mark.parametrize("part", range(5))
def test_it_is_what_the_rule_says(part: int) -> None:
    """1,500 cases: of totals, and by flows where these have nothing to say."""
    chance = random.Random(part)
    for _ in range(300):
        total, weights, promised = drawn(chance)
        expected = [float(each) for each in by_hand(total, weights, promised)]
        plain = constrained_max_min.kept_guarantees(
            np.array([float(total)]),
            np.array(weights, dtype=np.float64),
            np.array(promised, dtype=np.float64)[:, np.newaxis],
        )[:, 0]
        flows = constrained_max_min.carried_guarantees(
            one_room(total, weights, promised, 9).problem()
        )[:, 0]
        case = (total, weights, promised)
        assert plain.tolist() == pytest.approx(expected, abs=1e-6), case
        assert flows.tolist() == pytest.approx(expected, abs=1e-6), case


@pytest.mark.parametrize("part", range(5))
def test_a_guarantee_that_cannot_be_kept_starves_nobody(part: int) -> None:
    """Who asks for something has a share, unless all there is is kept for promised that fit; and
    those within their weight's share are whole.
    """
    chance = random.Random(100 + part)
    for _ in range(200):
        total, weights, promised = drawn(chance)
        problem = one_room(total, weights, promised, chance.randint(1, 80)).problem()
        kept = constrained_max_min.carried_guarantees(problem)
        found = constrained_max_min.shares(replace(problem, guarantee=kept)).deserved[:, 0]
        case = (total, weights, promised)
        if kept.sum() < total - 1e-6:
            assert (found > 0).all(), case
        assert (found >= kept[:, 0] - 1e-6).all(), case
        for place, weight in enumerate(weights):
            if promised[place] <= total * weight / sum(weights):
                assert kept[place, 0] == promised[place], case
        if sum(promised) > total > 0 and kept.sum() >= total - 1e-6:
            # What fits fills everything: those that don't are above all there is, and get nothing.
            whole = [each for each, has in zip(promised, kept[:, 0], strict=True) if has == each]
            assert sum(whole) == total, case


@pytest.mark.parametrize("part", range(4))
def test_nobody_gains_by_promising_itself_more(part: int) -> None:
    """Neither its kept guarantee nor its share grows with a guarantee that is cut already, in pools
    that not all can use, and nobody else's guarantee shrinks.
    """
    chance = random.Random(200 + part)
    tried = 0
    for _ in range(120):
        case = shortages.drawn(chance)
        queues = len(case.weights)
        case = dataclasses.replace(
            case,
            guarantee=tuple(float(chance.choice((0, 3, 9, 40))) for _ in range(queues)),
            demands=tuple(tuple(each + 50.0 for each in row) for row in case.demands),
            pinned=tuple(0.0 for _ in range(queues)),
            capability=tuple(shortages.INF for _ in range(queues)),
            whole=shortages.INF,
        )
        kept, found = decided(case)
        cut = [each for each in range(queues) if kept[each] < case.guarantee[each] - 1e-6]
        for place in cut:
            tried += 1
            for more in (1.0, 30.0, 1000.0):
                raised = list(case.guarantee)
                raised[place] += more
                now, has = decided(dataclasses.replace(case, guarantee=tuple(raised)))
                assert now[place] <= kept[place] + 1e-6, (case, place, more)
                assert has[place] <= found[place] + 1e-6, (case, place, more)
                others = np.arange(queues) != place
                assert (now[others] >= kept[others] - 1e-6).all(), (case, place, more)
    assert tried > 20


def decided(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """What of promised counts, and what queues deserve."""
    problem = case.problem()
    kept = constrained_max_min.carried_guarantees(problem)
    found = constrained_max_min.shares(replace(problem, guarantee=kept)).deserved
    return kept[:, 0], found[:, 0]


@pytest.mark.parametrize("part", range(4))
def test_what_nodes_can_carry_is_kept_whole(part: int) -> None:
    """A linear program says whether all promised can be kept at once; then they are."""
    chance = random.Random(300 + part)
    whole = 0
    for _ in range(100):
        case = shortages.drawn(chance)
        oracle = Oracle(case)
        # Who is guaranteed more than it asks for asks for it: the caller sees to that.
        case = dataclasses.replace(
            case, guarantee=tuple(np.minimum(case.guarantee, oracle.limits).tolist())
        )
        due = np.maximum(np.minimum(case.guarantee, oracle.limits), oracle.pinned)
        everyone = np.sum([oracle.has(queue) for queue in range(oracle.queues)], axis=0)
        most, _ = oracle.most(everyone, tuple(oracle.pinned), tuple(due), {})
        if not any(case.guarantee) or most + oracle.pinned.sum() < due.sum() - shortages.CLOSE:
            continue
        whole += 1
        kept = constrained_max_min.carried_guarantees(case.problem())[:, 0]
        shares = constrained_max_min.shares(
            dataclasses.replace(case, guarantee=tuple(kept.tolist())).problem()
        ).deserved
        assert (shares[:, 0] >= due - 20 * shortages.CLOSE).all(), case
    assert whole > 10


TREES = {
    "proportion": "priority gang | overcommit drf predicates proportion nodeorder",
    "capacity": "priority gang | overcommit predicates capacity nodeorder",
    "a tree": "priority gang | overcommit predicates capacity:enableHierarchy=true nodeorder",
    "fairshare": "priority gang fairshare | overcommit predicates nodeorder",
}


@pytest.mark.parametrize("tiers", TREES.values(), ids=TREES)
@pytest.mark.parametrize("seed", range(12))
def test_everyone_who_asks_starts_something(tiers: str, seed: int) -> None:
    """Beside any promised, of idle queues and of busy ones, that are above the cluster."""
    chance = random.Random(seed)
    lines = ["node n1 cpu=20", "node n2 cpu=20"]
    names = [f"q{number}" for number in range(chance.randint(2, 5))]
    inner = chance.random() < 0.5 and tiers == TREES["a tree"]
    for name in names:
        lines.append(f"queue {name}" + (" parent=top" if inner and chance.random() < 0.6 else ""))
        lines.append(f"job {name}/j{name} -*{chance.randint(20, 40)}")
    if inner:
        lines.append("queue top guarantee=cpu:3   queue top-leaf parent=top")
    amounts = (60, 80, 10**6)  # 41 would leave to others less than a pod each
    for number in range(chance.randint(1, 3)):
        lines.append(
            f"queue greedy{number} guarantee=cpu:{chance.choice(amounts)}"
            + (" parent=top" if inner and chance.random() < 0.5 else "")
        )
        if chance.random() < 0.5 and tiers == TREES["proportion"]:
            lines.append(f"job greedy{number}/g{number} -*{chance.randint(1, 50)}")
    result = running.run_claimed(
        pictures.documents("\n".join(lines)),
        {"actions": "enqueue, allocate, backfill, reclaim", "tiers": running.tiers(tiers)},
    )
    started = {bind.task.job.partition("/")[2] for bind in result.binds}
    others = {f"j{name}" for name in names}
    if tiers == TREES["proportion"]:
        assert others <= started, lines
    assert others & started, lines
    assert told(result, tiers), lines


def told(result: CycleResult, tiers: str) -> bool:
    """Whether every queue whose guarantee is cut is told so, with both figures."""
    if tiers == TREES["fairshare"]:
        return True
    cut = [
        basis
        for queue in result.queues
        if queue.name.startswith("greedy") and queue.entitlement is not None
        for name, basis in queue.entitlement.bases.items()
        if name == "cpu" and basis.guarantee
    ]
    greedy = [queue for queue in result.queues if queue.name.startswith("greedy")]
    return len(cut) == len(greedy) and all(each.kept < each.guarantee for each in cut)
