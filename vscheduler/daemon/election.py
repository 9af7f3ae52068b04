"""Who holds a Lease, and until when it may act: a pure function over what was read and written.

No clock and no calls: times are arguments, in seconds of this process' own monotonic clock; the
wall clock only goes into the strings of a record. One call is under way at a time:

    at next_at(): wanted() -> a Write: attempted(), send it, then wrote(), refused() or failed()
                           -> None: look, then saw() or failed()

What is promised: of all candidates at most one is before its `acts_until`, though their clocks
run up to three times as fast as each other's, requests and answers are late or lost, processes
freeze, and people edit or delete the Lease. What is taken for granted: the API server compares and
swaps, a monotonic clock counts what time its machine is suspended, and nobody writes an old record
back exactly as it was, nor gives a Lease back in its holder's name. Less is promised of one case:
who starts while there is no Lease at all, because it was deleted under a holder, doesn't wait for
the whole duration. It is safe where its clock is less than a tenth faster than the holder's and
the Lease isn't deleted once more before it acts.
"""

import math
from dataclasses import dataclass

from vscheduler.cluster import lease_records

ATTEMPTS_MAX = 8
TRANSITIONS_END = 2**31
"""leaseTransitions is an int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Volcano's three durations, in seconds, and what follows from them."""

    duration_seconds: float = 15.0
    """How long others wait after the last sign of life."""
    renew_deadline_seconds: float = 10.0
    """How long a holder that can't renew goes on trying."""
    retry_period_seconds: float = 2.0

    @property
    def fence_seconds(self) -> float:
        """How long a holder may act on a renewal, from when that was sent.

        A third of the duration: clocks of which one runs three times as fast as another don't
        make two act.
        """
        return min(self.renew_deadline_seconds, self.duration_seconds / 3)

    @property
    def first_seconds(self) -> float:
        """How long who makes a Lease that it never saw waits before it acts.

        As long as somebody may act whose Lease was deleted a moment ago, and a tenth more.
        """
        return 1.1 * self.fence_seconds

    @property
    def renew_seconds(self) -> float:
        """From one renewal to the next, so that one may fail before acting pauses."""
        return min(self.retry_period_seconds, self.fence_seconds / 2)

    @property
    def look_seconds(self) -> float:
        """From one look of a standby to the next: what was given back is taken within this."""
        return self.retry_period_seconds / 2

    @property
    def gap_seconds(self) -> float:
        """What counts at most as waited between two looks, so that no jump makes one hasty."""
        return 2 * self.retry_period_seconds

    @property
    def again_seconds(self) -> float:
        """From a call that failed to the next."""
        return self.retry_period_seconds / 4

    @property
    def conflict_seconds(self) -> float:
        """From a write that somebody was quicker than to the next look."""
        return self.retry_period_seconds / 20

    @property
    def call_seconds(self) -> float:
        """How long one call may take."""
        return 0.9 * self.retry_period_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What to store."""

    record: lease_records.Record
    over: lease_records.Stored | None
    """What is to be replaced, if it is still that; None: to be created, if it is still missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A write of ours."""

    write: Write
    sent_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What one candidate knows of one Lease."""

    identity: str
    stored: lease_records.Stored | None = None
    """The Lease as it was last seen; None: it is missing, or we haven't looked."""
    last: lease_records.Record | None = None
    """The last record that was seen, though it be gone; None: never any."""
    own: Attempt | None = None
    """The last write that made or kept the Lease ours; None: it isn't ours."""
    attempts: tuple[Attempt, ...] = ()
    """Writes that had no answer and may have been done, or may yet be."""
    looking: bool = True
    """We have to look before we write."""
    due_at: float = -math.inf
    """When to look."""
    marked_at: float = -math.inf
    """Until when it is certain that we waited."""
    ripe_at: float = math.inf
    """When we have waited for whoever acts by right of what we saw, or of what was there before."""
    doubted_at: float | None = None
    """When somebody said that the Lease isn't ours; None: nobody does."""
    resigned: bool = False
    """We gave it back, or tried to, and stand no more."""
    tenure: int = 0
    """Two times of leading that aren't one and the same have different numbers."""


def begin(identity: str) -> State:
    """A candidate that knows nothing."""
    return State(identity=identity)


def leads(state: State, timing: Timing, now: float) -> bool:
    """Whether we hold the Lease, though acting may pause for want of a renewal."""
    raise NotImplementedError


def acts_until(state: State, timing: Timing) -> float:
    """Before which instant we may act; -inf: we may not."""
    raise NotImplementedError


def next_at(state: State, timing: Timing, *, chance: float) -> float:
    """When to make the next call: see `wanted`. It may be past; chance is from 0 to 1."""
    raise NotImplementedError


def wanted(state: State, timing: Timing, *, now: float, wall_time: str) -> Write | None:
    """What to write now; None: look."""
    raise NotImplementedError


def given_back(state: State, *, wall_time: str) -> Write | None:
    """What to write in order to give the Lease back; None: look first, or it isn't ours to give."""
    raise NotImplementedError


def attempted(state: State, write: Write, *, sent_at: float) -> State:
    """A write is about to be sent; the time is the one that `wanted` was given."""
    raise NotImplementedError


def wrote(
    state: State, timing: Timing, stored: lease_records.Stored, *, answered_at: float
) -> State:
    """The write that was attempted last was done, and this is what is stored now."""
    raise NotImplementedError


def refused(state: State, timing: Timing, *, at: float) -> State:
    """The write that was attempted last wasn't done: somebody else was quicker (409, 404)."""
    raise NotImplementedError


def failed(state: State, timing: Timing, *, at: float) -> State:
    """A call had no answer, or one that says nothing; if it was a write, it may have been done."""
    raise NotImplementedError


def saw(
    state: State,
    timing: Timing,
    stored: lease_records.Stored | None,
    *,
    sent_at: float,
    answered_at: float,
) -> State:
    """A look was answered; None: there is no such Lease."""
    raise NotImplementedError


def doubted(state: State, *, at: float) -> State:
    """Somebody says that the Lease isn't ours: act no more before a look shows that it is."""
    raise NotImplementedError
