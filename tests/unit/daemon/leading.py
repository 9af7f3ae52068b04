"""Leadership that a test decides on."""

import asyncio
from collections.abc import Iterable, Mapping

from vscheduler.daemon.leader_election import api
from vscheduler.daemon.leader_election.api import LeaseStatus


class Token:
    """One time of holding a Lease, until the test ends it."""

    def __init__(self, holder: str = "us") -> None:
        self.holder = holder
        self.good = True
        self.doubts: list[str] = []

    def may_act(self) -> bool:
        """What the test says."""
        return self.good

    def doubt(self, why: str) -> None:
        """Note it."""
        self.doubts.append(why)
        self.good = False


class Decided:
    """Holds what the test says."""

    def __init__(self) -> None:
        self.tokens: dict[str, Token] = {}
        self._change = asyncio.Event()

    def gain(self, *leases: str) -> None:
        """Hold these, too."""
        self.tokens.update({lease: Token() for lease in leases})
        self._tell()

    def lose(self, *leases: str) -> None:
        """Hold these no more."""
        for lease in leases:
            self.tokens.pop(lease).good = False
        self._tell()

    def _tell(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def run(self) -> None:
        """Nothing."""

    def held(self, leases: Iterable[str]) -> Mapping[str, api.Token]:
        """Of these, what is held."""
        return {lease: self.tokens[lease] for lease in leases if lease in self.tokens}

    async def wait_for_change(self) -> None:
        """Until the test says something."""
        await self._change.wait()

    def lease_statuses(self) -> tuple[LeaseStatus, ...]:
        """Only what is held."""
        return tuple(LeaseStatus(lease=lease, leads=True) for lease in self.tokens)

    async def release(self) -> None:
        """Nothing."""
