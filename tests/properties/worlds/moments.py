"""Moment: what was there, and what a cycle made of it, as plain data; judges see nothing else."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.properties.worlds import census as censuses
from tests.properties.worlds.census import Census
from tests.properties.worlds.manifests import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A pod on its node: bound, or promised room that is being freed."""

    pod: str
    node: str
    loose: bool = False
    """Whether nothing keeps the node for it, as it waits for pods that go for nobody's sake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A pod that is asked to go."""

    pod: str
    node: str
    action: str
    beneficiary: str | None
    moves: bool = False
    """Whether its queue is within its share, so that there is room for it elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Room that the cycle keeps on a node for the pod that its owner will make next."""

    pod: str
    """The one that was evicted."""
    node: str
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What judges need to know of the configuration."""

    actions: tuple[str, ...]
    plugins: frozenset[str]
    volcano: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One cycle."""

    number: int
    """From 1."""
    setting: Setting
    trees: bool
    """Whether sub-groups are PodGroups of a tree, which are refilled one by one."""
    census: Census
    """What was there before its decisions."""
    binds: tuple[Placement, ...]
    pipelined: tuple[Placement, ...]
    evicts: tuple[Eviction, ...]
    statuses: Mapping[str, list[Document]]
    """What the cycle wants to say in the status of each PodGroup: one, if all is well; each with
    its `reason`, if there is one."""
    now: float
    is_calm: bool
    """Whether no node has come, gone or changed in the last minute."""
    order: tuple[str, ...]
    """All pods that were placed or evicted, in the order in which that was decided."""
    undone: tuple[str, ...]
    """Pods that were placed or evicted for part of the cycle only."""
    deserved: Mapping[str, Mapping[str, float]]
    """What queues deserve by name, where the cycle says so; units as in a census."""
    queue_messages: Mapping[str, str]
    """What the status of each queue says of its share, where the cycle says anything."""
    kept: tuple[Kept, ...]
    kept_before: tuple[Kept, ...]
    """By the cycle before."""
    bound: defaultdict[str, list[Document]] = field(init=False)
    """The pods that were bound, by group."""
    lost: defaultdict[str, list[Document]] = field(init=False)
    """The pods that were evicted, by group."""

    def __post_init__(self) -> None:
        for name, decided in (("bound", self.binds), ("lost", self.evicts)):
            by_group: defaultdict[str, list[Document]] = defaultdict(list)
            for each in decided:
                pod = self.census.pods[each.pod]
                by_group[censuses.group_of(pod)].append(pod)
            object.__setattr__(self, name, by_group)


Judge: TypeAlias = Callable[[Moment], Iterable[str]]
"""Every rule that the cycle breaks, in words; the first word names the rule."""
