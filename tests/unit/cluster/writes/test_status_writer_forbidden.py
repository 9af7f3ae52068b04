"""What may not be written for a while is written later."""

import asyncio

import pytest

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.writes.test_status_writer import WAITS, desk
from vscheduler.cluster.writes import status_writer, write_queue


async def test_what_was_forbidden_is_written_once_it_is_allowed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PodGroup and both of its pods, though nothing has changed since."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.01)
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.01)
    monkeypatch.setattr(write_queue, "REFUSED_SECONDS", 0.05)
    codes = [403, 401, 403]
    async with desk(serve, lambda _: codes.pop() if codes else 200) as made:
        made.report(WAITS)
        async with asyncio.timeout(5):
            while made.written["pod", "written"] + made.written["podgroup", "written"] < 3:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert {code for _, code in made.written} == {"forbidden", "written"}
        assert made.written["podgroup", "written"] == 1
        assert made.written["pod", "written"] == 2
