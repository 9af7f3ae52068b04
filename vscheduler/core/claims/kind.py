"""A kind of claims: what the lifecycle asks of volumes, and of devices."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from vscheduler.model.claim_decisions import ClaimKind, Release, Request
from vscheduler.model.decisions import Bind, Pipeline
from vscheduler.model.jobs import Task


class Lacks(msgspec.Struct, frozen=True):
    """What the claims of a pod lack before it may start on a node."""

    requests: tuple[Request, ...] = ()
    """What is chosen for them, asked for or not yet."""
    unconfirmed: tuple[str, ...] = ()
    """Claims that can't be used yet, although there is nothing more to decide."""
    unchosen: bool = False
    """Whether a claim lacks something for which nothing is chosen on the node."""

    @property
    def anything(self) -> bool:
        """Whether the pod has to wait."""
        return bool(self.requests or self.unconfirmed)


NOTHING = Lacks()


class Waiting(msgspec.Struct, frozen=True):
    """A pod that waits on its node at the end of a cycle, and what its claims of a kind lack."""

    task: Task
    node: str
    lacks: Lacks


class OpenClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that a pod waits for."""

    key: str
    node: str
    source: str = ""
    since: float = 0.0
    """The last two are as in ClaimWait."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle has decided about pods, as it ends."""

    binds: Collection[Bind]
    pipelined: Collection[Pipeline]
    spared: Collection[Task]
    """Pods of jobs that had no turn: they might still need what was asked for."""


class KindLifecycle(Protocol):
    """A kind of claims in a cycle. Both kinds answer for every task."""

    kind: ClaimKind
    refused: Mapping[str, str]
    """By claim, what the API server said when it refused the last write."""

    def keys(self, task: Task, node: str) -> Iterable[str]:
        """Return the claims that the task needs on this node, as `namespace/name`."""

    def lacks(self, task: Task, row: int) -> Lacks:
        """Return what the task's claims lack before it may start on this node.

        For a task that is placed already, the choice is the one made with its placement, and stays.
        """

    def is_usable(self, key: str, task: Task) -> bool:
        """Whether the task may start with this claim, as the API server has shown it."""

    def open(self, pod: Waiting) -> Iterable[OpenClaim]:
        """Return the claims that a pod waits for."""

    def releases(self, ending: Ending) -> Iterable[Release]:
        """Return what this scheduler has asked for, and no pod needs any more."""
