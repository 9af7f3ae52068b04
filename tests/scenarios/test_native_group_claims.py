"""Devices that all pods of a PodGroup of Kubernetes' own API share."""

import copy
from typing import Any

import pytest

from tests import device_labs
from tests.device_labs import DRIVER, Lab
from tests.scenarios.test_native_pod_groups import group, node, pods, simulate
from tests.volume_labs import binds, waits
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.simulator import run

Document = dict[str, Any]

NODES = """
    node  n1 cpu=1 pods=500
    node  n2 cpu=400 pods=500
    queue q
"""
GPU = device_labs.device_class()
ONE_EACH = [device_labs.resource_slice(node, 1) for node in ("n1", "n2")]
NAMED = {"name": "gpus", "resourceClaimName": "shared"}
MADE = {"name": "gpus", "resourceClaimTemplateName": "one"}
SHARED = device_labs.claim("shared")


def gang(count: int, entry: Document, *, more: int = 0, of_group: Document | None = None) -> Any:
    """A PodGroup and its pods, all of which have this entry in spec.resourceClaims."""
    found = group("g", count, queue="q", resourceClaims=[of_group or entry])
    members = pods("g", count + more, cpu=1, resourceClaims=[entry])
    for each in (found, *members):
        each["metadata"] |= {"namespace": "default", "uid": f"uid-{each['metadata']['name']}"}
    return [found, *members]


def made_for(name: str) -> Document:
    """The claim that a controller makes for a PodGroup of this name."""
    found = device_labs.claim("g-gpus-x")
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "controller": True}
    found["metadata"]["ownerReferences"] = [{**owner, "name": name, "uid": f"uid-{name}"}]
    return found


def lab(*documents: Document) -> Lab:
    """A cluster with a device on each of two nodes, of which one has room for a pod."""
    return Lab(NODES, GPU, *ONE_EACH, *documents, uses={})


def reason(result: CycleResult) -> str:
    """Why the only group waits."""
    (status,) = result.groups
    assert status.reason is not None
    return sentences.sentence(status.reason)


def quiet(result: CycleResult) -> bool:
    """Whether a cycle starts nothing, and writes nothing about claims."""
    return not (result.binds or result.claims or result.releases)


def tell_pods(found: Lab, claim: str) -> None:
    """Let pods and PodGroup know the claim that was made, as its controller does."""
    for kind, name in list(found.stored):
        if kind in ("Pod", "PodGroup"):
            document = found.get(kind, name)
            document["status"]["resourceClaimStatuses"] = [
                {"name": "gpus", "resourceClaimName": claim}
            ]
            found.put(document)


@pytest.mark.parametrize("count", [3, 300])
def test_a_claim_is_reserved_for_the_group_once(count: int) -> None:
    """So more pods can share it than a claim has reservations: 256."""
    found = lab(*gang(count, NAMED), SHARED)
    first = found.cycle()
    assert set(waits(first).values()) == {"n2"}
    reserved = found.get("ResourceClaim", "shared")["status"]["reservedFor"]
    kind = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
    assert reserved == [{**kind, "name": "g", "uid": "uid-g"}]
    assert len(binds(found.cycle())) == count
    assert quiet(found.cycle())


def test_pods_wait_until_the_claim_of_a_template_is_made() -> None:
    """It belongs to the PodGroup, and is named in the status of the pods."""
    found = lab(*gang(2, MADE))
    assert "waiting for the controller to create the resourceclaim of entry gpus" in reason(
        found.cycle()
    )
    found.put(made_for("g"))
    tell_pods(found, "g-gpus-x")
    found.cycle()
    assert found.reserved() == {"g-gpus-x": ["g"]}
    assert binds(found.cycle()) == {"g-0": "n2", "g-1": "n2"}


def test_a_claim_made_for_another_group_is_not_used() -> None:
    """Somebody else has this name."""
    found = lab(*gang(2, MADE), made_for("other"))
    tell_pods(found, "g-gpus-x")
    assert "was not created for the pod" in reason(found.cycle())


def test_an_entry_that_differs_is_of_the_pod() -> None:
    """The group has the same claim under another name."""
    found = lab(*gang(2, NAMED, of_group={**NAMED, "name": "other"}), SHARED)
    found.cycle()
    assert found.reserved() == {"shared": ["g-0", "g-1"]}


def test_no_pod_starts_where_the_device_of_the_group_is_not() -> None:
    """One of two would fit."""
    on_n1 = device_labs.resource_slice("n1", 1)
    found = Lab(NODES, GPU, on_n1, *gang(2, NAMED), SHARED, uses={})
    assert not waits(found.cycle())
    assert found.reserved() == {}


def test_a_later_pod_uses_what_the_group_has() -> None:
    """Nothing is written for it, and it starts in the same cycle, beside the device."""
    found = lab(*gang(2, NAMED), SHARED)
    found.cycle()
    assert len(binds(found.cycle())) == 2
    later = copy.deepcopy(gang(2, NAMED, more=1)[-1])
    found.put(later)
    result = found.cycle()
    assert binds(result) == {"g-2": "n2"}
    assert not result.claims


def test_what_the_group_has_is_given_back_if_its_node_is_lost_before_a_pod_has_one() -> None:
    """The gang gets another device, and starts there."""
    found = lab(*gang(2, NAMED), SHARED)
    found.cycle()
    found.delete("Node", "n2")
    found.put(device_labs.resource_slice("n3", 1))
    assert quiet_but_releases(found.cycle()) == ["shared"]
    assert found.reserved() == {}
    found.put(node("n3", 8))
    assert set(waits(found.cycle()).values()) == {"n3"}
    assert found.reserved() == {"shared": ["g"]}
    assert binds(found.cycle()) == {"g-0": "n3", "g-1": "n3"}


def quiet_but_releases(result: CycleResult) -> list[str]:
    """The claims that a cycle gives back; it does nothing else."""
    assert (result.binds, result.claims) == ((), ())
    return [each.name for each in result.releases]


@pytest.mark.parametrize(
    ("phase", "given_back"),
    [("Running", []), ("Pending", []), ("Succeeded", ["shared"]), ("Failed", ["shared"])],
)
def test_what_the_group_has_stays_while_one_of_its_pods_has_a_node(
    phase: str, given_back: list[str]
) -> None:
    """Whatever becomes of the others; one that has ended needs no device any more."""
    found = lab(*gang(3, NAMED), SHARED)
    found.cycle()
    pod = found.get("Pod", "g-0")
    pod["spec"]["nodeName"] = "n2"
    pod["status"] = {**pod.get("status", {}), "phase": phase}
    found.put(pod)
    found.delete("Node", "n2")
    assert quiet_but_releases(found.cycle()) == given_back


def test_what_a_group_with_pods_of_others_has_stays() -> None:
    """These may have started."""
    found = lab(*gang(2, NAMED), SHARED)
    found.cycle()
    pod = found.get("Pod", "g-0")
    pod["spec"] |= {"nodeName": "n2", "schedulerName": "default-scheduler"}
    found.put(pod)
    found.delete("Node", "n2")
    assert quiet_but_releases(found.cycle()) == []


def test_the_group_counts_once_for_its_queue() -> None:
    """For one of its pods that live, whichever; when it is gone for another one."""
    counted = "deviceclass.resource.k8s.io/gpu"
    found = lab(*gang(3, NAMED), SHARED)
    for gone in ((), ("g-0",), ("g-1",)):
        found.cycle()
        found.delete("Pod", *gone)
        result = found.cycle()
        (queue,) = (each for each in result.queues if each.name == "q")
        assert queue.allocated.get(counted) == 1


def test_a_simulation_makes_the_claim_of_the_group() -> None:
    """As Kubernetes does: one for all pods, and one for each pod of a template of its own."""
    template = {
        "apiVersion": device_labs.API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": SHARED["spec"]},
    }
    own = {"name": "own", "resourceClaimTemplateName": "one"}
    members = pods("g", 2, cpu=1, resourceClaims=[MADE, own])
    slice_ = device_labs.resource_slice("n1", 3)
    outcome = simulate(
        *(node("n1"), members, group("g", 2, resourceClaims=[MADE]), template, GPU, slice_)
    )
    assert len(run.tree(outcome)["binds"]) == 2
    devices = run.tree(outcome)["devices"]
    assert {each["claim"] for each in devices} == {
        "default/g-gpus",
        "default/g-0-own",
        "default/g-1-own",
    }
    assert {each["device"].partition("/")[0] for each in devices} == {DRIVER}
