"""Gangs whose pods have claims start whole on a real control plane, whatever a provisioner does."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons, provisioners
from tests.integration.daemons import Daemon, Start
from tests.integration.provisioners import Behaviour
from vscheduler.mirror import paths

NODES = ("node-0", "node-1", "node-2", "node-3")
GANG = 8
SLOW, AT_ONCE, LOCAL = provisioners.SLOW, provisioners.AT_ONCE, provisioners.LOCAL
IMPATIENT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
    arguments:
      volumebinding.bindTimeoutSeconds: 5
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""A configuration that gives claims five seconds."""


@pytest.fixture
def behaviour(cluster: ControlPlane) -> Iterator[Behaviour]:
    """Four nodes of which each takes two pods, and a provisioner."""
    cluster.create_nodes(count=len(NODES), cpu="2")
    with provisioners.provisioning(cluster.api) as found:
        yield found


def starts(cluster: ControlPlane, daemon: Daemon, size: int = GANG) -> None:
    """Wait until so many pods have a node; all of them are where their volumes are."""
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == size, daemon)
    assert provisioners.misplaced(cluster.api) == []
    assert provisioners.leftovers(cluster.api) == []


CLASSES = {
    "waiting for the first consumer": [SLOW] * GANG,
    "local": [LOCAL] * GANG,
    "at once": [AT_ONCE] * GANG,
    "mixed": [SLOW, LOCAL, "", AT_ONCE, SLOW, LOCAL, "", SLOW],
}


@pytest.mark.parametrize("what", CLASSES)
def test_a_gang_with_claims_starts_whole(
    what: str,
    cluster: ControlPlane,
    behaviour: Behaviour,
    start: Start,
) -> None:
    """Two pods a node, which is all that the nodes have."""
    provisioners.create_disks(cluster.api, NODES, 2)
    provisioners.a_gang(cluster, "gang", CLASSES[what])
    starts(cluster, start())
    assert behaviour.handed_back == []
    assert set(Counter(daemons.nodes_of(cluster).values()).values()) == {2}


def test_no_pod_starts_before_the_last_claim_is_bound(
    cluster: ControlPlane,
    behaviour: Behaviour,
    start: Start,
) -> None:
    """The last one takes its time; meanwhile other jobs start where there is room."""
    behaviour.holds.add("gang-7")
    provisioners.a_gang(cluster, "gang", [SLOW] * GANG)
    daemon = start()
    daemons.until(lambda: len(provisioners.bound(cluster.api)) == GANG - 1, daemon)
    cluster.create_nodes(count=1, prefix="more", cpu="2")
    daemons.a_gang(cluster, "other", 2)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 2, daemon)
    assert {name.partition("-")[0] for name in daemons.nodes_of(cluster)} == {"other"}
    behaviour.holds.clear()
    starts(cluster, daemon, GANG + 2)


def test_a_node_that_is_handed_back_is_avoided(
    cluster: ControlPlane,
    behaviour: Behaviour,
    start: Start,
) -> None:
    """There is room for the gang without it."""
    behaviour.refused.add("node-0")
    provisioners.a_gang(cluster, "gang", [SLOW] * 6)
    starts(cluster, start(), 6)
    assert "node-0" not in daemons.nodes_of(cluster).values()


def test_what_takes_too_long_is_tried_elsewhere(
    cluster: ControlPlane,
    behaviour: Behaviour,
    start: Start,
    tmp_path: Path,
) -> None:
    """Nothing happens for two of the nodes."""
    behaviour.dead |= {"node-0", "node-1"}
    configuration = tmp_path / "scheduler.conf"
    configuration.write_text(IMPATIENT)
    provisioners.a_gang(cluster, "gang", [SLOW, SLOW, ""])
    starts(cluster, start(f"--scheduler-conf={configuration}"), 3)
    held = provisioners.claims(cluster.api)
    nodes = daemons.nodes_of(cluster)
    assert {nodes[name] for name in held} <= {"node-2", "node-3"}


def test_what_was_reserved_for_a_deleted_job_is_given_back(
    cluster: ControlPlane,
    behaviour: Behaviour,
    start: Start,
) -> None:
    """Its claims stay, and nothing is selected for them; another gang takes the room."""
    behaviour.holds |= {"gang-0", "gang-1"}
    provisioners.create_disks(cluster.api, NODES, 1)
    provisioners.a_gang(cluster, "gang", [SLOW, SLOW, LOCAL])
    daemon = start()

    def selected() -> bool:
        found = provisioners.claims(cluster.api).values()
        return any(
            provisioners.SELECTED in each["metadata"].get("annotations", {}) for each in found
        )

    daemons.until(selected, daemon)
    cluster.api.delete(f"{daemons.GROUPS}/gang")
    cluster.api.delete(daemons.PODS, gracePeriodSeconds=0)
    daemons.until(lambda: not provisioners.leftovers(cluster.api), daemon)
    provisioners.a_gang(cluster, "next", [SLOW] * GANG)
    starts(cluster, daemon)


def test_a_claim_that_is_made_for_a_pod(
    cluster: ControlPlane,
    behaviour: Behaviour,
    start: Start,
) -> None:
    """Generic ephemeral volumes of a gang."""
    group = {"apiVersion": paths.VOLCANO, "kind": "PodGroup", "metadata": {"name": "gang"}}
    cluster.api.create(daemons.GROUPS, {**group, "spec": {"minMember": 4}})
    template = {"spec": provisioners.a_claim("any", SLOW)["spec"]}
    for number in range(4):
        pod = provisioners.a_pod(f"gang-{number}", "gang", "")
        volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": template}}
        pod["spec"]["volumes"] = [volume]
        cluster.api.create(daemons.PODS, pod)
    daemon = start()
    starts(cluster, daemon, 4)
    assert provisioners.bound(cluster.api) == {f"gang-{number}-data" for number in range(4)}
    assert behaviour.handed_back == []
