"""Gangs in domains that HyperNodes describe, while these change."""

from typing import Any

import pytest

from tests import running
from tests.running import Document
from tests.unit.core.placement.unschedulable_cluster import Around
from vscheduler.testing import pictures

TREE = {
    "actions": "enqueue, allocate",
    "tiers": running.tiers("priority gang | predicates nodeorder network-topology-aware"),
}
NODES = "\n".join(
    f"node r{rack}-n{number} cpu=2 label=rack=r{rack}" for rack in (1, 2, 3) for number in (1, 2)
)
GANG = "  queue q   job q/train min=4 cpu=2 topology=hard:2 -*4"
RACKS = """
    hypernode r1 called=rack nodes=r1-n1,r1-n2
    hypernode r2 called=rack pattern=^r2-
    hypernode r3 called=rack label=rack=r3
"""


def starts(around: Around) -> list[str]:
    """The nodes on which pods start in the next cycle."""
    return sorted(bind.node for bind in around.cycle().binds)


def drawn(picture: str) -> list[Document]:
    """The HyperNodes of a picture."""
    return pictures.documents(picture)


@pytest.mark.parametrize("second", ["r2", "r3"])
def test_a_gang_waits_for_a_domain_and_starts_once_it_is_described(second: str) -> None:
    """Nobody knows what a spine is, until there is one."""
    around = Around(NODES + RACKS + GANG.replace("hard:2", "hard:spine"), TREE)
    assert starts(around) == starts(around) == []
    (spine,) = drawn(f"hypernode s1 tier=2 called=spine children=r1,{second}")
    around.show(spine)
    assert starts(around) == ["r1-n1", "r1-n2", f"{second}-n1", f"{second}-n2"]


def test_a_gang_starts_once_its_domain_has_another_member() -> None:
    """And not before, whatever else is added."""
    around = Around(NODES + RACKS + "hypernode s1 tier=2 children=r1" + GANG, TREE)
    assert starts(around) == starts(around) == []
    around.show(drawn("hypernode x tier=1 nodes=elsewhere")[0])
    assert starts(around) == []
    around.change("HyperNode", "s1", spec=drawn("hypernode s1 tier=2 children=r1,r3")[0]["spec"])
    assert starts(around) == ["r1-n1", "r1-n2", "r3-n1", "r3-n2"]


def reasons(around: Around) -> list[Any]:
    """Why jobs wait after the next cycle."""
    return [str(each.reason and each.reason.code) for each in around.cycle().groups]


def test_a_gang_waits_again_when_the_last_hyper_node_goes() -> None:
    """It was waiting for room, and now nobody knows what is near."""
    around = Around(NODES + " hypernode r1 nodes=r1-n1" + GANG.replace("hard:2", "hard:1"), TREE)
    first = reasons(around)
    assert first == reasons(around) != ["NetworkTopologyUnknown"]
    around.remove("HyperNode", "r1")
    assert reasons(around) == ["NetworkTopologyUnknown"]


def test_a_gang_is_not_bothered_by_mistakes_elsewhere() -> None:
    """A child with two parents, and a member that doesn't exist."""
    wrong = """
        hypernode s1 tier=2 children=r1,r2   hypernode s2 tier=2 children=r3
        hypernode s3 tier=2 children=r3,r9
    """
    around = Around(NODES + RACKS + wrong + GANG, TREE)
    assert starts(around) == ["r1-n1", "r1-n2", "r2-n1", "r2-n2"]
