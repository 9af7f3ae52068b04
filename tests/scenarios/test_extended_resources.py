"""Pods that ask for devices by an extended resource that stands for a DeviceClass."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests import device_labs, running
from vscheduler.mirror.translate import extended_resources
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
OFF = {"predicate.DynamicResourceAllocationEnable": "false"}

Document = device_labs.Document


def gpu_class(name: str = "gpu", created: str = "2026-01-01T00:00:00Z") -> Document:
    """A class of all devices for which example.com/gpu stands."""
    found = device_labs.device_class(name)
    found["metadata"]["creationTimestamp"] = created
    found["spec"]["extendedResourceName"] = GPU
    return found


class Lab(device_labs.Lab):
    """A cluster in which pods ask for extended resources: by pod, or all of them."""

    def __init__(
        self,
        picture: str,
        *others: Document,
        asks: Mapping[str, int] | None = None,
        uses: Mapping[str, list[str]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(picture, *others, uses=uses or {}, **options)
        if asks:
            for name in [name for kind, name in self.stored if kind == "Pod"]:
                self.ask(name, asks)

    def ask(self, name: str, amounts: Mapping[str, int]) -> None:
        """Let a pod request this."""
        pod = self.get("Pod", name)
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        requests |= {resource: str(amount) for resource, amount in amounts.items()}
        self.put(pod)

    def offer(self, node: str, amounts: Mapping[str, int]) -> None:
        """Let a device plugin offer this."""
        found = self.get("Node", node)
        found["status"]["allocatable"] |= {name: str(each) for name, each in amounts.items()}
        self.put(found)

    def names(self) -> list[str]:
        """The claims that are made for pods."""
        return [
            each["metadata"]["ownerReferences"][0]["name"]
            for (kind, _), each in sorted(self.stored.items())
            if kind == "ResourceClaim" and "ownerReferences" in each["metadata"]
        ]


ONE = "node n1 cpu=8 \n queue q \n job q/train min=1 cpu=1  -"
TWO = "node n1 cpu=8 \n node n2 cpu=8 \n queue q \n job q/train min=2 cpu=1  - -"
SLICES = (device_labs.resource_slice("n1", 2), device_labs.resource_slice("n2", 2))


def bound(result: CycleResult) -> dict[str, str]:
    """The nodes of pods that start."""
    return {bind.task.name: bind.node for bind in result.binds}


def reason(result: CycleResult) -> str:
    """Why the only job waits."""
    found = result.groups[0].reason
    assert found is not None
    return sentences.sentence(found)


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_a_claim_is_made_for_the_pod_and_announced_before_the_pod_starts(resource: str) -> None:
    """It asks for devices of the class, as much as the pod's container."""
    lab = Lab(ONE, gpu_class(), SLICES[0], asks={resource: 2})
    first = lab.cycle()
    assert first.binds == ()
    (claim,) = device_labs.allocations(first)
    assert claim.uid == ""
    assert [device.id.device for device in claim.allocation.devices] == ["gpu-0", "gpu-1"]  # type: ignore[union-attr]
    (request,) = lab.get("ResourceClaim", claim.name)["spec"]["devices"]["requests"]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert request["exactly"] == exactly
    assert lab.get("Pod", "train-0")["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": claim.name,
        "requestMappings": [
            {
                "containerName": "main",
                "resourceName": resource,
                "requestName": request["name"],
            }
        ],
    }
    assert bound(lab.cycle()) == {"train-0": "n1"}
    assert lab.reserved() == {claim.name: ["train-0"]}


def test_a_device_plugin_needs_no_claim() -> None:
    """On a node that has the resource by itself, the pod is bound at once."""
    lab = Lab(ONE, gpu_class(), SLICES[0], asks={GPU: 2})
    lab.offer("n1", {GPU: 2})
    assert bound(lab.cycle()) == {"train-0": "n1"}
    assert lab.names() == []


def test_a_gang_gets_some_of_both() -> None:
    """One node has a device plugin, the other one devices; both are full afterwards."""
    lab = Lab(TWO, gpu_class(), SLICES[1], asks={GPU: 2})
    lab.offer("n1", {GPU: 2})
    assert lab.cycle().binds == ()
    assert bound(lab.cycle()) == {"train-0": "n1", "train-1": "n2"}
    assert lab.names() == ["train-1"]


def test_a_node_with_a_full_device_plugin_gives_no_devices() -> None:
    """Kubernetes asks the device plugin only, once it has any."""
    lab = Lab(ONE, gpu_class(), SLICES[0], asks={GPU: 2})
    lab.offer("n1", {GPU: 1})
    assert lab.cycle().claims == ()
    assert "example.com/gpu" in reason(lab.cycle())


def test_a_gang_needs_devices_for_all_its_pods() -> None:
    """Two nodes have two devices each: three pods of two don't fit, two do."""
    three = TWO.replace("min=2", "min=3").replace("- -", "- - -")
    assert Lab(three, gpu_class(), *SLICES, asks={GPU: 2}).cycle().claims == ()
    lab = Lab(TWO, gpu_class(), *SLICES, asks={GPU: 2})
    assert [len(allocation.requests) for allocation in lab.cycle().claims] == [2]
    assert len(bound(lab.cycle())) == 2


def test_devices_of_claims_are_not_given_twice() -> None:
    """A pod with a claim and one with an extended resource share two devices."""
    uses = {"train-0": ["gpus"]}
    lab = Lab(TWO, gpu_class(), SLICES[0], device_labs.claim("gpus", 2), uses=uses)
    lab.ask("train-1", {GPU: 1})
    assert lab.cycle().claims == ()
    lab.put(device_labs.claim("gpus", 1))
    lab.cycle()
    assert len(bound(lab.cycle())) == 2
    assert sorted(each for found in lab.allocated().values() for each in found) == [
        ("n1", "gpu-0"),
        ("n1", "gpu-1"),
    ]


def test_no_devices_anywhere_are_named_in_the_reason() -> None:
    """Neither the resource nor devices of its class are there."""
    lab = Lab(ONE, gpu_class(), asks={GPU: 1})
    assert "too few such devices of class gpu (0 such devices, 0" in reason(lab.cycle())


def test_devices_in_use_are_counted_in_the_reason() -> None:
    """All devices are somebody else's."""
    taken = device_labs.claim("taken", 2)
    results = [
        {"request": "gpus", "driver": device_labs.DRIVER, "pool": "n1", "device": f"gpu-{at}"}
        for at in range(2)
    ]
    taken["status"] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "other", "uid": "other"}],
    }
    lab = Lab(ONE, gpu_class(), SLICES[0], taken, asks={GPU: 1})
    said = "too few free devices of class gpu (2 such devices, 2 allocated)"
    assert said in reason(lab.cycle())


def test_the_newest_class_stands_for_a_resource() -> None:
    """Two classes have the same extendedResourceName, as while one replaces the other."""
    old = gpu_class("older")
    newer = gpu_class("newer", "2026-01-02T00:00:00Z")
    lab = Lab(ONE, newer, old, gpu_class("z-newer", "2026-01-02T00:00:00Z"), SLICES[0])
    lab.ask("train-0", {GPU: 1})
    (claim,) = device_labs.allocations(lab.cycle())
    (request,) = claim.requests
    assert request.alternatives[0].device_class == "newer"


def test_a_class_that_goes_leaves_the_resource_to_device_plugins() -> None:
    """Pods are looked at anew, whether they came before the class or after it."""
    lab = Lab(ONE, SLICES[0], asks={GPU: 1})
    assert "no node that has example.com/gpu; " in reason(lab.cycle())
    lab.put(gpu_class())
    mirror = lab.mirror()
    use = next(iter(mirror.snapshot(lab.now).jobs)).tasks[0].pod_class.constraints.resource_claims
    assert [each.resources for each in use] == [(GPU,)]
    assert len(lab.cycle(write=0).claims) == 1
    lab.delete("DeviceClass", "gpu")
    assert lab.cycle().claims == ()


def test_resources_of_two_kinds_come_from_where_they_are() -> None:
    """The node has a device plugin for one; the claim asks for the other only."""
    nic = device_labs.device_class("nic", "nic.example.com")
    nic["spec"]["extendedResourceName"] = "example.com/nic"
    lab = Lab(ONE, gpu_class(), nic, SLICES[0], asks={GPU: 1, "example.com/nic": 1})
    assert lab.cycle().claims == ()
    lab.offer("n1", {"example.com/nic": 1})
    (claim,) = device_labs.allocations(lab.cycle())
    assert [request.alternatives[0].device_class for request in claim.requests] == ["gpu"]
    assert [mapping.resource for mapping in claim.mappings] == [GPU]
    assert bound(lab.cycle()) == {"train-0": "n1"}


def test_a_claim_that_was_made_is_used_where_it_asks_for_the_right_devices() -> None:
    """Made for one of two resources, it suits no node that lacks both device plugins."""
    nic = device_labs.device_class("nic", device_labs.DRIVER)
    nic["spec"]["extendedResourceName"] = "example.com/nic"
    lab = Lab(ONE, gpu_class(), nic, SLICES[0], asks={GPU: 1, "example.com/nic": 1})
    lab.offer("n1", {"example.com/nic": 1})
    (claim,) = device_labs.allocations(lab.cycle(write=0))
    made = lab.claim_of(claim)
    lab.put(made)
    lab.offer("n1", {"example.com/nic": 0})
    assert lab.cycle().claims == ()
    lab.offer("n1", {"example.com/nic": 1})
    lab.cycle()
    assert bound(lab.cycle()) == {"train-0": "n1"}


def test_a_pod_with_a_claim_goes_to_no_node_with_a_device_plugin() -> None:
    """The kubelet would want the claim in its status; a pod without claim goes there."""
    lab = Lab(TWO.replace("min=2", "min=1"), gpu_class(), *SLICES, asks={GPU: 2})
    planned = device_labs.allocations(lab.cycle(write=0))
    (claim,) = (each for each in planned if each.reserved_for[0].name == "train-0")
    lab.put(lab.claim_of(claim))
    lab.delete("Node", "n1")
    lab.offer("n2", {GPU: 4})
    assert bound(lab.cycle()) == {"train-1": "n2"}
    words = "1 node(s) can't use the resourceclaim that was made for the pod's extended resources"
    assert words in reason(lab.cycle())


def test_more_devices_than_a_claim_can_have() -> None:
    """They come from a device plugin only."""
    lab = Lab(TWO, gpu_class(), device_labs.resource_slice("n2", 40))
    lab.ask("train-0", {GPU: 33})
    assert "asks for 33 devices, more than a claim can have" in reason(lab.cycle())
    lab.offer("n1", {GPU: 33})
    assert bound(lab.cycle())["train-0"] == "n1"
    assert lab.names() == []


def test_devices_go_back_when_the_gang_cannot_start() -> None:
    """The node of one pod goes after the claims are allocated; both claims are kept for later."""
    lab = Lab(TWO, gpu_class(), *SLICES, asks={GPU: 2})
    lab.cycle()
    assert len(lab.allocated()) == 2
    lab.delete("Node", "n2")
    lab.cycle()
    assert lab.allocated() == {}
    lab.put(lab_node("n3"))
    lab.put(device_labs.resource_slice("n3", 2))
    lab.cycle()
    assert bound(lab.cycle()) == {"train-0": "n1", "train-1": "n3"}
    assert lab.names() == ["train-0", "train-1"]


def lab_node(name: str) -> Document:
    """A node like the others."""
    document = Lab(ONE).get("Node", "n1")
    return document | {"metadata": {**document["metadata"], "name": name, "uid": f"uid-{name}"}}


@pytest.mark.parametrize("written", range(3))
def test_a_restart_after_any_claim_goes_on(written: int) -> None:
    """Claims that are made and allocated are found again by another instance."""
    lab = Lab(TWO, gpu_class(), *SLICES, asks={GPU: 2})
    lab.cycle(write=written)
    lab.restart()
    assert len(bound(lab.cycle()) | bound(lab.cycle())) == 2
    assert lab.names() == ["train-0", "train-1"]
    assert sorted(lab.reserved().values()) == [["train-0"], ["train-1"]]


def test_a_claim_of_somebody_else_is_not_used() -> None:
    """It has the name that the pod's claim would get."""
    lab = Lab(ONE, gpu_class(), SLICES[0], asks={GPU: 1})
    uid = lab.get("Pod", "train-0")["metadata"]["uid"]
    name = extended_resources.claim_name("train-0", uid)
    lab.put(device_labs.claim(name))
    assert f'resourceclaim "{name}" was not created for the pod' in reason(lab.cycle())


@pytest.mark.parametrize("limited", [GPU, "deviceclass.resource.k8s.io/gpu"])
def test_a_queue_counts_devices_once_under_each_name(limited: str) -> None:
    """A limit of one device lets one of two pods start, whichever name it is for."""
    two = TWO.replace("min=2", "min=1")
    tree = {
        "actions": "enqueue, allocate, backfill",
        "tiers": running.tiers("priority gang | predicates capacity"),
    }
    lab = Lab(two, gpu_class(), *SLICES, asks={GPU: 1}, tree=tree)
    queue = lab.get("Queue", "q")
    queue["spec"]["capability"] = {limited: "1"}
    lab.put(queue)
    started = bound(lab.cycle()) | bound(lab.cycle()) | bound(lab.cycle())
    assert list(started) == ["train-0"]
    queue["spec"]["capability"] = {limited: "2"}
    lab.put(queue)
    lab.cycle()
    assert list(bound(lab.cycle())) == ["train-1"]


@pytest.mark.parametrize(("guarantee", "started"), [("0", 3), ("1", 1)])
def test_a_node_with_a_device_plugin_is_open_when_all_devices_are_taken(
    guarantee: str, started: int
) -> None:
    """How many devices there are doesn't limit the queue. What is kept for another queue does:
    whether a pod will have one of the devices isn't known before it has a node.
    """
    picture = "node n1 cpu=8 \n node n2 cpu=8 \n queue p \n queue q"
    tree = {
        "actions": "enqueue, allocate, backfill",
        "tiers": running.tiers("priority gang | predicates capacity"),
    }
    lab = Lab(
        f"{picture} \n job q/train min=1 cpu=1 - - -",
        gpu_class(),
        SLICES[0],
        asks={GPU: 1},
        tree=tree,
    )
    lab.offer("n2", {GPU: 1})
    other = lab.get("Queue", "p")
    other["spec"]["guarantee"] = {"resource": {"deviceclass.resource.k8s.io/gpu": guarantee}}
    lab.put(other)
    found: dict[str, str] = {}
    for _ in range(4):
        found |= bound(lab.cycle())
    assert len(found) == started


def test_without_allocation_only_device_plugins_count() -> None:
    """The configuration leaves claims out."""
    tiers = running.tiers("priority gang | predicates")
    tiers[1]["plugins"][0]["arguments"] = OFF
    lab = Lab(ONE, gpu_class(), SLICES[0], asks={GPU: 1}, tree={**device_labs.TREE, "tiers": tiers})
    assert "or the configuration leaves them out" in reason(lab.cycle())
    lab.offer("n1", {GPU: 1})
    assert bound(lab.cycle()) == {"train-0": "n1"}


@pytest.mark.parametrize("named", [GPU, "deviceclass.resource.k8s.io/gpu"])
def test_a_group_is_let_in_before_it_has_pods(named: str) -> None:
    """Volcano's jobs make their pods once their PodGroup is Inqueue."""
    tree = {
        "actions": "enqueue, allocate, backfill",
        "tiers": running.tiers("priority gang | predicates proportion overcommit"),
    }
    lab = Lab(ONE, gpu_class(), SLICES[0], tree=tree)
    lab.delete("Pod", "train-0")
    group = lab.get("PodGroup", "train")
    group["status"] = {"phase": "Pending"}
    annotations = {"scheduling.volcano.sh/scheduler-name": pictures.SCHEDULER}
    group["metadata"]["annotations"] = annotations
    for asked, phase in (("3", "Pending"), ("2", "Inqueue")):
        group["spec"]["minResources"] = {named: asked}
        lab.put(group)
        assert [group.phase for group in lab.cycle().groups] == [phase]


@pytest.mark.parametrize(("priority", "second"), [(0, "Pending"), (9, "Inqueue")])
@pytest.mark.parametrize("named", [GPU, "deviceclass.resource.k8s.io/gpu"])
def test_a_group_that_was_let_in_keeps_what_it_was_promised(
    named: str, priority: int, second: str
) -> None:
    """One that comes later asks for the same two devices; a more important one is admitted, too."""
    one = "node n1 cpu=8 \n queue q \n job q/first min=1 -"
    two = f"{one}  job q/second min=1 priority={priority} -"
    tree = {
        "actions": "enqueue, allocate, backfill",
        "tiers": running.tiers("priority gang | predicates proportion overcommit"),
    }
    lab = Lab(two, gpu_class(), SLICES[0], tree=tree)
    for name, phase in (("first", "Inqueue"), ("second", "Pending")):
        group = lab.get("PodGroup", name)
        group["status"] = {"phase": phase}
        group["spec"]["minResources"] = {named: "2"}
        lab.put(group)
        lab.delete("Pod", f"{name}-0")
        annotations = {"scheduling.volcano.sh/scheduler-name": pictures.SCHEDULER}
        group["metadata"]["annotations"] = annotations
    phases = {group.job: group.phase for group in lab.cycle().groups}
    assert phases == {"default/first": "Inqueue", "default/second": second}
