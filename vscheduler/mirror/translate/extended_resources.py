"""Extended resources of pods, and the claim that stands for those of a DeviceClass.

Kubernetes: the plugin DynamicResources of kube-scheduler (createRequestsAndMappings). As there, a
claim has one request for each container and resource, and init containers use again what later
containers have.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from vscheduler.mirror.decode import events, wire
from vscheduler.mirror.decode.wire import PodSpec
from vscheduler.mirror.translate import pod_requests
from vscheduler.model import extended_resources as models
from vscheduler.model.constraints import ResourceClaimUse
from vscheduler.model.devices import DeviceRequest, ResourceClaim, Wanted
from vscheduler.model.extended_resources import ExtendedResource, RequestMapping

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""Marks a claim that a scheduler made for a pod."""

NATIVE = "kubernetes.io/"
"""Is in the names of resources that aren't extended (Kubernetes: IsNativeResource)."""

BASE_MAX = 58
"""How many characters of a made name stand before what is unique (Kubernetes: names.go)."""

SUFFIX = 5
"""How many characters are unique."""


class Container(NamedTuple):
    """The extended resources of a container."""

    place: int
    """Its place among init containers and containers."""
    name: str
    lasts: bool
    """Whether it runs beside the others: it is a container or a sidecar."""
    amounts: tuple[tuple[str, str, int], ...]
    """Resources, the names of the requests for them, and amounts."""


NONE: tuple[Container, ...] = ()


def of_pod(spec: PodSpec) -> tuple[Container, ...]:
    """Return the extended resources of a pod by container. Raises FieldError for a bad quantity."""
    if not any(_names(each) for each in (*spec.init_containers, *spec.containers)):
        return NONE
    return tuple(_containers(spec))


def _containers(spec: PodSpec) -> Iterator[Container]:
    early = len(spec.init_containers)
    for index, each in enumerate((*spec.init_containers, *spec.containers)):
        field = "initContainers" if index < early else "containers"
        place = f"spec.{field}[{index if index < early else index - early}]"
        requests = pod_requests.of_container(each, place)
        amounts = tuple(
            (resource, f"container-{index}-request-{at}", requests[resource])
            for at, resource in enumerate(sorted(requests))
            if requests[resource] and is_extended(resource)
        )
        if amounts:
            lasts = index >= early or each.restart_policy == pod_requests.ALWAYS
            yield Container(index, each.name, lasts, amounts)


def _names(container: wire.Container) -> bool:
    required = container.resources
    return required is not None and any(map(is_extended, (*required.requests, *required.limits)))


def is_extended(resource: str) -> bool:
    """Whether a resource can stand for a DeviceClass (Kubernetes: IsDRAExtendedResourceName)."""
    if resource.startswith(models.IMPLICIT):
        return True
    return "/" in resource and NATIVE not in resource and not resource.startswith("requests.")


def use_of(
    key: str, uid: str, containers: Iterable[Container], classes: Mapping[str, str]
) -> ResourceClaimUse | None:
    """Return the claim that stands for the extended resources of a pod; None if it has none of
    these classes.
    """
    asked = {resource for container in containers for resource, _, _ in container.amounts}
    resources = tuple(sorted(asked & classes.keys()))
    if not resources:
        return None
    namespace, _, name = key.partition("/")
    claim = events.key_of(namespace, claim_name(name, uid))
    return ResourceClaimUse("", claim, uid, resources)


def claim_name(pod: str, uid: str) -> str:
    """Return the name of the claim for a pod: the same each time, so that none is made twice."""
    unique = hashlib.blake2b(uid.encode(), digest_size=8).hexdigest()[:SUFFIX]
    return f"{pod}-extended-resources-"[:BASE_MAX] + unique


def claim_of(
    use: ResourceClaimUse,
    containers: Sequence[Container],
    classes: Mapping[str, str],
) -> ResourceClaim:
    """Return the claim as it is before it is made, for the resources of these classes."""
    namespace, _, name = use.claim.partition("/")
    requests: list[DeviceRequest] = []
    extended: list[ExtendedResource] = []
    for resource in use.resources:
        wanted, mappings = _requests(containers, resource)
        for request, count in wanted.items():
            alternative = Wanted(device_class=classes[resource], count=count)
            requests.append(DeviceRequest(name=request, alternatives=(alternative,)))
        extended.append(
            ExtendedResource(resource=resource, requests=tuple(wanted), mappings=tuple(mappings))
        )
    return ResourceClaim(
        namespace=namespace,
        name=name,
        uid="",
        requests=tuple(sorted(requests, key=lambda each: each.name)),
        owner=use.owner,
        for_extended=True,
        extended=tuple(extended),
    )


def _requests(
    containers: Sequence[Container], resource: str
) -> tuple[dict[str, int], list[RequestMapping]]:
    """Return the requests for a resource with their counts, and for which containers they are."""
    asked = [
        (container, request, amount)
        for container in containers
        for name, request, amount in container.amounts
        if name == resource
    ]
    lasting = {
        container.place: (request, amount)
        for container, request, amount in asked
        if container.lasts
    }
    mappings = [
        RequestMapping(container.name, resource, request)
        for container, request, _ in asked
        if container.lasts
    ]
    largest = ("", 0)
    more: list[str] = []
    """Init containers that ask for more than the later containers have; they share one request."""
    for container, request, amount in asked:
        if container.lasts:
            continue
        lacking = amount
        for index, (name, count) in sorted(lasting.items()):
            if index > container.place and lacking > 0:
                mappings.append(RequestMapping(container.name, resource, name))
                lacking -= count
        if lacking > 0:
            more.append(container.name)
            largest = max(largest, (request, lacking), key=lambda each: each[1])
    mappings += (RequestMapping(name, resource, largest[0]) for name in more)
    wanted = dict(sorted(lasting.values()))
    return ({largest[0]: largest[1]} if more else {}) | wanted, mappings


def joined(stored: ResourceClaim | None, planned: ResourceClaim | None) -> ResourceClaim | None:
    """Return a claim as cycles see it: as it is stored, with what its pod asks for by extended
    resources, or as it will be made.
    """
    if stored is None or planned is None or not stored.for_extended:
        return stored or planned
    return replace(stored, extended=planned.extended)
