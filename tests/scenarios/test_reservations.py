"""Promised starts and backfill, in pictures: who goes ahead, and what each one is told."""

import dataclasses

import pytest

from tests import device_labs, running
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.core.placement import availability
from vscheduler.mirror.wording import sentences
from vscheduler.model.snapshot import FRESH
from vscheduler.simulator import run
from vscheduler.simulator.run import Options, Outcome
from vscheduler.testing import pictures

RUN_TIME = "annotation=vscheduler.io/max-run-time"
PICTURE = f"""
    node  n1 cpu=2   node n2 cpu=2
    queue q
    job   q/busy scheduled=600 {RUN_TIME}=20m n1 n2
    job   q/big min=4 age=50 - - - -
    job   q/short age=40 {RUN_TIME}=10m -
    job   q/long age=30 {RUN_TIME}=11m -
    job   q/unknown age=20 -
"""
"""The pods of `busy` end in ten minutes at the latest; `big` needs all nodes then."""


def policy(backfill: str, actions: str = "enqueue, allocate, backfill") -> Policy:
    """The configuration of all scenarios, with backfill."""
    arguments = {"allocate.backfill": backfill}
    return running.policy_of(
        {
            **running.TREE,
            "actions": actions,
            "configurations": [{"name": "allocate", "arguments": arguments}],
        }
    )


def simulated(picture: str, backfill: str = "easy", cycles: int = 3) -> Outcome:
    """A few cycles."""
    return run.simulate(pictures.documents(picture), policy(backfill), Options(cycles=cycles))


def bound(outcome: Outcome) -> set[str]:
    """The jobs that have started."""
    return {bind.task.job.partition("/")[2] for bind in outcome.binds}


@pytest.mark.parametrize(
    ("backfill", "started"),
    [("none", {"short", "long"}), ("easy", {"short"}), ("conservative", {"short"})],
)
def test_who_ends_in_time_goes_ahead(backfill: str, started: set[str]) -> None:
    """A job that would still run then, or might, doesn't take what the large one needs."""
    assert bound(simulated(PICTURE, backfill)) == started


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_what_is_free_stays_for_others(backfill: str) -> None:
    """Nodes that are busy until then are reserved first; two are left for a job without limit."""
    picture = f"""
        node  n1 cpu=8   node n2 cpu=8   node n3 cpu=8
        node  n4 cpu=8   node n5 cpu=8   node n6 cpu=8
        queue q
        job   q/busy scheduled=600 {RUN_TIME}=1h cpu=8 n1 n2 n3
        job   q/first min=4 age=50 cpu=8 - - - -
        job   q/mine min=2 age=40 cpu=8 - -
        """
    assert bound(simulated(picture, backfill, cycles=1)) == {"mine"}


def test_each_job_is_told() -> None:
    """Of its own start, or of the one for which nodes are reserved."""
    reasons = {
        str(group.job): group.reason for group in simulated(PICTURE).last.groups if group.reason
    }
    by = "starts by 2026-01-01 11:10:00 UTC at the latest, if running jobs keep their limits"
    assert sentences.sentence(reasons["default/big"]).endswith(f"which leaves 1; {by}")
    whys = {
        "long": "with its max-run-time of 11m, this job may still run then",
        "unknown": "this job has no max-run-time, so it may still run then",
    }
    for job, why in whys.items():
        assert sentences.sentence(reasons[f"default/{job}"]) == (
            "needs 1 cpu; 0/2 nodes are available beside what is reserved: 2 Insufficient cpu; "
            f"nodes are reserved for default/big, which {by}; {why}"
        )


IN_LINE = f"""
    node  n1 cpu=2   node n2 cpu=2
    queue q
    job   q/busy scheduled=600 {RUN_TIME}=20m n1 n2
    job   q/big min=4 age=50 {RUN_TIME}=1h - - - -
    job   q/second min=4 age=40 - - - -
"""


@pytest.mark.parametrize("cycles", [1, 3])
def test_a_job_with_a_promise_is_told_of_its_own(cycles: int) -> None:
    """From the first cycle on, although nodes are reserved for another one before."""
    outcome = simulated(IN_LINE, "conservative", cycles)
    assert told(outcome, "second").endswith(
        "; starts by 2026-01-01 12:10:00 UTC at the latest, if running jobs keep their limits"
    )


def test_who_comes_after_a_job_that_may_run_for_ever_is_told() -> None:
    """Nothing can be promised behind it."""
    outcome = simulated(IN_LINE.replace(f"{RUN_TIME}=1h", ""), "conservative")
    assert told(outcome, "second").endswith(
        "; no start is promised: default/big, which starts first, has no max-run-time"
    )


def test_without_run_times_nobody_waits_for_a_promise() -> None:
    """A start that can't be foreseen keeps nothing free."""
    outcome = simulated(PICTURE.replace(f"{RUN_TIME}=20m", ""))
    assert bound(outcome) == {"short", "long"}
    assert outcome.last.carried.reservations == ()


def told(outcome: Outcome, job: str) -> str:
    """What the job is told in the last cycle."""
    (found,) = (each.reason for each in outcome.last.groups if str(each.job) == f"default/{job}")
    assert found is not None
    return sentences.sentence(found)


@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        ((f"{RUN_TIME}=20m", ""), "pods that run have no max-run-time"),
        (("min=4", "min=4 port=80"), "volumes, devices and host ports aren't kept free for it"),
        (
            ("min=4", "min=4 apart=app=other@host label=app=big"),
            "where its pods may run depends on other pods",
        ),
    ],
)
def test_who_gets_no_promise_is_told_what_is_not_known(
    change: tuple[str, str], unknown: str
) -> None:
    """A promise that something else could break isn't given."""
    outcome = simulated(PICTURE.replace(*change))
    assert "default/big" not in {each.job for each in outcome.last.carried.reservations}
    assert told(outcome, "big").endswith(f"; no start is promised: {unknown}")


def test_devices_are_kept_free_only_for_jobs_that_need_nothing_else() -> None:
    """A job with claims is told that it gets no promise, and others go ahead of it."""
    picture = f"""
        node  n1 cpu=2   node n2 cpu=2
        queue q
        job   q/busy scheduled=600 {RUN_TIME}=20m n1 n2
        job   q/claims min=3 age=50 - - -
        job   q/long age=40 {RUN_TIME}=11m -
    """
    slices = [device_labs.resource_slice(node, 1) for node in ("n1", "n2")]
    lab = device_labs.Lab(
        picture,
        device_labs.device_class(),
        *slices,
        device_labs.claim("gpus"),
        uses={f"claims-{number}": ["gpus"] for number in range(3)},
        tree={
            **device_labs.TREE,
            "configurations": [{"name": "allocate", "arguments": {"allocate.backfill": "easy"}}],
        },
    )
    result = lab.cycle()
    assert {bind.task.job for bind in result.binds} == {"default/long"}
    assert (result.carried.reservations, result.claims) == ((), ())
    (reason,) = (each.reason for each in result.groups if each.job == "default/claims")
    assert reason is not None
    told = sentences.sentence(reason)
    assert told.endswith(
        "; no start is promised: volumes, devices and host ports aren't kept free for it"
    )


NEAR = f"""
    node  n1 cpu=1   node n2 cpu=1   node n3 cpu=1   node n4 cpu=1
    hypernode r1 tier=1 nodes=n1,n2   hypernode r2 tier=1 nodes=n3,n4
    queue q
    job   q/a scheduled=600 {RUN_TIME}=20m n1
    job   q/b scheduled=600 {RUN_TIME}=25m n2
    job   q/c scheduled=600 {RUN_TIME}=22m n3
    job   q/d scheduled=600 {RUN_TIME}=30m n4
    job   q/near min=2 age=50 topology=hard:1 - -
    job   q/short age=40 {RUN_TIME}=1m -
"""
"""Two nodes are free after 12 minutes, and two of one rack after 15."""


def test_a_gang_that_must_be_near_is_promised_a_domain() -> None:
    """At the first instant at which all of it fits into one."""
    tree = {**running.TREE, "actions": "enqueue, allocate"}
    tree["tiers"] = [*running.TREE["tiers"], {"plugins": [{"name": "network-topology-aware"}]}]
    tree["configurations"] = [{"name": "allocate", "arguments": {"allocate.backfill": "easy"}}]
    outcome = run.simulate(pictures.documents(NEAR), running.policy_of(tree), Options(cycles=3))
    (promise,) = outcome.last.carried.reservations
    assert (promise.job, promise.start) == ("default/near", pictures.BORN.timestamp() + 900)
    assert {node for _, node in promise.nodes} == {"n1", "n2"}


def test_what_is_left_over_at_that_time_is_for_anybody() -> None:
    """On a node that the large job doesn't need, others may run for ever."""
    outcome = simulated(PICTURE.replace("node n2 cpu=2", "node n2 cpu=2 node n3 cpu=1"))
    assert bound(outcome) == {"short", "long"}
    (promise,) = outcome.last.carried.reservations
    assert promise.job == "default/big"


def test_a_promise_is_for_nodes_and_an_instant() -> None:
    """Where the running pods have ended by their limits; the next cycle knows it."""
    (promise,) = simulated(PICTURE, cycles=1).last.carried.reservations
    assert (promise.job, promise.start) == ("default/big", pictures.BORN.timestamp() + 600)
    assert {node for _, node in promise.nodes} == {"n1", "n2"}
    assert simulated(PICTURE, cycles=5).last.carried.reservations == (promise,)


@pytest.mark.parametrize("gone", ["n1", "big-3"])
def test_a_promise_is_planned_anew_if_what_it_rests_on_is_gone(gone: str) -> None:
    """A node, or a pod of the job; without them it can't start."""
    documents = pictures.documents(PICTURE)
    rules = policy("easy")
    given = run.read(documents, rules, Options())
    first = cycle.run_cycle(given.mirror.snapshot(given.now, FRESH), rules)
    assert first.carried.reservations
    left = [
        each
        for each in documents
        if gone not in (each["metadata"]["name"], each.get("spec", {}).get("nodeName"))
    ]
    later = run.read(left, rules, Options(now=given.now + 1))
    after = cycle.run_cycle(later.mirror.snapshot(later.now, first.carried), rules)
    assert after.carried.reservations == ()


def test_promises_that_still_hold_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the node of a later one is lost, and few instants are looked at."""
    documents = pictures.documents(f"""
        node  n1 cpu=2   node n2 cpu=2   node n3 cpu=2
        queue q
        job   q/a scheduled=600 {RUN_TIME}=20m cpu=2 n1
        job   q/b scheduled=600 {RUN_TIME}=25m cpu=1 n2
        job   q/c scheduled=600 {RUN_TIME}=30m cpu=1 n2
        job   q/d scheduled=600 {RUN_TIME}=40m cpu=2 n3
        job   q/first age=50 {RUN_TIME}=1h cpu=2 -
        job   q/second age=40 {RUN_TIME}=1h cpu=2 -
        job   q/third age=30 {RUN_TIME}=1h cpu=2 -
        """)
    rules = policy("conservative")
    given = run.read(documents, rules, Options())
    before = cycle.run_cycle(given.mirror.snapshot(given.now, FRESH), rules).carried.reservations
    assert [node for each in before for _, node in each.nodes] == ["n1", "n2", "n3"]
    left = [
        each
        for each in documents
        if "n3" not in (each["metadata"]["name"], each.get("spec", {}).get("nodeName"))
    ]
    later = run.read(left, rules, Options(now=given.now + 1))
    carried = dataclasses.replace(FRESH, reservations=before)
    monkeypatch.setattr(availability, "INSTANTS_MAX", 2)
    after = cycle.run_cycle(later.mirror.snapshot(later.now, carried), rules).carried.reservations
    assert after[:2] == before[:2]


def test_a_promised_start_survives_fairness() -> None:
    """When the time has come, the job starts although its queue deserves less by then."""
    picture = f"""
        node  n1 cpu=4
        queue q   queue r
        job   q/busy scheduled=600 {RUN_TIME}=20m n1 n1
        job   q/big min=4 age=50 - - - -
    """
    rules = policy("easy", "allocate")
    given = run.read(pictures.documents(picture), rules, Options())
    first = cycle.run_cycle(given.mirror.snapshot(given.now, FRESH), rules)
    (promise,) = first.carried.reservations
    others = picture.replace("n1 n1", "").replace(f"job   q/busy scheduled=600 {RUN_TIME}=20m", "")
    others += "job r/other min=2 age=10 - -"
    later = run.read(pictures.documents(others), rules, Options(now=promise.start))
    after = cycle.run_cycle(later.mirror.snapshot(later.now, first.carried), rules)
    assert {bind.task.job for bind in after.binds} == {"default/big"}
