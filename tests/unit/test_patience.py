"""How tests wait, and the clock that spares them that."""

import asyncio
import time

import pytest

from tests import patience


async def test_what_is_found_is_given() -> None:
    """As soon as it is there."""
    found: list[int] = []
    asyncio.get_running_loop().call_later(0.01, found.append, 7)
    assert await patience.until(lambda: found) == [7]
    assert patience.wait_until(lambda: found) == [7]


async def test_who_waits_in_vain_says_what_there_was() -> None:
    """After some time."""
    with pytest.raises(AssertionError, match=r"^not so after 0 s: \[\]"):
        await patience.until(lambda: False, seconds=0.01, told=list)


def test_what_is_waited_for_may_fail_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is looked at each time."""

    def check() -> None:
        assert not seen, "it has ended"

    seen: list[int] = []
    with pytest.raises(AssertionError, match="it has ended"):
        patience.wait_until(lambda: seen.append(1), check=check)
    monkeypatch.setattr(patience, "PROCESSES_SECONDS", 0.05)
    with pytest.raises(AssertionError, match="not so after"):
        patience.wait_until_at_rest(lambda: seen.append(1) or len(seen), 0.02)  # type: ignore[func-returns-value]


async def test_a_process_that_stands_still_is_not_at_rest() -> None:
    """Who has had no turn may have work to do."""
    done: list[int] = []

    async def work() -> None:
        time.sleep(0.1)  # noqa: ASYNC251 - so does everybody else
        for number in range(20):
            await asyncio.sleep(0.001)
            done.append(number)

    task = asyncio.create_task(work())
    await patience.until_at_rest(lambda: len(done), 0.03)
    assert len(done) == 20
    await task


@pytest.mark.usefixtures("virtual_time")
async def test_hours_pass_at_once_and_in_order() -> None:
    """By the clock that everybody reads."""
    over: list[float] = []
    began = time.monotonic()

    async def rest(seconds: float) -> None:
        await asyncio.sleep(seconds)
        over.append(seconds)

    await asyncio.gather(*map(rest, (7200.0, 3600.0, 1.0)))
    assert over == [1.0, 3600.0, 7200.0]
    assert time.monotonic() - began == pytest.approx(7200.0)


@pytest.mark.usefixtures("virtual_time")
async def test_a_thread_is_waited_for_where_nothing_is_due() -> None:
    """As the clock has nowhere to jump to."""
    assert await asyncio.to_thread(lambda: "done") == "done"
