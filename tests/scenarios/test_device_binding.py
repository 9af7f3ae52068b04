"""Gangs that wait for their devices: allocated as a whole, started as a whole, given back."""

import pytest

from tests import device_labs, volume_labs
from tests.device_labs import Lab
from tests.volume_labs import binds, waits
from vscheduler.model.decisions import CycleResult, ReasonCode

TWO_NODES = """
    node  n1 cpu=4
    node  n2 cpu=4
    queue q
    job   q/train min=3 cpu=1  - - -
"""
EACH = {f"train-{number}": [f"gpus-{number}"] for number in range(3)}
CLAIMS = [device_labs.claim(f"gpus-{number}", 2) for number in range(3)]
GPU = device_labs.device_class()
FOUR = [device_labs.resource_slice(node, 4) for node in ("n1", "n2")]


def quiet(result: CycleResult) -> bool:
    """Whether a cycle writes nothing, and starts nothing."""
    return not (result.binds or result.claims or result.releases)


def test_a_gang_starts_once_all_its_claims_are_allocated() -> None:
    """In the cycle after the writes, on the nodes of the devices; then nothing happens."""
    lab = Lab(TWO_NODES, GPU, *FOUR, *CLAIMS, uses=EACH)
    first = lab.cycle()
    (decided,) = first.claims
    assert [claim.key for claim in decided.requests] == [f"default/gpus-{n}" for n in range(3)]
    assert binds(first) == {}
    assert lab.reserved() == {f"gpus-{n}": [f"train-{n}"] for n in range(3)}
    nodes = waits(first)
    for number in range(3):
        pools = {pool for pool, _ in lab.allocated()[f"gpus-{number}"]}
        assert pools == {nodes[f"train-{number}"]}
    assert len({each for found in lab.allocated().values() for each in found}) == 6
    second = lab.cycle()
    assert binds(second) == nodes
    assert second.groups[0].reason is None
    assert all(quiet(lab.cycle()) for _ in range(3))


def test_no_pod_starts_before_the_last_claim_is_written() -> None:
    """Whatever was written, nothing is chosen anew."""
    lab = Lab(TWO_NODES, GPU, *FOUR, *CLAIMS, uses=EACH)
    first = lab.cycle(write=1)
    for expected in ([1, 2], [2]):
        result = lab.cycle(write=1)
        (decided,) = result.claims
        assert [claim.name for claim in decided.requests] == [f"gpus-{n}" for n in expected]
        assert binds(result) == {}
        assert waits(result) == waits(first)
        reason = result.groups[0].reason
        assert reason is not None
        assert reason.code is ReasonCode.WAITS_FOR_DEVICES
        assert reason.claims is not None
        assert (reason.claims.ready, reason.claims.claims) == (3 - len(expected), 3)
    assert binds(lab.cycle()) == waits(first)


def test_a_gang_that_lacks_a_device_allocates_none() -> None:
    """Two of three pods would have devices."""
    slices = [device_labs.resource_slice("n1", 4), device_labs.resource_slice("n2", 1)]
    lab = Lab(TWO_NODES, GPU, *slices, *CLAIMS, uses=EACH)
    assert quiet(lab.cycle())
    assert lab.allocated() == {}


@pytest.mark.parametrize("written", [1, 2, 3])
def test_what_a_gang_cannot_use_any_more_is_given_back(written: int) -> None:
    """Its node is gone; after a restart, too. The gang begins anew where there is room."""
    lab = Lab(TWO_NODES, GPU, *FOUR, *CLAIMS, uses=EACH)
    first = lab.cycle(write=written)
    lost = waits(first)["train-0"]
    lab.delete("Node", lost)
    lab.delete("ResourceSlice", f"slice-{lost}")
    lab.restart()
    assert len(lab.cycle().releases) == written
    assert lab.allocated() == {}
    assert lab.reserved() == {}
    node = next(iter({"n1", "n2"} - {lost}))
    assert quiet(lab.cycle())
    lab.put(device_labs.resource_slice(node, 6))
    assert set(waits(lab.cycle()).values()) == {node}
    assert set(binds(lab.cycle()).values()) == {node}


def test_the_node_of_allocated_devices_counts_more_than_a_nomination() -> None:
    """After a restart the pod starts where its devices are, though another node was nominated."""
    lab = Lab(TWO_NODES.replace("- - -", "-").replace("=3", "=1"), GPU, *FOUR, *CLAIMS, uses=EACH)
    assert waits(lab.cycle()) == {"train-0": "n1"}
    pod = lab.get("Pod", "train-0")
    pod["status"]["nominatedNodeName"] = "n2"
    lab.put(pod)
    lab.restart()
    assert binds(lab.cycle()) == {"train-0": "n1"}


def test_a_deleted_claim_of_a_pod_that_waits_gives_its_devices_back() -> None:
    """Kubernetes would keep them for the pod, which can't start with a claim that goes."""
    lab = Lab(TWO_NODES, GPU, *FOUR, *CLAIMS, uses=EACH)
    lab.cycle()
    name = next(iter(lab.allocated()))
    claim = lab.get("ResourceClaim", name)
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    lab.put(claim)
    assert name in {deallocation.name for deallocation in lab.cycle().releases}
    assert name not in lab.allocated()


def test_claims_of_a_deleted_job_are_left_to_kubernetes() -> None:
    """Its controller knows which pods are gone."""
    lab = Lab(TWO_NODES, GPU, *FOUR, *CLAIMS, uses=EACH)
    lab.cycle()
    lab.delete("Pod", "train-0", "train-1", "train-2")
    assert lab.allocated() == {}
    assert quiet(lab.cycle())


def test_a_claim_of_running_pods_is_never_given_back() -> None:
    """Although another pod that shares it finds no node."""
    picture = """
        node  n1 cpu=1
        node  n2 cpu=1
        queue q
        job   q/a min=1 cpu=1 -
        job   q/b min=1 cpu=1 -
    """
    uses = {"a-0": ["shared"], "b-0": ["shared"]}
    lab = Lab(picture, GPU, *FOUR, device_labs.claim("shared"), uses=uses)
    lab.cycle()
    started = binds(lab.cycle())
    assert len(started) == 1
    assert all(quiet(lab.cycle()) for _ in range(3))
    assert len(lab.allocated()) == 1


def test_pods_that_share_a_claim_reserve_it_together() -> None:
    """One write for all of a gang."""
    lab = Lab(
        TWO_NODES, GPU, *FOUR, device_labs.claim("shared"), uses={name: ["shared"] for name in EACH}
    )
    first = lab.cycle()
    assert lab.reserved() == {"shared": ["train-0", "train-1", "train-2"]}
    assert len(set(waits(first).values())) == 1
    assert binds(lab.cycle()) == waits(first)


def test_a_gang_waits_for_volumes_and_devices_together() -> None:
    """Devices are kept for it while its volume is made."""
    lab = Lab(
        TWO_NODES,
        GPU,
        *FOUR,
        *CLAIMS,
        volume_labs.storage_class(),
        volume_labs.claim("data"),
        uses=EACH,
    )
    pod = lab.get("Pod", "train-0")
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    lab.put(pod)
    first = lab.cycle()
    asked = [[request.name for request in prepared.requests] for prepared in first.claims]
    assert asked == [["data"], ["gpus-0", "gpus-1", "gpus-2"]]
    assert len(lab.allocated()) == 3
    again = lab.cycle()
    assert (binds(again), again.releases) == ({}, ())
    assert waits(again) == waits(first)


def test_a_device_that_two_schedulers_have_allocated_is_given_back() -> None:
    """The other one has started its pod; the gang begins anew elsewhere."""
    picture = """
        node  n1 cpu=4
        node  n2 cpu=4
        queue q
        job   q/train min=1 cpu=1 -
    """
    lab = Lab(picture, GPU, *FOUR, CLAIMS[0], uses={"train-0": ["gpus-0"]})
    node = waits(lab.cycle())["train-0"]
    other = device_labs.claim("other", 1)
    results = lab.get("ResourceClaim", "gpus-0")["status"]["allocation"]["devices"]["results"]
    other["status"] = {
        "allocation": {"devices": {"results": results[:1]}},
        "reservedFor": [{"resource": "pods", "name": "their", "uid": "uid-their"}],
    }
    lab.put(other)
    result = lab.cycle()
    assert [deallocation.name for deallocation in result.releases] == ["gpus-0"]
    assert binds(result) == {}
    lab.cycle()
    mine = set(lab.allocated()["gpus-0"])
    assert mine.isdisjoint({(node, results[0]["device"])})
    assert set(binds(lab.cycle())) == {"train-0"}
