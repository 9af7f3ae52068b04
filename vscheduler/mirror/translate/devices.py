"""Slices, classes and claims of devices, translated to model.devices.

Every function raises fields.FieldError for an unusable field. What isn't supported is noted in the
value instead, since only what needs it is affected.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vscheduler.mirror.decode import events, fields, quantities, wire_devices
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.quantities import QuantityError
from vscheduler.mirror.decode.wire import Metadata, NodeSelector, OwnerReference
from vscheduler.mirror.decode.wire_devices import (
    ClaimMetadata,
    DeviceClaim,
    Request,
    ResourceClaimTemplate,
    Selector,
    SliceSpec,
    Toleration,
)
from vscheduler.mirror.translate import extended_resources, pod_constraints
from vscheduler.model import devices, jobs
from vscheduler.model.constraints import Term
from vscheduler.model.devices import (
    Access,
    AllocatedDevice,
    AttributeValue,
    Consumer,
    DeviceId,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    MatchAttribute,
    Version,
)
from vscheduler.model.jobs import JobId

EXACT_COUNT = "ExactCount"
ALL = "All"
OPERATORS = ("Equal", "Exists")
COUNT_MAX = 2**63 - 1
DEALLOCATING = "vscheduler.io/deallocating"
"""Label of a claim whose devices are taken back; the next allocation removes it."""


def resource_slice(found: wire_devices.ResourceSlice) -> devices.ResourceSlice:
    """Translate a ResourceSlice."""
    spec = found.spec
    return devices.ResourceSlice(
        name=found.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        access=None if spec.per_device_node_selection else _access(spec, "spec"),
        devices=tuple(
            _device(device, spec, f"spec.devices[{at}]") for at, device in enumerate(spec.devices)
        ),
    )


def device_class(found: wire_devices.DeviceClass) -> devices.DeviceClass:
    """Translate a DeviceClass."""
    spec = found.spec
    return devices.DeviceClass(
        name=found.metadata.name,
        selectors=_selectors(spec.selectors, "spec"),
        configurations=tuple(_configurations(spec.config, from_class=True)),
        extended_resource=spec.extended_resource_name or "",
        created=fields.seconds(found.metadata.creation_timestamp),
    )


def resource_claim(found: wire_devices.ResourceClaim) -> devices.ResourceClaim:
    """Translate a ResourceClaim."""
    metadata, claim = found.metadata, found.spec.devices
    return devices.ResourceClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid or events.key_of(metadata.namespace, metadata.name),
        requests=tuple(
            _request(request, f"spec.devices.requests[{at}]")
            for at, request in enumerate(claim.requests)
        ),
        constraints=tuple(
            MatchAttribute(
                attribute=constraint.match_attribute, requests=tuple(constraint.requests)
            )
            for constraint in claim.constraints
            if constraint.match_attribute is not None
        ),
        configurations=tuple(_configurations(claim.config)),
        allocation=_allocation(found.status.allocation),
        reserved_for=tuple(
            Consumer(name=each.name, uid=each.uid, resource=each.resource, api_group=each.api_group)
            for each in found.status.reserved_for
        ),
        finalizers=tuple(metadata.finalizers),
        deallocating=metadata.labels.get(DEALLOCATING) == "true",
        deleting=metadata.deletion_timestamp is not None,
        owner=_owner(metadata),
        group=_group(metadata),
        for_extended=metadata.annotations.get(extended_resources.ANNOTATION) == "true",
        unsupported=next(_unsupported(claim), ""),
    )


def of_template(
    found: ResourceClaimTemplate, of: Metadata, entry: str, kind: tuple[str, str] = ("v1", "Pod")
) -> wire_devices.ResourceClaim:
    """Return the claim that a controller makes of the template for an entry of a pod, or of an
    object of another API version and kind.
    """
    owner = OwnerReference(*kind, name=of.name, uid=of.uid, controller=True)
    return wire_devices.ResourceClaim(
        metadata=ClaimMetadata(
            name=f"{of.name}-{entry}", namespace=of.namespace, owner_references=[owner]
        ),
        spec=found.spec.spec,
    )


def _owner(metadata: Metadata) -> str:
    for reference in metadata.owner_references:
        if reference.controller and reference.kind == "Pod":
            return reference.uid or events.key_of(metadata.namespace, reference.name)
    return ""


def _group(metadata: Metadata) -> JobId | None:
    for reference in metadata.owner_references:
        of_scheduling = reference.api_version.startswith(f"{devices.SCHEDULING}/")
        if reference.controller and reference.kind == "PodGroup" and of_scheduling:
            return jobs.native_id(metadata.namespace, reference.name)
    return None


def _access(found: SliceSpec | wire_devices.Device, place: str) -> Access | None:
    selector = found.node_selector
    return Access(
        node=found.node_name or "",
        every_node=bool(found.all_nodes),
        selector=None if selector is None else _one_term(selector, f"{place}.nodeSelector"),
    )


def _one_term(selector: NodeSelector, place: str) -> Term:
    terms = selector.node_selector_terms
    if len(terms) != 1:
        raise FieldError(f"{place}.nodeSelectorTerms", "must have exactly one term")
    return pod_constraints.node_term(terms[0], f"{place}.nodeSelectorTerms[0]")


def _device(found: wire_devices.Device, spec: SliceSpec, place: str) -> devices.Device:
    attributes, unread = _attributes(found, spec.driver)
    unsupported = {
        "consumesCounters": found.consumes_counters,
        "allowMultipleAllocations": found.allow_multiple_allocations,
        "bindsToNode": found.binds_to_node,
        "bindingConditions": found.binding_conditions,
        "nodeAllocatableResourceMappings": found.node_allocatable_resource_mappings,
    }
    return devices.Device(
        name=found.name,
        attributes=attributes,
        capacity=_capacity(found, spec.driver, place),
        taints=tuple(
            DeviceTaint(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in found.taints
        ),
        access=_access(found, place) if spec.per_device_node_selection else None,
        unsupported=next((name for name, value in unsupported.items() if value), unread),
    )


def _attributes(found: wire_devices.Device, driver: str) -> tuple[dict[str, AttributeValue], str]:
    """Return the attributes by `domain/name`, and the first one of a type that isn't known."""
    values: dict[str, AttributeValue] = {}
    unread = ""
    for name, each in sorted(found.attributes.items()):
        options = (each.number, each.flag, each.string)
        value: AttributeValue | None = next((v for v in options if v is not None), None)
        if each.version is not None:
            value = Version(each.version)
        if value is None:
            unread = unread or f"attributes[{name}]"
        else:
            values[_qualified(name, driver)] = value
    return values, unread


def _capacity(found: wire_devices.Device, driver: str, place: str) -> dict[str, str]:
    amounts = {}
    for name, each in sorted(found.capacity.items()):
        try:
            quantities.exact(each.value)
        except QuantityError as error:
            raise FieldError(f"{place}.capacity[{name}].value", str(error)) from error
        amounts[_qualified(name, driver)] = str(each.value)
    return amounts


def _qualified(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _selectors(found: Sequence[Selector], place: str) -> tuple[str, ...]:
    for at, each in enumerate(found):
        if each.cel is None or not each.cel.expression:
            raise FieldError(f"{place}.selectors[{at}].cel.expression", "is missing")
    return tuple(each.cel.expression for each in found if each.cel is not None)


def _configurations(
    found: Iterable[wire_devices.Configuration], *, from_class: bool = False
) -> Iterator[devices.Configuration]:
    for each in found:
        if each.opaque is not None:
            yield devices.Configuration(
                driver=each.opaque.driver,
                parameters=json.dumps(each.opaque.parameters, sort_keys=True),
                requests=tuple(each.requests),
                from_class=from_class or each.source == "FromClass",
            )


def _request(found: Request, place: str) -> DeviceRequest:
    if found.exactly is not None:
        wanted = [_wanted(found.exactly, f"{place}.exactly")]
    else:
        wanted = [
            _wanted(each, f"{place}.firstAvailable[{at}]")
            for at, each in enumerate(found.first_available)
        ]
    if not wanted:
        raise FieldError(place, "has neither exactly nor firstAvailable")
    return DeviceRequest(name=found.name, alternatives=tuple(wanted))


def _wanted(found: wire_devices.Wanted, place: str) -> devices.Wanted:
    if found.allocation_mode not in (EXACT_COUNT, ALL):
        message = f"{found.allocation_mode!r} is none of {EXACT_COUNT}, {ALL}"
        raise FieldError(f"{place}.allocationMode", message)
    if not 0 <= found.count <= COUNT_MAX:
        raise FieldError(f"{place}.count", "must be a positive number")
    if not found.device_class_name:
        raise FieldError(f"{place}.deviceClassName", "is missing")
    return devices.Wanted(
        device_class=found.device_class_name,
        name=found.name,
        selectors=_selectors(found.selectors, place),
        count=None if found.allocation_mode == ALL else found.count or 1,
        admin_access=bool(found.admin_access),
        tolerations=_tolerations(found.tolerations, place),
    )


def _tolerations(found: Iterable[Toleration], place: str) -> tuple[DeviceToleration, ...]:
    tolerations = []
    for at, each in enumerate(found):
        if each.operator not in OPERATORS:
            message = f"{each.operator!r} is none of {', '.join(OPERATORS)}"
            raise FieldError(f"{place}.tolerations[{at}].operator", message)
        tolerations.append(
            DeviceToleration(
                key=each.key,
                operator=each.operator,
                value=each.value,
                effect=each.effect,
                seconds=each.toleration_seconds,
            )
        )
    return tuple(tolerations)


def _allocation(found: wire_devices.Allocation | None) -> devices.Allocation | None:
    if found is None:
        return None
    selector, place = found.node_selector, "status.allocation.nodeSelector.nodeSelectorTerms"
    return devices.Allocation(
        devices=tuple(
            AllocatedDevice(
                request=result.request,
                id=DeviceId(result.driver, result.pool, result.device),
                admin_access=bool(result.admin_access),
                tolerations=_tolerations(result.tolerations, "status.allocation.devices"),
            )
            for result in found.devices.results
        ),
        configurations=tuple(_configurations(found.devices.config)),
        nodes=None
        if selector is None
        else tuple(
            pod_constraints.node_term(term, f"{place}[{at}]")
            for at, term in enumerate(selector.node_selector_terms)
        ),
    )


def _unsupported(claim: DeviceClaim) -> Iterator[str]:
    """Iterate over the fields of a claim that can't be satisfied."""
    place = "spec.devices"
    for at, constraint in enumerate(claim.constraints):
        if constraint.match_attribute is None:
            yield f"{place}.constraints[{at}]: only matchAttribute is supported"
    for at, request in enumerate(claim.requests):
        wanted: Mapping[str, wire_devices.Wanted] = (
            {"exactly": request.exactly}
            if request.exactly is not None
            else {f"firstAvailable[{i}]": each for i, each in enumerate(request.first_available)}
        )
        for name, each in wanted.items():
            if each.capacity is not None:
                yield f"{place}.requests[{at}].{name}.capacity: is not supported"
