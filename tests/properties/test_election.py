"""Never two that act: thousands of worlds full of faults, and what it takes to break that."""

import math

import pytest

from tests.properties import election_days
from tests.properties.election_days import Day
from tests.properties.election_world import Candidate
from vscheduler.daemon.leader_election import state_machine
from vscheduler.daemon.leader_election.election_settings import Timing

PARTS = 8
SEEDS = 50
"""In each part, of each climate."""
CALM_SEEDS = 25
BREAKING_SEEDS = 400


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("climate", election_days.CLIMATES)
def test_never_two_act(climate: str, part: int) -> None:
    """Whatever befalls them."""
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        try:
            Day(seed, election_days.CLIMATES[climate]).live()
        except AssertionError as error:
            raise AssertionError(f"{climate}, seed {seed}: {error}") from error


@pytest.mark.parametrize("part", range(PARTS))
def test_somebody_acts_soon_after_the_last_fault(part: int) -> None:
    """Within the duration, the retry period and the fence, and what a record asks for on top."""
    for seed in range(part * CALM_SEEDS, (part + 1) * CALM_SEEDS):
        day = Day(seed, election_days.CLIMATES["clocks up to three times as fast"])
        day.live()
        asked = day.server.lease.record.duration_seconds if day.server.lease else 0.0
        timing = day.timings[0]
        limit = max(timing.duration_seconds, min(asked, 3600.0))
        limit += timing.retry_period_seconds + timing.fence_seconds
        assert day.calm() <= limit, f"seed {seed}"


@pytest.mark.parametrize("gap", [0.3, 1.0, 3.0, 4.9])
@pytest.mark.parametrize("timing", election_days.TIMINGS)
def test_edits_that_leave_the_holder_alone_do_not_end_its_tenure(
    timing: Timing, gap: float
) -> None:
    """However often they come; nor does its acting pause, nor does anybody else ever act."""
    day = Day(1, election_days.CLIMATES["clocks up to three times as fast"], (timing,))
    day.timings = (timing,)
    for _ in range(3):
        day.start()
    day.run(2 * timing.duration_seconds)
    (leader,) = (candidate for candidate in day.candidates if candidate.acts())
    term = leader.state.term
    day.check = lambda: _goes_on(day, leader, term)
    for number in range(int(election_days.DAY_SECONDS / gap)):
        day.after(gap * (number + day.chance.random()), lambda: election_days.write_over(day))
    day.run(day.now + election_days.DAY_SECONDS)


def _goes_on(day: Day, leader: Candidate, term: int) -> None:
    assert [candidate.state.identity for candidate in day.candidates if candidate.acts()] == [
        leader.state.identity
    ], f"at {day.now}"
    assert leader.state.term == term


def test_only_a_fence_that_holds_lets_an_edited_lease_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who believes whatever names it, however late, meets whoever has led in between."""
    monkeypatch.setattr(
        state_machine,
        "_edited",
        lambda state, before, stored, *_: (
            before is not None and stored.record.holder == state.identity
        ),
    )
    with pytest.raises(AssertionError, match=r"act at"):
        _live_through("clocks up to three times as fast", Timing())


class LongFence(Timing, frozen=True):
    """Acts for half of the duration."""

    @property
    def fence_seconds(self) -> float:
        """Clocks of which one is three times as fast break this."""
        return self.duration_seconds / 2


class QuickFirst(Timing, frozen=True):
    """Acts at once by a Lease that it made."""

    @property
    def first_seconds(self) -> float:
        """A Lease that was deleted under its holder breaks this."""
        return 0.0


class AnyGap(Timing, frozen=True):
    """Believes its clock whatever it shows."""

    @property
    def gap_seconds(self) -> float:
        """A leap of the clock breaks this."""
        return math.inf


@pytest.mark.parametrize(
    ("timing", "climate"),
    [
        (LongFence(), "clocks up to three times as fast"),
        (QuickFirst(), "the Lease is deleted when somebody starts"),
        (AnyGap(), "clocks leap"),
    ],
)
def test_what_breaks_the_promise_is_seen_to_break_it(timing: Timing, climate: str) -> None:
    """The worlds are bad enough to tell."""
    with pytest.raises(AssertionError, match=r"act at"):
        _live_through(climate, timing)


def _live_through(climate: str, timing: Timing) -> None:
    for seed in range(BREAKING_SEEDS):
        Day(seed, election_days.CLIMATES[climate], (timing,)).live()
