"""Groups that no room on any node would be enough for: not let in, told so, tried again."""

import pytest

from tests import running
from tests.scenarios.admitting import TIERS, cycles, phases, reasons
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import ReasonCode
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

NEVER, NO_ROOM = ReasonCode.NEVER_FITS, ReasonCode.NO_ROOM
SHARE, CLOSED = ReasonCode.QUEUE_OVER_SHARE, ReasonCode.QUEUE_CLOSED
FULL = ReasonCode.QUEUE_FULL

OUT = {
    "a pod is larger than any node": (
        "node n1 cpu=2 queue q job q/a phase=Pending cpu=4 -",
        NEVER,
    ),
    "no node has such a device": (
        "node n1 cpu=2 queue q job q/a phase=Pending gpu=1 -",
        NEVER,
    ),
    "what it is to be promised is more than there is, and it has no pods yet": (
        "node n1 cpu=2 queue q job q/a phase=Pending minresources=gpu:2",
        NEVER,
    ),
    "the sum is smaller than the cluster, but nodes hold one pod each": (
        """
        node n1 cpu=8 node n2 cpu=8
        queue q   job q/a phase=Pending min=3 cpu=5 -*3
        """,
        NEVER,
    ),
    "pods of two sizes, of which the cheapest three are too much together": (
        """
        node n1 cpu=4 node n2 cpu=3
        queue q   job q/a phase=Pending min=3 - -@3 -@4 -@4
        """,
        NEVER,
    ),
    "one role has no node": (
        """
        node n1 cpu=4
        queue q   job q/a phase=Pending min=2 roles=m:1,w:1 m:-@9 w:- w:- w:-
        """,
        NEVER,
    ),
    "one role has too few seats": (
        """
        node n1 cpu=4
        queue q   job q/a phase=Pending min=3 roles=m:2,w:1 m:-@3 m:-@3 w:- w:-
        """,
        NEVER,
    ),
    "what runs doesn't help, as the rest has no node": (
        "node n1 cpu=4 queue q job q/a phase=Pending min=2 +n1 -@5",
        NEVER,
    ),
    "no node has the label": (
        "node n1 cpu=4 queue q job q/a phase=Pending select=pool=gpu -",
        NO_ROOM,
    ),
    "all nodes that it may use are too small": (
        """
        node n1 cpu=4 label=pool=gpu   node n2 cpu=9
        queue q   job q/a phase=Pending cpu=5 select=pool=gpu -
        """,
        NEVER,
    ),
    "its queue has had its share, too": (
        """
        node n1 cpu=4
        queue q   queue r   job q/runs n1*4   job r/waits -*4
        job q/a phase=Pending cpu=5 -
        """,
        NEVER,
    ),
    "its queue isn't open, which no node changes": (
        "node n1 cpu=2 queue q state=Closed job q/a phase=Pending cpu=4 -",
        CLOSED,
    ),
    "its queue may never have so much, which no node changes": (
        "node n1 cpu=2 queue q capability=cpu:3 job q/a phase=Pending minresources=cpu:4 cpu=4 -",
        SHARE,
    ),
    "it has no pods yet, and its queue may never have so much": (
        "node n1 cpu=9 queue q capability=cpu:3 job q/a phase=Pending minresources=cpu:4",
        FULL,
    ),
    "a full queue, which wouldn't help if it were empty": (
        """
        node n1 cpu=4   queue q capability=cpu:4   job q/runs minresources=cpu:4 n1*4
        job q/a phase=Pending minresources=cpu:3 min=3 -@3 -@3 -@3
        """,
        SHARE,
    ),
}


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
@pytest.mark.parametrize(("picture", "code"), OUT.values(), ids=OUT)
def test_what_can_never_start_is_not_let_in(picture: str, code: ReasonCode, phase: str) -> None:
    """Nor does it keep its place where it was let in before."""
    if phase == "Inqueue" and (code not in (NEVER, NO_ROOM) or "minresources" in picture):
        return
    first, last = cycles(picture.replace("phase=Pending", f"phase={phase}"), 2)
    assert phases(first)["a"] == "Pending"
    assert [reasons(result)["a"] for result in (first, last)] == [code, code]


IN = {
    "its pods above the minimum have no node": (
        "node n1 cpu=2 queue q job q/a phase=Pending min=2 - - -@9",
        ["a-0", "a-1"],
    ),
    "the minimum is met by the smaller ones": (
        "node n1 cpu=2 queue q job q/a phase=Pending min=2 -@9 - -",
        ["a-1", "a-2"],
    ),
    "role minima above minMember are ignored": (
        "node n1 cpu=2 queue q job q/a phase=Pending min=1 roles=m:1,w:1 m:-@9 w:-",
        ["a-1"],
    ),
    "pods that are to come may be smaller": (
        "node n1 cpu=2 queue q job q/a phase=Pending min=2 -@9",
        [],
    ),
    "a gate may hide a pod that fits": (
        "node n1 cpu=2 queue q job q/a phase=Pending min=1 ! -@9",
        [],
    ),
    "nodes are full, but large enough": (
        "node n1 cpu=2 queue q job q/runs n1 job q/a phase=Pending min=2 -*2",
        [],
    ),
    "two nodes hold two pods each": (
        "node n1 cpu=4 node n2 cpu=5 queue q job q/a phase=Pending min=4 cpu=2 -*4",
        ["a-0", "a-1", "a-2", "a-3"],
    ),
    "it needs just what all nodes have": (
        "node n1 cpu=4 node n2 cpu=3 queue q job q/a phase=Pending min=2 -@4 -@3",
        ["a-0", "a-1"],
    ),
}


@pytest.mark.parametrize(("picture", "bound"), IN.values(), ids=IN)
def test_what_may_start_some_day_is_let_in(picture: str, bound: list[str]) -> None:
    """Only what is proved counts."""
    (result,) = cycles(picture)
    assert phases(result)["a"] == "Inqueue"
    assert [bind.task.name for bind in result.binds] == bound


BESIDE = """
    node  n1 cpu=2
    queue q
    job   q/big phase={} minresources=cpu:1 cpu=4 age=9 -
    job   q/ok  phase=Pending minresources=cpu:2 cpu=2 -
    """


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_it_keeps_nobody_out(phase: str) -> None:
    """Whose turn would have come after it starts, at once or in the next cycle."""
    results = cycles(BESIDE.format(phase), 2)
    assert [bind.task.name for result in results for bind in result.binds] == ["ok-0"]


def test_a_node_that_comes_lets_it_in() -> None:
    """Autoscalers see its pods meanwhile."""
    tree = {"actions": "enqueue, allocate", "tiers": running.tiers(TIERS)}
    documents = pictures.documents("node n1 cpu=2 queue q job q/a phase=Pending min=2 cpu=4 -*2")
    first = running.run_claimed(documents, tree, FRESH)
    (told,) = first.groups
    assert [task.name for task in told.unplaced] == ["a-0", "a-1"]
    assert told.reason is not None
    assert statuses.pod_reason(told.reason) == "Unschedulable"
    documents += pictures.documents("node n2 cpu=9")
    second = running.run_claimed(documents, tree, first.carried)
    assert {bind.node for bind in second.binds} == {"n2"}
    assert phases(second) == {"a": "Inqueue"}


def test_a_capability_says_so_where_no_node_would_help() -> None:
    """Four cpus of the three that its queue may have: autoscalers are not to add any."""
    (result,) = cycles(
        "node n1 cpu=3 queue p capability=cpu:3 job p/a phase=Pending min=2 cpu=2 -*2"
    )
    assert reasons(result) == {"a": SHARE}
    (result,) = cycles("node n1 cpu=3 queue p job p/a phase=Pending min=2 cpu=2 -*2")
    assert reasons(result) == {"a": NEVER}


def test_as_in_volcano_it_is_let_in() -> None:
    """With compatibility, and it keeps what it was promised."""
    first, second = cycles(BESIDE.format("Pending"), 2, compatibility="volcano")
    assert phases(first) == phases(second) == {"big": "Inqueue", "ok": "Pending"}


def test_without_anybody_who_asks_for_gangs_every_pod_starts_alone() -> None:
    """So one that fits is enough."""
    picture = "node n1 cpu=2 queue q job q/a phase=Pending min=2 -@9 -"
    tiers = running.tiers("predicates proportion")
    (result,) = cycles(picture, tiers=tiers)
    assert [bind.task.name for bind in result.binds] == ["a-1"]


SENTENCES = {
    "node n1 cpu=2 queue q job q/a phase=Pending gpu=1 -": (
        "a pod of 1 cpu and 1 nvidia.com/gpu may use no node that has nvidia.com/gpu; "
        "ask for less, or add nodes"
    ),
    "node n1 cpu=8 node n2 cpu=8 queue q job q/a phase=Pending min=4 cpu=5 n1 -*3": (
        "the nodes that it may use have room for at most 3 of 4 pods of 5 cpu, even when empty; "
        "ask for less, or add nodes"
    ),
    "node n1 cpu=5 queue q job q/a phase=Pending min=2 -@3 -@4": (
        "all nodes that it may use have 5 cpu, and it needs 7 cpu at least; "
        "ask for less, or add nodes"
    ),
    "node n1 cpu=2 queue q job q/a phase=Pending minresources=cpu:3,gpu:2": (
        "all nodes that it may use have 2 cpu and no nvidia.com/gpu, and it needs 3 cpu and "
        "2 nvidia.com/gpu at least; "
        "ask for less, or add nodes"
    ),
    "node n1 cpu=3 queue p capability=cpu:3 job p/a phase=Pending min=2 cpu=2 -*2": (
        "the nodes that it may use have room for at most 1 of 2 pods of 2 cpu, even when empty; "
        "queue p may have at most 3 cpu, and 2 pods need 4; ask for less, or raise the capability"
    ),
    "node n1 cpu=9 queue p capability=cpu:3 job p/a phase=Pending min=2 cpu=2 -*2": (
        "queue p may have at most 3 cpu, and 2 pods need 4; ask for less, or raise the capability"
    ),
    "node n1 cpu=9 queue q capability=cpu:3 job q/a phase=Pending minresources=cpu:4": (
        "not admitted: queue q may have at most 3 cpu; this job asks for 4 cpu (minResources); "
        "ask for less, or raise its capability"
    ),
}


@pytest.mark.parametrize(("picture", "sentence"), SENTENCES.items())
def test_the_reason_has_the_numbers(picture: str, sentence: str) -> None:
    """Of a share, or of promises, not a word."""
    (result,) = cycles(picture)
    (told,) = (group.reason for group in result.groups if group.reason)
    assert told is not None
    assert sentences.sentence(told) == sentence


@pytest.mark.parametrize(
    ("queues", "most", "advice"),
    [
        ("queue q", "3 cpu", ", or add nodes"),
        ("queue q capability=cpu:2", "2 cpu", ", or raise its capability"),
        (
            "queue q queue r guarantee=cpu:1",
            "2 cpu beside the 1 cpu kept for queue r by its guarantee",
            "",
        ),
    ],
)
def test_as_in_volcano_what_fills_the_queue_is_told(queues: str, most: str, advice: str) -> None:
    """A small cluster is a full queue as well; all ready nodes count, whoever may use them."""
    nodes = "node n1 cpu=2 node n2 cpu=1 taint=dedicated=lab:NoSchedule"
    picture = f"{nodes} {queues} job q/a phase=Pending minresources=cpu:4"
    (result,) = cycles(picture, compatibility="volcano")
    (reason,) = (group.reason for group in result.groups if group.reason)
    asks = "this job asks for 4 cpu (minResources); ask for less"
    text = f"not admitted: queue q may have at most {most}; {asks}{advice}"
    assert sentences.sentence(reason) == text


def test_as_in_volcano_no_queue_is_full_of_what_no_node_has() -> None:
    """Its limit is 0 then, and no capability that could be raised."""
    picture = "node n1 cpu=2 queue q job q/a phase=Pending minresources=gpu:4 job q/b min=1 gpu=1 -"
    tiers = running.tiers("priority gang | predicates capacity")
    (result,) = cycles(picture, tiers=tiers, compatibility="volcano")
    asks, needs = (sentences.sentence(group.reason) for group in result.groups if group.reason)
    assert asks.startswith("not admitted: the cluster is too small for queue q")
    assert needs == "queue q has 0 nvidia.com/gpu of the 0 there are to share; this pod needs 1"
