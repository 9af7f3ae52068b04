"""`vscheduler run --node-selector`: nodes come and go with their labels."""

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from tests.integration.daemons import Start
from vscheduler.mirror import paths


def label(cluster: ControlPlane, node: str, **labels: str | None) -> None:
    """Set labels of a node, or take them away (None)."""
    cluster.api.patch(f"{paths.NODES.everywhere}/{node}", {"metadata": {"labels": labels}})


def reason(cluster: ControlPlane, group: str) -> str:
    """Why a group waits; empty as long as nobody says."""
    found = daemons.conditions(cluster, group).get("Unschedulable", {"status": "False"})
    return found["message"] if found["status"] == "True" else ""


@pytest.mark.parametrize(
    "flags",
    [
        ("--node-selector", "pool=batch", "--node-selector", "other:x"),
        ("--node-selector", "pool=batch,other=x"),
    ],
    ids=["repeated, both spellings", "with commas"],
)
def test_a_node_is_used_while_it_has_one_of_the_labels(
    cluster: ControlPlane, start: Start, flags: tuple[str, ...]
) -> None:
    """A pod waits for the first label; the last one goes, and only pods that came later wait."""
    (node,) = cluster.create_nodes(cpu="4", labels={"pool": "web"})
    daemons.a_gang(cluster, "first", 1)
    daemon = start(*flags)
    daemons.until(lambda: "--node-selector" in reason(cluster, "first"), daemon)
    assert daemons.nodes_of(cluster) == {}

    label(cluster, node, pool="batch")
    daemons.until(lambda: daemons.phase(cluster, "first") == "Running", daemon)
    daemons.until(lambda: not reason(cluster, "first"), daemon)

    # One of the labels for the other: all stays as it is.
    label(cluster, node, pool=None, other="x")
    daemons.a_gang(cluster, "second", 1)
    daemons.until(lambda: daemons.phase(cluster, "second") == "Running", daemon)
    placed = {"first-0": node, "second-0": node}
    assert daemons.nodes_of(cluster) == placed

    label(cluster, node, other=None)
    daemons.a_gang(cluster, "third", 1)
    daemons.until(lambda: reason(cluster, "third"), daemon)
    assert "--node-selector" in reason(cluster, "third")
    assert daemons.nodes_of(cluster) == placed

    # Another node with a label takes what waits, and nobody was moved for it.
    cluster.create_nodes(first=1, cpu="4", labels={"other": "x"})
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 3, daemon)
    found = daemons.nodes_of(cluster)
    assert found.pop("third-0") != node
    assert found == placed
    assert daemon.stop() == 0
