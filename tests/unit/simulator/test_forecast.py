"""When a job is likely to start, in small clusters where it can be worked out."""

import math

import pytest

from tests import running
from vscheduler.core.config.policy import Policy
from vscheduler.model.jobs import JobId
from vscheduler.simulator import forecast, run
from vscheduler.simulator.forecast import BudgetError, Forecast
from vscheduler.simulator.past_runs import NO_PAST, PastRun, PastRuns
from vscheduler.simulator.run import Given, Options
from vscheduler.testing import pictures

LIMIT = "annotation=vscheduler.io/max-run-time"
FIFO = {"actions": "enqueue, allocate", "tiers": running.tiers("gang | predicates")}
PREEMPT = {
    "actions": "enqueue, allocate, preempt",
    "tiers": running.tiers("priority gang | predicates"),
}
LATE = JobId("default/late")


def read(picture: str, policy: Policy) -> Given:
    """The cluster of a picture."""
    return run.read(pictures.documents(picture), policy, Options())


def foreseen(picture: str, past: PastRuns = NO_PAST, *, budget: int = 10**9) -> Forecast:
    """The forecast for job `late`."""
    policy = running.policy_of(FIFO)
    given = read(picture, policy)
    before = running.seen(given.mirror, given.now)
    found = forecast.forecast(given.mirror, given.now, policy, LATE, past, budget)
    assert running.seen(given.mirror, given.now) == before
    return found


def lasting(*seconds: float) -> PastRuns:
    """Run times of the past, in the queue of the pictures."""
    return PastRuns(
        PastRun(queue="q", namespace="default", name=f"old-{at}", seconds=each)
        for at, each in enumerate(seconds)
    )


def test_without_a_past_jobs_run_for_as_long_as_they_may() -> None:
    """The first one has run for 10 of its 20 minutes; the second one then takes the node for 5."""
    found = foreseen(
        f"""
        node  n1 cpu=1
        queue q
        job   q/busy scheduled=600 {LIMIT}=20m n1
        job   q/next age=50 {LIMIT}=5m -
        job   q/late age=40 -
        """
    )
    assert (found.earliest, found.latest) == (900.0, 900.0)
    assert (found.by_past, found.unknown, found.pods) == (False, 0, 1)


def test_a_gang_needs_all_of_its_nodes_at_once() -> None:
    """Those behind it don't wait for it: without backfill, whatever fits starts."""
    picture = f"""
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/one scheduled=0 {LIMIT}=10m n1
        job   q/two scheduled=0 {LIMIT}=20m n2
        job   q/late min=2 age=50 - -
        """
    assert foreseen(picture).latest == 1200.0
    small = f"job q/small age=40 {LIMIT}=30m -"
    assert foreseen(f"{picture}\n        {small}").latest == 600.0 + 1800.0


def test_run_times_of_the_past_count_up_to_the_limit() -> None:
    """All jobs of the past have run for 15 minutes, and the running one for 10."""
    picture = """
        node  n1 cpu=1
        queue q
        job   q/busy scheduled=600 {} n1
        job   q/late age=40 -
        """
    found = foreseen(picture.format(""), lasting(*[900.0] * 10))
    assert (found.earliest, found.latest, found.by_past) == (300.0, 300.0, True)
    found = foreseen(picture.format(f"{LIMIT}=12m"), lasting(*[900.0] * 10))
    assert (found.earliest, found.latest) == (120.0, 120.0)


def test_jobs_run_briefly_or_long() -> None:
    """Run times of 10 to 20 minutes, all equally likely: of 100 jobs, 5 run for up to 624 s, and
    90 for up to 1,134 s. Of those that have run for 15 minutes already, 49 are left.
    """
    past = lasting(*range(600, 1200, 6))
    picture = """
        node  n1 cpu=1
        queue q
        job   q/busy scheduled={} n1
        job   q/late age=40 -
        """
    found = foreseen(picture.format(0), past)
    assert (found.earliest, found.latest) == (624.0, 1134.0)
    found = foreseen(picture.format(900), past)
    assert (found.earliest, found.latest) == (918.0 - 900.0, 1170.0 - 900.0)


def test_a_start_between_two_cycles_is_when_room_became_free() -> None:
    """After the one at 1,000 s, the next cycle is 300 s later; the second job ends between them."""
    found = foreseen(
        f"""
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/one scheduled=0 {LIMIT}=1000s n1
        job   q/two scheduled=0 {LIMIT}=1100s n2
        job   q/late min=2 age=50 - -
        """
    )
    assert found.latest == 1100.0


def test_what_is_missing_is_counted() -> None:
    """Two pods of three may run for ever."""
    found = foreseen(
        f"""
        node  n1 cpu=1   node n2 cpu=1   node n3 cpu=1
        queue q
        job   q/one scheduled=0 {LIMIT}=10m n1
        job   q/two scheduled=0 n2 n3
        job   q/late min=2 age=50 - -
        """
    )
    assert (found.earliest, found.unknown, found.pods) == (math.inf, 2, 3)


def test_evicted_pods_come_again() -> None:
    """They have the node of `late`, which has the higher priority."""
    policy = running.policy_of(PREEMPT)
    picture = """
        node  n1 cpu=1
        queue q
        job   q/busy priority=1 n1
        job   q/late priority=9 -
        """
    given = read(picture, policy)
    before = running.seen(given.mirror, given.now)
    found = forecast.forecast(given.mirror, given.now, policy, LATE, NO_PAST)
    assert found.latest == forecast.TERMINATION_SECONDS
    assert running.seen(given.mirror, given.now) == before
    busy = forecast.forecast(given.mirror, given.now, policy, JobId("default/busy"), NO_PAST)
    assert busy.latest == 0.0


def test_a_budget_that_is_too_small_tells_nothing() -> None:
    """Neither at once nor after a while."""
    picture = f"""
        node  n1 cpu=1
        queue q
        job   q/busy scheduled=600 {LIMIT}=20m n1
        job   q/late age=40 -
        """
    for budget in (100, 3_000):
        with pytest.raises(BudgetError):
            foreseen(picture, budget=budget)
    assert foreseen(picture, budget=10_000).latest == 600.0


def test_a_pod_that_was_evicted_ends_no_more() -> None:
    """It would have ended in 10 minutes. The next one, for which there is room later, goes on."""
    policy = running.policy_of(PREEMPT)
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/busy priority=1 {LIMIT}=10m n1 n1
        job   q/high priority=9 {LIMIT}=5m age=50 -
        job   q/late priority=1 cpu=2 age=10 -
        """
    given = read(picture, policy)
    before = running.seen(given.mirror, given.now)
    found = forecast.forecast(given.mirror, given.now, policy, LATE, NO_PAST)
    assert running.seen(given.mirror, given.now) == before, "pods that were made up are remembered"
    evicted_for_high = forecast.TERMINATION_SECONDS
    again = evicted_for_high + 300.0
    assert found.latest == pytest.approx(again + 600.0, rel=forecast.STEP)
