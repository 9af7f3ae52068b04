"""How long jobs run, compared with the definition of the product-limit estimate."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from vscheduler.simulator import past_runs
from vscheduler.simulator.past_runs import PastRun, PastRuns

KIND = ("q", "ns", "job/train-")


def runs(*seconds: float, ended: bool = True, name: str = "job/train-1") -> list[PastRun]:
    """Jobs of one kind."""
    return [
        PastRun(queue="q", namespace="ns", name=name, seconds=each, ended=ended) for each in seconds
    ]


def by_definition(found: Sequence[PastRun], ran: float, part: Fraction) -> float:
    """The least time at which at least so many of those that run longer than `ran` have ended."""
    remaining = Fraction(1)
    for time in sorted({each.seconds for each in found if each.ended and each.seconds > ran}):
        at_risk = sum(each.seconds >= time for each in found)
        ends = sum(each.ended and each.seconds == time for each in found)
        remaining *= 1 - Fraction(ends, at_risk)
        if 1 - remaining >= part:
            return time - ran
    return math.inf


@pytest.mark.parametrize("seed", range(50))
def test_times_left_are_those_of_the_estimate(seed: int) -> None:
    """With few times, so that many are equal."""
    chance = random.Random(seed)
    found = [
        PastRun(
            queue="q",
            namespace="ns",
            name="job/train-1",
            seconds=float(chance.randint(1, 12)),
            ended=chance.random() < 0.7,
        )
        for _ in range(chance.randint(30, 60))
    ]
    known = PastRuns(found)
    for _ in range(20):
        ran, part = float(chance.randint(0, 13)), Fraction(chance.randint(1, 99), 100)
        assert known.left(KIND, ran, float(part)) == by_definition(found, ran, part)


def test_services_are_not_taken_for_short_jobs() -> None:
    """Of 40 jobs of the queue, 30 have run for a day, and still do."""
    known = PastRuns([*runs(*range(50, 60)), *runs(*[86_400.0] * 30, ended=False)])
    assert known.left(KIND, 0.0, 0.2) == 57.0
    assert known.left(KIND, 0.0, 0.3) == math.inf
    assert known.left(KIND, 86_400.0, 0.01) == math.inf


def test_those_most_alike_count_if_enough_of_them_have_ended() -> None:
    """Jobs of the same name but for its number, then of the namespace, then of the queue."""
    known = PastRuns([*runs(*[5.0] * 10), *runs(*[9.0] * 9, name="job/test-1")])
    assert known.left(KIND, 0.0, 0.5) == 5.0
    assert known.left(("q", "ns", "job/test-"), 0.0, 0.9) == 9.0
    assert known.left(("q", "ns", "job/new-"), 0.0, 0.9) == 9.0
    assert known.left(("q", "other", "job/train-"), 0.0, 0.9) == 9.0
    assert known.left(("r", "ns", "job/train-"), 0.0, 0.9) is None
    known.add(*runs(7.0, name="job/test-2"))
    assert known.left(("q", "ns", "job/test-"), 0.0, 0.05) == 7.0


def test_too_few_tell_nothing() -> None:
    """Nine of them."""
    assert PastRuns(runs(*[5.0] * 9)).left(KIND, 0.0, 0.5) is None
    assert not past_runs.NO_PAST
