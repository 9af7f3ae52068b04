"""What must go on in this process, and for how long it may not."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from vscheduler.cluster import reflector
from vscheduler.cluster.writes import write_queue
from vscheduler.daemon.liveness import progress
from vscheduler.mirror.index import entries

LOOP_LEAST_SECONDS = 10.0
LOOP_SHARE = 2 / 3
"""The event loop may be silent for this part of a cycle's deadline: its Lease can't be given back,
as calls may be under way, and has to run out after that."""

WATCH_SECONDS = 300.0
"""How long a watch that reports no trouble may hear nothing: it begins anew by itself long before.
"""

WRITES_SECONDS = 180.0
"""How long no call may end while some wait: one that is sent again and again to a server that is
too busy takes 140 s."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs of life, and who gives them. Made before all who do."""

    cycles: progress.Cycles = field(default_factory=progress.Cycles)
    loop: progress.Pulse = field(default_factory=progress.Pulse)
    """Of the daemon's event loop."""
    kopf: progress.Pulse = field(default_factory=progress.Pulse)
    election: progress.Pulse = field(default_factory=progress.Pulse)

    @property
    def pulses(self) -> tuple[progress.Pulse, ...]:
        """All who have to be asked."""
        return (self.loop, self.kopf, self.election)


def checks(
    signs: Signs,
    calls: write_queue.Lanes,
    watches: Iterable["reflector.Watch[entries.Event]"],
    *,
    deadline_seconds: float,
) -> list[progress.Check]:
    """Leader or not: who stands by and is stuck must not take over."""
    cause = progress.Cause
    found = [
        progress.Check(
            cause=cause.CYCLE,
            mark=signs.cycles.oldest,
            bound_seconds=deadline_seconds,
            words="a scheduling cycle doesn't end",
            details=signs.cycles.where,
        ),
        progress.Check(
            cause=cause.DROPPED,
            mark=signs.cycles.keeps_dropping,
            bound_seconds=deadline_seconds,
            words="cycle after cycle is dropped",
        ),
        progress.Check(
            cause=cause.LOOP,
            mark=signs.loop.mark,
            bound_seconds=max(LOOP_LEAST_SECONDS, LOOP_SHARE * deadline_seconds),
            words="the event loop doesn't answer",
        ),
        progress.Check(
            cause=cause.KOPF,
            mark=signs.kopf.mark,
            bound_seconds=deadline_seconds,
            words="Kopf's thread doesn't answer",
        ),
        progress.Check(
            cause=cause.ELECTION,
            mark=signs.election.mark,
            bound_seconds=deadline_seconds,
            words="the thread that stands for election doesn't answer",
        ),
        progress.Check(
            cause=cause.WRITES,
            mark=lambda: calls.steps if calls.busy else None,
            bound_seconds=WRITES_SECONDS,
            words="calls to the API server wait, and none ends",
        ),
    ]
    return found + [_check(watch) for watch in watches]


def _check(watch: "reflector.Watch[entries.Event]") -> progress.Check:
    return progress.Check(
        cause=progress.Cause.WATCH,
        mark=lambda: watch.heard_at if watch.problem is None else None,
        bound_seconds=WATCH_SECONDS,
        words=f"nothing is heard of {watch.path}",
    )
