"""What another setting of a queue would do, compared with what happens anyway."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests import running
from tests.web import clusters
from vscheduler.explain import what_if
from vscheduler.explain.what_if import Comparison, Loss
from vscheduler.model.jobs import JobId
from vscheduler.simulator.run import Options

NOW = float(int(time.time()))
POLICY = running.policy_of(
    {
        "actions": "enqueue, allocate, backfill, reclaim",
        "tiers": running.tiers("priority gang conformance | overcommit drf predicates proportion"),
    }
)
OPTIONS = Options(now=NOW)


def two_queues() -> list[dict[str, Any]]:
    """Speech has both nodes; half of it is what it deserves, and vision's pods wait."""
    found = [clusters.node(f"n{at}", cpu="8", memory="32Gi") for at in range(2)]
    found += [clusters.queue("vision"), clusters.queue("speech", reclaimable=False)]
    found += [
        document
        for at in range(16)
        for document in clusters.job(
            "speech", f"serve-{at:02}", 1, on=(f"n{at // 8}",), created=NOW - 900 + at
        )
    ]
    for at in range(10):
        found += clusters.job("vision", f"train-{at}", 1, created=NOW - 300 + at)
    return found


def compared(spec: dict[str, Any], queue: str = "speech") -> Comparison:
    """What a patch of the queue does."""
    found = what_if.compare(two_queues(), queue, spec, POLICY, OPTIONS)
    assert found is not None
    return found


def test_a_queue_that_lends_gives_back_what_others_deserve() -> None:
    """Eight pods, each for a job that starts; in words and for programs."""
    found = compared({"reclaimable": True})
    assert found.pods == 8
    assert len(found.starts) == len(found.stops) == 8
    assert {str(job).partition("/")[0] for job in found.starts} == {"vision"}
    assert {str(job).partition("/")[0] for job in found.stops} == {"speech"}
    assert found.settled
    assert not found.deserved
    said = what_if.lines(found)
    assert said[0] == "8 pods would be evicted:"
    assert said[1].startswith("  1 pod of speech/serve-")
    assert said[-2].startswith("jobs vision/train-0-0007, ")
    assert said[-2].endswith(" would start")
    tree = what_if.tree(found)
    assert sum(each["pods"] for each in tree["evicted"]) == 8
    assert tree["lines"] == said


def test_another_weight_changes_what_queues_deserve() -> None:
    """Nothing is evicted from a queue that doesn't give anything back."""
    found = compared({"weight": 3}, "vision")
    assert [(each.queue, each.resource, each.before, each.after) for each in found.deserved] == [
        ("speech", "cpu", 8000.0, 6000.0),
        ("vision", "cpu", 8000.0, 10000.0),
    ]
    assert found.pods == 0
    assert what_if.lines(found) == [
        "queue speech would deserve 6 instead of 8 cpu",
        "queue vision would deserve 10 instead of 8 cpu",
    ]


@pytest.mark.parametrize("spec", [{"weight": 1}, {"weight": None}, {"capability": {"cpu": "99"}}])
def test_what_makes_no_difference_changes_nothing(spec: dict[str, Any]) -> None:
    """Nor does what happens without the change count."""
    assert compared(spec) == Comparison()
    assert what_if.lines(Comparison()) == ["nothing would change"]


def test_evictions_that_happen_anyway_arent_counted() -> None:
    """They are spared by a change that forbids them."""
    documents: Sequence[dict[str, Any]] = two_queues()
    for each in documents:
        if each["kind"] == "Queue":
            each["spec"].pop("reclaimable", None)
    same = what_if.compare(documents, "speech", {"weight": 1}, POLICY, OPTIONS)
    assert same == Comparison()
    found = what_if.compare(documents, "speech", {"reclaimable": False}, POLICY, OPTIONS)
    assert found is not None
    assert (found.pods, sum(loss.pods for loss in found.spares)) == (0, 8)
    assert what_if.lines(found)[0] == "8 pods would no longer be evicted:"
    assert what_if.compare(documents, "missing", {"weight": 2}, POLICY, OPTIONS) is None


def test_long_lists_are_cut_in_words_only() -> None:
    """And what isn't settled is said."""
    many = tuple(JobId(f"a/j{at:02}") for at in range(12))
    lost = tuple(Loss(job=job, beneficiary="", pods=2) for job in many)
    said = what_if.lines(Comparison(evicts=lost, starts=many[:1], settled=False))
    assert said[0] == "24 pods would be evicted:"
    assert said[1] == "  2 pods of a/j00"
    assert said[11] == "  and those of 2 more jobs"
    assert said[12:] == [
        "job a/j00 would start",
        "more would happen after the 8 cycles that were simulated",
    ]
    said = what_if.lines(replace(Comparison(), stops=many))
    assert said[0].endswith("a/j09 and 2 more would wait in the end")
    assert len(what_if.tree(Comparison(stops=many))["stops"]) == 12
