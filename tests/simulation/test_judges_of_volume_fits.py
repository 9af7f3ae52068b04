"""At rest, gangs whose pods have volumes run if they fit, by a judge that is careful."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulation.made_histories import History, Object, meta, node, queue, started
from tests.simulation.made_volumes import CLAIMS, ON_N1, VOLUMES, claim, user, volume

RUNS = "every gang that fits runs"
WAITS = "WaitForFirstConsumer"


def resting(*claims: Object, nodes: int = 1) -> History:
    """A gang of so many pods as there are claims, and nodes of which each takes two."""
    history = started(len(claims), 0, cpu="2")
    for number in range(1, nodes):
        history.put("nodes", node(f"n{number + 1}", cpu="2"))
    for number, each in enumerate(claims):
        history.put("pods", user(number, each["metadata"]["name"]))
        history.put(CLAIMS, each)
    history.put("queues", queue(pending=1, deserved={"cpu": "9"}))
    return history


def wrong(history: History) -> bool:
    """Whether the gang should run."""
    found = history.wrong()
    assert set(found) <= {RUNS}
    return bool(found)


def storage_class(provisioner: str = "csi", **more: Any) -> Object:
    """A class that waits."""
    return {
        "metadata": meta("local"),
        "provisioner": provisioner,
        "volumeBindingMode": WAITS,
        **more,
    }


def test_a_gang_with_bound_claims_runs() -> None:
    """Where its volumes are; not if one of them is elsewhere, or has no volume."""
    both = claim("c0", "v0"), claim("c1", "v1")
    history = resting(*both)
    assert not wrong(history)
    for name, of in (("v0", "c0"), ("v1", "c1")):
        history.put(VOLUMES, volume(name, of, nodeAffinity=ON_N1))
    assert wrong(history)
    away = {"nodeSelectorTerms": [{"matchFields": [names_of("n2")]}]}
    history.put(VOLUMES, volume("v1", "c1", nodeAffinity={"required": away}))
    assert not wrong(history)
    history.put("nodes", node("n2", cpu="2"))
    assert wrong(history)


def names_of(name: str) -> Mapping[str, Any]:
    """A field of a node selector."""
    return {"key": "metadata.name", "operator": "In", "values": [name]}


def test_a_gang_may_wait_for_slots_of_its_volumes() -> None:
    """Two volumes of a driver on a node that can have one; one pod of them is on another node."""
    history = resting(claim("c0", "v0"), claim("c1", "v1"))
    for name, of in (("v0", "c0"), ("v1", "c1")):
        history.put(VOLUMES, volume(name, of))
    drivers = [{"name": "csi", "nodeID": "n", "allocatable": {"count": 1}}]
    for name, fits in (("n1", False), ("n2", True)):
        history.put("csinodes", {"metadata": meta(name), "spec": {"drivers": drivers}})
        if name == "n2":
            history.put("nodes", node("n2", cpu="2"))
        assert wrong(history) == fits


def test_a_volume_that_is_still_attached_takes_a_slot() -> None:
    """Its pod is gone already."""
    history = resting(claim("c0", "v0"))
    history.put(VOLUMES, volume("v0", "c0"))
    history.put(VOLUMES, volume("old", "other"))
    drivers = [{"name": "csi", "nodeID": "n", "allocatable": {"count": 1}}]
    history.put("csinodes", {"metadata": meta("n1"), "spec": {"drivers": drivers}})
    source = {"persistentVolumeName": "old"}
    spec = {"attacher": "csi", "nodeName": "n1", "source": source}
    history.put("volumeattachments", {"metadata": meta("a"), "spec": spec})
    assert not wrong(history)
    history.drop("volumeattachments", "a")
    assert wrong(history)


def test_a_gang_whose_claims_can_be_provisioned_runs() -> None:
    """Not if the class is missing, has no topology for it, or binds without waiting for a pod."""
    history = resting(claim("c0"), claim("c1"))
    assert not wrong(history)
    history.put("storageclasses", storage_class())
    assert wrong(history)
    expression = {"key": "zone", "values": ["a"]}
    topologies = [{"matchLabelExpressions": [expression]}]
    history.put("storageclasses", storage_class(allowedTopologies=topologies))
    assert not wrong(history)
    history.put("storageclasses", storage_class(volumeBindingMode="Immediate"))
    assert not wrong(history)


def test_a_gang_runs_if_there_are_enough_free_volumes() -> None:
    """Each pod needs one on its node, and each volume is for one."""
    history = resting(claim("c0"), claim("c1"))
    history.put("storageclasses", storage_class("kubernetes.io/no-provisioner"))
    for name, fits in (("v0", False), ("v1", True)):
        history.put(VOLUMES, volume(name, nodeAffinity=ON_N1))
        assert wrong(history) == fits
    history.put(VOLUMES, volume("v1", "other", nodeAffinity=ON_N1))
    assert not wrong(history)


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"matchLabels": {"a": "b"}}},
        {"volumeName": "v0"},
        {"resources": {"requests": {"storage": "9Gi"}}},
    ],
)
def test_what_cannot_be_told_easily_is_not_judged(spec: Mapping[str, Any]) -> None:
    """A selector, a volume by name, a claim that isn't like the others, or is lost."""
    history = resting(claim("c0", **spec))
    history.put("storageclasses", storage_class("kubernetes.io/no-provisioner"))
    history.put(VOLUMES, volume("v0", nodeAffinity=ON_N1))
    assert not wrong(history)
    history.put(CLAIMS, {**claim("c0"), "status": {"phase": "Lost"}})
    assert not wrong(history)
    history.put(CLAIMS, claim("c0", selected="n1"))
    assert not wrong(history)
    history.put(CLAIMS, claim("c0"))
    assert wrong(history)


def test_a_shared_claim_is_not_judged() -> None:
    """Two pods with one claim."""
    history = resting(claim("c0", "v0"))
    history.put(VOLUMES, volume("v0", "c0"))
    assert wrong(history)
    history.put("pods", user(1, "c0"))
    assert not wrong(history)
