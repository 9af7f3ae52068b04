"""Stands for election for as many Leases as this process serves, in a small thread of its own.

The rest of the daemon asks `held` what it may serve, and the tokens that this gives just before
each call. A token that has ended never comes back to life: who regains a Lease has another one.
"""

import asyncio
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

Permit = Callable[[], bool]
"""Whether a call may be sent now; asked just before."""


class Token(Protocol):
    """One time of holding one Lease. Compared by identity."""

    @property
    def holder(self) -> str:
        """Our identity, as the Lease has it; empty where there is no election."""

    def may_act(self) -> bool:
        """Whether we hold the Lease for certain at this moment. Any thread may ask."""

    def doubt(self, why: str) -> None:
        """The API server says that we don't hold it: act no more before the Lease is read anew."""


class CompositeToken:
    """Several tokens as one: good while all of them are, and until what is done by it is over.

    A token may outlast the work that began under it, as another Lease was gained: what that work
    has left behind isn't sent any more all the same.
    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = tuple(tokens)
        self._ended = False

    @property
    def holder(self) -> str:
        """Our identity: one process has one for all Leases."""
        return self._tokens[0].holder

    def may_act(self) -> bool:
        """Whether we hold all of the Leases for certain at this moment."""
        return not self._ended and all(token.may_act() for token in self._tokens)

    def doubt(self, why: str) -> None:
        """The API server says that we don't hold one of them."""
        for token in self._tokens:
            token.doubt(why)

    def end(self) -> None:
        """For ever."""
        self._ended = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStatus:
    """How it stands with one Lease."""

    lease: str
    leads: bool
    holder: str = ""
    """Whoever has it, as far as we know."""
    uid: str = ""
    """The Lease's own; empty as long as it isn't known."""
    problem: str = ""
    """Why we can't stand for it at present: a sentence."""
    reachable: bool = True
    """Whether the API server has answered, if only to refuse."""


class Leadership(Protocol):
    """What the rest of the daemon knows of elections; used from its event loop only."""

    async def run(self) -> None:
        """Stand for election for ever. Cancelled, it stops and gives nothing back."""

    def held(self, leases: Iterable[str]) -> Mapping[str, Token]:
        """The tokens of those of these Leases that are held now."""

    async def wait_for_change(self) -> None:
        """Until any Lease is gained or lost."""

    def standings(self) -> tuple[LeaseStatus, ...]:
        """How it stands with each Lease, by name."""

    async def release(self) -> None:
        """Give everything back, and stand no more; to be called when no call is under way."""


def identity() -> str:
    """Who we are in a Lease: another one at each start of a process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class _Forever:
    """The token of who stands alone."""

    @property
    def holder(self) -> str:
        return ""

    def may_act(self) -> bool:
        return True

    def doubt(self, why: str) -> None:
        raise AssertionError(f"nobody else can hold what isn't elected: {why}")


class AlwaysLeader:
    """`--leader-elect=false`: everything is held for ever."""

    def __init__(self, leases: Iterable[str]) -> None:
        self._tokens = {lease: _Forever() for lease in sorted(leases)}

    async def run(self) -> None:
        """There is nothing to do."""

    def held(self, leases: Iterable[str]) -> Mapping[str, Token]:
        """All of them."""
        return {lease: self._tokens[lease] for lease in leases}

    async def wait_for_change(self) -> None:
        """Never."""
        await asyncio.get_running_loop().create_future()

    def standings(self) -> tuple[LeaseStatus, ...]:
        """Leader everywhere."""
        return tuple(LeaseStatus(lease=lease, leads=True) for lease in self._tokens)

    async def release(self) -> None:
        """There is nothing to give back."""
