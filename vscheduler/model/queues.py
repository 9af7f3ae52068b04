"""Queues: their settings, their usage over time, and the tree formed by parent queues.

Usage over time decays exponentially: resources used at some moment count half as much after one
half-life. Under a constant rate, the usage at any later time follows by formula. A record is
therefore written only when the rate changes.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from vscheduler.model import resources
from vscheduler.model.resources import ResourceMap, ResourceSpace, Share

OURS = ""
"""Key of this scheduler's own usage record. Records of other schedulers have the scheduler's name
as key."""

NAMESPACES_MAX = 1000
"""Maximum number of namespaces in a queue's record. With names of full length, the record takes
about 110 kB of the 256 kB allowed for annotations."""

NEGLIGIBLE = 1e-4
"""A namespace without current usage is dropped when its usage is below this part of the queue's
usage."""

NUMBER_MAX = 1e30
"""Upper bound of any real usage or rate. A larger number in a record is invalid."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Usage up to a point in time, and the rate from then on."""

    used: float
    """Units of a resource times seconds, decayed to the point in time."""
    rate: float
    """Units in use since then."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a queue and of each namespace in the queue."""

    time: float
    """Reference time of all accounts, in seconds since the epoch."""
    queue: Account
    namespaces: Mapping[str, Account] = msgspec.field(default_factory=dict)


NOTHING = Account(used=0.0, rate=0.0)
"""The account of an unknown queue or namespace."""


def decayed(account: Account, seconds: float, half_life_seconds: float) -> float:
    """Return the usage of an account after this many seconds, in unit-seconds.

    The half-life must be above 0. Negative seconds (the clock was set back) count as 0.
    """
    exponent = -math.log(2) * max(0.0, seconds) / half_life_seconds
    most = account.rate * half_life_seconds / math.log(2)  # limit under this rate for ever
    return account.used * math.exp(exponent) - most * math.expm1(exponent)


def updated_usage(
    past: Usage | None, rates: Mapping[str, float], rate: float, now: float, half_life: float
) -> Usage | None:
    """Return the usage record valid from `now` on: the same object if the rates are unchanged.

    `rates` are the rates of namespaces, all above 0; `rate` is the queue's. `half_life` is in
    seconds. None means that no usage is known and nothing is in use. A record from the future (a
    wrong clock) is treated as a record of `now`.
    """
    if past is None:
        if not rate:
            return None
        past = Usage(time=now, queue=NOTHING)
    elif past.time <= now and _unchanged(past, rates, rate):
        return past
    seconds = now - past.time
    queue = Account(used=decayed(past.queue, seconds, half_life), rate=rate)
    found = {
        name: Account(
            used=decayed(past.namespaces.get(name, NOTHING), seconds, half_life),
            rate=rates.get(name, 0.0),
        )
        for name in past.namespaces.keys() | rates.keys()
    }
    return Usage(time=now, queue=queue, namespaces=_lasting(found, queue))


def _unchanged(past: Usage, rates: Mapping[str, float], rate: float) -> bool:
    known = past.namespaces
    if past.queue.rate != rate or any(
        account.rate != rates.get(name, 0.0) for name, account in known.items()
    ):
        return False
    # A full record leaves out further namespaces until another change rebuilds the record.
    return len(known) >= NAMESPACES_MAX or rates.keys() <= known.keys()


def _lasting(found: Mapping[str, Account], queue: Account) -> dict[str, Account]:
    """Return the accounts worth keeping: namespaces in use first, then the largest usage."""
    matter = {
        name: account
        for name, account in found.items()
        if account.rate or account.used > NEGLIGIBLE * queue.used
    }
    by_weight = sorted(matter, key=lambda name: (not matter[name].rate, -matter[name].used, name))
    return {name: matter[name] for name in sorted(by_weight[:NAMESPACES_MAX])}


ROOT = "root"
DEFAULT = "default"


class QueueState(StrEnum):
    """Whether a queue accepts jobs (scheduling.volcano.sh/v1beta1 QueueState)."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class NodeGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Node group affinity of a queue (spec.affinity): required, preferred, and to avoid."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


class GroupLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Upper limits of a queue's usage in groups of nodes."""

    by_group: Mapping[str, ResourceMap] = msgspec.field(default_factory=dict)
    problem: str = ""
    """The error in the annotation, if the annotation cannot be parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A Queue object.

    `capability` is a hard limit; a missing resource is unlimited. `deserved` is a quota for plugin
    capacity. `guarantee` is never lent to other queues.
    """

    name: str
    uid: str
    created: float
    weight: int = 1
    priority: int = 0
    state: QueueState = QueueState.OPEN
    reclaimable: bool = True
    parent: str = ""
    capability: ResourceMap = field(default_factory=dict)
    deserved: ResourceMap = field(default_factory=dict)
    guarantee: ResourceMap = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    namespaces: tuple[str, ...] | None = None
    """Namespaces whose jobs the queue accepts: names, or prefixes followed by `*`. None accepts
    all."""
    min_run_time: float = 0.0
    """For how many seconds after their start preempt and reclaim leave the queue's pods alone;
    infinite if the Queue's annotation can't be read."""
    max_run_time: float | None = None
    """How many seconds pods of the queue run at most for which nothing else says it."""
    run_time_cap: float | None = None
    """How many seconds pods of the queue run at most, whatever else is said: they are ended."""
    eviction_delay: float = 0.0
    """How many seconds pods of the queue wait before others are evicted for them, so that an
    autoscaler's node may come first; infinite if the Queue's annotation can't be read."""
    node_groups: NodeGroups | None = None
    group_limits: GroupLimits | None = None
    past_usage: Mapping[str, Usage] = field(default_factory=dict, compare=False)
    """Usage at the time of the last write, by scheduler; this scheduler's key is OURS. Only
    schedulers write the records, so a changed record does not count as a changed queue."""

    @property
    def open(self) -> bool:
        """Whether pods of this queue may be placed."""
        return self.state is QueueState.OPEN

    def takes(self, namespace: str) -> bool:
        """Whether the queue accepts jobs of this namespace."""
        return self.namespaces is None or any(
            each == namespace or (each.endswith("*") and namespace.startswith(each[:-1]))
            for each in self.namespaces
        )

    def ceiling(self, space: ResourceSpace) -> Share:
        """Return the capability as a row (R,), with inf for unlimited resources.

        A capability of 0 cpu or memory means unlimited (Volcano: buildQueueAttrs).
        """
        row = space.limits(self.capability)
        for name in (resources.CPU, resources.MEMORY):
            column = space.columns[name]
            row[column] = row[column] or float("inf")
        return row


class ProblemCode(StrEnum):
    """Errors in the queue tree."""

    PARENT_MISSING = "ParentMissing"
    CYCLE = "ParentCycle"
    INNER_JOBS = "JobsInInnerQueue"


class QueueProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a queue is excluded from scheduling: an error in the queue itself or in an ancestor."""

    code: ProblemCode
    queue: str
    """The queue with the error."""
    subjects: tuple[str, ...] = ()
    """The missing parent, the queues of the cycle, or a job in the inner queue."""


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The tree of queues. Every queue has a place, including queues with a problem."""

    paths: Mapping[str, tuple[str, ...]]
    """The ancestors of every queue, from root down, without the queue."""
    children: Mapping[str, tuple[str, ...]]
    """Children by queue, sorted. Queues without children are left out."""
    problems: Mapping[str, QueueProblem]
    """Queues excluded from scheduling, always as whole subtrees."""

    def leaf(self, name: str) -> bool:
        """Whether the queue has no children. Only leaf queues may have jobs."""
        return name not in self.children

    def sums(
        self, amounts: Mapping[str, Mapping[str, float]], *, unless_own: bool = False
    ) -> dict[str, Mapping[str, float]]:
        """Return by queue what it and all queues below it have of each resource.

        With `unless_own`, nothing is added to an inner queue that has an amount of its own, and
        root has the sum of its children in any case.
        """
        found: dict[str, Mapping[str, float]] = dict(amounts)
        for name in sorted(self.children, key=lambda name: -len(self.paths[name])):
            own = amounts.get(name, {})
            if unless_own and name != ROOT and any(own.values()):
                continue
            total = {} if unless_own else dict(own)
            for child in self.children[name]:
                for resource, amount in found.get(child, {}).items():
                    total[resource] = total.get(resource, 0) + amount
            found[name] = total
        return found

    def leaves(self, name: str) -> Iterator[str]:
        """Yield the leaf queues without a problem below a queue, nearest first, then by name."""
        level = [name]
        while level:
            below = [each for above in level for each in self.children.get(above, ())]
            yield from (each for each in below if self.leaf(each) and each not in self.problems)
            level = below


def tree(queues: Mapping[str, Queue], occupied: Mapping[str, str]) -> Tree:
    """Build the tree of queues. `occupied` names a job for each queue that has jobs.

    A queue without a parent is a child of root, which needs no Queue object. A queue with a missing
    parent, or a queue that is its own ancestor, is placed below root so that its usage is counted,
    and is excluded from scheduling with its whole subtree. An inner queue with a job is also
    excluded with its subtree, except root: a single user's job must not stop the whole cluster.
    """
    paths: dict[str, tuple[str, ...]] = {ROOT: ()}
    problems: dict[str, QueueProblem] = {}
    for name in sorted(queues):
        _climb(queues, name, paths, problems)
    below: dict[str, list[str]] = {}
    for name in sorted(paths.keys() - {ROOT}):
        below.setdefault(paths[name][-1], []).append(name)
    inner = {name: occupied[name] for name in below if name in occupied and name != ROOT}
    for name, path in paths.items():
        for each in (*path, name):
            if each in inner and name not in problems:
                problems[name] = QueueProblem(
                    code=ProblemCode.INNER_JOBS, queue=each, subjects=(inner[each],)
                )
    return Tree(
        paths=paths,
        children={name: tuple(names) for name, names in below.items()},
        problems=problems,
    )


def _climb(
    queues: Mapping[str, Queue],
    name: str,
    paths: dict[str, tuple[str, ...]],
    problems: dict[str, QueueProblem],
) -> None:
    """Find the place of a queue, and of all its ancestors without a place."""
    trail: dict[str, None] = {}
    at = name
    while at not in paths and at in queues and at not in trail:
        trail[at] = None
        at = queues[at].parent or ROOT
    way = list(trail)
    if at in trail:
        way, cycle = way[: way.index(at)], way[way.index(at) :]
        first = cycle.index(min(cycle))
        round_about = (*cycle[first:], *cycle[:first])
        _set_aside(cycle, ProblemCode.CYCLE, round_about[0], round_about, problems)
        paths.update(dict.fromkeys(cycle, (ROOT,)))
    elif at not in paths:
        top = way.pop()
        _set_aside([top], ProblemCode.PARENT_MISSING, top, [at], problems)
        paths[top] = (ROOT,)
        at = top
    for each in reversed(way):
        paths[each] = (*paths[at], at)
        if at in problems:
            problems[each] = problems[at]
        at = each


def _set_aside(
    names: Iterable[str],
    code: ProblemCode,
    queue: str,
    subjects: Iterable[str],
    problems: dict[str, QueueProblem],
) -> None:
    problem = QueueProblem(code=code, queue=queue, subjects=tuple(subjects))
    problems.update((name, problem) for name in names)
