"""Claims for extended resources, as they are made, and what their pods say of them.

The fields are those that kube-scheduler writes (plugin DynamicResources): a claim that is owned by
its pod, and status.extendedResourceClaimStatus of the pod, which tells the kubelet which request is
for which container. A claim keeps its devices' finalizer from the start.
"""

from typing import Any, TypeAlias

from vscheduler.core.model.claim_decisions import ClaimAllocation
from vscheduler.core.model.devices import Consumer, DeviceRequest
from vscheduler.mirror import device_requests, paths
from vscheduler.mirror.decode.wire_devices import ResourceClaim
from vscheduler.mirror.paths import Path
from vscheduler.mirror.translate import devices as translation
from vscheduler.mirror.translate import extended_resources

Body: TypeAlias = dict[str, Any]

Allocation: TypeAlias = ClaimAllocation


def collection(change: Allocation) -> Path:
    """Return the path under which the claim is made."""
    return paths.RESOURCE_CLAIMS.within(change.namespace)


def pod_status(change: Allocation) -> Path:
    """Return the path of the status of the claim's pod."""
    return paths.PODS.status(_pod(change).name, change.namespace)


def creation(change: Allocation) -> Body:
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
            "finalizers": [device_requests.FINALIZER],
        },
        "spec": {"devices": {"requests": [_request(request) for request in change.requests]}},
    }


def announcement(change: Allocation) -> Body:
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


def is_made_for(found: ResourceClaim, change: Allocation) -> bool:
    """Whether a stored claim is the one that would be made: its pod's, and for the same devices."""
    known = translation.resource_claim(found)
    return (
        known.for_extended
        and known.owner == _pod(change).uid
        and known.requests == change.requests
        and known.allocation is None
        and not known.deleting
    )


def _request(found: DeviceRequest) -> Body:
    (wanted,) = found.alternatives
    exactly = {
        "deviceClassName": wanted.device_class,
        "allocationMode": translation.EXACT_COUNT,
        "count": wanted.count,
    }
    return {"name": found.name, "exactly": exactly}


def _pod(change: Allocation) -> Consumer:
    """Return the pod that the claim is made for, its only consumer."""
    (consumer,) = change.reserved_for
    return consumer
