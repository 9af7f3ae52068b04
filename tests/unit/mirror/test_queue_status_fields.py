from typing import Any

import msgspec
import pytest

from vscheduler.mirror import queue_status
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model import queues
from vscheduler.model.decisions import Basis, Entitlement, Exclusion, LimitedBy, QueueFigures
from vscheduler.model.queues import QueueState
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.testing import pictures

GI = 2**30
BASIS = Basis(deserved=25_000, usable=75_000, bound=LimitedBy.WEIGHT, weight=1, weights=3)
FIGURES = QueueFigures(
    name="q",
    state=QueueState.OPEN,
    weight=1,
    allocated={"cpu": 24_000, "pods": 3},
    request={"cpu": 40_500, "pods": 5},
    used_by_other_schedulers={"cpu": 1000, "memory": GI},
    entitlement=Entitlement(
        deserved={"cpu": 25_000},
        real_capability={"cpu": 75_000, "memory": float("inf")},
        share=0.96,
        bases={"cpu": BASIS},
    ),
)
SAID = {
    "type": "mine/FairShare",
    "status": "True",
    "reason": "Weight",
    "message": "25 of 75 usable CPU: weight 1 of 3 that want more; n1 not usable: cordoned",
}
CORDONED = Exclusion(refusal=Refusal(RefusalCode.CORDONED), nodes=("n1",))
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def test_a_status_has_the_figures_and_why() -> None:
    """As Kubernetes quantities; pods of other schedulers are in what is allocated; no limit isn't
    written.
    """
    assert queue_status.status(FIGURES, (CORDONED,), "mine") == {
        "allocated": {"cpu": "25", "memory": "1Gi", "pods": "3"},
        "request": {"cpu": "40.5", "pods": "5"},
        "deserved": {"cpu": "25"},
        "realCapability": {"cpu": "75"},
        "share": 0.96,
        "schedulers": [
            {
                "name": "mine",
                "allocated": {"cpu": "24", "pods": "3"},
                "deserved": {"cpu": "25"},
                "share": 0.96,
            }
        ],
        "conditions": [SAID],
    }


def test_what_is_held_is_told_to_the_byte_and_what_is_owed_for_people() -> None:
    """A pod of 2,001 bytes counts, too; a share has no more digits than anybody reads."""
    odd = {"memory": 14 * GI + 2001}
    assert FIGURES.entitlement is not None
    basis = msgspec.structs.replace(FIGURES.entitlement, deserved=odd, real_capability=odd)
    figures = msgspec.structs.replace(
        FIGURES, allocated=odd, request=odd, used_by_other_schedulers={}, entitlement=basis
    )
    status = queue_status.status(figures, (), "mine")
    held = [status["allocated"], status["request"], status["schedulers"][0]["allocated"]]
    assert [each["memory"] for each in held] == ["15032387537"] * 3
    assert (status["deserved"]["memory"], status["realCapability"]["memory"]) == ("14Gi", "14Gi")


def test_what_no_plugin_works_out_is_not_written() -> None:
    """Nothing is made up; `allocated` is there, empty or not, as Volcano's CRD wants it."""
    queue = QueueFigures(name="q", state=QueueState.OPEN, weight=1, allocated={}, request={})
    assert queue_status.status(queue, (), "mine") == {
        "allocated": {"cpu": "0", "memory": "0"},
        "request": {},
    }


def test_inner_queues_have_what_is_below_them() -> None:
    """They deserve what their children do, unless they deserve something themselves: then the
    scheduler knows their share, too.
    """

    def queue(name: str, cpu: int, deserved: int, share: float) -> QueueFigures:
        return msgspec.structs.replace(
            FIGURES,
            name=name,
            allocated={"cpu": cpu} if cpu else {},
            request={"cpu": cpu} if cpu else {},
            entitlement=Entitlement(deserved={"cpu": deserved} if deserved else {}, share=share),
        )

    tree = queues.tree(
        {
            name: queues.Queue(name=name, uid=name, created=0, parent=parent)
            for name, parent in {"root": "", "org": "", "a": "org", "b": "org", "c": ""}.items()
        },
        {},
    )
    given = (
        *(queue("a", 8000, 4000, 2.0), queue("b", 1000, 1000, 1.0), queue("c", 1000, 2000, 0.5)),
        *(queue("org", 0, 6000, 1.5), queue("root", 0, 0, 0.0)),
    )
    found = {
        each.name: queue_status.status(each, (), "mine")
        for each in queue_status.with_subtrees(given, tree)
    }
    assert {name: (each["request"], each["share"]) for name, each in found.items()} == {
        "a": ({"cpu": "8"}, 2.0),
        "b": ({"cpu": "1"}, 1.0),
        "c": ({"cpu": "1"}, 0.5),
        "org": ({"cpu": "9"}, 1.5),
        "root": ({"cpu": "10"}, 1.25),
    }
    assert found["root"]["allocated"] == {"cpu": "15", "memory": "5Gi"}
    assert found["root"]["schedulers"] == [
        {"name": "mine", "allocated": {"cpu": "10"}, "deserved": {"cpu": "8"}, "share": 1.25}
    ]


@pytest.mark.parametrize(
    ("change", "since"),
    [
        ({}, "2020-02-02T02:02:02Z"),
        ({"message": "another"}, "2020-02-02T02:02:02Z"),
        ({"reason": "Request"}, "2026-01-01T00:00:00Z"),
        ({"status": "False"}, "2026-01-01T00:00:00Z"),
        ({"type": "theirs/FairShare"}, "2026-01-01T00:00:00Z"),
        ({"lastTransitionTime": None}, "2026-01-01T00:00:00Z"),
    ],
)
def test_a_condition_keeps_its_time_as_long_as_it_means_the_same(
    change: dict[str, Any], since: str
) -> None:
    """Other numbers in the message are no transition; others' conditions don't count."""
    before = {"conditions": [SAID | {"lastTransitionTime": "2020-02-02T02:02:02Z"} | change]}
    found = queue_status.since({"conditions": [SAID]}, before, NOW)
    assert found == {"conditions": [SAID | {"lastTransitionTime": since}]}


def test_a_first_condition_is_of_now() -> None:
    """And a status without one stays as it is."""
    timed = SAID | {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    for before in ({}, {"conditions": None}):
        found = queue_status.since({"conditions": [SAID]}, before, NOW)
        assert found == {"conditions": [timed]}
    assert queue_status.since({"allocated": {}}, {}, NOW) == {"allocated": {}}


def test_volcanos_crd_has_a_place_for_what_is_allocated() -> None:
    """And for nothing else that a scheduler works out."""
    whole = queue_status.status(FIGURES, (CORDONED,), "mine")
    assert queue_status.narrowed(whole) == {"allocated": whole["allocated"]}


def test_what_is_written_changes_nothing_that_a_decision_depends_on() -> None:
    """A status that comes back by the watch makes no cycle."""
    (document,) = pictures.documents("queue q")
    mirror = Mirror(Options(scheduler_names=("mine",)))
    before = events.convert(Kind.QUEUE, document)
    assert mirror.apply(before)
    status = queue_status.status(FIGURES, (CORDONED,), "mine")
    written = {**document, "status": document.get("status", {}) | status}
    assert not mirror.apply(events.convert(Kind.QUEUE, written))
