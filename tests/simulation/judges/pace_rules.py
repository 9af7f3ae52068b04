"""Rules about retries: what was refused is tried again, but not without a pause."""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.judges import objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.court import Judge
from tests.simulation.judges.history import Change, Finding, Settings, ours, served

REFUSALS_MAX = 30
WITHIN_SECONDS = 10.0


class Write(NamedTuple):
    """A write that a process may repeat."""

    origin: str
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

    def before(self, change: Change, cluster: Cluster) -> Iterator[Finding]:
        """Count the refusals of a write."""
        del cluster
        if served(change) or not ours(change) or not change.name:
            return
        write = Write(
            change.origin,
            change.verb,
            change.resource,
            change.subresource,
            change.namespace,
            change.name,
        )
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
