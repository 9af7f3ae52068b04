"""Elector: takes part in the election for one Lease by making the state machine's calls.

Everything runs in the thread of `thread.ElectionThread`, except that any thread may ask a token.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Protocol

import msgspec

from vscheduler.cluster import lease_records
from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
)
from vscheduler.cluster.lease_records import Configuration, Record, Stored, no_configuration
from vscheduler.daemon.leader_election import election_settings, state_machine
from vscheduler.daemon.leader_election.api import LeaseStatus, Permit
from vscheduler.daemon.leader_election.election_settings import Timing
from vscheduler.daemon.leader_election.state_machine import Write
from vscheduler.mirror import statuses

RELEASES_MAX = 2
"""How often the release of a Lease is tried: once more after a conflict."""

CONFLICT = Conflict.__name__.lower()


class Transport(Protocol):
    """Access to the Leases of a namespace, implemented by cluster.leases.Leases."""

    async def get(self, name: str) -> Stored | None:
        """Return the Lease of this name, or None when there is none."""

    async def create(self, name: str, record: Record) -> Stored:
        """Create the Lease."""

    async def replace(self, over: Stored, record: Record) -> Stored:
        """Replace the Lease's record if the Lease is unchanged since `over` was read."""


OWN_NEWS_SECONDS = 10.0
"""Maximum age of an event about this process, which is sent under no Lease. A process frozen for
the duration of a Lease therefore sends no events from before."""


def clock() -> float:
    """Return this process' monotonic time in seconds, including suspend time if known."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def while_new() -> Permit:
    """Return a permit for the next few seconds, for events about this process."""
    end = clock() + OWN_NEWS_SECONDS
    return lambda: clock() < end


def wall_time() -> str:
    """Return the time of day in the format of a Lease."""
    return statuses.microtime(time.time())


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters shared by all candidates of a process."""

    identity: str
    namespace: str
    timing: Timing
    configuration: Configuration = no_configuration
    same_configuration: bool = False
    """Whether a Lease that names another configuration isn't taken."""
    clock: Callable[[], float] = clock
    wall_time: Callable[[], str] = wall_time


class LeaseTerm:
    """A term as leader on one Lease: implements api.Token.

    Two threads share a term without a lock. The deadline and `_cleared` are written by the elector
    only, `_doubts` by the daemon only, and `_ended` only ever changes to True.
    """

    def __init__(self, terms: Terms, number: int, doubted: Callable[["LeaseTerm"], None]) -> None:
        self.number = number
        self._terms = terms
        self._on_doubt = doubted
        self._until = -float("inf")
        self._doubts = 0
        self._cleared = 0
        self._ended = False

    @property
    def holder(self) -> str:
        """This process' identity in the Lease."""
        return self._terms.identity

    @property
    def doubts(self) -> int:
        """Number of doubts reported."""
        return self._doubts

    def may_act(self) -> bool:
        """Whether the Lease is certainly held at this moment."""
        fine = not self._ended and self._doubts == self._cleared
        return fine and self._terms.clock() < self._until

    def doubt(self, why: str) -> None:
        """Report that another process seems to hold the Lease.

        Acting stops until the Lease was read again.
        """
        del why  # logged by the caller whose write was refused
        self._doubts += 1
        self._on_doubt(self)

    def extend(self, until: float) -> None:
        """Allow acting until this time, unless the term is doubted or over."""
        self._until = until

    def clear_doubts(self, doubts: int) -> None:
        """Record that the elector has processed this many doubts, which the deadline includes."""
        self._cleared = doubts

    def end(self) -> None:
        """End the term for ever. Safe to call from any thread."""
        self._ended = True


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A changed status of a Lease."""

    status: LeaseStatus
    term: LeaseTerm | None = None
    gained: bool = False
    """Whether the term has just begun."""
    why: str = ""
    """Why a term has just ended, or an empty string."""


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks of an elector."""

    changed: Callable[[Change], None]
    renewed: Callable[[str, float, str], None]
    """Receives the Lease, the duration of a renewal in seconds, and the result."""
    doubted: Callable[[str, LeaseTerm], None]
    """Called in the daemon's thread."""
    failed: Callable[[str, Exception], None]
    """Receives the Lease and an unexpected exception."""


class _Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why calls fail. The sentence stays the same as long as the cause does."""

    sentence: str = ""
    kind: type[ApiError] | None = None
    verb: str = ""
    """The refused verb; empty when the cause does not depend on the request."""

    def after(self, verb: str, error: ApiError, namespace: str) -> "_Trouble":
        """Return the trouble after one more failed call."""
        lasting = NotFound | Forbidden | Invalid
        verb = verb if isinstance(error, lasting) else ""
        if (type(error), verb) == (self.kind, self.verb):
            return self
        match error:
            case NotFound():
                sentence = (
                    f"namespace {namespace} doesn't exist: create it, or name another with"
                    " --leader-elect-resource-namespace"
                )
            case Forbidden():
                sentence = (
                    f"the right to {verb} leases (coordination.k8s.io) in namespace {namespace}"
                    f" is missing: {error}"
                )
            case _:
                sentence = f"the API server doesn't do it: {error}"
        return _Trouble(sentence=sentence, kind=type(error), verb=verb)

    def without(self, verbs: Collection[str]) -> "_Trouble":
        """Return the trouble left when calls with these verbs succeed."""
        return self if self.verb and self.verb not in verbs else _Trouble()


class Elector:
    """Takes part in the election for one Lease, with one call in progress at a time."""

    def __init__(self, lease: str, terms: Terms, outlets: Outlets) -> None:
        self._lease = lease
        self._terms = terms
        self._outlets = outlets
        self._state = state_machine.begin(terms.identity)
        self._term: LeaseTerm | None = None
        self._reported = LeaseStatus(lease=lease, leads=False)
        self._trouble = _Trouble()
        self._woken = asyncio.Event()
        self._resigning = False
        self._other_configuration = ""
        """As in LeaseStatus, kept until a term begins: then it has been replaced."""
        self._leaving = False
        """Whether the Lease is being released: no call under the term is in progress any more."""
        self._chance = random.Random()  # noqa: S311 - spreads calls; no secret

    async def stand(self, transport: Transport) -> None:
        """Take part in the election until told to resign, then release the Lease if held."""
        while not self._resigning:
            try:
                await self.step(transport)
            except Exception as error:  # noqa: BLE001 - an unrenewed Lease expires by itself
                self._outlets.failed(self._lease, error)
                self._fail(error)
            await self._pause()
        await self._give_back(transport)

    def resign(self) -> None:
        """Leave the election."""
        self._resigning = True
        self._woken.set()

    def doubted(self, term: LeaseTerm) -> None:
        """Process a report that another process seems to hold the Lease."""
        doubts = term.doubts
        if term is self._term:
            self._state = state_machine.doubted(self._state, at=self._terms.clock())
            self._report()
            term.clear_doubts(doubts)
            self._woken.set()

    async def _pause(self) -> None:
        """Wait until the next call is due."""
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
        if write is not None and self._is_withheld():
            self._state = state_machine.postponed(self._state, terms.timing, at=now)
        elif write is None:
            await self._look(transport, now)
        else:
            await self._write(transport, write, now)
        self._report()

    def _is_withheld(self) -> bool:
        """Whether the Lease isn't to be taken, as it names another configuration."""
        if self._state.own is not None or not self._terms.same_configuration:
            return False
        return bool(self._differing_configuration())

    def _withheld(self) -> str:
        """Return why a Lease that could be taken isn't, or an empty string."""
        if not (self._is_withheld() and state_machine.may_take(self._state)):
            return ""
        return (
            f"the Lease names configuration {self._differing_configuration()}, this instance has"
            f" {self._terms.configuration(self._lease)}, and {election_settings.SAME} forbids to"
            f" change it: give this instance the same configuration, or remove annotation"
            f" {lease_records.CONFIGURATION} from Lease {self._terms.namespace}/{self._lease}"
        )

    def _differing_configuration(self) -> str:
        """Return the digest in the Lease if it differs from ours, or an empty string."""
        ours, stored = self._terms.configuration(self._lease), self._state.stored
        theirs = "" if stored is None else stored.configuration
        return theirs if ours and theirs != ours else ""

    def _fail(self, error: Exception) -> None:
        """Treat an unexpected exception in a step like a failed call."""
        failure = Unavailable(f"the election failed: {type(error).__name__}: {error}")
        self._state = state_machine.failed(self._state, self._terms.timing, at=self._terms.clock())
        self._trouble = self._trouble.after("", failure, self._terms.namespace)
        self._report()

    async def _look(self, transport: Transport, sent_at: float) -> None:
        timing, now = self._terms.timing, self._terms.clock
        try:
            stored = await transport.get(self._lease)
        except ApiError as error:
            self._state = state_machine.failed(self._state, timing, at=now())
            self._trouble = self._trouble.after("get", error, self._terms.namespace)
            return
        self._state = state_machine.saw(
            self._state, timing, stored, sent_at=sent_at, answered_at=now()
        )
        self._trouble = self._trouble.without({"get"} if stored is None else {"get", "create"})

    async def _write(self, transport: Transport, write: Write, sent_at: float) -> str:
        """Make the write; return `done`, or the name of an error."""
        timing, now = self._terms.timing, self._terms.clock
        self._state = state_machine.attempted(self._state, write, sent_at=sent_at)
        create = write.over is None
        try:
            if write.over is None:
                stored = await transport.create(self._lease, write.record)
            else:
                stored = await transport.replace(write.over, write.record)
        except ApiError as error:
            outcome = type(error).__name__.lower()
            quicker = (Conflict,) if create else (Conflict, NotFound)
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
        if self._term is not None and not self._resigning:
            self._outlets.renewed(self._lease, now() - sent_at, outcome)
        return outcome

    async def _give_back(self, transport: Transport) -> None:
        """Try to release the Lease, including a Lease taken a moment ago.

        Read the Lease first if necessary. After a conflict, try once more if somebody has only
        edited the Lease: otherwise, others would wait until it expires.
        """
        terms = self._terms
        if self._state.own is None and not self._state.attempts:
            return
        self._leaving = True
        if self._term is not None:
            self._term.end()
        for _ in range(RELEASES_MAX):
            write = state_machine.given_back(self._state, wall_time=terms.wall_time())
            if write is None:
                await self._look(transport, terms.clock())
                write = state_machine.given_back(self._state, wall_time=terms.wall_time())
            if write is None or await self._write(transport, write, terms.clock()) != CONFLICT:
                break
        self._report()

    def _report(self) -> None:
        """Report the status if it changed. The term itself is always updated before."""
        earlier = self._term
        why = self._update_term()
        stored, term = self._state.stored, self._term
        if term is not None:
            self._other_configuration = ""
        elif self._state.own is None:
            self._other_configuration = self._differing_configuration()
        status = LeaseStatus(
            lease=self._lease,
            leads=term is not None,
            holder="" if stored is None else stored.record.holder,
            uid="" if stored is None else stored.uid,
            problem=self._trouble.sentence or self._withheld(),
            reachable=self._trouble.kind is not Unavailable,
            other_configuration=self._other_configuration,
        )
        if status != self._reported or term is not earlier:
            self._reported = status
            gained = term is not None and term is not earlier
            self._outlets.changed(Change(status=status, term=term, gained=gained, why=why))

    def _update_term(self) -> str:
        """End, begin or extend the term. Return why the term ended, or an empty string."""
        state, timing, now = self._state, self._terms.timing, self._terms.clock()
        leads = state_machine.leads(state, timing, now) and not self._leaving
        until = state_machine.acts_until(state, timing)
        why = ""
        if self._term is not None and not (leads and state.term == self._term.number):
            self._term.end()
            self._term = None
            why = self._loss()
        if self._term is None and leads and now < until and not self._resigning:
            self._term = LeaseTerm(self._terms, state.term, self._doubt)
        if self._term is not None:
            self._term.extend(until)
        return why

    def _doubt(self, term: LeaseTerm) -> None:
        self._outlets.doubted(self._lease, term)

    def _loss(self) -> str:
        """Return why the Lease is no longer held."""
        stored, identity = self._state.stored, self._terms.identity
        if self._state.resigned:
            return "it is given back" if self._state.own is None else "it couldn't be given back"
        if stored is None:
            return "it is gone"
        if stored.record.holder != identity:
            return "another has it" if stored.record.holder else "somebody has emptied it"
        trouble = self._trouble.sentence
        return f"it couldn't be renewed in time: {trouble}" if trouble else "it wasn't renewed"
