"""A cluster at one instant, as plain manifests: who stands on which node, and how."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from tests.properties.filters_by_hand import selecting
from tests.properties.filters_by_hand.claims import Claims
from tests.properties.filters_by_hand.selecting import Labels

Document = selecting.Document


FINISHED = ("Succeeded", "Failed")
CLAIMED = ("StorageClass", "PersistentVolumeClaim", "DeviceClass", "ResourceClaim")
"""Where there is none of these, no pod has a claim."""


class State(Enum):
    """How a pod stands on its node."""

    STAYS = "stays"
    LEAVES = "leaves"
    """It is being deleted, or evicted: it is there until it is gone."""
    COMES = "comes"
    """It waits for room that is being freed."""


class Instant(Enum):
    """What a pod is to be allowed on: the pods that count."""

    NOW = frozenset({State.STAYS, State.LEAVES})
    """What kube-scheduler sees when the pod is bound."""
    THEN = frozenset({State.STAYS, State.COMES})
    """Once those who leave are gone, and those who wait have come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A pod on a node."""

    pod: Document
    node: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All nodes, and all pods that have one."""

    nodes: Mapping[str, Document]
    namespaces: Mapping[str, Labels]
    pods: Mapping[str, Document]
    """All there are, by `namespace/name`, whether they have a node or not."""
    seats: Mapping[str, Seat]
    claims: Claims | None = None
    """None where there are neither volumes nor devices."""

    def others(self, key: str, states: Iterable[State]) -> Iterator[tuple[Seat, Document]]:
        """Who stands so on a node that is there, this pod aside, each with the node."""
        for name, seat in self.seats.items():
            if name != key and seat.state in states and seat.node in self.nodes:
                yield seat, self.nodes[seat.node]

    def on(self, node: str, key: str, instant: Instant) -> Iterator[Document]:
        """The pods of one node, this pod aside."""
        for name, seat in self.seats.items():
            if name != key and seat.node == node and seat.state in instant.value:
                yield seat.pod

    def living(self, instant: Instant) -> frozenset[str]:
        """UIDs of the pods that keep what they have until then, or wait for their node."""
        return frozenset(
            pod["metadata"]["uid"]
            for key, pod in self.pods.items()
            if (seat := self.seats.get(key)) is None or seat.state in instant.value
            if (pod.get("status") or {}).get("phase") not in FINISHED
        )

    def put(self, key: str, node: str, state: State) -> "World":
        """The same with this pod there."""
        seat = Seat(pod=self.pods[key], node=node, state=state)
        return dataclasses.replace(self, seats={**self.seats, key: seat})

    def leaving(self, key: str) -> "World":
        """The same with this pod on its way out."""
        seat = dataclasses.replace(self.seats[key], state=State.LEAVES)
        return dataclasses.replace(self, seats={**self.seats, key: seat})


def key_of(document: Document) -> str:
    """`namespace/name`."""
    return f"{document['metadata'].get('namespace', 'default')}/{document['metadata']['name']}"


def world(documents: Iterable[Document]) -> World:
    """What these manifests say; pods that have finished hold nothing."""
    everything = list(documents)
    pods = {key_of(each): each for each in everything if each["kind"] == "Pod"}
    return World(
        nodes={each["metadata"]["name"]: each for each in everything if each["kind"] == "Node"},
        namespaces={
            each["metadata"]["name"]: selecting.labels(each)
            for each in everything
            if each["kind"] == "Namespace"
        },
        pods=pods,
        seats={
            key: Seat(pod=pod, node=pod["spec"]["nodeName"], state=_state(pod))
            for key, pod in pods.items()
            if pod["spec"].get("nodeName")
            and (pod.get("status") or {}).get("phase") not in FINISHED
        },
        claims=Claims(everything) if any(each["kind"] in CLAIMED for each in everything) else None,
    )


def _state(pod: Document) -> State:
    return State.LEAVES if pod["metadata"].get("deletionTimestamp") else State.STAYS
