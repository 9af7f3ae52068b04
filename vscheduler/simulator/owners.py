"""Owners: what makes pods anew when they are evicted, fail or are deleted.

Nobody reads Deployments and Jobs here: a pod's controller reference says what kind of owner it
has, and the pod itself what the owner makes its pods from.
"""

import datetime as dt
from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias

import msgspec

from vscheduler.mirror.decode import events, wire

Controller: TypeAlias = tuple[str, str, str, str]
"""Namespace, API group, kind, and UID or name."""

KEEP_NAMES = frozenset({("apps", "StatefulSet"), ("batch.volcano.sh", "Job")})
"""API group and kind of owners whose pods come back under the same name."""


class Owners:
    """The owners of a cluster's pods, and how often each pod has come back.

    What comes back as `NAME-r1`, then as `NAME-r2`, or under its own name, is one and the same
    place of its owner: `place_of` says which, by the name of the first pod that held it.
    """

    def __init__(self, pods: Iterable[wire.Pod]) -> None:
        self._places: dict[str, str] = {}
        """By UID, of pods that have come back."""
        self._lives: dict[str, int] = {}
        """By place, how often."""
        given = list(pods)
        youngest: dict[Controller, dt.datetime] = {}
        for pod in given:
            owner, created = _controller(pod), pod.metadata.creation_timestamp
            if owner and created and not (_is_lost(pod) or pod.status.phase == "Succeeded"):
                youngest[owner] = max(created, youngest.get(owner, created))
        self._answered = frozenset(
            pod.metadata.uid for pod in given if _is_lost(pod) and _is_answered(pod, youngest)
        )

    def place_of(self, pod: wire.Pod) -> str:
        """`namespace/name` of the first pod in this place."""
        key = events.key_of(pod.metadata.namespace, pod.metadata.name)
        return self._places.get(pod.metadata.uid, key)

    def wants_again(self, pod: wire.Pod) -> bool:
        """Whether somebody makes another for this pod, which is gone or has failed.

        A pod that had failed already, or was being deleted, when the manifests were written has
        been replaced where its owner has a younger one. One that failed and has no owner is left.
        """
        if pod.status.phase == "Succeeded" or pod.metadata.uid in self._answered:
            return False
        return pod.status.phase != "Failed" or _controller(pod) is not None

    def keeps_name(self, pod: wire.Pod) -> bool:
        """Whether the next pod in its place is called the same."""
        owner = _controller(pod)
        return owner is not None and owner[1:3] in KEEP_NAMES

    def again(self, pod: wire.Pod, now: float, taken: Container[str]) -> wire.Pod:
        """The pod that takes this one's place, created now; taken: the keys of pods that are there.

        It waits, and knows nothing of the node that the other one was on.
        """
        place = self.place_of(pod)
        number = self._lives.get(place, 0) + 1
        namespace, name = pod.metadata.namespace, pod.metadata.name
        if not self.keeps_name(pod):
            first = place.rpartition("/")[2]
            while events.key_of(namespace, f"{first}-r{number}") in taken:
                number += 1
            name = f"{first}-r{number}"
        self._lives[place] = number
        metadata = msgspec.structs.replace(
            pod.metadata,
            name=name,
            uid=f"{place}-r{number}",
            resource_version="",
            creation_timestamp=dt.datetime.fromtimestamp(now, dt.UTC),
            deletion_timestamp=None,
        )
        self._places[metadata.uid] = place
        spec = msgspec.structs.replace(pod.spec, node_name="")
        return wire.Pod(metadata=metadata, spec=spec, status=wire.PodStatus(phase="Pending"))


def _is_lost(pod: wire.Pod) -> bool:
    """Whether it has failed, or is being deleted."""
    return pod.status.phase == "Failed" or pod.metadata.deletion_timestamp is not None


def _is_answered(lost: wire.Pod, youngest: Mapping[Controller, dt.datetime]) -> bool:
    """Whether the pod's owner has one that was made later."""
    owner, created = _controller(lost), lost.metadata.creation_timestamp
    return bool(owner and created and owner in youngest and youngest[owner] > created)


def _controller(pod: wire.Pod) -> Controller | None:
    """The owner that looks after the pod."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            group = owner.api_version.partition("/")[0]
            return pod.metadata.namespace, group, owner.kind, owner.uid or owner.name
    return None
