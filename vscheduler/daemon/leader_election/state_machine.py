"""State machine of leader election: who holds a Lease, and until when this candidate may act.

Pure functions over reads and writes of the Lease: no clock, no calls. Times are arguments, in
seconds of this process' monotonic clock; wall-clock time only appears in the strings of a record. A
candidate makes one call at a time:

    at next_at(): wanted() -> a Write: attempted(), send, then wrote(), refused() or failed()
                           -> None: read the Lease, then saw() or failed()

Guarantee: at most one candidate is before its `acts_until` at any time. The guarantee holds even if
clocks run up to three times as fast as each other, requests and answers are late or lost, processes
freeze, and people edit or delete the Lease.

Assumptions: the API server's writes are compare-and-swap; a monotonic clock includes the time while
its machine is suspended; nobody writes back an old record unchanged, releases a Lease in the
holder's name, or edits or deletes a Lease whose candidates use different durations. When a record
is edited, the holder continues as long as the record names the holder.

The guarantee is weaker in one case. A candidate that starts while no Lease exists, because the
Lease was deleted under a holder, does not wait for the full duration. Safety then requires that the
candidate's clock is less than a tenth faster than the holder's, and that the Lease is not deleted
again before the candidate acts.
"""

import math

import msgspec
from msgspec.structs import replace

from vscheduler.cluster.lease_records import Record, Stored
from vscheduler.daemon.leader_election import election_settings
from vscheduler.daemon.leader_election.election_settings import Timing

ATTEMPTS_MAX = 8
"""How many unanswered writes are remembered."""

GIVEN_BACK_SECONDS = 1.0
"""The duration in the record of a released Lease, as written by client-go."""


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """A write of the Lease."""

    record: Record
    over: Stored | None
    """The Lease to replace, if still unchanged. None: create the Lease, if still missing."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A write by this candidate."""

    write: Write
    sent_at: float


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate's knowledge of its Lease."""

    identity: str
    stored: Stored | None = None
    """The Lease as last seen. None: the Lease is missing, or was never read."""
    last: Record | None = None
    """The last record seen, even if deleted since. None: no record was ever seen."""
    own: Attempt | None = None
    """The last write by which this candidate gained or renewed the Lease. None: the Lease is not
    held."""
    attempts: tuple[Attempt, ...] = ()
    """Unanswered writes, which may have been executed or may still be."""
    looking: bool = True
    """Whether the Lease must be read before the next write."""
    due_at: float = -math.inf
    """When to read the Lease."""
    marked_at: float = -math.inf
    """The last time at which the Lease was seen unchanged, in the wait that ends at `ripe_at`."""
    ripe_at: float = math.inf
    """When the wait ends for any holder whose right to act comes from the record seen, or from an
    earlier record."""
    doubted_at: float | None = None
    """When the API server reported a different holder. None: no such report is open."""
    resigned: bool = False
    """Whether the Lease was released, or a release was tried. The candidate no longer stands for
    election."""
    term: int = 0
    """Number of the current term; different terms of leadership have different numbers."""


def begin(identity: str) -> State:
    """Return the initial state of a candidate."""
    return State(identity=identity)


def leads(state: State, timing: Timing, now: float) -> bool:
    """Whether this candidate holds the Lease, even if acting is paused until a renewal succeeds."""
    if state.own is None or state.resigned or not _ripe(state):
        return False
    return now < state.own.sent_at + timing.renew_deadline_seconds


def acts_until(state: State, timing: Timing) -> float:
    """Return the time before which this candidate may act, or -inf."""
    if state.own is None or state.resigned or state.doubted_at is not None or not _ripe(state):
        return -math.inf
    return state.own.sent_at + timing.fence_seconds


def next_at(state: State, timing: Timing, *, chance: float) -> float:
    """Return when to make the next call (see `wanted`), possibly in the past.

    `chance` is from 0 to 1. The candidate reads or renews the Lease exactly when its wait ends.
    """
    if state.resigned:
        return math.inf
    if state.looking:
        return state.due_at
    if state.own is not None:
        missing = state.stored is None
        due_at = -math.inf if missing else state.own.sent_at + timing.renew_seconds
    elif _ripe(state):
        return -math.inf
    else:
        due_at = state.due_at + (chance - 0.5) * 0.2 * timing.look_seconds
    return due_at if _ripe(state) else min(due_at, state.ripe_at)


def wanted(state: State, timing: Timing, *, wall_time: str) -> Write | None:
    """Return the write to make now, or None to read the Lease.

    Delays are harmless. If the Lease changes before the write arrives, the write fails. A candidate
    that creates the Lease waits before acting.
    """
    if state.looking or state.resigned:
        return None
    if state.own is not None:
        record = replace(state.own.write.record, renewed=wall_time)
        return Write(record=record, over=state.stored)
    if not _ripe(state):
        return None
    record = Record(
        holder=state.identity,
        duration_seconds=timing.duration_seconds,
        acquired=wall_time,
        renewed=wall_time,
        transitions=state.last.transitions + 1 if state.last else 0,
    )
    return Write(record=record, over=state.stored)


def may_take(state: State) -> bool:
    """Whether nobody else holds the Lease any more, as far as seen."""
    return state.own is None and not state.resigned and _ripe(state)


def given_back(state: State, *, wall_time: str) -> Write | None:
    """Return the write that releases the Lease.

    None: read the Lease first, or the Lease is not ours to release. A released Lease is taken over
    without a wait. A candidate still in its own wait therefore does not release the Lease.
    """
    if state.own is None or state.stored is None or state.looking or not _ripe(state):
        return None
    record = replace(
        state.own.write.record, holder="", duration_seconds=GIVEN_BACK_SECONDS, renewed=wall_time
    )
    return Write(record=record, over=state.stored)


def attempted(state: State, write: Write, *, sent_at: float) -> State:
    """Record that a write is about to be sent, and may be executed from now on."""
    if write.record.holder != state.identity:
        return replace(state, resigned=True)
    attempts = (*state.attempts, Attempt(write=write, sent_at=sent_at))
    return replace(state, attempts=attempts[-ATTEMPTS_MAX:])


def wrote(
    state: State,
    timing: Timing,
    stored: Stored,
    *,
    answered_at: float,
) -> State:
    """Record that the last attempted write succeeded; `stored` is the new Lease."""
    if state.resigned:
        return replace(state, stored=stored, own=None)
    attempt = state.attempts[-1]
    state = replace(state, stored=stored)
    return _held(state, timing, attempt, asked_at=attempt.sent_at, answered_at=answered_at)


def refused(state: State, timing: Timing, *, at: float) -> State:
    """Record that the last attempted write failed: another candidate wrote first (409, 404)."""
    attempts = state.attempts if state.resigned else state.attempts[:-1]
    return replace(state, attempts=attempts, looking=True, due_at=at + timing.conflict_seconds)


def failed(state: State, timing: Timing, *, at: float) -> State:
    """Record a call without a usable answer. A write may have been executed."""
    return replace(state, looking=True, due_at=at + timing.again_seconds)


def postponed(state: State, timing: Timing, *, at: float) -> State:
    """Record that a candidate makes no use of its right to take the Lease, and looks again."""
    return replace(state, looking=True, due_at=at + timing.look_seconds)


def doubted(state: State, *, at: float) -> State:
    """Record a report that the Lease is not ours. Acting stops until a read shows that it is."""
    return replace(state, doubted_at=at, looking=True, due_at=at)


def saw(
    state: State,
    timing: Timing,
    stored: Stored | None,
    *,
    sent_at: float,
    answered_at: float,
) -> State:
    """Record the result of a read. None: the Lease does not exist."""
    before = state.stored
    state = replace(state, stored=stored, looking=False, due_at=sent_at + timing.look_seconds)
    for attempt in (state.own, *state.attempts):
        if attempt and stored and _claim(attempt.write.record) == _claim(stored.record):
            return _held(state, timing, attempt, asked_at=sent_at, answered_at=answered_at)
    if state.own and stored and _edited(state, before, stored, timing, answered_at):
        return _held(state, timing, state.own, asked_at=sent_at, answered_at=answered_at)
    pending = tuple(
        attempt for attempt in state.attempts if _over(attempt.write.over) == _over(stored)
    )
    state = replace(state, attempts=pending)
    if stored is None and _fenced(state, timing, answered_at) and state.doubted_at is None:
        return state
    same = state.own is None and state.marked_at > -math.inf and _what(before) == _what(stored)
    if same:
        state = _marked(state, timing, sent_at)
    else:
        wait_seconds = _patience_seconds(state, timing)
        state = replace(state, marked_at=answered_at, ripe_at=answered_at + wait_seconds)
    return replace(state, own=None, doubted_at=None, last=stored.record if stored else state.last)


def _held(
    state: State,
    timing: Timing,
    attempt: Attempt,
    *,
    asked_at: float,
    answered_at: float,
) -> State:
    """Record that the Lease is held through `attempt`, as shown by a call sent at `asked_at`.

    If the attempt replaced a Lease, nobody else acted since the replaced record. An attempt that
    created the Lease knows nothing of an earlier Lease: the candidate waits, unless its own right
    to act lasted until now.
    """
    assert state.stored is not None
    record = state.stored.record
    led = leads(state, timing, answered_at)
    if attempt is state.own or attempt.write.over or _fenced(state, timing, answered_at):
        state = _marked(state, timing, asked_at)
    else:
        seen_before = state.last is not None
        wait_seconds = _held_seconds(timing, state.last) if seen_before else timing.first_seconds
        state = replace(state, marked_at=answered_at, ripe_at=answered_at + wait_seconds)
    doubted_at = state.doubted_at
    if doubted_at is not None and asked_at < doubted_at:
        state = replace(state, looking=True, due_at=doubted_at)
    else:
        state = replace(state, looking=False, doubted_at=None)
    return replace(
        state,
        own=attempt,
        attempts=(),
        last=record,
        term=state.term if led and _ripe(state) else state.term + 1,
    )


def _ripe(state: State) -> bool:
    """Whether the candidate has waited long enough, for certain."""
    return state.ripe_at <= state.marked_at


def _marked(state: State, timing: Timing, at: float) -> State:
    """Record that nothing changed until `at`.

    A gap longer than usual does not count fully as waiting time.
    """
    if _ripe(state) or at <= state.marked_at:
        return state
    excess_seconds = max(0.0, at - state.marked_at - timing.gap_seconds)
    return replace(state, marked_at=at, ripe_at=state.ripe_at + excess_seconds)


def _fenced(state: State, timing: Timing, now: float) -> bool:
    """Whether the last renewal still keeps other candidates out, whatever happened to the Lease."""
    return state.own is not None and now < state.own.sent_at + timing.fence_seconds


def _edited(
    state: State,
    before: Stored | None,
    stored: Stored,
    timing: Timing,
    now: float,
) -> bool:
    """Whether somebody edited the candidate's Lease without making another candidate the holder.

    While the last renewal fences the Lease, nobody else can have acted, whatever was written in
    between: a new holder first waits longer than the fence, counted from the renewal or a later
    record. The Lease therefore still counts as held, but only by right of the last renewal. The
    next renewal replaces the edited record. After the end of the fence, another candidate may have
    led, and the trace may be edited away.
    """
    same = before is not None and before.uid == stored.uid
    return same and stored.record.holder == state.identity and _fenced(state, timing, now)


def _patience_seconds(state: State, timing: Timing) -> float:
    """Return how long to wait for the holder of the Lease as seen."""
    if state.stored is None:
        # The former holder may create the Lease again. After creating it, we wait once more.
        return timing.fence_seconds if state.last else 0.0
    record = state.stored.record
    if not record.holder and 0 < record.duration_seconds <= GIVEN_BACK_SECONDS:
        return 0.0
    return _held_seconds(timing, record)


def _held_seconds(timing: Timing, record: Record | None) -> float:
    """Return how long the holder in a record may act, as far as known."""
    theirs = min(record.duration_seconds, election_settings.DURATION_MAX_SECONDS) if record else 0.0
    return max(timing.duration_seconds, theirs)


def _claim(record: Record) -> tuple[str, str, str, int]:
    """Return the fields that identify a write of this candidate.

    No two writes are equal. The duration is left out, because anybody may edit it.
    """
    return record.holder, record.acquired, record.renewed, record.transitions


def _what(stored: Stored | None) -> tuple[str, Record] | None:
    """Return the parts of a Lease whose change is a sign of life.

    Annotations, for example, are not.
    """
    return (stored.uid, stored.record) if stored else None


def _over(stored: Stored | None) -> tuple[str, str] | None:
    """Return the state that a pending write must find in order to succeed."""
    return (stored.uid, stored.version) if stored else None
