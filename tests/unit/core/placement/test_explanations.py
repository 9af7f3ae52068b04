import pytest

from tests import running
from vscheduler.model.decisions import ReasonCode
from vscheduler.testing import pictures

NEVER, NO_ROOM = ReasonCode.NEVER_FITS, ReasonCode.NO_ROOM
Most = set[tuple[str, int, str]]

TABLE: dict[str, tuple[str, str, ReasonCode, Most]] = {
    "larger than the largest": (
        "node n1 cpu=2 gpu=1   node n2 cpu=4",
        "cpu=5 gpu=1",
        NEVER,
        {("cpu", 4000, "n2")},
    ),
    "on no node is there enough of both": (
        "node n1 cpu=4 memory=1   node n2 cpu=1 memory=4",
        "cpu=4 memory=4",
        NEVER,
        {("cpu", 4000, "n1"), ("memory", 4, "n2")},
    ),
    "it would fit if others went": (
        "node n1 cpu=2   job q/r n1*2",
        "cpu=2",
        NO_ROOM,
        {("cpu", 0, "n1")},
    ),
    "larger ones are not for it": (
        "node n1 cpu=2   node n2 cpu=9 cordoned   node n3 cpu=9 label=zone=b taint=a=b:NoSchedule",
        "cpu=3",
        NEVER,
        {("cpu", 2000, "n1")},
    ),
    "a larger one has its port taken": (
        "node n1 cpu=2   node n2 cpu=9   job q/r port=80 n2*1",
        "cpu=3 port=80",
        NO_ROOM,
        {("cpu", 2000, "n1")},
    ),
    "no node is for it at all": ("node n1 cpu=2 cordoned", "cpu=3", NO_ROOM, set()),
    "nothing that this node has": ("node n1 cpu=2", "gpu=1", NEVER, {("nvidia.com/gpu", 0, "n1")}),
}


@pytest.mark.parametrize(("nodes", "asks", "code", "most"), TABLE.values(), ids=TABLE)
def test_what_can_never_fit_is_told_apart(
    nodes: str, asks: str, code: ReasonCode, most: Most
) -> None:
    """And the most that there is of what is too little everywhere."""
    documents = pictures.documents(f"queue q {nodes} job q/p {asks} -")
    tree = {"actions": "allocate", "tiers": running.tiers("gang | predicates")}
    (reason,) = [
        group.reason for group in running.run(documents, tree).groups if group.job == "default/p"
    ]
    assert reason is not None
    assert reason.code is code
    assert {(hole.resource, hole.free, hole.node) for hole in reason.holes} >= most
    if code is NEVER:
        assert len(reason.holes) == len(most)


def test_what_is_past_is_not_due_again() -> None:
    """The first instant that is still to come."""
    opened = running.open_session(pictures.documents("queue q"), running.TREE)
    now = opened.snapshot.now
    for at in (now - 1, now):
        opened.wake(at)
        assert opened.decided.wake_at is None
    for at in (now + 5, now + 2, now + 9):
        opened.wake(at)
    assert opened.decided.wake_at == now + 2
