"""Resource requests of pods.

Kubernetes: component-helpers resource.PodRequests, with in-place resize and pod-level resources.
Volcano: api.GetPodResourceRequest.
"""

from collections.abc import Callable, Mapping

from vscheduler.mirror.decode import fields
from vscheduler.mirror.decode.wire import (
    Container,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)
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
    requested = _sum(pod.spec, of_container)
    if not pod.spec.node_name or not has_grants(pod):
        return requested
    return _with_granted(requested, _granted(pod), pod)


def _sum(spec: PodSpec, amounts: Callable[[Container, str], dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for index, container in enumerate(spec.containers):
        total = _plus(total, amounts(container, f"spec.containers[{index}]"))
    sidecars: dict[str, int] = {}
    before: dict[str, int] = {}
    for index, container in enumerate(spec.init_containers):
        amount = amounts(container, f"spec.initContainers[{index}]")
        if container.restart_policy == ALWAYS:
            sidecars = _plus(sidecars, amount)
        else:
            before = _larger(before, _plus(sidecars, amount))
    return _larger(_plus(total, sidecars), before) if spec.init_containers else total


def _granted(pod: Pod) -> dict[str, int]:
    """Return what all containers were granted so far, as a resize may be in progress: the larger
    of what the kubelet has allocated and what it has set.

    Kubernetes: component-helpers resource.AggregateContainerRequests, from 1.37 on. Before, the
    larger amount of each container was added up.
    """
    status = pod.status
    if status.allocated_resources and status.resources is not None and status.resources.requests:
        return _granted_to_whole(status)
    found = {
        each.name: each
        for each in reversed((*status.container_statuses, *status.init_container_statuses))
    }
    infeasible = resize_is_infeasible(pod)

    def allocated(container: Container, field: str) -> dict[str, int]:
        seen = found.get(container.name)
        if seen is not None and seen.allocated_resources:
            return _reported(seen.allocated_resources, container)
        return {} if infeasible else of_container(container, field)

    def actuated(container: Container, field: str) -> dict[str, int]:
        seen = found.get(container.name)
        if seen is not None and seen.resources is not None and seen.resources.requests:
            return _reported(seen.resources.requests, container)
        return allocated(container, field)

    return _larger(_sum(pod.spec, allocated), _sum(pod.spec, actuated))


def _granted_to_whole(status: PodStatus) -> dict[str, int]:
    limit = resources.REQUEST_MAX
    actuated = status.resources.requests if status.resources is not None else {}
    return _larger(
        fields.amounts(actuated, "status.resources.requests", limit),
        fields.amounts(status.allocated_resources, "status.allocatedResources", limit),
    )


def _reported(amounts: ResourceList, container: Container) -> dict[str, int]:
    return fields.amounts(amounts, f"status of container {container.name}", resources.REQUEST_MAX)


def _with_granted(requested: dict[str, int], granted: dict[str, int], pod: Pod) -> dict[str, int]:
    """Return the larger of requested and granted, or the granted amount if the resize is
    infeasible.
    """
    return granted if resize_is_infeasible(pod) else _larger(requested, granted)


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


def _with_pod_level(total: dict[str, int], pod: Pod, whole: ResourceRequirements) -> dict[str, int]:
    """Apply pod-level requests, which replace the sum, and pod-level limits where no request
    exists.

    Pod-level resources of a pod with a node can be resized, too.
    """
    limit = resources.REQUEST_MAX
    requested = fields.amounts(whole.requests, "spec.resources.requests", limit)
    limits = fields.amounts(whole.limits, "spec.resources.limits", limit)
    counted = requested
    if pod.spec.node_name and pod.status.resources is not None:
        counted = _with_granted(requested, _granted_to_whole(pod.status), pod)
    whole_limits = {name: limits[name] for name in limits if _pod_level(name)}
    if not any(map(_pod_level, requested)):
        return whole_limits | total
    return whole_limits | total | {name: counted[name] for name in counted if _pod_level(name)}


def has_grants(pod: Pod) -> bool:
    """Whether what the kubelet reports of the pod may change what counts."""
    status = pod.status
    return bool(
        status.resources is not None
        or status.allocated_resources
        or resize_is_infeasible(pod)
        or any(
            each.resources is not None or each.allocated_resources
            for each in (*status.container_statuses, *status.init_container_statuses)
        )
    )


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
