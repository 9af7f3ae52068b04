from typing import Any, TypeAlias

import pytest

from vscheduler.mirror import queue_status
from vscheduler.model import refusals
from vscheduler.model.decisions import Basis, Entitlement, Exclusion, LimitedBy, QueueFigures
from vscheduler.model.queues import ProblemCode, QueueProblem, QueueState
from vscheduler.model.refusals import Refusal, RefusalCode

GI = 2**30
Bound = LimitedBy
Code = RefusalCode
Counted: TypeAlias = tuple[Refusal | str, int]
TAINT = Refusal(Code.TAINT, "node-role.kubernetes.io/control-plane")


def basis(deserved: float, usable: float, bound: Bound = Bound.WEIGHT, **more: Any) -> Any:
    """How an amount came about, for a queue of weight 1 of 3."""
    given = {"weight": 1, "weights": 3} | more
    return Basis(deserved=deserved, usable=usable, bound=bound, **given)


def figures(request: dict[str, float], **bases: Basis) -> QueueFigures:
    """A queue that asks for this; resources of other names than cpu are given by a mapping."""
    return QueueFigures(
        name="q",
        state=QueueState.OPEN,
        weight=1,
        allocated={},
        request=request,
        entitlement=Entitlement(
            deserved={name: each.deserved for name, each in bases.items()}, bases=bases
        ),
    )


def excluded(*found: Counted) -> tuple[Exclusion, ...]:
    """Nodes that are left out, so many for each reason."""
    return tuple(
        Exclusion(refusal=refusals.of(refusal), nodes=tuple(f"n{n}" for n in range(1, count + 1)))
        for refusal, count in found
    )


def said(queue: QueueFigures, *left_out: Counted) -> tuple[str, str]:
    """Reason and message."""
    found = queue_status.explanation(queue, excluded(*left_out))
    assert found is not None
    return found.reason, found.message


ASKS = {"cpu": 99_000.0}
THIRD = basis(25_000, 75_000)
SENTENCES: dict[str, tuple[dict[str, Basis], str, str]] = {
    "by weight": ({"cpu": THIRD}, "Weight", "25 of 75 usable CPU: weight 1 of 3 that want more"),
    "by nobody's but its own weight": (
        {"cpu": basis(70_000, 75_000, weights=1)},
        "Weight",
        "70 of 75 usable CPU: all that others leave",
    ),
    "a fraction": (
        {"cpu": basis(100_000 / 3, 100_000)},
        "Weight",
        "33.333 of 100 usable CPU: weight 1 of 3 that want more",
    ),
    "by what it asks for": (
        {"cpu": basis(5000, 75_000, Bound.REQUEST)},
        "Request",
        "5 of 75 usable CPU: all that it asks for",
    ),
    "by its capability": (
        {"cpu": basis(10_000, 75_000, Bound.CAPABILITY)},
        "Capability",
        "10 of 75 usable CPU: its capability",
    ),
    "by root's capability": (
        {"cpu": basis(20_000, 75_000, Bound.ROOT)},
        "RootCapability",
        "20 of 75 usable CPU: root's capability is shared by weight 1 of 3 that want more",
    ),
    "by root's capability alone": (
        {"cpu": basis(60_000, 75_000, Bound.ROOT, weights=1)},
        "RootCapability",
        "60 of 75 usable CPU: root's capability",
    ),
    "by its guarantee": (
        {"cpu": basis(40_000, 75_000, guaranteed=True)},
        "Weight",
        "40 of 75 usable CPU: weight 1 of 3 that want more; raised to its guarantee",
    ),
    "by its guarantee alone": (
        {"cpu": basis(40_000, 75_000, guaranteed=True, weights=1)},
        "Weight",
        "40 of 75 usable CPU: its guarantee",
    ),
    "by a guarantee above what it asks for": (
        {"cpu": basis(40_000, 75_000, Bound.REQUEST, guaranteed=True)},
        "Request",
        "40 of 75 usable CPU: its guarantee, more than it asks for",
    ),
    "with pods on nodes that are lost": (
        {"cpu": basis(25_000, 75_000, pinned=10_000)},
        "Weight",
        (
            "25 of 75 usable CPU: weight 1 of 3 that want more; "
            "10 of it on nodes that take no more pods"
        ),
    ),
    "another resource that it gets less of than it asks for": (
        {"cpu": THIRD, "memory": basis(60 * GI, 200 * GI, Bound.CAPABILITY)},
        "Weight",
        "25 of 75 usable CPU: weight 1 of 3 that want more; memory 60Gi of 200Gi: its capability",
    ),
    "another resource of which it gets all": (
        {"cpu": THIRD, "memory": basis(60 * GI, 200 * GI, Bound.REQUEST)},
        "Weight",
        "25 of 75 usable CPU: weight 1 of 3 that want more",
    ),
    "the larger part leads": (
        {"cpu": THIRD, "nvidia.com/gpu": basis(4, 8, Bound.REQUEST)},
        "Request",
        (
            "4 of 8 usable nvidia.com/gpu: all that it asks for; "
            "CPU 25 of 75: weight 1 of 3 that want more"
        ),
    ),
    "of equal parts cpu leads, then memory": (
        {
            "example.com/a": basis(1, 3),
            "memory": basis(2 * GI / 3, 2 * GI),
            "cpu": basis(1e5 / 3, 1e5, Bound.CAPABILITY),
        },
        "Capability",
        (
            "33.333 of 100 usable CPU: its capability; "
            "memory 699051Ki of 2Gi: weight 1 of 3 that want more; "
            ""
            "example.com/a 1 of 3: weight 1 of 3 that want more"
        ),
    ),
    "places for pods are nothing": (
        {"pods": basis(30, 30), "cpu": THIRD},
        "Weight",
        "25 of 75 usable CPU: weight 1 of 3 that want more",
    ),
    "what no usable node has": (
        {"nvidia.com/gpu": basis(0, 0, weights=1)},
        "Weight",
        "no nvidia.com/gpu on any node that its pods could use",
    ),
    "a second one that no usable node has": (
        {"cpu": THIRD, "nvidia.com/gpu": basis(0, 0)},
        "Weight",
        (
            "25 of 75 usable CPU: weight 1 of 3 that want more; "
            "no nvidia.com/gpu on any node that its pods could use"
        ),
    ),
    "all of it on nodes that are lost": (
        {"cpu": basis(5000, 0, Bound.REQUEST, pinned=5000)},
        "Request",
        "5 of 0 usable CPU: all that it asks for; 5 of it on nodes that take no more pods",
    ),
}


@pytest.mark.parametrize(("bases", "reason", "message"), SENTENCES.values(), ids=SENTENCES)
def test_a_sentence_says_how_a_share_came_about(
    bases: dict[str, Basis], reason: str, message: str
) -> None:
    """One for each thing that can bind a queue; what binds by request deserves all of it."""
    deserved = {name: each.deserved for name, each in bases.items()}
    asked = deserved if reason == "Request" else ASKS
    assert said(figures(asked, **bases)) == (reason, message)


EXCLUSIONS: dict[str, tuple[list[Counted], str]] = {
    "a taint": ([(TAINT, 1)], "n1 not usable: taint node-role.kubernetes.io/control-plane"),
    "a taint with a value": (
        [(Refusal(Code.TAINT, "gpu", "true"), 2)],
        "n1 and n2 not usable: taint gpu=true",
    ),
    "cordoned": ([(Refusal(Code.CORDONED), 5)], "n1, n2 and 3 more not usable: cordoned"),
    "not ready": ([(Refusal(Code.NOT_READY), 1)], "n1 not usable: not ready"),
    "a selector": (
        [(Refusal(Code.NODE_AFFINITY), 1)],
        "n1 not usable: not selected by any pod",
    ),
    "a feature": (
        [(Refusal(Code.FEATURES), 1)],
        "n1 not usable: without features that pods need",
    ),
    "of a plugin": (
        [(Refusal(Code.CUSTOM, "node(s) were reserved", "reserved"), 1)],
        "n1 not usable: reserved",
    ),
    "other words": ([("maintenance", 1)], "n1 not usable: maintenance"),
    "two kinds": (
        [(Refusal(Code.NOT_READY), 3), (TAINT, 1)],
        (
            "n1, n2 and 1 more not usable: not ready; "
            "n1 not usable: taint node-role.kubernetes.io/control-plane"
        ),
    ),
    "more kinds": (
        [("a", 1), ("b", 1), ("c", 1), ("d", 2)],
        "n1 not usable: a; n1 not usable: b; 3 more nodes not usable",
    ),
    "one more": (
        [("a", 1), ("b", 1), ("c", 1)],
        "n1 not usable: a; n1 not usable: b; 1 more node not usable",
    ),
}


@pytest.mark.parametrize(("left_out", "words"), EXCLUSIONS.values(), ids=EXCLUSIONS)
def test_nodes_that_are_left_out_are_named(left_out: list[Counted], words: str) -> None:
    """Two kinds and two names of each, the others counted."""
    _, message = said(figures(ASKS, cpu=THIRD), *left_out)
    assert message == f"25 of 75 usable CPU: weight 1 of 3 that want more; {words}"


def test_the_log_has_every_kind() -> None:
    """With the number of nodes and two of their names."""
    found = excluded((Refusal(Code.CORDONED), 3), (TAINT, 1), ("x", 1))
    assert queue_status.left_out(found) == [
        "cordoned: 3 nodes, e.g. n1, n2",
        "taint node-role.kubernetes.io/control-plane: 1 node, e.g. n1",
        "x: 1 node, e.g. n1",
    ]


IDLE: dict[str, tuple[QueueFigures, str]] = {
    "no jobs": (figures({}), "asks for nothing"),
    "pods of no size": (
        figures({"pods": 2}, pods=basis(2, 9, Bound.REQUEST)),
        "asks for nothing but places for pods",
    ),
    "a guarantee": (
        figures({}, cpu=basis(10_000, 75_000, Bound.REQUEST, guaranteed=True)),
        "10 CPU are kept for it: its guarantee",
    ),
    "a small guarantee": (
        figures({}, cpu=basis(1000, 75_000, guaranteed=True)),
        "1 CPU is kept for it: its guarantee",
    ),
    "a guarantee of two resources": (
        figures(
            {},
            memory=basis(GI, 9 * GI, guaranteed=True),
            pods=basis(4, 9, guaranteed=True),
            cpu=basis(2000, 75_000, guaranteed=True),
        ),
        "2 CPU and 1Gi memory are kept for it: its guarantee",
    ),
    "a guarantee that nothing is there for": (
        figures({}, cpu=basis(0, 0, guaranteed=True)),
        "asks for nothing",
    ),
}


@pytest.mark.parametrize(("queue", "message"), IDLE.values(), ids=IDLE)
def test_a_queue_that_asks_for_nothing_says_so(queue: QueueFigures, message: str) -> None:
    """And what is kept for it; nodes are of no interest to it."""
    assert said(queue, (TAINT, 1)) == ("NoRequest", message)


def test_groups_whose_pods_are_still_to_come_ask_for_something() -> None:
    """What is deserved for them isn't a guarantee."""
    queue = figures({}, cpu=basis(4000, 75_000, Bound.REQUEST))
    assert said(queue) == ("Request", "4 of 75 usable CPU: all that it asks for")


def test_a_queue_that_is_set_aside_says_what_is_to_be_done() -> None:
    """Its share is of no interest."""
    missing = QueueProblem(code=ProblemCode.PARENT_MISSING, queue="q", subjects=("p",))
    queue = QueueFigures(
        name="q",
        state=QueueState.OPEN,
        weight=1,
        allocated={},
        request=ASKS,
        entitlement=Entitlement(deserved={}, problem=missing, bases={"cpu": THIRD}),
    )
    assert said(queue, (TAINT, 1)) == (
        "QueueSetAside",
        "parent p of queue q doesn't exist; create it, or correct spec.parent",
    )


@pytest.mark.parametrize(
    "entitlement",
    [
        None,
        Entitlement(deserved={"cpu": 25_000}),
        Entitlement(deserved={}, share=0.5),
    ],
)
@pytest.mark.parametrize("request_", [{}, ASKS])
def test_where_no_plugin_says_nothing_is_said(
    entitlement: Entitlement | None, request_: dict[str, float]
) -> None:
    """A guess would be worse."""
    queue = QueueFigures(
        name="q",
        state=QueueState.OPEN,
        weight=1,
        allocated={},
        request=request_,
        entitlement=entitlement,
    )
    assert queue_status.explanation(queue) is None


def test_a_sentence_is_never_too_long() -> None:
    """Names of nodes and taints may have hundreds of characters."""
    long = Exclusion(refusal=Refusal(Code.TAINT, "k" * 300, "v"), nodes=("n" * 250,))
    found = queue_status.explanation(figures(ASKS, cpu=THIRD), (long,))
    assert found is not None
    assert len(found.message) == 300
    assert found.message.startswith("25 of 75 usable CPU: weight 1 of 3 that want more; nnn")
    assert found.message.endswith("…")
