from typing import Any

from tests import running
from tests.scenarios.deciding import bind, decide
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.testing import pictures

TIERS = "resource-strategy-fit | predicates"
SCARCE = {"enable": True, "resources": "nvidia.com/gpu", "weight": 5}
KEPT = {
    "enable": True,
    "resources": "nvidia.com/gpu",
    "resourceProportion": {"nvidia.com/gpu.cpu": 2, "nvidia.com/gpu.memory": 0},
}


def placed(picture: str, **arguments: Any) -> list[tuple[str, str]]:
    """Where pods go with these arguments."""
    plugin = {"name": "resource-strategy-fit", "arguments": arguments}
    tiers = [{"plugins": [plugin]}, *running.tiers("predicates")]
    result = running.run(pictures.documents(picture), {"actions": "allocate", "tiers": tiers})
    return [(bind.task.name, bind.node) for bind in result.binds]


def test_pods_spread_where_nothing_is_configured() -> None:
    """The node that is emptier in cpu and memory."""
    picture = """
        node  n1 cpu=4 memory=4Gi   node n2 cpu=4 memory=4Gi
        queue q
        job   q/old memory=1Gi n1
        job   q/new memory=1Gi -
        """
    assert decide(picture, "allocate", TIERS) == [bind("new-0", "n2")]


def test_one_resource_is_packed_and_another_spread() -> None:
    """Each by its weight."""
    picture = """
        node  n1 cpu=8 gpu=4   node n2 cpu=8 gpu=4
        queue q
        job   q/old cpu=2 gpu=1 n1
        job   q/new cpu=1 gpu=1 -
        """
    strategies = {
        "nvidia.com/*": {"type": "MostAllocated", "weight": 2},
        "cpu": {"type": "LeastAllocated", "weight": 1},
    }
    assert placed(picture, resources=strategies) == [("new-0", "n1")]
    heavier = strategies | {"cpu": {"type": "LeastAllocated", "weight": 9}}
    assert placed(picture, resources=heavier) == [("new-0", "n2")]


def test_a_pod_may_say_it_itself() -> None:
    """Its own strategy and weights replace those of the configuration."""
    picture = """
        node  n1 cpu=4   node n2 cpu=4
        queue q
        job   q/old n2
        job   q/new annotation=volcano.sh/resource-strategy-scoring-type=MostAllocated
                    annotation=volcano.sh/resource-strategy-weight={"cpu":1} -
        """
    assert decide(picture, "allocate", TIERS) == [bind("new-0", "n2")]


def test_ordinary_pods_leave_scarce_devices_alone() -> None:
    """They go to the node without any, though it is fuller."""
    picture = """
        node  n1 cpu=8 memory=1Gi gpu=1   node n2 cpu=8 memory=1Gi
        queue q
        job   q/old cpu=4 n2
        job   q/new -
        """
    assert placed(picture) == [("new-0", "n1")]
    assert placed(picture, sra=SCARCE, resourceStrategyFitWeight=1) == [("new-0", "n2")]
    assert placed(picture, sra=SCARCE | {"enable": False}) == [("new-0", "n1")]


def test_free_devices_keep_their_cores() -> None:
    """Two cores for the free device; pods that use devices aren't held back."""
    picture = """
        node  n1 cpu=4 gpu=2
        queue q
        job   q/old cpu=1 gpu=1 n1
        job   q/new min=0 -*3
        """
    assert placed(picture, proportional=KEPT) == [("new-0", "n1")]
    assert len(placed(picture)) == 3
    devices = picture.replace("min=0 -*3", "min=0 cpu=3 gpu=1 -")
    assert placed(devices, proportional=KEPT) == [("new-0", "n1")]


def test_it_says_which_device_the_room_is_kept_for() -> None:
    """And that a node without such devices keeps nothing."""
    picture = """
        node  n1 cpu=2 gpu=1   node n2 cpu=0
        queue q
        job   q/new -
        """
    plugin = {"name": "resource-strategy-fit", "arguments": {"proportional": KEPT}}
    tree = {"actions": "allocate", "tiers": [{"plugins": [plugin]}]}
    (status,) = running.run(pictures.documents(picture), tree).groups
    assert status.reason is not None
    refused = Refusal(RefusalCode.OUT_OF_PROPORTION, "nvidia.com/gpu")
    assert dict(status.reason.refusals)[refused] == 1
