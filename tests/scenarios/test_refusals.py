"""Nodes that are left alone since a kubelet refused a pod: who waits, who doesn't, until when."""

import datetime as dt
from typing import Any

import pytest

from tests import running
from tests.scenarios.sharing import BUILT_IN, deserved
from tests.unit.mirror import manifests
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

NOW = pictures.NOW.timestamp()


def refusal(node: str, seconds_ago: float = 12, reason: str = "OutOfcpu") -> Document:
    """A pod of ours that this node's kubelet refused."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"refused-{node}", "namespace": "default", "uid": f"refused-{node}"},
        "spec": {"schedulerName": "vscheduler", "nodeName": node, "containers": [{"name": "a"}]},
        "status": {
            "phase": "Failed",
            "reason": reason,
            "startTime": dt.datetime.fromtimestamp(NOW - seconds_ago, dt.UTC).isoformat(),
        },
    }


def cycle(picture: str, *more: Document, tree: Any = BUILT_IN, later: float = 0.0) -> CycleResult:
    """One cycle, so much later than the picture."""
    seen = manifests.mirror(*pictures.documents(picture), *more)
    return running.decide(seen.snapshot(NOW + later), tree)


def nodes(result: CycleResult) -> dict[str, str]:
    """Who is bound where."""
    return {bind.task.name: bind.node for bind in result.binds}


TWO = "node n1 cpu=8 node n2 cpu=2 queue q job q/j {} -*2"


def test_others_take_the_pods_and_the_node_is_tried_again_when_the_pause_is_over() -> None:
    """The cycle wakes then, as a pod still waits."""
    first = cycle(TWO.format("min=1 cpu=2"), refusal("n1"))
    assert nodes(first) == {"j-0": "n2"}
    assert first.wake_at == NOW + 18
    later = cycle(TWO.format("min=1 cpu=2"), refusal("n1"), later=18)
    assert nodes(later) == {"j-0": "n1", "j-1": "n1"}
    assert later.wake_at is None


def test_where_nothing_waits_nothing_wakes() -> None:
    """A cluster at rest has no cycle for a pause's sake."""
    assert cycle("node n1 cpu=8 queue q job q/j n1", refusal("n1")).wake_at is None


@pytest.mark.parametrize("tiers", [BUILT_IN["tiers"], [{"plugins": [{"name": "gang"}]}]])
def test_it_holds_whatever_is_configured_and_says_why(tiers: Any) -> None:
    """No plugin has to be there for it; a sentence without running seconds, written once."""
    tree = {"actions": "allocate", "tiers": tiers}
    result = cycle("node n1 cpu=8 queue q job q/j cpu=2 -", refusal("n1"), tree=tree)
    assert result.binds == ()
    (group,) = result.groups
    assert group.reason is not None
    assert sentences.sentence(group.reason) == (
        "needs 2 cpu; 0/1 node is available: "
        "1 node(s) were left alone for 30 s, as a kubelet refused a pod (OutOfcpu)"
    )


def test_a_pause_is_no_reason_to_say_that_the_pod_never_fits() -> None:
    """The largest node is only left alone for a while."""
    result = cycle("node n1 cpu=8 node n2 cpu=2 queue q job q/j cpu=4 -", refusal("n1"))
    (group,) = result.groups
    assert group.reason is not None
    assert group.reason.code is ReasonCode.NO_ROOM


def test_nobody_is_evicted_from_a_node_that_is_left_alone() -> None:
    """Room there would be of no use for now; without the refusal there is a victim."""
    picture = "node n1 cpu=4 queue a queue b job a/old n1*4 job b/new -"
    assert len(cycle(picture).evicts) == 1
    assert cycle(picture, refusal("n1")).evicts == ()


def test_a_node_that_is_left_alone_is_still_shared() -> None:
    """Shares don't move for half a minute's sake."""
    picture = "node n1 cpu=8 node n2 cpu=8 queue a queue b job a/a n1*8 job b/b -*8"
    assert deserved(cycle(picture, refusal("n1"))) == deserved(cycle(picture))


def test_a_gang_that_needs_the_node_waits_whole() -> None:
    """It doesn't start with what fits elsewhere."""
    assert cycle(TWO.format("min=2 cpu=2"), refusal("n1")).binds == ()
