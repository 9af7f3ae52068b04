"""Allocations of devices, as patches of resource claims, and their withdrawal.

The fields are those that kube-scheduler writes (plugin DynamicResources): first a finalizer, so
that no claim disappears while it has devices, and then the status. Before devices are taken back,
the claim gets a label: with it, a policy of manifests/cluster/device-policies.yaml looks whether
one of the pods has a node, which costs too much to be done with each change of a claim. Each patch
names the UID of the claim and the version last seen, so that the API server refuses it if anything
has changed since (409); what was seen after the decision was made is looked at before
(`is_about`). An allocation never stands there without the pods that it is for.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from vscheduler.core.model.claim_decisions import ClaimAllocation, DeallocateClaim, DeviceChange
from vscheduler.core.model.constraints import Requirement, Term
from vscheduler.core.model.devices import (
    AllocatedDevice,
    Allocation,
    Configuration,
    Consumer,
    DeviceToleration,
    ResourceClaim,
)
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path
from vscheduler.mirror.translate.devices import DEALLOCATING

Body: TypeAlias = dict[str, Any]


FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim until its devices are taken back; Kubernetes' own controller removes it."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The claim of a change, as last seen."""

    version: str
    """The resourceVersion."""
    value: ResourceClaim


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


def metadata_patch(target: Target, change: DeviceChange) -> Body | None:
    """Return the merge patch that comes before the status, or None if the claim needs none."""
    claim = target.value
    wanted: Body = {}
    deallocates = isinstance(change, DeallocateClaim)
    if deallocates != claim.deallocating:
        wanted["labels"] = {DEALLOCATING: "true" if deallocates else None}
    if not deallocates and FINALIZER not in claim.finalizers:
        wanted["finalizers"] = [*claim.finalizers, FINALIZER]
    return {"metadata": {**_preconditions(target), **wanted}} if wanted else None


def status_patch(target: Target, change: DeviceChange) -> Body:
    """Return the merge patch of the status."""
    wanted = result(target.value, change)
    status: Body = {"reservedFor": [_consumer(each) for each in wanted.reserved_for] or None}
    match change:
        case ClaimAllocation(allocation=Allocation() as allocation):
            status["allocation"] = _allocation(allocation)
        case DeallocateClaim():
            status["allocation"] = None
    return {"metadata": _preconditions(target), "status": status}


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


def _preconditions(target: Target) -> Body:
    return {"uid": target.value.uid, "resourceVersion": target.version}


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
