"""Classes of pods: equal pods share one TaskClass for as long as any of them is there."""

import hashlib
import weakref
from collections.abc import Mapping

import msgspec

from vscheduler.core.model import constraints, jobs, resources
from vscheduler.mirror import bounds, fields, pod_terms, requests, selectors, wire

NONE: Mapping[str, str] = {}
"""No hints."""

LONG = 4096
"""Bytes that a class is worked out from: of more, only a digest is kept."""

_encode = msgspec.json.Encoder().encode


class Classes:
    """All that are in use."""

    def __init__(self, most: bounds.Bounds) -> None:
        """`most` is what a pod may ask for."""
        self._most = most
        self._classes: weakref.WeakValueDictionary[object, jobs.TaskClass] = (
            weakref.WeakValueDictionary()
        )
        self._known: weakref.WeakValueDictionary[bytes, jobs.TaskClass] = (
            weakref.WeakValueDictionary()
        )
        """The same, by what they were worked out from: most pods are like others of their job."""

    def __len__(self) -> int:
        return len(self._classes)

    def kind(
        self, pod: wire.Pod, hints: Mapping[str, str], *, ours: bool, waits: bool
    ) -> jobs.TaskClass:
        """What the pod asks for; that of others only as far as it means something on its node.

        FieldError where there is something wrong with that, or a pod that waits for us asks for
        more than is looked at.
        """
        excess = self._most.excess(pod.spec)
        if excess is not None and waits:
            raise excess
        key = _basis(pod, hints, ours=ours)
        if waits:
            self._most.check_size(len(key), pod.metadata.labels)
        if len(key) > LONG:
            key = hashlib.blake2b(key).digest()
        kind = self._known.get(key)
        if kind is None:
            request = requests.of_pod(pod)
            if excess is not None:
                conditions = pod_terms.in_short(pod.spec, pod.metadata, self._most, ours=ours)
            else:
                terms = pod_terms.of_pod if ours else pod_terms.of_resident
                conditions = terms(pod.spec, pod.metadata)
            kind = self._known[key] = self._intern(request, conditions, hints)
        if waits:
            self._most.check_resources(kind.request)
        return kind

    def held(self, pod: wire.Pod) -> jobs.TaskClass:
        """What a pod with a mistake in it holds on its node, as far as that can be read."""
        try:
            request = requests.of_pod(pod)
            self._most.check_resources(request)
        except fields.FieldError:
            request = {resources.PODS: 1}
        return self._intern(request, selectors.of_ports(pod.spec))

    def _intern(
        self,
        request: dict[str, int],
        conditions: constraints.Constraints,
        hints: Mapping[str, str] = NONE,
    ) -> jobs.TaskClass:
        key = (tuple(request.items()), conditions, tuple(hints.items()))
        kind = self._classes.get(key)
        if kind is None:
            kind = jobs.TaskClass(request=request, constraints=conditions, hints=hints)
            self._classes[key] = kind
        return kind


def _basis(pod: wire.Pod, hints: Mapping[str, str], *, ours: bool) -> bytes:
    """All that a pod's class is worked out from, in bytes, which are made and compared quickly."""
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    given: object = None
    own: object = None
    if spec.node_name and (
        status.container_statuses or status.init_container_statuses or status.resources
    ):
        reasons = [(each.type, each.reason) for each in status.conditions]
        whole = (status.resources, status.allocated_resources)
        given = (status.container_statuses, status.init_container_statuses, whole, reasons)
    if spec.affinity or spec.topology_spread_constraints:
        own = (metadata.namespace, metadata.labels)
    return _encode(
        (
            ours,
            hints,
            given,
            own,
            spec.containers,
            spec.init_containers,
            spec.resources,
            spec.overhead,
            spec.host_network,
            spec.host_users,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
        )
    )
