"""Rules about retries: what was refused is tried again, but not without a pause."""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.judges import objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Settings, ours, served

BUSY = 429
HASTE_SECONDS = 0.3
HASTY_MAX = 6
HASTY_WITHIN_SECONDS = 60.0
REFUSALS_MAX = 30
WITHIN_SECONDS = 10.0
ROUND_SECONDS = 10.0
ROUNDS_MAX = 6
ROUNDS_WITHIN_SECONDS = 60.0


class Write(NamedTuple):
    """A write that a process may repeat. Its scheduler and its controllers know nothing of each
    other's writes to the status of a Queue.
    """

    origin: str
    manager: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str


class Pauses(Judge):
    """No process repeats a refused write to an object again and again without a pause."""

    rule = "pauses between retries"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._refused: defaultdict[Write, deque[float]] = defaultdict(
            lambda: deque(maxlen=REFUSALS_MAX)
        )
        """When the last refusals were."""
        self._busy: dict[Write, float] = {}
        """When the API server last asked for patience."""
        self._hasty: defaultdict[Write, deque[float]] = defaultdict(lambda: deque(maxlen=HASTY_MAX))
        """When a write was repeated in spite of that."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Count the refusals of a write."""
        del cluster
        if served(change) or not ours(change) or not change.name:
            return
        write = Write(
            change.origin,
            change.manager,
            change.verb,
            change.resource,
            change.subresource,
            change.namespace,
            change.name,
        )
        yield from self._hurry(write, change)
        known = self._refused[write]
        known.append(change.at)
        if len(known) == REFUSALS_MAX and change.at - known[0] < WITHIN_SECONDS:
            seconds = change.at - known[0]
            known.clear()
            yield self.finding(
                change.at,
                f"{change.origin}: {objects.request(change)} was refused {REFUSALS_MAX} times "
                f"in {seconds:.1f} s, the last time with {change.code}",
            )

    def _hurry(self, write: Write, change: Change) -> Iterator[Finding]:
        """Count repetitions for which the API server was too busy a moment ago.

        Who elects has to hurry, and budgets answer with the same code.
        """
        if change.code != BUSY or change.resource == "leases" or change.verb == "evict":
            return
        since = self._busy.get(write, float("-inf"))
        self._busy[write] = change.at
        if change.at - since >= HASTE_SECONDS:
            return
        hasty = self._hasty[write]
        hasty.append(change.at)
        if len(hasty) == HASTY_MAX and change.at - hasty[0] < HASTY_WITHIN_SECONDS:
            hasty.clear()
            yield self.finding(
                change.at,
                f"{change.origin}: {objects.request(change)} was repeated at once {HASTY_MAX} "
                "times, though the API server was too busy",
            )


class Rounds(Judge):
    """No PodGroup has pods bound and evicted, and those made in their place again, in a row.

    What an eviction is for must come about, or the next one must wait: owners make new pods at
    once.
    """

    rule = "no evictions in a row"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._bound: dict[str, float] = {}
        """When pods were bound, by UID."""
        self._rounds: defaultdict[tuple[str, str], deque[float]] = defaultdict(
            lambda: deque(maxlen=ROUNDS_MAX)
        )
        """When pods of a PodGroup were evicted that had been bound after the time before."""

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Count the evictions of pods that were bound a moment ago."""
        del cluster
        if change.resource != "pods" or not served(change) or change.before is None:
            return
        uid = change.before["metadata"]["uid"]
        if change.verb == "bind":
            self._bound[uid] = change.at
        if change.verb not in ("evict", "delete"):
            return
        bound, group = self._bound.pop(uid, None), objects.group_of(change.before)
        if change.verb == "delete" or not ours(change) or bound is None or group is None:
            return
        rounds = self._rounds[group]
        if change.at - bound >= ROUND_SECONDS or (rounds and bound < rounds[-1]):
            return
        rounds.append(change.at)
        if len(rounds) == ROUNDS_MAX and change.at - rounds[0] < ROUNDS_WITHIN_SECONDS:
            seconds = change.at - rounds[0]
            rounds.clear()
            yield self.finding(
                change.at,
                f"{change.origin} evicted pods of {objects.label(group)} {ROUNDS_MAX} times in "
                f"{seconds:.1f} s, each time pods that had just been bound",
            )
