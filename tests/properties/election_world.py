"""Candidates for one Lease on virtual time: their clocks, a network, an API server and its users.

Nothing here waits or looks at a real clock; a seed is a world.
"""

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from vscheduler.cluster.lease_records import Record, Stored
from vscheduler.daemon.leader_election import state_machine
from vscheduler.daemon.leader_election.election_settings import Timing
from vscheduler.daemon.leader_election.state_machine import State, Write

THAW_SECONDS = 0.001
"""Within this, what waited for a process that was frozen happens, in any order."""
HANG_SECONDS_MAX = 60.0


class World:
    """Real time, and what is going to happen; `check` is asked after whatever happens."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.check: Callable[[], None] = lambda: None
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, happens: Callable[[], None]) -> None:
        """Something happens in so many real seconds."""
        self._count += 1
        heapq.heappush(self._agenda, (self.now + max(0.0, seconds), self._count, happens))

    def forget(self) -> None:
        """Nothing of what was under way happens any more."""
        self._agenda.clear()

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, happens = heapq.heappop(self._agenda)
            happens()
            self.check()
        self.now = until


@dataclass
class Clock:
    """A monotonic clock whose rate may change, and a wall clock beside it that is anybody's."""

    world: World
    rate: float = 1.0
    wall_ahead: float = 0.0
    _read: float = 1000.0
    _read_at: float = 0.0

    def __call__(self) -> float:
        """What it shows."""
        return self._read + (self.world.now - self._read_at) * self.rate

    def change(self, *, rate: float | None = None, ahead: float = 0.0) -> None:
        """It runs at another rate from now on, or leaps."""
        self._read, self._read_at = self() + ahead, self.world.now
        self.rate = self.rate if rate is None else rate

    def wall(self) -> str:
        """The time of day."""
        return f"{self.world.now + self.wall_ahead:.6f}"


class RefusedError(Exception):
    """Somebody was quicker."""


@dataclass
class Server:
    """One Lease that is compared and swapped."""

    lease: Stored | None = None
    hung: bool = False
    down: bool = False
    _changes: int = 0

    def write(self, write: Write) -> Stored:
        """A create or a replace with a precondition."""
        if (write.over and write.over.version) != (self.lease and self.lease.version):
            raise RefusedError
        return self.put(write.record)

    def put(self, record: Record) -> Stored:
        """Whatever was there before."""
        self._changes += 1
        uid = self.lease.uid if self.lease else f"u{self._changes}"
        self.lease = Stored(record=record, uid=uid, version=str(self._changes), whole={})
        return self.lease


@dataclass
class Network:
    """How requests and answers fare."""

    delay_seconds: float = 0.01
    losses: float = 0.0


@dataclass(eq=False)
class Candidate:
    """A process that does what the election says, one call at a time."""

    world: World
    server: Server
    network: Network
    timing: Timing
    clock: Clock
    state: State
    cut_until: float = -math.inf
    """Until then the network loses whatever it sends."""
    request_lag_seconds: float = 0.0
    answer_lag_seconds: float = 0.0
    """What the network takes longer for this one than for others."""
    alive: bool = True
    leaving: bool = False
    frozen_until: float = -math.inf
    resting: bool = False
    due_at: float = 0.0
    turn: int = 0
    """What wakes up for an earlier turn finds that it is over."""

    def acts(self) -> bool:
        """Whether it would send a bind at this instant."""
        if not self.alive or self.world.now < self.frozen_until:
            return False
        acting = self.clock() < state_machine.acts_until(self.state, self.timing)
        assert not acting or state_machine.leads(self.state, self.timing, self.clock())
        return acting

    def rest(self) -> None:
        """Until the next call is due."""
        self.resting = True
        self.due_at = state_machine.next_at(
            self.state, self.timing, chance=self.world.chance.random()
        )
        self.wind()

    def wind(self) -> None:
        """Set the alarm, by its clock as that runs now."""
        self.turn += 1
        turn = self.turn
        seconds = max(0.0, self.due_at - self.clock()) / self.clock.rate
        self.world.after(seconds, lambda: self._awake(lambda: self._ring(turn)))

    def leave(self) -> None:
        """A clean stop: it gives back what it holds, if it can say so at once."""
        self.leaving = state_machine.given_back(self.state, wall_time="") is not None
        self.alive = self.leaving
        if self.leaving:
            self._awake(self._call)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, or a machine that is suspended; it is looked at in the instant that it wakes."""
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)
        self.world.after(seconds, lambda: None)

    def doubt(self) -> None:
        """The API server refuses a bind."""
        self.state = state_machine.doubted(self.state, at=self.clock())
        if self.resting:
            self.rest()

    def _awake(self, happens: Callable[[], None]) -> None:
        """Something happens to this process: once it isn't frozen, if it still lives."""
        pause = self.frozen_until - self.world.now
        if pause > 0:
            pause += self.world.chance.uniform(0, THAW_SECONDS)
            self.world.after(pause, lambda: self._awake(happens))
        elif self.alive:
            happens()

    def _ring(self, turn: int) -> None:
        if turn == self.turn:
            self._call()

    def _call(self) -> None:
        """Decide at one instant; what is decided leaves a little later."""
        self.resting = False
        self.turn += 1
        turn, sent_at, wall_time = self.turn, self.clock(), self.clock.wall()
        if self.leaving:
            write = state_machine.given_back(self.state, wall_time=wall_time)
        else:
            write = state_machine.wanted(self.state, self.timing, wall_time=wall_time)
        if write:
            self.state = state_machine.attempted(self.state, write, sent_at=sent_at)
        self._soon(lambda: self._send(turn, write, sent_at))

    def _soon(self, happens: Callable[[], None]) -> None:
        """In this process, a moment later."""
        self.world.after(self.world.chance.random() * 0.001, lambda: self._awake(happens))

    def _send(self, turn: int, write: Write | None, sent_at: float) -> None:
        if self.server.down:
            self._soon(lambda: self._fail(turn))
            return
        limit_seconds = self.timing.call_seconds / self.clock.rate
        self.world.after(limit_seconds, lambda: self._awake(lambda: self._fail(turn)))
        if not self._lost():
            delay = self.request_lag_seconds + self._delay()
            self.world.after(delay, lambda: self._arrive(turn, write, sent_at))

    def _lost(self) -> bool:
        cut = self.world.now < self.cut_until
        return cut or self.world.chance.random() < self.network.losses

    def _delay(self) -> float:
        return self.world.chance.expovariate(1 / self.network.delay_seconds)

    def _arrive(self, turn: int, write: Write | None, sent_at: float) -> None:
        """At the server, whatever has become of the sender."""
        if self.server.hung:
            wait = self.world.chance.uniform(0, HANG_SECONDS_MAX)
            self.world.after(wait, lambda: self._arrive(turn, write, sent_at))
            return
        try:
            stored = self.server.write(write) if write else self.server.lease
            refused = False
        except RefusedError:
            stored, refused = None, True
        if not self._lost():
            answer = Answer(write=write, stored=stored, refused=refused, sent_at=sent_at)
            delay = self.answer_lag_seconds + self._delay()
            self.world.after(delay, lambda: self._awake(lambda: self._learn(turn, answer)))

    def _fail(self, turn: int) -> None:
        if turn == self.turn:
            self.state = state_machine.failed(self.state, self.timing, at=self.clock())
            self._go_on()

    def _learn(self, turn: int, answer: "Answer") -> None:
        if turn != self.turn:
            return
        now = self.clock()
        if answer.refused:
            self.state = state_machine.refused(self.state, self.timing, at=now)
        elif answer.write is None:
            self.state = state_machine.saw(
                self.state, self.timing, answer.stored, sent_at=answer.sent_at, answered_at=now
            )
        else:
            assert answer.stored
            self.state = state_machine.wrote(
                self.state, self.timing, answer.stored, answered_at=now
            )
        self._go_on()

    def _go_on(self) -> None:
        self.alive = not self.leaving
        if self.alive:
            self.rest()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server says."""

    write: Write | None
    stored: Stored | None
    refused: bool
    sent_at: float


def scribbled(record: Record, chance: random.Random, number: int) -> Record:
    """The record after somebody changed anything but its holder: a sign of life that is none."""
    return chance.choice(
        (
            replace(record, renewed=f"somebody {number}"),
            replace(record, acquired=f"somebody {number}"),
            replace(record, transitions=number),
            replace(record, duration_seconds=min(record.duration_seconds, 2.0 + number % 30)),
            replace(record, renewed="", acquired="", transitions=0),
            record,
        )
    )


def edited(record: Record, chance: random.Random, names: list[str]) -> Record:
    """The record after a person had it in an editor."""
    garbage = chance.choice(("", "yesterday", "0001-01-01T00:00:00Z", "{'a': 1}"))
    return chance.choice(
        (
            replace(record, holder=chance.choice(("mallory", "", *names))),
            replace(record, holder=""),
            replace(record, duration_seconds=chance.choice((0.0, -1.0, 2.0, 40.0, 2.0**31))),
            replace(record, renewed=garbage),
            replace(record, acquired=garbage, renewed=garbage, transitions=0),
            Record(),
        )
    )
