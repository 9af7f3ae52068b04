"""What counts as a step, and how time is counted that nothing was done in."""

import asyncio
import itertools
import threading
from collections.abc import Hashable

import pytest

from vscheduler.daemon.liveness.progress import Cause, Check, Cycles, Heartbeat, Progress, Stuck


def a_check(mark: list[Hashable], *, bound: float = 3.0) -> Check:
    """A cycle whose mark is the last of these."""
    return Check(
        cause=Cause.CYCLE,
        mark=lambda: mark[-1],
        bound_seconds=bound,
        words="it stands still",
        details=lambda: {"where": "there"},
    )


def test_what_stays_the_same_for_longer_than_its_bound_is_stuck() -> None:
    """Not before; the first look counts nothing, as it may have begun only then."""
    made = Progress([a_check([7])])
    assert [made.look(1.0) for _ in range(4)] == [None] * 4
    stuck = made.look(1.0)
    assert stuck == Stuck(
        cause=Cause.CYCLE,
        message="it stands still (longer than 3 s)",
        details={"where": "there"},
    )


@pytest.mark.parametrize("step", [8, None])
def test_a_step_or_an_end_begins_anew(step: Hashable) -> None:
    """What has nothing to do can't be stuck."""
    mark: list[Hashable] = [7]
    made = Progress([a_check(mark)])
    for _ in range(4):
        assert made.look(1.0) is None
    mark.append(step)
    assert made.look(1.0) is None
    assert made.stalled() == {Cause.CYCLE: 0.0}
    mark.append(7)
    assert [made.look(1.0) for _ in range(4)] == [None] * 4


def test_nothing_to_do_for_ever_is_no_trouble() -> None:
    """None is no mark that stays the same."""
    made = Progress([a_check([None])])
    assert [made.look(100.0) for _ in range(9)] == [None] * 9


def test_the_slowest_of_a_cause_is_told() -> None:
    """There are several watches."""
    numbers = itertools.count()
    quick = Check(cause=Cause.CYCLE, mark=lambda: next(numbers), bound_seconds=3.0, words="")
    made = Progress([a_check([7]), quick])
    made.look(1.0)
    made.look(0.5)
    assert made.stalled() == {Cause.CYCLE: 0.5}


def test_the_oldest_cycle_counts() -> None:
    """One of an earlier term that never ends isn't hidden by those that do."""
    cycles = Cycles()
    assert cycles.oldest() is None
    first, second = cycles.handed_on(), cycles.handed_on()
    assert cycles.oldest() == first
    cycles.ended(second)
    assert cycles.oldest() == first
    third = cycles.handed_on()
    cycles.ended(first)
    assert cycles.oldest() == third != second


def test_a_cycle_that_runs_says_where_it_is() -> None:
    """Of the thread that runs it; one that has ended has none."""
    cycles, inside, go = Cycles(), threading.Event(), threading.Event()
    number = cycles.handed_on()

    def hang_in_here() -> None:
        cycles.begun(number)
        inside.set()
        go.wait(40)

    thread = threading.Thread(target=hang_in_here)
    thread.start()
    assert inside.wait(40)
    where = cycles.where()["where"]
    go.set()
    thread.join()
    assert isinstance(where, list)
    assert any(each.endswith("hang_in_here") for each in where)
    assert cycles.where() == {"where": "its thread has ended"}


def test_three_dropped_cycles_in_a_row_are_a_sign() -> None:
    """Until one isn't dropped."""
    cycles = Cycles()
    found = []
    for number in (1, 2, 3, 9, 0):
        cycles.dropped(number)
        found.append(cycles.keeps_dropping())
    assert found == [None, None, True, True, None]


async def test_a_loop_that_answers_makes_steps() -> None:
    """One question at a time, and one that hangs makes none."""
    heartbeat = Heartbeat()
    assert heartbeat.mark() is None
    loop = asyncio.get_running_loop()
    heartbeat.begin(loop)
    marks = [heartbeat.mark()]
    for _ in range(3):
        heartbeat.ask()
        await asyncio.sleep(0)
        marks.append(heartbeat.mark())
    assert len(set(marks)) == 4
    for _ in range(3):
        heartbeat.ask()
        marks.append(heartbeat.mark())
    assert len(set(marks)) == 4
    heartbeat.end()
    assert heartbeat.mark() is None


def test_another_loop_owes_no_answer_of_an_earlier_one() -> None:
    """And a closed one owes none at all."""
    heartbeat, first, second = (
        Heartbeat(),
        asyncio.new_event_loop(),
        asyncio.new_event_loop(),
    )
    heartbeat.begin(first)
    heartbeat.ask()
    first.close()
    assert heartbeat.mark() is None
    heartbeat.begin(second)
    before = heartbeat.mark()
    heartbeat.ask()
    second.run_until_complete(asyncio.sleep(0))
    assert heartbeat.mark() != before
    second.close()
    heartbeat.ask()
