"""Network topology: HyperNodes as they are in the API server, and what a PodGroup asks for."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from vscheduler.model.constraints import Selector

Layout = TypeVar("Layout", bound=Hashable)
Answer = TypeVar("Answer")

TOPOLOGY = "vscheduler.io/network-topology"
"""Annotation of a PodGroup: which of several topologies it means."""

LAYOUTS_MAX = 2
"""The current nodes, and the nodes before some of them were lost."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of spec.members: one child, or the nodes that match. One of the fields is set."""

    hyper_node: str = ""
    """The name of a HyperNode."""
    node: str = ""
    """The name of a Node."""
    pattern: str = ""
    """A regular expression that is found anywhere in the names of Nodes."""
    selector: Selector | None = None
    """Selects Nodes by their labels; without any condition it selects none."""


class HyperNode(msgspec.Struct, frozen=True, kw_only=True):
    """A domain of the network (topology.volcano.sh/v1alpha1)."""

    name: str
    tier: int
    """The lower, the faster is the network inside."""
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodes:
    """All HyperNodes of the cluster, by name: one value until any of them changes."""

    __slots__ = ("_derived", "every")

    def __init__(self, every: Iterable[HyperNode] = ()) -> None:
        self.every = tuple(sorted(every, key=lambda each: each.name))
        self._derived: dict[Hashable, Any] = {}

    def __bool__(self) -> bool:
        return bool(self.every)

    def derived(self, layout: Layout, derive: "Derive[Layout, Answer]") -> Answer:
        """Return `derive(self.every, layout)`, computed once for the last few layouts."""
        found = self._derived.get(layout)
        if found is None:
            if len(self._derived) >= LAYOUTS_MAX:
                self._derived.clear()
            found = self._derived[layout] = derive(self.every, layout)
        answer: Answer = found
        return answer


Derive: TypeAlias = Callable[[Sequence[HyperNode], Layout], Answer]

NO_HYPER_NODES = HyperNodes()


class TopologyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How near to each other pods have to be (networkTopology of a PodGroup or a sub-group)."""

    field: str
    """The field as in a manifest, for example spec.networkTopology."""
    hard: bool = True
    """Whether pods wait rather than start farther from each other."""
    tier: int | None = None
    """highestTierAllowed."""
    tier_name: str = ""
    """highestTierName."""
    key: str = ""
    """A node label: its values are the domains, whatever topologies are configured."""
    levels: tuple[str, ...] = ()
    """With sub-groups in smaller domains: the labels, the widest first. Empty: the key alone."""
