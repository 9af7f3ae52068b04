"""A cluster of plain objects as `vscheduler job` reads it, or the part that a tenant may read."""

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vscheduler.cli.queue.cluster_client import (
    Change,
    ClusterError,
    Forbidden,
    Kind,
    Listing,
    Object,
)
from vscheduler.testing import pictures

PICTURE = """
    node  n1 cpu=4
    queue lab weight=1        queue shop weight=3
    job   shop/runs min=2 scheduled=60  n1 n1
    job   lab/big   min=3 cpu=2 priority=5 age=30   - - -
    job   lab/small min=1 cpu=1 age=90 phase=Pending  -
"""
MESSAGE = "needs 2 cpu more; no node has cpu left"


def objects(picture: str = PICTURE) -> dict[Kind, list[Object]]:
    """The objects of a picture by kind, as a list of the API server has them."""
    made: dict[Kind, list[Object]] = {kind: [] for kind in Kind}
    for document in pictures.documents(picture):
        made[Kind(document["kind"])].append(document)
    return made


def owned(pod: dict[str, Any], kind: str, name: str, **labels: str) -> dict[str, Any]:
    """Give a pod a controller."""
    version = {"job": "batch/v1", "replicaset": "apps/v1"}.get(kind.lower(), "x.io/v1")
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
    pod["metadata"]["ownerReferences"] = [reference]
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **labels}
    return pod


class Fake:
    """A source of objects; `only` is the namespace that the user may read, None: all."""

    def __init__(
        self,
        found: dict[Kind, list[Object]],
        only: str | None = None,
        *,
        refused: frozenset[Kind] = frozenset(),
    ) -> None:
        self.found = found
        self._only = only
        self.refused = refused
        self._within: str | None = None
        self.namespace = "default"
        self.asked: list[tuple[str, str | None]] = []
        self.script: queue.Queue[Any] = queue.Queue()

    def list(self, kind: Kind) -> Listing:
        """All readable objects of a kind."""
        self.asked.append((kind, self._within))
        narrow = self._only is not None and self._within != self._only
        if kind in self.refused or (narrow and kind is not Kind.QUEUE):
            raise Forbidden(f"may not list {kind}")
        items = [
            each
            for each in self.found[kind]
            if self._within is None or each["metadata"].get("namespace") == self._within
        ]
        return Listing(items=items, version="1")

    def within(self, namespace: str) -> "Fake":
        """The same, of one namespace."""
        made = Fake(self.found, self._only, refused=self.refused)
        made._within, made.asked, made.script = namespace, self.asked, self.script
        return made

    def unbound_pods(self) -> Sequence[Object]:
        """The pods without a node."""
        return [each for each in self.found[Kind.POD] if not each["spec"].get("nodeName")]

    def queue(self, name: str) -> Object | None:
        """One of the queues."""
        by_name = {each["metadata"]["name"]: each for each in self.found[Kind.QUEUE]}
        return by_name.get(name)

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """What the script says, for PodGroups; an error is raised."""
        assert version == "1"
        script = self.script if kind is Kind.POD_GROUP else queue.Queue()
        while True:
            change = script.get()
            if isinstance(change, ClusterError):
                raise change
            yield change


@contextmanager
def opened(fake: Fake) -> Iterator[Fake]:
    """In place of cluster_client.opened."""
    yield fake


def says(group: dict[str, Any], message: str, since: str) -> None:
    """Let a scheduler say why a PodGroup waits."""
    reason = {"reason": "NotEnoughResources", "message": message, "lastTransitionTime": since}
    group["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", **reason}]
