"""Pod classes: equal pods share a PodClass object for as long as any of the pods exists."""

import hashlib
import weakref
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from vscheduler.core.model import resources
from vscheduler.core.model.constraints import Constraints, PodVolume, ResourceClaimUse
from vscheduler.core.model.jobs import PodClass
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.large_pods import LargePod
from vscheduler.mirror.decode.wire import Pod, PodStatus
from vscheduler.mirror.translate import pod_constraints, pod_requests
from vscheduler.mirror.translate.bounds import Bounds

NONE: Mapping[str, str] = {}
"""No hints."""

NOTHING: Mapping[str, int] = {}
"""No devices."""

LONG = 4096
"""Longest cache key in bytes. A longer key is replaced by its digest."""

REFUSED_MAX = 4096
"""How many errors of unusable large pods are cached."""

MESSAGE_MAX = 512
"""Longer errors aren't cached, for they may quote text from tenants."""

_encode = msgspec.json.Encoder().encode


class Classes:
    """All pod classes in use."""

    def __init__(self, most: Bounds) -> None:
        """Create an empty cache; `most` holds the bounds of a pod."""
        self._most = most
        self._classes: weakref.WeakValueDictionary[object, PodClass] = weakref.WeakValueDictionary()
        self._known: weakref.WeakValueDictionary[bytes, PodClass] = weakref.WeakValueDictionary()
        """Classes by the pod fields they were built from: most pods equal earlier pods of their
        job.
        """
        self._large_known: weakref.WeakValueDictionary[bytes, PodClass] = (
            weakref.WeakValueDictionary()
        )
        """For large pods: a class with the same constraints, by the fields that constraints depend
        on.
        """
        self._refused: dict[bytes, tuple[str, str]] = {}
        """Errors of large pods by the same key as `_large_known`: field and message, latest
        last.
        """

    def __len__(self) -> int:
        return len(self._classes)

    def with_claims(
        self,
        pod_class: PodClass,
        volumes: tuple[PodVolume, ...],
        claims: tuple[ResourceClaimUse, ...],
    ) -> PodClass:
        """Return the class of pods that are like these, and use these volumes and resource claims.

        Only waiting pods have such a class, since many pods have a claim of their own.
        """
        conditions = replace(pod_class.constraints, volumes=volumes, resource_claims=claims)
        return self._intern(dict(pod_class.request), conditions, pod_class.hints)

    def with_devices(self, pod_class: PodClass, devices: Mapping[str, int]) -> PodClass:
        """Return the class of pods that are like these, and for which these devices count."""
        request = dict(pod_class.request)
        return self._intern(request, pod_class.constraints, pod_class.hints, devices)

    def pod_class(self, pod: Pod, hints: Mapping[str, str], *, ours: bool, waits: bool) -> PodClass:
        """Return the class of a pod: its request, constraints and hints, but for its volumes.

        Of foreign pods only constraints with an effect on their node count. Raises FieldError for a
        defect in the pod, and for a waiting pod of ours beyond a bound.
        """
        if isinstance(pod, LargePod):
            return self._large(pod, hints, ours=ours, waits=waits)
        excess = self._most.excess(pod.spec)
        if excess is not None and waits:
            raise excess
        key = _basis(pod, hints, ours=ours)
        if waits:
            self._most.check_size(len(key), pod.metadata.labels)
        if len(key) > LONG:
            key = hashlib.blake2b(key).digest()
        pod_class = self._known.get(key)
        if pod_class is None:
            request = pod_requests.of_pod(pod)
            conditions = self._conditions(pod, excess, ours=ours)
            pod_class = self._known[key] = self._intern(request, conditions, hints)
        if waits:
            self._most.check_resources(pod_class.request)
        return pod_class

    def _large(
        self, pod: LargePod, hints: Mapping[str, str], *, ours: bool, waits: bool
    ) -> PodClass:
        """Return the class of a large pod, as `pod_class` does.

        The pod's affinity is decoded only if its constraints aren't known yet.
        """
        stands_for = (pod.digest, waits)
        key = hashlib.blake2b(_basis(pod, hints, ours=ours, stands_for=stands_for)).digest()
        request = {} if waits else pod_requests.of_pod(pod)
        if key in self._refused:
            raise FieldError(*self._refused[key])
        like = self._large_known.get(key)
        if like is not None:
            conditions = like.constraints
        else:
            try:
                whole = _whole(pod)
                if waits:
                    return self.pod_class(whole, hints, ours=ours, waits=True)
                conditions = self._conditions(whole, self._most.excess(whole.spec), ours=ours)
            except FieldError as error:
                self._refuse(key, error)
                raise
        pod_class = self._large_known[key] = self._intern(request, conditions, hints)
        return pod_class

    def _refuse(self, key: bytes, error: FieldError) -> None:
        """Cache the error of a large pod for the next time."""
        if len(error.field) + len(error.message) > MESSAGE_MAX:
            return
        self._refused[key] = (error.field, error.message)
        if len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]

    def _conditions(self, pod: Pod, excess: FieldError | None, *, ours: bool) -> Constraints:
        """Return the constraints of a pod; reduced ones where the pod exceeds a bound."""
        if excess is not None:
            return pod_constraints.in_short(pod.spec, pod.metadata, self._most, ours=ours)
        terms = pod_constraints.of_pod if ours else pod_constraints.of_resident
        return terms(pod.spec, pod.metadata)

    def held(self, pod: Pod) -> PodClass:
        """Return a class for a defective pod: the request that the pod holds on its node, if
        readable.
        """
        try:
            request = pod_requests.of_pod(pod)
            self._most.check_resources(request)
        except FieldError:
            request = {resources.PODS: 1}
        return self._intern(request, pod_constraints.of_ports(pod.spec))

    def _intern(
        self,
        request: dict[str, int],
        conditions: Constraints,
        hints: Mapping[str, str] = NONE,
        devices: Mapping[str, int] = NOTHING,
    ) -> PodClass:
        key = (tuple(request.items()), conditions, tuple(hints.items()), tuple(devices.items()))
        pod_class = self._classes.get(key)
        if pod_class is None:
            pod_class = PodClass(
                request=request, constraints=conditions, hints=hints, devices=devices
            )
            self._classes[key] = pod_class
        return pod_class


def _whole(pod: LargePod) -> Pod:
    """Return the pod with its affinity decoded; raises FieldError for an invalid affinity."""
    found = events.whole(pod)
    if isinstance(found, DecodeFailed):
        raise FieldError(found.field, found.message)
    assert isinstance(found.object, Pod)
    return found.object


def _basis(pod: Pod, hints: Mapping[str, str], *, ours: bool, stands_for: object = None) -> bytes:
    """Return all fields that the class of a pod depends on, encoded as bytes for fast comparison.

    With `stands_for`, the digest of a large pod's affinity, only fields that constraints depend on
    are included: resources granted on the node change while the pod starts.
    """
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    given: object = None
    own: object = None
    if not stands_for and spec.node_name and _has_grants(status):
        whole = (status.resources, status.allocated_resources)
        infeasible = pod_requests.resize_is_infeasible(pod)
        given = (status.container_statuses, status.init_container_statuses, whole, infeasible)
    if spec.affinity or spec.topology_spread_constraints or stands_for:
        own = (metadata.namespace, metadata.labels)
    return _encode(
        (
            ours,
            hints,
            stands_for,
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


def _has_grants(status: PodStatus) -> bool:
    """Whether the kubelet has reported the resources of the pod, or of a container."""
    containers = (*status.container_statuses, *status.init_container_statuses)
    return status.resources is not None or any(
        container.resources is not None for container in containers
    )
