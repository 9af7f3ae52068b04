"""Clusters of any size in a Mirror, through the same decoder as in the daemon."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH, Carried, Snapshot

Amounts = Mapping[str, str]
Document = dict[str, Any]

SCHEDULER = "vscheduler"
NAMESPACE = "default"
HOST = "kubernetes.io/hostname"
NODE: Amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
POD: Amounts = {"cpu": "1", "memory": "1Gi"}
BORN = "2026-01-01T00:00:00Z"
NOW = 1_767_225_900.0
"""A quarter of an hour later, so that nobody is too young for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A PodGroup and its pods."""

    name: str
    requests: Sequence[Amounts]
    """One per pod."""
    queue: str = "default"
    minimum: int | None = None
    """None: all of them."""
    promised: Amounts = field(default_factory=dict)
    """The minResources of its PodGroup."""
    nodes: Sequence[str] = ()
    """Where its pods run, one each; empty where they wait."""
    phase: str = ""
    """The stored phase of its PodGroup; empty: Running if it has nodes, else Inqueue."""
    priority: int = 0
    namespace: str = NAMESPACE
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of its pods."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of its PodGroup."""
    constraints: Mapping[str, Any] = field(default_factory=dict)
    """More of the spec of its pods: affinity, nodeSelector, topologySpreadConstraints."""
    claim: str = ""
    """Each pod has a claim for devices of its own: `POD-CLAIM`, made from a template."""


class Cluster:
    """What a Mirror has been shown."""

    def __init__(
        self,
        queues: Iterable[str] = ("default",),
        node_selector: tuple[tuple[str, str], ...] = (),
    ) -> None:
        options = Options(scheduler_names=(SCHEDULER,), node_selector=node_selector)
        self.mirror = Mirror(options)
        for name in queues:
            self.add_queue(name)

    def add_queue(
        self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any
    ) -> None:
        """An open queue of weight 1, with more in its spec."""
        metadata = _metadata(name, annotations=annotations or {})
        document = {"metadata": metadata, "spec": {"weight": 1, **spec}}
        self._show(Kind.QUEUE, document | {"status": {"state": "Open"}})

    def add_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace with labels."""
        self._show(Kind.NAMESPACE, {"metadata": _metadata(name, labels=labels)})

    def add_nodes(
        self,
        count: int,
        unlike: Sequence[Amounts] = (),
        labels: Callable[[int], Mapping[str, str]] = lambda _number: {},
    ) -> list[str]:
        """Equal nodes, or those that have these amounts; gives their names.

        `labels` are those of a node by number, beside its host name.
        """
        names = [f"node-{number:05}" for number in range(count)]
        every = zip(names, unlike or itertools.repeat(NODE), strict=bool(unlike))
        for number, (name, amounts) in enumerate(every):
            ready = {"type": "Ready", "status": "True"}
            status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
            metadata = _metadata(name, labels={HOST: name, **labels(number)})
            self._show(Kind.NODE, {"metadata": metadata, "spec": {}, "status": status})
        return names

    def add(self, gang: Gang) -> None:
        """A gang that waits or runs."""
        minimum = len(gang.requests) if gang.minimum is None else gang.minimum
        spec: Document = {"minMember": minimum, "queue": gang.queue}
        if gang.promised:
            spec["minResources"] = gang.promised
        phase = {"phase": gang.phase or ("Running" if gang.nodes else "Inqueue")}
        metadata = _metadata(
            gang.name, namespace=gang.namespace, annotations=dict(gang.annotations)
        )
        self._show(Kind.POD_GROUP, {"metadata": metadata, "spec": spec, "status": phase})
        for number, request in enumerate(gang.requests):
            node = gang.nodes[number] if gang.nodes else ""
            self.show_pod(gang, number, request, node=node)

    def show_pod(
        self, gang: Gang, number: int, request: Amounts, *, node: str = "", phase: str = ""
    ) -> None:
        """One pod of a gang as it is now."""
        metadata = _metadata(
            f"{gang.name}-{number:05}",
            namespace=gang.namespace,
            labels=gang.labels,
            annotations={"scheduling.k8s.io/group-name": gang.name},
        )
        spec: Document = {
            "schedulerName": SCHEDULER,
            "priority": gang.priority,
            "containers": [{"name": "main", "resources": {"requests": request}}],
            **gang.constraints,
        }
        if node:
            spec["nodeName"] = node
        status: Document = {"phase": phase or ("Running" if node else "Pending")}
        if gang.claim:
            use = {"name": gang.claim, "resourceClaimTemplateName": gang.claim}
            spec["resourceClaims"] = [use]
            made = f"{metadata['name']}-{gang.claim}"
            status["resourceClaimStatuses"] = [{"name": gang.claim, "resourceClaimName": made}]
        self._show(Kind.POD, {"metadata": metadata, "spec": spec, "status": status})

    def bind(self, result: CycleResult) -> None:
        """Take the binds of a cycle for done."""
        for each in result.binds:
            assert self.mirror.assume(each.task.uid, each.node, NOW)

    def snapshot(self, carried: Carried = FRESH) -> Snapshot:
        """The cluster at the instant that all benchmarks share."""
        return self.mirror.snapshot(NOW, carried)

    def _show(self, kind: Kind, document: Document) -> None:
        event = events.decode(kind, msgspec.json.encode(document))
        self.mirror.apply(event)
        assert not self.mirror.rejections, self.mirror.rejections


def _metadata(name: str, **rest: Any) -> Document:
    return {"name": name, "uid": f"uid-{name}", "creationTimestamp": BORN, **rest}
