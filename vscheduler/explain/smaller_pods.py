"""Smaller pods: a pod with a lower request of one resource, as its owner would write it."""

import msgspec

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.wire import Container, Pod, ResourceList, ResourceRequirements
from vscheduler.mirror.translate import pod_requests

_alter = msgspec.structs.replace


def requested(pod: Pod, resource: str) -> int:
    """Return how much of a resource the pod requests."""
    return pod_requests.of_pod(pod).get(resource, 0)


def all_requested(pod: Pod) -> list[str]:
    """Return the names of all resources that the pod requests."""
    return list(pod_requests.of_pod(pod))


def capped(pod: Pod, resource: str, most: int) -> Pod:
    """Return the pod with a request of at most `most`: its largest containers ask for less.

    The overhead of a runtime class can't be lowered, so the request may remain above `most`.
    """
    if requested(pod, resource) <= most:
        return pod
    spec = pod.spec
    most = max(0, most - _amount(spec.overhead, resource))
    containers = list(spec.containers)
    excess = sum(_of(container, resource) for container in containers) - most
    for index in sorted(range(len(containers)), key=lambda at: -_of(containers[at], resource)):
        has = _of(containers[index], resource)
        less = min(has, max(0, excess))
        if less:
            containers[index] = _with(containers[index], resource, has - less)
            excess -= less
    before = [
        _with(container, resource, most) if _of(container, resource) > most else container
        for container in spec.init_containers
    ]
    whole = spec.resources
    if whole is not None and resource in {**whole.requests, **whole.limits}:
        whole = _less(whole, resource, most)
    changed = _alter(spec, containers=containers, init_containers=before, resources=whole)
    return _alter(pod, spec=changed)


def _of(container: Container, resource: str) -> int:
    if container.resources is None:
        return 0
    asked = container.resources
    return _amount({**asked.limits, **asked.requests}, resource)


def _amount(amounts: ResourceList, resource: str) -> int:
    return quantities.parse(resource, amounts[resource]) if resource in amounts else 0


def _with(container: Container, resource: str, amount: int) -> Container:
    assert container.resources is not None
    return _alter(container, resources=_less(container.resources, resource, amount))


def _less(asked: ResourceRequirements, resource: str, amount: int) -> ResourceRequirements:
    text = quantities.format_quantity(resource, amount)
    return _alter(asked, requests={**asked.requests, resource: text})
