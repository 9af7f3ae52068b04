"""Gangs whose pods have claims of devices start whole on a real control plane."""

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons, devices, provisioners
from tests.integration.daemons import Daemon, Start
from vscheduler.mirror import paths

NODES = ("node-0", "node-1", "node-2", "node-3")
TEMPLATE = {"resourceClaimTemplateName": "two"}
ONE = {"resourceClaimTemplateName": "one"}


@pytest.fixture(autouse=True)
def published(cluster: ControlPlane) -> None:
    """Four nodes with four devices each, and a template of claims for two."""
    cluster.create_nodes(count=len(NODES), cpu="4")
    devices.publish(cluster.api, NODES, 4)
    devices.a_template(cluster.api, "two", devices.asked(2, "40Gi"))


def starts(cluster: ControlPlane, daemon: Daemon, size: int) -> None:
    """Wait until so many pods have a node; all of them are where their devices are."""
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == size, daemon)
    assert devices.wrong(cluster.api) == []
    assert devices.leftovers(cluster.api) == []


def test_a_gang_with_two_devices_each_starts_whole(cluster: ControlPlane, start: Start) -> None:
    """Eight pods, which is all that there are devices for; the next gang waits for the end of this
    one.
    """
    devices.a_gang(cluster, "gang", 8, TEMPLATE)
    daemon = start()
    starts(cluster, daemon, 8)
    assert devices.by_node(cluster.api) == dict.fromkeys(NODES, 4)
    devices.a_gang(cluster, "next", 2, TEMPLATE)
    text = f"has 16 deviceclass.resource.k8s.io/{devices.CLASS} of the 16 there are to share"
    daemons.until(lambda: text in str(daemons.conditions(cluster, "next")), daemon)
    cluster.api.delete(f"{daemons.PODS}?labelSelector=app%3Dgang", gracePeriodSeconds=0)
    starts(cluster, daemon, 2)


def test_pods_share_a_claim_and_have_volumes_and_devices(
    cluster: ControlPlane, start: Start
) -> None:
    """One gang of two pods that share a device, and a pod with a local volume."""
    devices.a_template(cluster.api, "one", devices.asked(1))
    devices.a_claim(cluster.api, "shared", devices.asked(1))
    devices.a_gang(cluster, "both", 2, {"resourceClaimName": "shared"}, ONE)
    provisioners.create_classes(cluster.api)
    provisioners.create_disks(cluster.api, NODES[2:], 1)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    claim = provisioners.a_claim("data", provisioners.LOCAL)
    cluster.api.create(paths.CLAIMS.within("default"), claim)
    devices.a_gang(cluster, "disks", 1, TEMPLATE, volumes=volumes)
    starts(cluster, start(), 3)
    nodes = daemons.nodes_of(cluster)
    assert nodes["both-0"] == nodes["both-1"]
    assert nodes["disks-0"] in NODES[2:]
    assert provisioners.misplaced(cluster.api) == []
