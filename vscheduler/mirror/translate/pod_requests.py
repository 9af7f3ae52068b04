"""What a pod asks for.

Kubernetes: component-helpers resource.PodRequests, with in-place resize and pod-level resources.
Volcano: api.GetPodResourceRequest.
"""

from collections.abc import Mapping, Sequence

from vscheduler.core.model import resources
from vscheduler.mirror.decode import fields, wire

ALWAYS = "Always"
"""The restartPolicy that makes an init container a sidecar."""

POD_LEVEL = (resources.CPU, resources.MEMORY)
"""Resources that spec.resources can name for the pod as a whole; hugepages are the others."""

HUGE_PAGES = "hugepages-"
INFEASIBLE = "Infeasible"
"""Reason of the condition PodResizePending when the node can never give what is wished for."""


def of_pod(pod: wire.Pod) -> dict[str, int]:
    """Amounts by name, sorted, without zeros, `pods: 1` included; FieldError for a bad quantity.

    The larger of what runs together (containers and sidecars) and what starts before it (each
    init container beside the sidecars started before it); spec.resources in its place where
    given; and the overhead of the runtime class on top.
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


def _together(pod: wire.Pod) -> dict[str, int]:
    spec, status = pod.spec, pod.status
    given = _given(status.container_statuses) if spec.node_name else {}
    infeasible = bool(given) and _resize_is_infeasible(pod)
    total: dict[str, int] = {}
    for index, container in enumerate(spec.containers):
        request = _container(container, f"spec.containers[{index}]")
        total = _plus(total, _with_given(request, given.get(container.name), infeasible))
    if not spec.init_containers:
        return total
    started = _given(status.init_container_statuses) if spec.node_name else {}
    sidecars: dict[str, int] = {}
    before: dict[str, int] = {}
    for index, container in enumerate(spec.init_containers):
        request = _container(container, f"spec.initContainers[{index}]")
        if container.restart_policy == ALWAYS:
            request = _with_given(request, started.get(container.name), infeasible)
            sidecars = _plus(sidecars, request)
        else:
            before = _larger(before, _plus(sidecars, request))
    return _larger(_plus(total, sidecars), before)


def _container(container: wire.Container, field: str) -> dict[str, int]:
    if container.resources is None:
        return {}
    return _requests(container.resources, f"{field}.resources")


def _requests(required: wire.ResourceRequirements, field: str) -> dict[str, int]:
    """The requests, and the limits of what isn't requested (Kubernetes: SetDefaults_Pod)."""
    limit = resources.REQUEST_MAX
    found = fields.amounts(required.requests, f"{field}.requests", limit)
    if required.limits.keys() <= required.requests.keys():
        return found
    return fields.amounts(required.limits, f"{field}.limits", limit) | found


def _given(statuses: Sequence[wire.ContainerStatus]) -> dict[str, dict[str, int]]:
    """What the node has given to each container so far: a resize may not be through yet.

    Kubernetes: component-helpers resource determineEffectiveRequests.
    """
    found = {}
    limit = resources.REQUEST_MAX
    for index, status in enumerate(statuses):
        if status.resources is not None:
            field = f"status.containerStatuses[{index}]"
            given = fields.amounts(status.resources.requests, f"{field}.resources.requests", limit)
            allocated = fields.amounts(
                status.allocated_resources, f"{field}.allocatedResources", limit
            )
            found[status.name] = _larger(given, allocated)
    return found


def _with_given(
    request: dict[str, int], given: dict[str, int] | None, infeasible: bool
) -> dict[str, int]:
    """The larger of wish and gift, or the gift where the wish can't come true."""
    if given is None:
        return request
    return given if infeasible else _larger(request, given)


def _with_pod_level(
    total: dict[str, int], pod: wire.Pod, whole: wire.ResourceRequirements
) -> dict[str, int]:
    """Requests of the pod as a whole replace the sum; its limits stand in where there is none.

    Those of a pod on a node can be resized, too.
    """
    limit = resources.REQUEST_MAX
    requested = fields.amounts(whole.requests, "spec.resources.requests", limit)
    limits = fields.amounts(whole.limits, "spec.resources.limits", limit)
    status = pod.status
    counted = requested
    if pod.spec.node_name and status.resources is not None:
        given = _larger(
            fields.amounts(status.resources.requests, "status.resources.requests", limit),
            fields.amounts(status.allocated_resources, "status.allocatedResources", limit),
        )
        counted = _with_given(requested, given, _resize_is_infeasible(pod))
    found = {name: limits[name] for name in limits if _pod_level(name)}
    return found | total | {name: counted.get(name, 0) for name in requested if _pod_level(name)}


def _resize_is_infeasible(pod: wire.Pod) -> bool:
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
