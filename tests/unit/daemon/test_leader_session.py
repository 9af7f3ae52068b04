"""Work that is done while Leases are held, and only then."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import pytest

from tests import patience
from tests.unit.daemon.leading import Decided
from vscheduler.daemon import leader_session
from vscheduler.daemon.leader_election.api import AlwaysLeader, Token

pytestmark = pytest.mark.usefixtures("virtual_time")


class Work:
    """Notes when it began and ended, and under which Leases."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.slow_end: asyncio.Event | None = None
        self.broken = asyncio.Event()

    async def do(self, held: Mapping[str, Token]) -> None:
        """Until it is cancelled."""
        names = "+".join(sorted(held))
        self.notes.append(f"begin {names}")
        try:
            await self.broken.wait()
            raise RuntimeError("broken")
        finally:
            if self.slow_end is not None:
                await self.slow_end.wait()
            self.notes.append(f"end {names}")


@asynccontextmanager
async def served(work: Work, *leases: str) -> AsyncIterator[tuple[Decided, asyncio.Task[None]]]:
    """Work for these Leases."""
    decided = Decided()
    task = asyncio.create_task(
        leader_session.run_while_leading(decided, leases, work.do, name="work")
    )
    yield decided, task
    task.cancel()
    with suppress(asyncio.CancelledError, RuntimeError):
        await task


async def test_work_is_done_while_the_lease_is_held() -> None:
    """Nothing before, nothing after, and again when it is regained."""
    work = Work()
    async with served(work, "a") as (decided, _):
        await asyncio.sleep(0.02)
        assert work.notes == []
        for _ in range(2):
            decided.gain("a")
            await patience.until(lambda: work.notes[-1:] == ["begin a"])
            decided.lose("a")
            await patience.until(lambda: work.notes[-1:] == ["end a"])
    assert work.notes == ["begin a", "end a"] * 2


async def test_another_set_of_leases_is_another_tenure() -> None:
    """Gaining one more, or losing one of two, ends the work and begins it anew; others' don't."""
    work = Work()
    async with served(work, "a", "b") as (decided, _):
        decided.gain("a")
        await patience.until(lambda: work.notes[-1:] == ["begin a"])
        decided.gain("b")
        await patience.until(lambda: work.notes[-1:] == ["begin a+b"])
        decided.gain("c")
        decided.lose("a")
        await patience.until(lambda: work.notes[-1:] == ["begin b"])
    assert work.notes == ["begin a", "end a", "begin a+b", "end a+b", "begin b", "end b"]


async def test_a_lease_that_was_lost_and_regained_meanwhile_is_another_tenure() -> None:
    """The old token has ended, whatever is held now."""
    work = Work()
    async with served(work, "a") as (decided, _):
        decided.gain("a")
        await patience.until(lambda: work.notes == ["begin a"])
        decided.lose("a")
        decided.gain("a")
        await patience.until(lambda: work.notes == ["begin a", "end a", "begin a"])


async def test_the_next_tenure_waits_for_the_end_of_the_last() -> None:
    """Two never overlap in one process."""
    work = Work()
    work.slow_end = asyncio.Event()
    async with served(work, "a") as (decided, _):
        decided.gain("a")
        await patience.until(lambda: work.notes == ["begin a"])
        decided.lose("a")
        decided.gain("a")
        await asyncio.sleep(0.05)
        assert work.notes == ["begin a"]
        work.slow_end.set()
        await patience.until(lambda: work.notes == ["begin a", "end a", "begin a"])


async def test_a_defect_of_the_work_is_told() -> None:
    """Any death of a task ends the daemon."""
    work = Work()
    async with served(work, "a") as (decided, task):
        decided.gain("a")
        await patience.until(lambda: work.notes == ["begin a"])
        work.broken.set()
        with pytest.raises(RuntimeError, match="broken"):
            await task


async def test_without_an_election_everything_is_held() -> None:
    """And there is no identity that a bind could carry."""
    alone = AlwaysLeader(("a", "b"))
    held = alone.held(("a",))
    assert [token.may_act() for token in held.values()] == [True]
    assert held["a"].holder == ""
    assert held == alone.held(("a",))
    assert all(standing.leads for standing in alone.lease_statuses())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await alone.wait_for_change()
