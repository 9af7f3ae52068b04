"""Who holds a Lease, and until when it may act: a pure function over what was read and written.

No clock and no calls: times are arguments, in seconds of this process' own monotonic clock; the
wall clock only goes into the strings of a record. One call is under way at a time:

    at next_at(): wanted() -> a Write: attempted(), send it, then wrote(), refused() or failed()
                           -> None: look, then saw() or failed()

What is promised: of all candidates at most one is before its `acts_until`, though their clocks
run up to three times as fast as each other's, requests and answers are late or lost, processes
freeze, and people edit or delete the Lease. What is taken for granted: the API server compares and
swaps, a monotonic clock counts what time its machine is suspended, and nobody writes an old record
back exactly as it was, nor gives a Lease back in its holder's name, nor edits or deletes one whose
candidates have different durations. A holder whose record is edited goes on, as long as the record
names it. Less is promised of one case:
who starts while there is no Lease at all, because it was deleted under a holder, doesn't wait for
the whole duration. It is safe where its clock is less than a tenth faster than the holder's and
the Lease isn't deleted once more before it acts.
"""

import math
from dataclasses import dataclass, replace

from vscheduler.cluster import lease_records
from vscheduler.daemon.leader_election import election_settings

ATTEMPTS_MAX = 8

GIVEN_BACK_SECONDS = 1.0
"""The duration in a record that was given back, as client-go writes it."""


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


def leads(state: State, timing: election_settings.Timing, now: float) -> bool:
    """Whether we hold the Lease, though acting may pause for want of a renewal."""
    if state.own is None or state.resigned or not _ripe(state):
        return False
    return now < state.own.sent_at + timing.renew_deadline_seconds


def acts_until(state: State, timing: election_settings.Timing) -> float:
    """Before which instant we may act; -inf: we may not."""
    if state.own is None or state.resigned or state.doubted_at is not None or not _ripe(state):
        return -math.inf
    return state.own.sent_at + timing.fence_seconds


def next_at(state: State, timing: election_settings.Timing, *, chance: float) -> float:
    """When to make the next call: see `wanted`. It may be past; chance is from 0 to 1.

    Somebody looks, or renews, at the very instant at which it has waited long enough.
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


def wanted(state: State, timing: election_settings.Timing, *, wall_time: str) -> Write | None:
    """What to write now; None: look.

    It may be as late as it will: whatever happens in between, the write isn't done, or who creates
    waits.
    """
    if state.looking or state.resigned:
        return None
    if state.own is not None:
        record = replace(state.own.write.record, renewed=wall_time)
        return Write(record=record, over=state.stored)
    if not _ripe(state):
        return None
    record = lease_records.Record(
        holder=state.identity,
        duration_seconds=timing.duration_seconds,
        acquired=wall_time,
        renewed=wall_time,
        transitions=state.last.transitions + 1 if state.last else 0,
    )
    return Write(record=record, over=state.stored)


def given_back(state: State, *, wall_time: str) -> Write | None:
    """What to write in order to give the Lease back; None: look first, or it isn't ours to give.

    Others take at once what was given back: so who still waits itself just goes.
    """
    if state.own is None or state.stored is None or state.looking or not _ripe(state):
        return None
    record = replace(
        state.own.write.record, holder="", duration_seconds=GIVEN_BACK_SECONDS, renewed=wall_time
    )
    return Write(record=record, over=state.stored)


def attempted(state: State, write: Write, *, sent_at: float) -> State:
    """A write is about to be sent: from here on it may be done."""
    if write.record.holder != state.identity:
        return replace(state, resigned=True)
    attempts = (*state.attempts, Attempt(write=write, sent_at=sent_at))
    return replace(state, attempts=attempts[-ATTEMPTS_MAX:])


def wrote(
    state: State,
    timing: election_settings.Timing,
    stored: lease_records.Stored,
    *,
    answered_at: float,
) -> State:
    """The write that was attempted last was done, and this is what is stored now."""
    if state.resigned:
        return replace(state, stored=stored, own=None)
    attempt = state.attempts[-1]
    state = replace(state, stored=stored)
    return _held(state, timing, attempt, asked_at=attempt.sent_at, answered_at=answered_at)


def refused(state: State, timing: election_settings.Timing, *, at: float) -> State:
    """The write that was attempted last wasn't done: somebody else was quicker (409, 404)."""
    attempts = state.attempts if state.resigned else state.attempts[:-1]
    return replace(state, attempts=attempts, looking=True, due_at=at + timing.conflict_seconds)


def failed(state: State, timing: election_settings.Timing, *, at: float) -> State:
    """A call had no answer, or one that says nothing; if it was a write, it may have been done."""
    return replace(state, looking=True, due_at=at + timing.again_seconds)


def doubted(state: State, *, at: float) -> State:
    """Somebody says that the Lease isn't ours: act no more before a look shows that it is."""
    return replace(state, doubted_at=at, looking=True, due_at=at)


def saw(
    state: State,
    timing: election_settings.Timing,
    stored: lease_records.Stored | None,
    *,
    sent_at: float,
    answered_at: float,
) -> State:
    """A look was answered; None: there is no such Lease."""
    before = state.stored
    state = replace(state, stored=stored, looking=False, due_at=sent_at + timing.look_seconds)
    for attempt in (state.own, *state.attempts):
        if attempt and stored and _claim(attempt.write.record) == _claim(stored.record):
            return _held(state, timing, attempt, asked_at=sent_at, answered_at=answered_at)
    if state.own and stored and _edited(state, before, stored, timing, answered_at):
        return _held(state, timing, state.own, asked_at=sent_at, answered_at=answered_at)
    pending = tuple(each for each in state.attempts if _over(each.write.over) == _over(stored))
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
    timing: election_settings.Timing,
    attempt: Attempt,
    *,
    asked_at: float,
    answered_at: float,
) -> State:
    """The Lease is ours by this write of ours, as a call shows that was sent at `asked_at`.

    Nobody else has acted since what a replacing write replaced. A creating one knows nothing of
    what was there before: it waits for that, unless our own right to act has lasted until now.
    """
    assert state.stored is not None
    record = state.stored.record
    led = leads(state, timing, answered_at)
    if attempt is state.own or attempt.write.over or _fenced(state, timing, answered_at):
        state = _marked(state, timing, asked_at)
    else:
        known = state.last is not None
        wait_seconds = _held_seconds(timing, state.last) if known else timing.first_seconds
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
        tenure=state.tenure if led and _ripe(state) else state.tenure + 1,
    )


def _ripe(state: State) -> bool:
    """Whether we have waited long enough, for certain."""
    return state.ripe_at <= state.marked_at


def _marked(state: State, timing: election_settings.Timing, at: float) -> State:
    """Nothing has changed until then. What is more than a usual gap doesn't count as waited."""
    if _ripe(state) or at <= state.marked_at:
        return state
    excess_seconds = max(0.0, at - state.marked_at - timing.gap_seconds)
    return replace(state, marked_at=at, ripe_at=state.ripe_at + excess_seconds)


def _fenced(state: State, timing: election_settings.Timing, now: float) -> bool:
    """Whether our last renewal still keeps others out, whatever became of the Lease."""
    return state.own is not None and now < state.own.sent_at + timing.fence_seconds


def _edited(
    state: State,
    before: lease_records.Stored | None,
    stored: lease_records.Stored,
    timing: election_settings.Timing,
    now: float,
) -> bool:
    """Whether somebody has edited our Lease without giving it to anybody.

    While our last renewal fences others nobody can have acted since, whatever has been written in
    between: who takes waits for longer than that from when it saw our renewal or a later record.
    So it is as good as ours, by the right of that renewal and no longer than that; the next one
    replaces what was edited. Once the fence has passed, another may have led and been edited away.
    """
    same = before is not None and before.uid == stored.uid
    return same and stored.record.holder == state.identity and _fenced(state, timing, now)


def _patience_seconds(state: State, timing: election_settings.Timing) -> float:
    """How long to leave what is seen alone."""
    if state.stored is None:
        # Whoever held it may make it anew; we wait again when we have made it.
        return timing.fence_seconds if state.last else 0.0
    record = state.stored.record
    if not record.holder and 0 < record.duration_seconds <= GIVEN_BACK_SECONDS:
        return 0.0
    return _held_seconds(timing, record)


def _held_seconds(timing: election_settings.Timing, record: lease_records.Record | None) -> float:
    """How long somebody may act by a record, for all we know."""
    theirs = min(record.duration_seconds, election_settings.DURATION_MAX_SECONDS) if record else 0.0
    return max(timing.duration_seconds, theirs)


def _claim(record: lease_records.Record) -> tuple[str, str, str, int]:
    """What makes a record ours: we write no two alike. A duration is anybody's to edit."""
    return record.holder, record.acquired, record.renewed, record.transitions


def _what(stored: lease_records.Stored | None) -> tuple[str, lease_records.Record] | None:
    """What a change is a change of; annotations, say, are no sign of life."""
    return (stored.uid, stored.record) if stored else None


def _over(stored: lease_records.Stored | None) -> tuple[str, str] | None:
    """What a write that is still under way must find, to be done."""
    return (stored.uid, stored.version) if stored else None
