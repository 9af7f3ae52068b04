"""Allocations of devices, as patches of resource claims, and their withdrawal.

The fields are those that kube-scheduler writes (plugin DynamicResources): first a finalizer, so
that no claim disappears while it has devices, and then the status. Before devices are taken back,
the claim gets a label: with it, a policy of manifests/cluster/device-policies.yaml looks whether
one of the pods has a node, which costs too much to be done with each change of a claim. Each patch
names the UID of the claim and the version last seen, so that the API server refuses it if anything
has changed since (409); what was seen after the decision was made is looked at before
(`is_about`). An allocation never stands there without the pods that it is for.

A claim for extended resources of a pod is made first (`creation`), and written to its pod
(`announcement`): status.extendedResourceClaimStatus tells the kubelet which request is for which
container. Its name follows from the UID of the pod, so it is never made twice.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec.structs import replace

from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path
from vscheduler.mirror.translate import devices as translation
from vscheduler.mirror.translate import extended_resources
from vscheduler.mirror.translate.devices import DEALLOCATING
from vscheduler.model.claim_decisions import ClaimAllocation, DeallocateClaim, DeviceChange
from vscheduler.model.constraints import Requirement, Term
from vscheduler.model.devices import (
    AllocatedDevice,
    Allocation,
    Configuration,
    Consumer,
    DeviceRequest,
    DeviceToleration,
    ResourceClaim,
)

Body: TypeAlias = dict[str, Any]


FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim until its devices are taken back; Kubernetes' own controller removes it."""


def is_about(change: DeviceChange, claim: ResourceClaim) -> bool:
    """Whether the claim is still the one that was decided on, and may get the change."""
    if claim.uid != change.uid or claim.writing:
        return False
    match change:
        case ClaimAllocation(allocation=None):
            has = claim.allocation
            return has is not None and has == change.existing and not claim.deleting
        case ClaimAllocation():
            return claim.allocation is None and not claim.deleting
        case DeallocateClaim():
            known = {each.uid for each in change.reserved_for}
            waiting = all(each.uid in known for each in claim.reserved_for)
            return waiting and claim.allocation == change.allocation


def path(claim: ResourceClaim, *, status: bool = False) -> Path:
    """Return the path of the claim or of its status."""
    if status:
        return paths.RESOURCE_CLAIMS.status(claim.name, claim.namespace)
    return paths.RESOURCE_CLAIMS.at(claim.name, claim.namespace)


def metadata_patch(claim: ResourceClaim, change: DeviceChange, version: str) -> Body | None:
    """Return the merge patch that comes before the status, or None if the claim needs none."""
    wanted: Body = {}
    deallocates = isinstance(change, DeallocateClaim)
    if deallocates != claim.deallocating:
        wanted["labels"] = {DEALLOCATING: "true" if deallocates else None}
    if not deallocates and FINALIZER not in claim.finalizers:
        wanted["finalizers"] = [*claim.finalizers, FINALIZER]
    return {"metadata": {**_preconditions(claim, version), **wanted}} if wanted else None


def status_patch(claim: ResourceClaim, change: DeviceChange, version: str) -> Body:
    """Return the merge patch of the status."""
    wanted = result(claim, change)
    status: Body = {"reservedFor": [_consumer(each) for each in wanted.reserved_for] or None}
    match change:
        case ClaimAllocation(allocation=Allocation() as allocation):
            status["allocation"] = _allocation(allocation)
        case DeallocateClaim():
            status["allocation"] = None
    return {"metadata": _preconditions(claim, version), "status": status}


def result(claim: ResourceClaim, change: DeviceChange) -> ResourceClaim:
    """Return the claim as it will be once the change is written."""
    match change:
        case ClaimAllocation():
            known = {each.uid for each in claim.reserved_for}
            added = (each for each in change.reserved_for if each.uid not in known)
            return replace(
                claim,
                allocation=change.allocation or claim.allocation,
                reserved_for=(*claim.reserved_for, *added),
            )
        case DeallocateClaim():
            return replace(claim, allocation=None, reserved_for=())


def is_shown(patch: Body, found: Body) -> bool:
    """Whether the API server's claim shows a patch of the status."""
    status = found.get("status") or {}
    return _in_short(status) == _in_short({**status, **patch["status"]})


def _in_short(status: Body) -> tuple[set[tuple[str, str, str]], set[str]]:
    """Return the devices of a claim and the pods that it is reserved for."""
    allocation = status.get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    devices = {(result["driver"], result["pool"], result["device"]) for result in results}
    return devices, {each["uid"] for each in status.get("reservedFor") or ()}


def _preconditions(claim: ResourceClaim, version: str) -> Body:
    return {"uid": claim.uid, "resourceVersion": version}


# Claims for extended resources: a claim that its pod owns, and what the pod says of it.


def collection(change: ClaimAllocation) -> Path:
    """Return the path under which the claim is made."""
    return paths.RESOURCE_CLAIMS.within(change.namespace)


def pod_status(change: ClaimAllocation) -> Path:
    """Return the path of the status of the claim's pod."""
    return paths.PODS.status(_pod(change).name, change.namespace)


def creation(change: ClaimAllocation) -> Body:
    """Return the claim to make, without status."""
    pod = _pod(change)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    return {
        "apiVersion": paths.RESOURCE_CLAIMS.api_version,
        "kind": "ResourceClaim",
        "metadata": {
            "name": change.name,
            "namespace": change.namespace,
            "annotations": {extended_resources.ANNOTATION: "true"},
            "ownerReferences": [{**owner, "controller": True}],
            "finalizers": [FINALIZER],
        },
        "spec": {"devices": {"requests": [_request(request) for request in change.requests]}},
    }


def announcement(change: ClaimAllocation) -> Body:
    """Return the merge patch of the pod's status."""
    mappings = [
        {
            "containerName": mapping.container,
            "resourceName": mapping.resource,
            "requestName": mapping.request,
        }
        for mapping in change.mappings
    ]
    status = {"resourceClaimName": change.name, "requestMappings": mappings}
    return {
        "metadata": {"uid": _pod(change).uid},
        "status": {"extendedResourceClaimStatus": status},
    }


def is_made_for(claim: ResourceClaim, change: ClaimAllocation) -> bool:
    """Whether a stored claim is the one that would be made: its pod's, and for the same devices."""
    return (
        claim.for_extended
        and claim.owner == _pod(change).uid
        and claim.requests == change.requests
        and claim.allocation is None
        and not claim.deleting
    )


def _consumer(found: Consumer) -> Body:
    group = {"apiGroup": found.api_group} if found.api_group else {}
    return {**group, "resource": found.resource, "name": found.name, "uid": found.uid}


def _allocation(found: Allocation) -> Body:
    body: Body = {"devices": {"results": [_device(device) for device in found.devices]}}
    if found.configurations:
        body["devices"]["config"] = [
            _configuration(configuration) for configuration in found.configurations
        ]
    if found.nodes is not None:
        terms = [_without_empty(_term(node)) for node in found.nodes]
        body["nodeSelector"] = {"nodeSelectorTerms": terms}
    return body


def _device(found: AllocatedDevice) -> Body:
    body: Body = {"request": found.request, **found.id._asdict()}
    if found.admin_access:
        body["adminAccess"] = True
    if found.tolerations:
        body["tolerations"] = [
            _without_empty(_toleration(toleration)) for toleration in found.tolerations
        ]
    return body


def _toleration(found: DeviceToleration) -> Body:
    return {
        "key": found.key,
        "operator": found.operator,
        "value": found.value,
        "effect": found.effect,
        "tolerationSeconds": found.seconds,
    }


def _configuration(found: Configuration) -> Body:
    return {
        "source": "FromClass" if found.from_class else "FromClaim",
        "requests": list(found.requests),
        "opaque": {"driver": found.driver, "parameters": json.loads(found.parameters)},
    }


def _term(found: Term) -> Body:
    return {
        "matchExpressions": _requirements(found.labels),
        "matchFields": _requirements(found.fields),
    }


def _requirements(listed: Iterable[Requirement]) -> list[Body]:
    return [
        _without_empty(
            {"key": each.key, "operator": str(each.operator), "values": list(each.values)}
        )
        for each in listed
    ]


def _without_empty(body: Body) -> Body:
    """Return the fields that say something."""
    return {key: value for key, value in body.items() if value not in (None, "", [])}


def _request(found: DeviceRequest) -> Body:
    (wanted,) = found.alternatives
    exactly = {
        "deviceClassName": wanted.device_class,
        "allocationMode": translation.EXACT_COUNT,
        "count": wanted.count,
    }
    return {"name": found.name, "exactly": exactly}


def _pod(change: ClaimAllocation) -> Consumer:
    """Return the pod that the claim is made for, its only consumer."""
    (consumer,) = change.reserved_for
    return consumer
