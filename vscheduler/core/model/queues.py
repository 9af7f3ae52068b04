"""Queue: a tenant's share of the cluster, and the tree that queues make up by their parents.

A queue's usage over time is kept, where the past counts less and less. What was used at an instant
has half its weight a half-life later. With a constant rate in use, that is known for any later
instant, so a record has to be written only when the rate changes.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vscheduler.core.model import resources

OURS = ""
"""The name under which a queue has the record that we keep ourselves; other schedulers' have
theirs."""

NAMESPACES_MAX = 1000
"""Of one queue: with names of full length about 110 kB, of the 256 kB that annotations may have."""

NEGLIGIBLE = 1e-4
"""The part of its queue's usage below which a namespace that uses nothing is forgotten."""

NUMBER_MAX = 1e30
"""No usage and no rate is as large; what claims to be isn't ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What somebody has used by an instant, and uses since."""

    used: float
    """Units of a resource times seconds, decayed to the instant."""
    rate: float
    """Units in use since then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a queue, and each namespace in it, has used."""

    time: float
    """The instant that all accounts are of: seconds since the epoch."""
    queue: Account
    namespaces: Mapping[str, Account] = field(default_factory=dict)


NOTHING = Account(used=0.0, rate=0.0)
"""Of whom nothing is known."""


def decayed(account: Account, seconds: float, half_life_seconds: float) -> float:
    """What the account comes to so many seconds later, in unit-seconds.

    Half-life above 0; a negative time, of a clock that was put back, counts as none.
    """
    exponent = -math.log(2) * max(0.0, seconds) / half_life_seconds
    most = account.rate * half_life_seconds / math.log(2)  # what the rate comes to in the end
    return account.used * math.exp(exponent) - most * math.expm1(exponent)


def followed(
    past: Usage | None, rates: Mapping[str, float], rate: float, now: float, half_life: float
) -> Usage | None:
    """The record that holds from now on: the same object where only time has passed.

    rates are those of namespaces, all above 0, and rate is the queue's. None: nothing is known,
    and nothing is in use. A record of a time that is still to come, by a clock that was wrong, is
    taken for one of now. half_life is in seconds.
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
    # What has found no room in a full record is left out until the record is made anew.
    return len(known) >= NAMESPACES_MAX or rates.keys() <= known.keys()


def _lasting(found: Mapping[str, Account], queue: Account) -> dict[str, Account]:
    """The accounts that still matter, by name: those in use, then the largest."""
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
    """Whether a queue takes jobs (scheduling.volcano.sh/v1beta1 QueueState)."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroups:
    """Which groups of nodes a queue must or would rather use, or not (spec.affinity)."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The most that a queue may have in groups of nodes."""

    by_group: Mapping[str, resources.ResourceMap] = field(default_factory=dict)
    problem: str = ""
    """What is wrong with the annotation, where it can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One Queue object.

    capability is a hard limit (a dimension it doesn't name is unlimited), deserved a quota for
    capacity, guarantee what is never lent out.
    """

    name: str
    uid: str
    created: float
    weight: int = 1
    priority: int = 0
    state: QueueState = QueueState.OPEN
    reclaimable: bool = True
    parent: str = ""
    capability: resources.ResourceMap = field(default_factory=dict)
    deserved: resources.ResourceMap = field(default_factory=dict)
    guarantee: resources.ResourceMap = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    namespaces: tuple[str, ...] | None = None
    """Whose jobs it takes: names, or how they begin and `*`; None where it takes all."""
    node_groups: NodeGroups | None = None
    group_limits: GroupLimits | None = None
    past_usage: Mapping[str, Usage] = field(default_factory=dict, compare=False)
    """What it had used when that was last written down, by scheduler; ours is usages.OURS. Nobody
    but the schedulers writes it, and a queue is no other for it."""

    @property
    def open(self) -> bool:
        """Whether pods of this queue may be placed."""
        return self.state is QueueState.OPEN

    def takes(self, namespace: str) -> bool:
        """Whether jobs of this namespace may use the queue."""
        return self.namespaces is None or any(
            each == namespace or (each.endswith("*") and namespace.startswith(each[:-1]))
            for each in self.namespaces
        )

    def ceiling(self, space: resources.ResourceSpace) -> resources.Share:
        """The capability in columns, (R,): inf where it limits nothing, as one of no cpu or memory
        (Volcano: buildQueueAttrs).
        """
        row = space.limits(self.capability)
        for name in (resources.CPU, resources.MEMORY):
            column = space.columns[name]
            row[column] = row[column] or float("inf")
        return row


class ProblemCode(StrEnum):
    """What is wrong with a queue's place in the tree."""

    PARENT_MISSING = "ParentMissing"
    CYCLE = "ParentCycle"
    INNER_JOBS = "JobsInInnerQueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProblem:
    """Why a queue is set aside: its own fault, or that of a queue above it."""

    code: ProblemCode
    queue: str
    """The queue in which it is to be put right."""
    subjects: tuple[str, ...] = ()
    """The parent that doesn't exist, the queues of the cycle, or a job in the inner queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Queues below their parents; each one has a place, those with a problem, too."""

    paths: Mapping[str, tuple[str, ...]]
    """The ancestors of every queue, from root down, without itself."""
    children: Mapping[str, tuple[str, ...]]
    """By queue, sorted; only those that have some."""
    problems: Mapping[str, QueueProblem]
    """Queues that are set aside, whole subtrees at a time."""

    def leaf(self, name: str) -> bool:
        """Whether the queue has no children: only such ones are for jobs."""
        return name not in self.children

    def leaves(self, name: str) -> Iterator[str]:
        """The leaf queues below this one that aren't set aside, nearest first, by name."""
        level = [name]
        while level:
            below = [each for above in level for each in self.children.get(above, ())]
            yield from (each for each in below if self.leaf(each) and each not in self.problems)
            level = below


def tree(known: Mapping[str, Queue], occupied: Mapping[str, str]) -> Tree:
    """The tree of these queues; occupied names a job of each queue where one may not be.

    No parent means root, which needs no object. A queue whose parent doesn't exist, or that is
    its own ancestor, hangs below root for the count of what is used, and it is set aside with all
    below it. The same goes for an inner queue with a job, but for root: one job of somebody's
    must not stop everybody.
    """
    paths: dict[str, tuple[str, ...]] = {ROOT: ()}
    problems: dict[str, QueueProblem] = {}
    for name in sorted(known):
        _climb(known, name, paths, problems)
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
    known: Mapping[str, Queue],
    name: str,
    paths: dict[str, tuple[str, ...]],
    problems: dict[str, QueueProblem],
) -> None:
    """Find the place of a queue, and of all above it that have none yet."""
    trail: dict[str, None] = {}
    at = name
    while at not in paths and at in known and at not in trail:
        trail[at] = None
        at = known[at].parent or ROOT
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
