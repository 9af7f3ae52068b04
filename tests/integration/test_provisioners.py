"""The small provisioner and kube-controller-manager together do what schedulers count on.

The simulation's controllers do the same (`tests/simulation/test_storage_actors.py`).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.client import Client, Object
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, provisioners
from tests.integration.provisioners import Behaviour
from vscheduler.mirror import paths

CLAIMS = paths.CLAIMS.within(provisioners.NAMESPACE)


@pytest.fixture
def behaviour(cluster: ControlPlane) -> Iterator[Behaviour]:
    """A node, and a provisioner."""
    cluster.create_nodes(count=1)
    with provisioners.provisioning(cluster.api) as found:
        yield found


def create(api: Client, storage_class: str, name: str = "a") -> Object:
    """A claim."""
    return api.create(CLAIMS, provisioners.a_claim(name, storage_class))


def change(api: Client, name: str = "a", **metadata: Any) -> None:
    """Patch the claim's metadata."""
    api.patch(paths.CLAIMS.at(name, provisioners.NAMESPACE), {"metadata": metadata})


def until_bound(api: Client, *names: str) -> None:
    """Wait until these claims, and no others, are bound."""
    patience.wait_until(lambda: provisioners.bound(api) == set(names))


def test_an_immediate_claim_is_bound(cluster: ControlPlane, behaviour: Behaviour) -> None:
    """Without a pod; a claim that waits isn't."""
    create(cluster.api, provisioners.SLOW, "waits")
    create(cluster.api, provisioners.AT_ONCE)
    until_bound(cluster.api, "a")
    assert behaviour.handed_back == []


def test_a_selected_node_gets_the_volume(cluster: ControlPlane, behaviour: Behaviour) -> None:
    """It is reached from there only."""
    create(cluster.api, provisioners.SLOW)
    change(cluster.api, annotations={provisioners.SELECTED: "node-0"})
    until_bound(cluster.api, "a")
    (volume,) = cluster.api.list(paths.VOLUMES.everywhere)
    assert volume["spec"]["nodeAffinity"] == provisioners.on("node-0")
    assert behaviour.handed_back == []


def test_a_refused_node_is_handed_back(cluster: ControlPlane, behaviour: Behaviour) -> None:
    """The annotation is gone."""
    behaviour.refused.add("node-0")
    create(cluster.api, provisioners.SLOW)
    change(cluster.api, annotations={provisioners.SELECTED: "node-0"})
    patience.wait_until(lambda: behaviour.handed_back)
    assert behaviour.handed_back == ["a node-0"]
    (claim,) = cluster.api.list(CLAIMS)
    assert provisioners.SELECTED not in claim["metadata"]["annotations"]


def test_a_reserved_volume_is_bound(cluster: ControlPlane, behaviour: Behaviour) -> None:
    """By its claimRef; the other one stays free."""
    provisioners.create_disks(cluster.api, ["node-0"], 2)
    claim = create(cluster.api, provisioners.LOCAL)
    reserve(cluster.api, "disk-node-0-1", claim)
    until_bound(cluster.api, "a")
    found = provisioners.claims(cluster.api)["a"]
    assert found["spec"]["volumeName"] == "disk-node-0-1"
    assert behaviour.handed_back == []


def reserve(api: Client, volume: str, claim: Object) -> None:
    """As schedulers do."""
    reference = {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
    body = {
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference}},
    }
    api.patch(paths.VOLUMES.at(volume), body)


def test_a_volume_reserved_for_a_claim_that_has_another_is_free_again(
    cluster: ControlPlane, behaviour: Behaviour
) -> None:
    """If a scheduler reserved it."""
    provisioners.create_disks(cluster.api, ["node-0"], 2)
    claim = create(cluster.api, provisioners.LOCAL)
    reserve(cluster.api, "disk-node-0-0", claim)
    until_bound(cluster.api, "a")
    reserve(cluster.api, "disk-node-0-1", claim)

    def free() -> bool:
        found = cluster.api.get(paths.VOLUMES.at("disk-node-0-1"))
        return "claimRef" not in found["spec"]

    patience.wait_until(free)
    assert behaviour.handed_back == []


def test_a_volume_reserved_for_a_claim_that_is_gone_is_released(
    cluster: ControlPlane, behaviour: Behaviour
) -> None:
    """It is no longer free: somebody may have written to it."""
    provisioners.create_disks(cluster.api, ["node-0"], 1)
    claim = create(cluster.api, provisioners.LOCAL)
    cluster.api.delete(paths.CLAIMS.at("a", provisioners.NAMESPACE))
    patience.wait_until(lambda: not cluster.api.list(CLAIMS))
    reserve(cluster.api, "disk-node-0-0", claim)

    def phase() -> str:
        found = cluster.api.get(paths.VOLUMES.at("disk-node-0-0"))
        return str(found["status"]["phase"])

    patience.wait_until(lambda: phase() == "Released")
    assert behaviour.handed_back == []


def test_a_claim_in_use_stays(cluster: ControlPlane, behaviour: Behaviour) -> None:
    """Until the pod on a node is gone; a pod that waits doesn't keep it."""
    for name in ("a", "b"):
        create(cluster.api, provisioners.AT_ONCE, name)
        pod = provisioners.a_pod(name, "gang", name)
        pod["spec"] |= {"nodeName": "node-0"} if name == "a" else {}
        cluster.api.create(daemons.PODS, pod)
    until_bound(cluster.api, "a", "b")
    for name in ("a", "b"):
        cluster.api.delete(paths.CLAIMS.at(name, provisioners.NAMESPACE))
    patience.wait_until(lambda: provisioners.claims(cluster.api).keys() == {"a"})
    cluster.api.delete(f"{daemons.PODS}/a", gracePeriodSeconds=0)
    patience.wait_until(lambda: not provisioners.claims(cluster.api))
    assert behaviour.handed_back == []


def test_a_claim_is_made_for_a_pod(cluster: ControlPlane, behaviour: Behaviour) -> None:
    """A generic ephemeral volume."""
    pod = provisioners.a_pod("p", "gang", "")
    template = {"spec": provisioners.a_claim("any", provisioners.AT_ONCE)["spec"]}
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": template}}
    pod["spec"]["volumes"] = [volume]
    cluster.api.create(daemons.PODS, pod)
    until_bound(cluster.api, "p-data")
    assert behaviour.handed_back == []
