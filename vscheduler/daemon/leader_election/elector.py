"""Stands for one Lease: makes the calls that the election wants, and says what has come of them.

All of it runs in the thread of `electing`; only a token is asked from elsewhere.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from vscheduler.cluster import lease_records
from vscheduler.cluster.http import connection
from vscheduler.daemon.leader_election import api, election_settings, state_machine
from vscheduler.mirror import statuses


class Transport(Protocol):
    """The way to the Leases of a namespace: cluster.leases.Leases."""

    async def get(self, name: str) -> lease_records.Stored | None:
        """The Lease of this name; None where there is none."""

    async def create(self, name: str, record: lease_records.Record) -> lease_records.Stored:
        """Make this Lease."""

    async def replace(
        self, over: lease_records.Stored, record: lease_records.Record
    ) -> lease_records.Stored:
        """Put a record into this Lease, if it is still as it was read."""


OWN_NEWS_SECONDS = 10.0
"""How old an event may be that tells of this process itself: it belongs to no Lease. An instance
that was frozen for as long as a Lease takes to run out sends none of before."""


def clock() -> float:
    """This process' own time in seconds, a machine's sleep included where that can be known."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def while_new() -> api.Permit:
    """Good for a moment from now on: for events that tell of this process itself."""
    end = clock() + OWN_NEWS_SECONDS
    return lambda: clock() < end


def wall_time() -> str:
    """The time of day as a Lease has it."""
    return statuses.microtime(time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all candidates of a process have in common."""

    identity: str
    namespace: str
    timing: election_settings.Timing
    clock: Callable[[], float] = clock
    wall_time: Callable[[], str] = wall_time


class LeaseTerm:
    """One time of holding one Lease: the token of `leadership`.

    Two threads share it without a lock. The deadline and `_settled` are written by the candidate
    alone, `_doubts` by the daemon alone, and `_ended` is only ever set.
    """

    def __init__(self, terms: Terms, number: int, doubted: Callable[["LeaseTerm"], None]) -> None:
        self.number = number
        self._terms = terms
        self._tell = doubted
        self._until = -float("inf")
        self._doubts = 0
        self._settled = 0
        self._ended = False

    @property
    def holder(self) -> str:
        """Our identity, as the Lease has it."""
        return self._terms.identity

    @property
    def doubts(self) -> int:
        """How often it was doubted so far."""
        return self._doubts

    def may_act(self) -> bool:
        """Whether we hold the Lease for certain at this moment."""
        fine = not self._ended and self._doubts == self._settled
        return fine and self._terms.clock() < self._until

    def doubt(self, why: str) -> None:
        """Somebody says that we don't hold it: act no more before the Lease is read anew."""
        del why  # whoever was refused has it in its log
        self._doubts += 1
        self._tell(self)

    def extend(self, until: float) -> None:
        """It may act before this instant, unless it is doubted or over."""
        self._until = until

    def settle(self, doubts: int) -> None:
        """The election knows of so many doubts: from now on they are in the deadline."""
        self._settled = doubts

    def end(self) -> None:
        """For ever. Any thread may call it."""
        self._ended = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """It stands otherwise with a Lease."""

    standing: api.LeaseStatus
    tenure: LeaseTerm | None = None
    gained: bool = False
    """Whether the tenure has just begun."""
    why: str = ""
    """Why one has just ended, where one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Whom a candidate tells."""

    changed: Callable[[Change], None]
    renewed: Callable[[str, float, str], None]
    """The Lease, how long a renewal took, and what came of it."""
    doubted: Callable[[str, LeaseTerm], None]
    """Called by the daemon's own thread."""
    failed: Callable[[str, Exception], None]
    """The Lease, and what nobody expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """Why calls fail, in a sentence that stays the same for as long as it is the same trouble."""

    sentence: str = ""
    kind: type[connection.ApiError] | None = None
    verb: str = ""
    """What is refused; empty where that has nothing to do with what was asked."""

    def after(self, verb: str, error: connection.ApiError, namespace: str) -> "_Trouble":
        """What it is when this call has failed, too."""
        lasting = connection.NotFound | connection.Forbidden | connection.Invalid
        verb = verb if isinstance(error, lasting) else ""
        if (type(error), verb) == (self.kind, self.verb):
            return self
        match error:
            case connection.NotFound():
                sentence = (
                    f"namespace {namespace} doesn't exist: create it, or name another with"
                    " --leader-elect-resource-namespace"
                )
            case connection.Forbidden():
                sentence = (
                    f"the right to {verb} leases (coordination.k8s.io) in namespace {namespace}"
                    f" is missing: {error}"
                )
            case _:
                sentence = f"the API server doesn't do it: {error}"
        return _Trouble(sentence=sentence, kind=type(error), verb=verb)

    def without(self, verbs: Collection[str]) -> "_Trouble":
        """What is left of it when these calls go well."""
        return self if self.verb and self.verb not in verbs else _Trouble()


class Elector:
    """Stands for one Lease, with one call under way at a time."""

    def __init__(self, lease: str, terms: Terms, outlets: Outlets) -> None:
        self._lease = lease
        self._terms = terms
        self._outlets = outlets
        self._state = state_machine.begin(terms.identity)
        self._tenure: LeaseTerm | None = None
        self._told = api.LeaseStatus(lease=lease, leads=False)
        self._trouble = _Trouble()
        self._woken = asyncio.Event()
        self._resigning = False
        self._leaving = False
        """Whether it gives back what it has: no call of a tenure is under way any more."""
        self._chance = random.Random()  # noqa: S311 - spreads calls; no secret

    async def stand(self, transport: Transport) -> None:
        """Until it is told to resign; then give the Lease back if it is ours."""
        while not self._resigning:
            try:
                await self.step(transport)
            except Exception as error:  # noqa: BLE001 - what isn't renewed ends; others stand on
                self._outlets.failed(self._lease, error)
                self._fail(error)
            await self._pause()
        await self._give_back(transport)

    def resign(self) -> None:
        """Stand no more."""
        self._resigning = True
        self._woken.set()

    def doubted(self, tenure: LeaseTerm) -> None:
        """Somebody says that the Lease isn't ours."""
        doubts = tenure.doubts
        if tenure is self._tenure:
            self._state = state_machine.doubted(self._state, at=self._terms.clock())
            self._tell()
            tenure.settle(doubts)
            self._woken.set()

    async def _pause(self) -> None:
        """Until the next call is due."""
        while not self._resigning:
            self._woken.clear()
            due = state_machine.next_at(
                self._state, self._terms.timing, chance=self._chance.random()
            )
            seconds = due - self._terms.clock()
            if seconds <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()

    async def step(self, transport: Transport) -> None:
        """Make the next call."""
        terms, now = self._terms, self._terms.clock()
        write = state_machine.wanted(self._state, terms.timing, wall_time=terms.wall_time())
        if write is None:
            await self._look(transport, now)
        else:
            await self._write(transport, write, now)
        self._tell()

    def _fail(self, error: Exception) -> None:
        """A step of ours has failed: as if its call had."""
        failure = connection.Unavailable(f"the election failed: {type(error).__name__}: {error}")
        self._state = state_machine.failed(self._state, self._terms.timing, at=self._terms.clock())
        self._trouble = self._trouble.after("", failure, self._terms.namespace)
        self._tell()

    async def _look(self, transport: Transport, sent_at: float) -> None:
        timing, now = self._terms.timing, self._terms.clock
        try:
            stored = await transport.get(self._lease)
        except connection.ApiError as error:
            self._state = state_machine.failed(self._state, timing, at=now())
            self._trouble = self._trouble.after("get", error, self._terms.namespace)
            return
        self._state = state_machine.saw(
            self._state, timing, stored, sent_at=sent_at, answered_at=now()
        )
        self._trouble = self._trouble.without({"get"} if stored is None else {"get", "create"})

    async def _write(
        self, transport: Transport, write: state_machine.Write, sent_at: float
    ) -> None:
        timing, now = self._terms.timing, self._terms.clock
        self._state = state_machine.attempted(self._state, write, sent_at=sent_at)
        create = write.over is None
        try:
            if write.over is None:
                stored = await transport.create(self._lease, write.record)
            else:
                stored = await transport.replace(write.over, write.record)
        except connection.ApiError as error:
            outcome = type(error).__name__.lower()
            quicker = (
                (connection.Conflict,) if create else (connection.Conflict, connection.NotFound)
            )
            if isinstance(error, quicker):
                self._state = state_machine.refused(self._state, timing, at=now())
            else:
                self._state = state_machine.failed(self._state, timing, at=now())
                verb = "create" if create else "update"
                self._trouble = self._trouble.after(verb, error, self._terms.namespace)
        else:
            outcome = "done"
            self._state = state_machine.wrote(self._state, timing, stored, answered_at=now())
            self._trouble = _Trouble()
        if self._tenure is not None and not self._resigning:
            self._outlets.renewed(self._lease, now() - sent_at, outcome)

    async def _give_back(self, transport: Transport) -> None:
        """One try, after a look where one is needed; also what was taken only a moment ago."""
        terms = self._terms
        if self._state.own is None and not self._state.attempts:
            return
        self._leaving = True
        if self._tenure is not None:
            self._tenure.end()
        write = state_machine.given_back(self._state, wall_time=terms.wall_time())
        if write is None:
            await self._look(transport, terms.clock())
            write = state_machine.given_back(self._state, wall_time=terms.wall_time())
        if write is not None:
            await self._write(transport, write, terms.clock())
        self._tell()

    def _tell(self) -> None:
        """Say how it stands now, where that is news; the tenure learns it in any case first."""
        earlier = self._tenure
        why = self._judge()
        stored, tenure = self._state.stored, self._tenure
        standing = api.LeaseStatus(
            lease=self._lease,
            leads=tenure is not None,
            holder="" if stored is None else stored.record.holder,
            uid="" if stored is None else stored.uid,
            problem=self._trouble.sentence,
            reachable=self._trouble.kind is not connection.Unavailable,
        )
        if standing != self._told or tenure is not earlier:
            self._told = standing
            gained = tenure is not None and tenure is not earlier
            self._outlets.changed(Change(standing=standing, tenure=tenure, gained=gained, why=why))

    def _judge(self) -> str:
        """End, begin or extend the tenure; why it has ended, where it has."""
        state, timing, now = self._state, self._terms.timing, self._terms.clock()
        leads = state_machine.leads(state, timing, now) and not self._leaving
        until = state_machine.acts_until(state, timing)
        why = ""
        if self._tenure is not None and not (leads and state.tenure == self._tenure.number):
            self._tenure.end()
            self._tenure = None
            why = self._loss()
        if self._tenure is None and leads and now < until and not self._resigning:
            self._tenure = LeaseTerm(self._terms, state.tenure, self._doubt)
        if self._tenure is not None:
            self._tenure.extend(until)
        return why

    def _doubt(self, tenure: LeaseTerm) -> None:
        self._outlets.doubted(self._lease, tenure)

    def _loss(self) -> str:
        """Why we don't hold the Lease any more."""
        stored, identity = self._state.stored, self._terms.identity
        if self._state.resigned:
            return "it is given back" if self._state.own is None else "it couldn't be given back"
        if stored is None:
            return "it is gone"
        if stored.record.holder != identity:
            return "another has it" if stored.record.holder else "somebody has emptied it"
        trouble = self._trouble.sentence
        return f"it couldn't be renewed in time: {trouble}" if trouble else "it wasn't renewed"
