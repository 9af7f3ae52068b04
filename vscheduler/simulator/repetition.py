"""Repetition: whether the end of a run only does the same again and again.

Cycles are deterministic, so that a cluster that is where it was goes round for ever. Compared are
where the pods of each group are, those of one group and role being alike, what a cycle promised,
and whom it evicted for whom. Left out are names, ages and times, in which a pod that comes back
differs from the one before. A run repeats itself where it ends with two rounds that are the same
cycle by cycle and in which pods were evicted: once can be chance, on the way to rest.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from vscheduler.core.model import decisions
from vscheduler.mirror.decode import wire
from vscheduler.mirror.translate import pods

NAMED_MAX = 5
"""Jobs that are named."""

Pair: TypeAlias = tuple[str, str]
"""Who is evicted, for whom; nobody is the empty text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A cluster after a cycle."""

    state: Hashable
    pairs: frozenset[Pair]
    """The evictions of the cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """What goes on for ever."""

    since: int
    """The first cycle of it that evicts, from 1."""
    pairs: frozenset[Pair]

    def __str__(self) -> str:
        losers = sorted({loser for loser, _ in self.pairs})
        winners = sorted({winner for _, winner in self.pairs})
        since = f"since cycle {self.since}"
        if len(losers) == 2 and losers == winners:
            return f"{_jobs(losers)} have evicted each other {since}"
        if losers == winners and len(losers) > 1:
            return f"{_jobs(losers)} have evicted one another {since}"
        verb = "has been" if len(losers) == 1 else "have been"
        cause = f" for {_jobs(winners)}" if all(winners) else ""
        return f"{_jobs(losers)} {verb} evicted{cause} again and again {since}"


def look(around: Iterable[wire.Pod], result: decisions.CycleResult) -> Look:
    """The cluster after the cycle, as far as it is compared."""
    pairs = [(evict.task.job, evict.beneficiary or "") for evict in result.evicts]
    placed = Counter(_place(pod) for pod in around)
    promised = Counter((each.task.job, each.task.role, each.node) for each in result.pipelined)
    parts = (placed, promised, Counter(pairs))
    state = tuple(frozenset(part.items()) for part in parts)
    return Look(state=state, pairs=frozenset(pairs))


def find(looks: Sequence[Look]) -> Repetition | None:
    """What the run that looked so, cycle after cycle, ends with."""
    for period in range(1, len(looks) // 2 + 1):
        start = len(looks) - period
        while start > 0 and looks[start - 1].state == looks[start - 1 + period].state:
            start -= 1
        if start <= len(looks) - 2 * period:
            pairs = frozenset(pair for each in looks[start:] for pair in each.pairs)
            since = next((at for at in range(start, len(looks)) if looks[at].pairs), 0)
            return Repetition(since=since + 1, pairs=pairs) if pairs else None
    return None


def _place(pod: wire.Pod) -> Hashable:
    """What a pod that stands for another has in common with it."""
    metadata = pod.metadata
    group = next(filter(None, map(metadata.annotations.get, pods.GROUPS)), "")
    role = metadata.annotations.get(pods.ROLE) or metadata.labels.get(pods.ROLE, "")
    going = metadata.deletion_timestamp is not None
    return metadata.namespace, group, role, pod.spec.node_name, pod.status.phase, going


def _jobs(names: Sequence[str]) -> str:
    """`job a`, `jobs a and b`, `jobs a, b, c, d, e and 3 more`."""
    if len(names) == 1:
        return f"job {names[0]}"
    named = list(names[:NAMED_MAX])
    more = len(names) - len(named)
    last = f"{more} more" if more else named.pop()
    return f"jobs {', '.join(named)} and {last}"
