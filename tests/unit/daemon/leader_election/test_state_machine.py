import math
from typing import Any

import pytest
from msgspec.structs import replace

from vscheduler.cluster.lease_records import Record, Stored
from vscheduler.daemon.leader_election import state_machine
from vscheduler.daemon.leader_election.election_settings import Timing
from vscheduler.daemon.leader_election.state_machine import Write

TIMING = Timing()
THEIRS = Record(holder="them", duration_seconds=15, acquired="a", renewed="r1", transitions=4)
GIVEN_BACK = replace(THEIRS, holder="", duration_seconds=1)


def lease(record: Record, version: int = 1, uid: str = "u") -> Stored:
    """A Lease with this record in it."""
    return Stored(record=record, uid=uid, version=str(version), whole={})


class Candidate:
    """A candidate called us, to whom things happen at instants of its clock."""

    def __init__(self, timing: Timing = TIMING) -> None:
        self.timing = timing
        self.state = state_machine.begin("us")
        self.version = 100

    def sees(self, stored: Stored | None, *, at: float, answered_at: float | None = None) -> None:
        """A look is answered, at once if nothing else is said."""
        self.state = state_machine.saw(
            self.state, self.timing, stored, sent_at=at, answered_at=answered_at or at
        )

    def watches(self, stored: Stored | None, *, begin: int, end: int) -> None:
        """A look every second."""
        for second in range(begin, end + 1):
            self.sees(stored, at=second)

    def writes(self, *, at: float) -> Write:
        """What it wants to write is sent."""
        write = state_machine.wanted(self.state, self.timing, wall_time=f"wall {at}")
        assert write
        self.state = state_machine.attempted(self.state, write, sent_at=at)
        return write

    def stores(self, *, at: float, answered_at: float | None = None) -> Stored:
        """What it wants to write is sent and done."""
        write = self.writes(at=at)
        self.version += 1
        stored = lease(write.record, self.version)
        self.state = state_machine.wrote(
            self.state, self.timing, stored, answered_at=answered_at or at
        )
        return stored

    def leads(self, at: float) -> bool:
        """Whether it holds the Lease."""
        return state_machine.leads(self.state, self.timing, at)

    @property
    def until(self) -> float:
        """Until when it may act."""
        return state_machine.acts_until(self.state, self.timing)

    @property
    def patient(self) -> bool:
        """Whether it wants to look, and not to write."""
        return state_machine.wanted(self.state, self.timing, wall_time="") is None

    def due(self, chance: float = 0.5) -> float:
        """When it calls again."""
        return state_machine.next_at(self.state, self.timing, chance=chance)


def leader() -> Candidate:
    """One who took what was given back, at 0."""
    us = Candidate()
    us.sees(lease(GIVEN_BACK), at=0)
    us.stores(at=0)
    return us


@pytest.mark.parametrize(
    ("timing", "fence_seconds", "renew_seconds"),
    [
        (TIMING, 5, 2),
        (Timing(duration_seconds=60, retry_period_seconds=4), 10, 4),
        (Timing(duration_seconds=6, renew_deadline_seconds=5), 2, 1),
    ],
)
def test_a_fence_is_a_third_of_the_duration_and_no_longer_than_the_deadline(
    timing: Timing, fence_seconds: float, renew_seconds: float
) -> None:
    """And one renewal may fail before it ends."""
    assert (timing.fence_seconds, timing.renew_seconds) == (fence_seconds, renew_seconds)


def test_what_others_hold_is_taken_over_after_the_whole_duration_since_the_answer() -> None:
    """The look that showed the change was answered at 1; one that was sent at 16 still shows it."""
    us = Candidate()
    us.sees(lease(THEIRS), at=0, answered_at=1)
    us.watches(lease(THEIRS), begin=2, end=15)
    us.sees(lease(THEIRS), at=15.9, answered_at=17)
    assert us.patient
    us.sees(lease(THEIRS), at=16)
    write = us.writes(at=16.5)
    assert write.over == lease(THEIRS)
    assert write.record == Record(
        holder="us", duration_seconds=15, acquired="wall 16.5", renewed="wall 16.5", transitions=5
    )


@pytest.mark.parametrize(
    ("stored", "seconds"),
    [
        (lease(THEIRS, version=2), 15),  # an annotation: no sign of life
        (lease(replace(THEIRS, renewed="r2"), version=2), 25),
        (lease(replace(THEIRS, holder=""), version=2), 25),  # emptied by hand
        (lease(replace(THEIRS, holder="us"), version=2), 25),  # we never wrote that
        (lease(replace(THEIRS, duration_seconds=0), version=2), 25),
        (lease(replace(THEIRS, duration_seconds=-5), version=2), 25),
        (lease(replace(THEIRS, duration_seconds=20), version=2), 30),
        (lease(replace(THEIRS, duration_seconds=2e9), version=2), 3610),
        (lease(THEIRS, version=2, uid="other"), 25),
        (lease(Record(), version=2), 25),
        (lease(replace(GIVEN_BACK, duration_seconds=0), version=2), 25),
        (lease(GIVEN_BACK, version=2), 10),
    ],
)
def test_patience_begins_anew_with_each_change_of_what_counts(stored: Stored, seconds: int) -> None:
    """The first record was seen at 0, the second at 10; the longer duration counts."""
    us = Candidate()
    us.watches(lease(THEIRS), begin=0, end=9)
    us.watches(stored, begin=10, end=seconds - 1) if seconds > 10 else None
    assert us.patient
    us.sees(stored, at=seconds)
    assert us.writes(at=seconds).over == stored


def test_a_jump_or_a_freeze_counts_as_one_gap() -> None:
    """An hour between two looks is four seconds of patience."""
    us = Candidate()
    us.watches(lease(THEIRS), begin=0, end=5)
    us.sees(lease(THEIRS), at=3605)
    us.watches(lease(THEIRS), begin=3606, end=3610)
    assert us.patient
    us.sees(lease(THEIRS), at=3611)
    assert not us.patient


def test_a_standby_looks_at_the_instant_at_which_its_patience_ends() -> None:
    """Else about every second, a tenth of it left to chance."""
    us = Candidate()
    us.watches(lease(THEIRS), begin=0, end=3)
    assert [us.due(chance) for chance in (0, 0.5, 1)] == [3.9, 4.0, 4.1]
    us.watches(lease(THEIRS), begin=4, end=14)
    us.sees(lease(THEIRS), at=14.5)
    assert us.due() == 15


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    """And it is renewed in time for a second one."""
    us = leader()
    assert (us.until, us.due()) == (5, 2)
    us.stores(at=2, answered_at=3.5)
    assert (us.until, us.due()) == (7, 4)


def test_who_cannot_renew_pauses_after_the_fence_and_loses_after_the_deadline() -> None:
    """The term is another one afterwards, though nobody was there in between."""
    us = leader()
    before = us.state.term
    us.stores(at=8)
    assert us.state.term == before
    assert (us.leads(17.9), us.leads(18), us.until) == (True, False, 13)
    us.stores(at=30)
    assert us.leads(30)
    assert us.state.term != before


@pytest.mark.parametrize("refused", [True, False])
def test_who_was_not_told_that_it_has_written_looks_first(refused: bool) -> None:
    """A refused write is over, and gives no right; one without an answer may have been done."""
    us = leader()
    write = us.writes(at=2)
    come_to_nothing = state_machine.refused if refused else state_machine.failed
    us.state = come_to_nothing(us.state, TIMING, at=3)
    assert us.patient
    assert 3 < us.due() < 4
    us.sees(lease(write.record, version=101), at=4)
    assert us.until == (5 if refused else 7)
    assert us.leads(4)


def test_a_take_over_without_an_answer_is_ours_when_a_look_shows_it() -> None:
    """Though looks in between showed that it wasn't done yet."""
    us = Candidate()
    us.sees(lease(GIVEN_BACK), at=0)
    write = us.writes(at=0)
    us.state = state_machine.failed(us.state, TIMING, at=1)
    us.sees(lease(GIVEN_BACK), at=2)
    assert not us.patient
    us.sees(lease(write.record, version=2), at=3)
    assert us.until == 5


def test_an_attempt_is_over_when_the_lease_has_changed() -> None:
    """Who then writes the like by hand doesn't make it ours."""
    us = Candidate()
    us.sees(lease(GIVEN_BACK), at=0)
    write = us.writes(at=0)
    us.state = state_machine.failed(us.state, TIMING, at=1)
    us.sees(lease(THEIRS, version=2), at=2)
    us.sees(lease(write.record, version=3), at=3)
    assert not us.leads(3)


def test_attempts_are_not_kept_without_end() -> None:
    """A server that answers looks only."""
    us = Candidate()
    for second in range(100):
        us.sees(lease(GIVEN_BACK), at=second)
        us.writes(at=second)
        us.state = state_machine.failed(us.state, TIMING, at=second)
    assert len(us.state.attempts) == state_machine.ATTEMPTS_MAX


@pytest.mark.parametrize("stored", [THEIRS, replace(THEIRS, holder=""), GIVEN_BACK, Record()])
def test_who_sees_what_it_did_not_write_has_lost(stored: Record) -> None:
    """At once, though its fence would still hold."""
    us = leader()
    us.sees(lease(stored, version=200), at=1)
    assert (us.leads(1), us.until) == (False, -math.inf)


def test_a_duration_that_was_edited_is_written_over() -> None:
    """Who holds the Lease doesn't change by that, nor by an annotation."""
    us = leader()
    assert us.state.stored
    mine = us.state.stored.record
    us.sees(lease(replace(mine, duration_seconds=2e9), version=200), at=2)
    assert us.leads(2)
    write = us.writes(at=2)
    assert (write.over and write.over.version, write.record.duration_seconds) == ("200", 15)


@pytest.mark.parametrize(
    "edit",
    [
        {"renewed": "somebody"},
        {"renewed": "", "acquired": "", "transitions": 0},
        {"transitions": 7, "duration_seconds": 1.0},
    ],
    ids=["renewed", "emptied", "numbers"],
)
def test_an_edit_that_spares_the_holder_is_written_over_at_once(edit: dict[str, Any]) -> None:
    """In the same term; what it may do counts from its own renewal, not from the edit."""
    us = leader()
    assert us.state.stored
    before, term, mine = us.until, us.state.term, us.state.stored.record
    us.writes(at=2)
    us.state = state_machine.refused(us.state, TIMING, at=2)
    us.sees(lease(replace(mine, **edit), version=200), at=2.1)
    assert (us.leads(2.1), us.until, us.state.term) == (True, before, term)
    assert us.due() <= 2.1
    write = us.writes(at=2.2)
    assert (write.over and write.over.version) == "200"
    assert write.record == replace(mine, renewed="wall 2.2")


def test_an_edit_that_is_seen_when_the_fence_has_passed_is_anybodys() -> None:
    """Another may have taken the Lease, and be edited away by now."""
    us = leader()
    assert us.state.stored
    edited = replace(us.state.stored.record, renewed="somebody")
    us.sees(lease(edited, version=200), at=TIMING.fence_seconds - 0.1)
    assert us.leads(TIMING.fence_seconds - 0.1)
    us.sees(lease(replace(edited, renewed="again"), version=201), at=TIMING.fence_seconds)
    assert (us.leads(TIMING.fence_seconds), us.until) == (False, -math.inf)
    us = leader()
    us.sees(lease(edited, version=200, uid="another"), at=1)  # made anew, in our name
    assert not us.leads(1)


def test_who_makes_a_lease_that_it_never_saw_acts_a_little_later() -> None:
    """Somebody may act by one that was deleted a moment ago. The renewal comes just in time."""
    us = Candidate()
    us.sees(None, at=0)
    write = us.writes(at=0)
    assert (write.over, write.record.transitions) == (None, 0)
    us.state = state_machine.wrote(us.state, TIMING, lease(write.record), answered_at=1)
    for second in (3, 5):
        us.stores(at=second)
        assert (us.leads(second), us.until) == (False, -math.inf)
    assert us.due() == pytest.approx(6.5)
    us.stores(at=us.due())
    assert us.until == pytest.approx(11.5)


def test_who_held_a_lease_that_was_deleted_makes_it_anew_and_acts_on() -> None:
    """Its term goes on."""
    us = leader()
    term = us.state.term
    us.sees(None, at=2)
    assert (us.until, us.due()) == (5, -math.inf)
    us.stores(at=3)
    assert (us.until, us.leads(3), us.state.term) == (8, True, term)


def test_who_makes_it_anew_too_late_waits_for_the_whole_duration() -> None:
    """Its fence has ended before the answer came: somebody else may have had it meanwhile."""
    us = leader()
    term = us.state.term
    us.sees(None, at=4)
    us.stores(at=4, answered_at=5)
    for second in (6, 8, 10, 12, 14, 16, 18):
        us.stores(at=second)
        assert not us.leads(second)
    us.stores(at=20)
    assert us.leads(20)
    assert us.state.term != term


def test_others_leave_a_deleted_lease_to_its_holder_for_a_while() -> None:
    """And who makes it then acts only when nobody can act by the old one."""
    us = Candidate()
    us.sees(lease(THEIRS), at=0)
    us.watches(None, begin=1, end=5)
    assert us.patient
    us.sees(None, at=6)
    assert us.writes(at=6).record.transitions == 5
    assert us.state.stored is None
    us.state = state_machine.wrote(
        us.state, TIMING, lease(us.state.attempts[-1].write.record), answered_at=7
    )
    assert us.state.ripe_at == 7 + 15


def test_a_doubt_ends_acting_until_a_look_that_was_sent_later() -> None:
    """A look or a renewal that was under way says nothing."""
    us = leader()
    stored = us.stores(at=2)
    us.state = state_machine.doubted(us.state, at=3)
    assert (us.until, us.due(), us.patient) == (-math.inf, 3, True)
    us.sees(stored, at=2.9, answered_at=3.1)
    assert (us.until, us.due(), us.patient) == (-math.inf, 3, True)
    us.sees(stored, at=3.2)
    assert (us.until, us.leads(3.2)) == (7, True)


def test_a_doubted_holder_of_a_deleted_lease_has_lost() -> None:
    """It waits as others do."""
    us = leader()
    us.state = state_machine.doubted(us.state, at=1)
    us.sees(None, at=2)
    assert us.patient
    assert not us.leads(2)


def test_who_gives_back_stops_acting_before_it_says_so() -> None:
    """And stands no more, whatever comes of it."""
    us = leader()
    write = state_machine.given_back(us.state, wall_time="end")
    assert write
    assert (write.record.holder, write.record.duration_seconds) == ("", 1)
    us.state = state_machine.attempted(us.state, write, sent_at=1)
    assert (us.until, us.leads(1), us.due(), us.patient) == (-math.inf, False, math.inf, True)
    us.state = state_machine.wrote(us.state, TIMING, lease(write.record, 200), answered_at=2)
    assert us.until == -math.inf
    assert state_machine.given_back(us.state, wall_time="again") is None


def test_who_does_not_act_yet_gives_nothing_back() -> None:
    """Others would act at once, and somebody may still act by the Lease that was deleted."""
    us = Candidate()
    us.sees(None, at=0)
    us.stores(at=0)
    assert state_machine.given_back(us.state, wall_time="") is None


def test_two_records_of_one_term_differ_in_when_they_were_renewed() -> None:
    """Who and since when, and how often it changed hands, stay."""
    us = leader()
    assert us.state.stored
    first = us.state.stored.record
    assert us.stores(at=2).record == replace(first, renewed="wall 2")
    assert first.transitions == GIVEN_BACK.transitions + 1
