"""Rules about retries: what was refused is tried again, but not without a pause."""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
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


class Repetitions:
    """Counts what happens again and again, by key, and says when it is too often."""

    def __init__(self, most: int, within_seconds: float) -> None:
        self._most, self._within_seconds = most, within_seconds
        self._known: defaultdict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=most))

    def last(self, key: Hashable) -> float:
        """When it was last counted, unless it was too often by then."""
        known = self._known[key]
        return known[-1] if known else float("-inf")

    def count(self, key: Hashable, at: float) -> float | None:
        """Count it; the seconds in which it happened too often, if so. Then it begins anew."""
        known = self._known[key]
        known.append(at)
        seconds = at - known[0]
        if len(known) < self._most or seconds >= self._within_seconds:
            return None
        known.clear()
        return seconds


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
        self._refused = Repetitions(REFUSALS_MAX, WITHIN_SECONDS)
        self._busy: dict[Write, float] = {}
        """When the API server last asked for patience."""
        self._hasty = Repetitions(HASTY_MAX, HASTY_WITHIN_SECONDS)
        """Writes repeated in spite of that."""

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
        seconds = self._refused.count(write, change.at)
        if seconds is not None:
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
        if self._hasty.count(write, change.at) is not None:
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
        self._rounds = Repetitions(ROUNDS_MAX, ROUNDS_WITHIN_SECONDS)
        """Evictions of pods that had been bound after the last one, by PodGroup."""

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
        if change.at - bound >= ROUND_SECONDS or bound < self._rounds.last(group):
            return
        seconds = self._rounds.count(group, change.at)
        if seconds is not None:
            yield self.finding(
                change.at,
                f"{change.origin} evicted pods of {objects.label(group)} {ROUNDS_MAX} times in "
                f"{seconds:.1f} s, each time pods that had just been bound",
            )
