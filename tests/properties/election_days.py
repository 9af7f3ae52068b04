"""Days in the life of candidates: worlds full of faults, by their seeds."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from tests.properties import election_world
from tests.properties.election_world import Candidate, Clock, Network, Server, World
from vscheduler.cluster.lease_records import Record
from vscheduler.daemon.leader_election import state_machine
from vscheduler.daemon.leader_election.election_settings import Timing

FAULTS_MAX = 25
KINDS_MAX = 6
"""Of few kinds in one world there are many."""
DAY_SECONDS = 90.0
TIMINGS = (
    Timing(),
    Timing(duration_seconds=6, renew_deadline_seconds=4, retry_period_seconds=1),
    Timing(duration_seconds=30, renew_deadline_seconds=15, retry_period_seconds=5),
    Timing(duration_seconds=15, renew_deadline_seconds=14, retry_period_seconds=7),
)


@dataclass(frozen=True, kw_only=True)
class Climate:
    """What clocks do, and what people do to the Lease, in one world."""

    slowest: float
    fastest: float
    leaps: bool = False
    """Monotonic clocks jump ahead, though no time has passed."""
    hands: bool = True
    """People edit and delete the Lease."""
    newcomers: bool = False
    """Somebody may start when the Lease is gone, and the Lease go before somebody saw it."""
    mixed: bool = False
    """Candidates have timings of their own."""


CLIMATES = {
    "clocks up to three times as fast": Climate(slowest=0.5, fastest=1.5),
    "timings differ": Climate(slowest=0.5, fastest=1.5, hands=False, mixed=True),
    "clocks leap": Climate(slowest=0.9, fastest=1.1, leaps=True),
    "the Lease is deleted when somebody starts": Climate(
        slowest=0.96, fastest=1.05, newcomers=True
    ),
}


class Day(World):
    """A few candidates, and what befalls them."""

    def __init__(self, seed: int, climate: Climate, timings: tuple[Timing, ...] = TIMINGS) -> None:
        super().__init__(seed)
        self.climate = climate
        self.server = Server()
        self.network = Network()
        self.candidates: list[Candidate] = []
        self.timings = timings if climate.mixed else (self.chance.choice(timings),)
        self.names = 0
        self.acted = False
        self.deleted_at = -math.inf
        self.leapt: dict[str, float] = {}
        self.check = self.at_most_one

    def at_most_one(self) -> None:
        """Never two that act."""
        acting = [candidate.state.identity for candidate in self.candidates if candidate.acts()]
        assert len(acting) <= 1, f"{acting} act at {self.now}"
        self.acted |= bool(acting)

    def live(self) -> None:
        """Start, and let faults come one after the other, at times several at once."""
        for _ in range(self.chance.randint(1, 3)):
            self.after(self.chance.choice((0.0, self.chance.uniform(0, 10))), self.start)
        kinds = self.chance.sample(FAULTS, self.chance.randint(1, KINDS_MAX))
        for _ in range(self.chance.randint(3, FAULTS_MAX)):
            fault = self.chance.choice(kinds)
            self.after(self.chance.uniform(0, DAY_SECONDS), partial(fault, self))
        self.run(DAY_SECONDS)

    def calm(self) -> float:
        """All is well again with those who live; the seconds until one acts, by the slowest clock.

        What the dead have sent never arrives, and nobody asks for more than an hour's patience.
        """
        self.forget()
        self.server.hung = self.server.down = False
        _clear(self)
        for candidate in self.candidates:
            candidate.alive &= not candidate.leaving
        self.acted = False
        if self.someone() is None:
            self.start()
        living = [candidate for candidate in self.candidates if candidate.alive]
        for each in living:
            each.frozen_until = each.cut_until = -math.inf
            each.request_lag_seconds = each.answer_lag_seconds = 0.0
            each.rest()
        began = self.now
        while not self.acted:
            self.run(self.now + 0.1)
            self.at_most_one()
            assert self.now < began + 10_000, "nobody acts"
        return (self.now - began) * min(each.clock.rate for each in living)

    def start(self) -> None:
        """A process with an identity of its own."""
        if self.server.lease is None and self.acted and not self.climate.newcomers:
            return
        self.names += 1
        candidate = Candidate(
            world=self,
            server=self.server,
            network=self.network,
            timing=self.chance.choice(self.timings),
            clock=Clock(self, self.rate()),
            state=state_machine.begin(f"c{self.names}"),
        )
        self.candidates = [candidate for candidate in self.candidates if candidate.alive] + [
            candidate
        ]
        candidate.rest()

    def rate(self) -> float:
        """Of a clock: half of them are as slow or as fast as they can be."""
        extremes = self.climate.slowest, self.climate.fastest
        return self.chance.choice((*extremes, self.chance.uniform(*extremes)))

    def someone(self) -> Candidate | None:
        """One of those who live; often the one that acts."""
        living = [
            candidate for candidate in self.candidates if candidate.alive and not candidate.leaving
        ]
        acting = [each for each in living if each.acts()]
        if acting and self.chance.random() < 0.5:
            return acting[0]
        return self.chance.choice(living) if living else None


def _freeze(day: Day) -> None:
    if one := day.someone():
        one.freeze(day.chance.choice((0.1, 2.0, 6.0, 20.0, 60.0)) * day.chance.random())


def _freeze_all(day: Day) -> None:
    """The machine on which they all run is suspended."""
    seconds = day.chance.uniform(0, 60)
    for candidate in day.candidates:
        candidate.freeze(seconds)


def _crash(day: Day) -> None:
    if one := day.someone():
        one.alive = False
        day.after(day.chance.uniform(0, 20), day.start)


def _leave(day: Day) -> None:
    if one := day.someone():
        one.leave()
        day.after(day.chance.uniform(0, 20), day.start)


def _drift(day: Day) -> None:
    if one := day.someone():
        one.clock.change(rate=day.rate())
        if one.resting:
            one.wind()


def _cut(day: Day) -> None:
    if one := day.someone():
        one.cut_until = day.now + day.chance.uniform(0, 40)


def _strand(day: Day) -> None:
    """The worst for a fence: a slow holder hears late and then no more, and others are quick."""
    for candidate in day.candidates:
        slow = candidate.acts()
        candidate.clock.change(rate=day.climate.slowest if slow else day.climate.fastest)
        lag_seconds = candidate.timing.call_seconds / candidate.clock.rate * day.chance.random()
        if slow:
            candidate.answer_lag_seconds = day.chance.choice((0.0, lag_seconds))
            day.after(day.chance.uniform(0, 6), partial(_part, day, candidate))
        else:
            candidate.request_lag_seconds = day.chance.choice((0.0, lag_seconds))
        if candidate.resting:
            candidate.wind()


def _part(day: Day, one: Candidate) -> None:
    one.cut_until = day.now + day.chance.uniform(10, 40)
    if day.chance.random() < 0.4:
        day.after(day.chance.uniform(0, 2), partial(_delete, day))


def _leap(day: Day) -> None:
    one = day.someone()
    if not (one and day.climate.leaps) or day.now - day.leapt.get(one.state.identity, -99) < 20:
        return
    day.leapt[one.state.identity] = day.now
    one.clock.change(ahead=day.chance.choice((1.0, 5.0, 20.0, 3600.0)) * day.chance.random())
    if one.resting:
        one.wind()


def _change_wall(day: Day) -> None:
    if one := day.someone():
        one.clock.wall_ahead = day.chance.choice((-3600.0, 0.0, 3600.0)) + day.chance.random()


def _doubt(day: Day) -> None:
    if one := day.someone():
        one.doubt()


def _weather(day: Day) -> None:
    """The network is bad for a while."""
    day.network.delay_seconds = day.chance.choice((0.1, 1.0, 3.0, 10.0))
    day.network.losses = day.chance.choice((0.0, 0.2, 0.6))
    day.after(day.chance.uniform(0, 30), lambda: _clear(day))


def _clear(day: Day) -> None:
    day.network.delay_seconds, day.network.losses = 0.01, 0.0


def _hang(day: Day) -> None:
    """The server does later what it is asked now."""
    day.server.hung = True
    day.after(day.chance.uniform(0, 40), lambda: setattr(day.server, "hung", False))


def _restart(day: Day) -> None:
    day.server.down = True
    day.after(day.chance.uniform(0, 30), lambda: setattr(day.server, "down", False))


def _storm(day: Day) -> None:
    """Somebody annotates the Lease over and over."""
    gap = day.chance.choice((0.02, 0.2, 1.0))
    for number in range(day.chance.randint(1, 40)):
        day.after(number * gap, lambda: _touch(day))


def _touch(day: Day) -> None:
    if day.server.lease:
        day.server.put(day.server.lease.record)


def _delete(day: Day) -> None:
    """Not before everybody saw it, and not twice at once, where that isn't promised."""
    if not day.climate.hands or day.server.lease is None:
        return
    if day.climate.newcomers:
        allowed = day.now - day.deleted_at > 12
    else:
        allowed = all(candidate.state.last for candidate in day.candidates if candidate.alive)
    if allowed:
        day.server.lease, day.deleted_at = None, day.now
        if day.climate.newcomers and day.chance.random() < 0.5:
            day.after(day.chance.random(), day.start)


def _edit(day: Day) -> None:
    if day.climate.hands and day.server.lease:
        names = [candidate.state.identity for candidate in day.candidates]
        day.server.put(election_world.edited(day.server.lease.record, day.chance, names))


def _scribble(day: Day) -> None:
    """Somebody edits the Lease over and over, all but its holder."""
    gap = day.chance.choice((0.05, 0.5, 2.0, 5.0))
    for number in range(day.chance.randint(1, 20)):
        day.after(number * gap, lambda: write_over(day))


def write_over(day: Day) -> None:
    """Somebody edits the Lease, but for its holder."""
    if day.climate.hands and day.server.lease:
        number = day.chance.randrange(2**31)
        record = election_world.scribbled(day.server.lease.record, day.chance, number)
        day.server.put(record)


def _flicker(day: Day) -> None:
    """Whoever held the Lease some time ago is put into it again, and may wake up to see that."""
    if not (day.climate.hands and day.server.lease):
        return
    for one in day.candidates:
        one.freeze(day.chance.choice((0.0, 10.0, 40.0)) * day.chance.random())
    names = [candidate.state.identity for candidate in day.candidates]
    for _ in range(day.chance.randint(1, 3)):
        record = replace(
            day.server.lease.record,
            holder=day.chance.choice(names),
            renewed=f"somebody {day.chance.random()}",
        )
        day.after(day.chance.uniform(0, 50), partial(_put, day, record))


def _put(day: Day, record: Record) -> None:
    if day.server.lease:
        day.server.put(replace(record, renewed=f"somebody {day.chance.random()}"))


FAULTS: tuple[Callable[[Day], None], ...] = (
    _freeze, _freeze_all, _crash, _leave, _drift, _cut, _strand, _leap, _change_wall, _doubt,
    _weather, _hang, _restart, _storm, _delete, _edit, _scribble, _flicker,
)  # fmt: skip
