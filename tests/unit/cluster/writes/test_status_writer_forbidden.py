"""What may not be written for a while is written later."""

import asyncio

import pytest
from msgspec.structs import replace

from tests import patience
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.permits import Ending
from tests.unit.cluster.writes.test_status_writer import WAITS, desk
from vscheduler.cluster.writes import status_writer, write_queue


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of one object are spaced by milliseconds."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.01)
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.01)


async def test_what_was_forbidden_is_written_once_it_is_allowed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PodGroup and both of its pods, though nothing has changed since."""
    monkeypatch.setattr(write_queue, "REFUSED_SECONDS", 0.05)
    codes = [403, 401, 403]
    async with desk(serve, lambda _: codes.pop() if codes else 200) as made:
        made.report(WAITS)
        await patience.until(
            lambda: made.written["pod", "written"] + made.written["podgroup", "written"] >= 3
        )
        assert {code for _, code in made.written} == {"forbidden", "written"}
        assert made.written["podgroup", "written"] == 1
        assert made.written["pod", "written"] == 2


@pytest.mark.parametrize("why", ["pause", "pause while a call is prepared", "end of the term"])
async def test_states_are_written_once_a_pause_is_over(serve: Serve, why: str) -> None:
    """Although nothing changes any more; but not if the term is over."""
    over = why == "end of the term"
    async with desk(serve) as made:
        made.may_commit = ending = Ending(1 if "prepared" in why else 0)
        made.report(replace(WAITS, unplaced=()))
        await patience.until(lambda: ending.left < 0)
        assert made.calls == []
        if over:
            made.reporter.stop()
        made.may_commit = True
        await patience.until(lambda: over or made.group_bodies())
        await asyncio.sleep(0.3)
        assert len(made.group_bodies()) == (0 if over else 1)
