"""Resource requests of pods.

Kubernetes: component-helpers resource.PodRequests, with in-place resize and pod-level resources.
Volcano: api.GetPodResourceRequest.
"""

from collections.abc import Mapping, Sequence

from vscheduler.mirror.decode import fields
from vscheduler.mirror.decode.wire import Container, ContainerStatus, Pod, ResourceRequirements
from vscheduler.model import resources

ALWAYS = "Always"
"""The restartPolicy that makes an init container a sidecar."""

POD_LEVEL = (resources.CPU, resources.MEMORY)
"""Resources that spec.resources may set for the whole pod, beside hugepages."""

HUGE_PAGES = "hugepages-"
INFEASIBLE = "Infeasible"
"""Reason of condition PodResizePending when the node can never grant the resize."""


def of_pod(pod: Pod) -> dict[str, int]:
    """Return the request of a pod by resource, sorted, without zeros, including `pods: 1`.

    The request is the larger of two amounts: the sum of all containers and sidecars, and the
    largest init container together with the sidecars started before. spec.resources replaces the
    amounts it names, and the overhead of the runtime class is added. Raises FieldError for a bad
    quantity.
    """
    spec = pod.spec
    total = _together(pod)
    if spec.resources is not None:
        total = _with_pod_level(total, pod, spec.resources)
    if spec.overhead:
        overhead = fields.amounts(spec.overhead, "spec.overhead", resources.REQUEST_MAX)
        total = resources.add(total, overhead)
    total[resources.PODS] = 1
    limit = resources.REQUEST_MAX
    return {name: min(total[name], limit) for name in sorted(total) if total[name]}


def _together(pod: Pod) -> dict[str, int]:
    spec, status = pod.spec, pod.status
    granted = _granted(status.container_statuses) if spec.node_name else {}
    infeasible = bool(granted) and resize_is_infeasible(pod)
    total: dict[str, int] = {}
    for index, container in enumerate(spec.containers):
        request = of_container(container, f"spec.containers[{index}]")
        total = _plus(total, _with_granted(request, granted.get(container.name), infeasible))
    if not spec.init_containers:
        return total
    started = _granted(status.init_container_statuses) if spec.node_name else {}
    sidecars: dict[str, int] = {}
    before: dict[str, int] = {}
    for index, container in enumerate(spec.init_containers):
        request = of_container(container, f"spec.initContainers[{index}]")
        if container.restart_policy == ALWAYS:
            request = _with_granted(request, started.get(container.name), infeasible)
            sidecars = _plus(sidecars, request)
        else:
            before = _larger(before, _plus(sidecars, request))
    return _larger(_plus(total, sidecars), before)


def of_container(container: Container, field: str) -> dict[str, int]:
    """Return the requests of a container. Raises FieldError for a bad quantity."""
    if container.resources is None:
        return {}
    return _requests(container.resources, f"{field}.resources")


def _requests(required: ResourceRequirements, field: str) -> dict[str, int]:
    """Return the requests, with limits in place of missing requests (Kubernetes:
    SetDefaults_Pod).
    """
    limit = resources.REQUEST_MAX
    requests = fields.amounts(required.requests, f"{field}.requests", limit)
    if required.limits.keys() <= required.requests.keys():
        return requests
    return fields.amounts(required.limits, f"{field}.limits", limit) | requests


def _granted(statuses: Sequence[ContainerStatus]) -> dict[str, dict[str, int]]:
    """Return the resources granted to each container so far: a resize may be in progress.

    Kubernetes: component-helpers resource determineEffectiveRequests.
    """
    by_container = {}
    limit = resources.REQUEST_MAX
    for index, status in enumerate(statuses):
        if status.resources is not None:
            field = f"status.containerStatuses[{index}]"
            granted = fields.amounts(
                status.resources.requests, f"{field}.resources.requests", limit
            )
            allocated = fields.amounts(
                status.allocated_resources, f"{field}.allocatedResources", limit
            )
            by_container[status.name] = _larger(granted, allocated)
    return by_container


def _with_granted(
    request: dict[str, int], granted: dict[str, int] | None, infeasible: bool
) -> dict[str, int]:
    """Return the larger of requested and granted, or the granted amount if the resize is
    infeasible.
    """
    if granted is None:
        return request
    return granted if infeasible else _larger(request, granted)


def _with_pod_level(total: dict[str, int], pod: Pod, whole: ResourceRequirements) -> dict[str, int]:
    """Apply pod-level requests, which replace the sum, and pod-level limits where no request
    exists.

    Pod-level resources of a pod with a node can be resized, too.
    """
    limit = resources.REQUEST_MAX
    requested = fields.amounts(whole.requests, "spec.resources.requests", limit)
    limits = fields.amounts(whole.limits, "spec.resources.limits", limit)
    status = pod.status
    counted = requested
    if pod.spec.node_name and status.resources is not None:
        granted = _larger(
            fields.amounts(status.resources.requests, "status.resources.requests", limit),
            fields.amounts(status.allocated_resources, "status.allocatedResources", limit),
        )
        counted = _with_granted(requested, granted, resize_is_infeasible(pod))
    requests = {name: limits[name] for name in limits if _pod_level(name)}
    return requests | total | {name: counted.get(name, 0) for name in requested if _pod_level(name)}


def resize_is_infeasible(pod: Pod) -> bool:
    """Whether the node can never grant what the pod requests by now."""
    return any(
        condition.type == "PodResizePending" and condition.reason == INFEASIBLE
        for condition in pod.status.conditions
    )


def _pod_level(name: str) -> bool:
    return name in POD_LEVEL or name.startswith(HUGE_PAGES)


def _plus(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return resources.add(left, right) if left and right else left or right


def _larger(left: dict[str, int], right: Mapping[str, int]) -> dict[str, int]:
    larger = dict(left)
    for name, amount in right.items():
        larger[name] = max(larger.get(name, 0), amount)
    return larger
