"""Interface of leader election for the rest of the daemon: Leadership and tokens.

Election runs in a separate small thread, for every Lease served by this process. The daemon asks
`held` for the current tokens, and asks the token right before each call. A token that ended stays
ended: regaining a Lease creates a new token.
"""

import asyncio
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

Permit = Callable[[], bool]
"""Whether a call may be sent now; asked right before sending."""


class Token(Protocol):
    """The right to act during a term as leader on one Lease. Compared by identity."""

    @property
    def holder(self) -> str:
        """This process' identity in the Lease; empty without leader election."""

    def may_act(self) -> bool:
        """Whether the Lease is certainly held at this moment. Safe to call from any thread."""

    def doubt(self, why: str) -> None:
        """Report that, by the API server's answer, another process holds the Lease.

        Acting stops until the Lease was read again.
        """


class CompositeToken:
    """Combines several tokens: valid while all are valid and the work under them goes on.

    A token may outlive the work, for example when another Lease is gained and the work restarts.
    Calls left over from the earlier work are no longer sent then.
    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = tuple(tokens)
        self._ended = False

    @property
    def holder(self) -> str:
        """This process' identity, equal for all Leases."""
        return self._tokens[0].holder

    def may_act(self) -> bool:
        """Whether all Leases are certainly held at this moment."""
        if self._ended:
            return False
        for token in self._tokens:  # noqa: SIM110 - asked five times for each pod
            if not token.may_act():
                return False
        return True

    def doubt(self, why: str) -> None:
        """Report a doubt about any of the Leases to all tokens."""
        for token in self._tokens:
            token.doubt(why)

    def end(self) -> None:
        """End the combined token for ever."""
        self._ended = True


class LeaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a Lease, for logs, metrics and /readyz."""

    lease: str
    leads: bool
    holder: str = ""
    """Identity of the holder, as far as known."""
    uid: str = ""
    """UID of the Lease; empty while unknown."""
    problem: str = ""
    """Why the election does not work at present, as a sentence."""
    reachable: bool = True
    """Whether the API server answers, even if only with a refusal."""
    other_configuration: str = ""
    """Digest in the Lease, if it isn't that of this process' configuration, which would replace it
    once this process leads."""


class Leadership(Protocol):
    """Leader election as seen by the rest of the daemon. Used only from the daemon's event loop."""

    async def run(self) -> None:
        """Take part in the election for ever. On cancellation, stop without releasing any Lease."""

    def held(self, leases: Iterable[str]) -> Mapping[str, Token]:
        """Return the tokens of all Leases in `leases` that are held now."""

    async def wait_for_change(self) -> None:
        """Wait until any Lease is gained or lost."""

    def lease_statuses(self) -> tuple[LeaseStatus, ...]:
        """Return the status of each Lease, by name."""

    async def release(self) -> None:
        """Release all Leases and leave the election. To be called when no call is in progress."""


def identity() -> str:
    """Return a new identity for Leases, different at each start of a process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def host_of(holder: str) -> str:
    """Return the host in an identity: in a cluster the name of a pod."""
    return holder.partition("_")[0]


class _Forever:
    """The token of a process without leader election."""

    @property
    def holder(self) -> str:
        return ""

    def may_act(self) -> bool:
        return True

    def doubt(self, why: str) -> None:
        raise AssertionError(f"nobody else can hold what isn't elected: {why}")


class AlwaysLeader:
    """Implements `--leader-elect=false`: all Leases are held for ever."""

    def __init__(self, leases: Iterable[str]) -> None:
        self._tokens = {lease: _Forever() for lease in sorted(leases)}

    async def run(self) -> None:
        """Return at once."""

    def held(self, leases: Iterable[str]) -> Mapping[str, Token]:
        """Return a token for every Lease."""
        return {lease: self._tokens[lease] for lease in leases}

    async def wait_for_change(self) -> None:
        """Wait for ever."""
        await asyncio.get_running_loop().create_future()

    def lease_statuses(self) -> tuple[LeaseStatus, ...]:
        """Return a status of leader for every Lease."""
        return tuple(LeaseStatus(lease=lease, leads=True) for lease in self._tokens)

    async def release(self) -> None:
        """Do nothing."""
