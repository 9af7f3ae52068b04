import asyncio
from collections import Counter

import msgspec
import pytest

from vscheduler.cluster import cooperative
from vscheduler.cluster.cooperative import CooperativeYield

pytestmark = pytest.mark.usefixtures("virtual_time")


class Turning:
    """Counts the turns of the event loop, and what is done in each; work takes time of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turn = 0
        self.done: list[tuple[int, str]] = []
        self.turns = CooperativeYield(lambda: self.now)

    async def count(self) -> None:
        """For ever."""
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    async def work(self, name: str, seconds: float) -> None:
        """A piece of work that gives way."""
        await self.turns.give_way()
        self.now += seconds
        self.done.append((self.turn, name))


async def test_a_turn_ends_when_its_time_is_up() -> None:
    """Whoever is left over goes on in the next one, in the same order."""
    made = Turning()
    names = [f"w{number}" for number in range(7)]
    counting = asyncio.create_task(made.count())
    await asyncio.gather(*(made.work(name, cooperative.TURN_SECONDS / 2) for name in names))
    counting.cancel()
    assert [name for _, name in made.done] == names
    assert list(Counter(turn for turn, _ in made.done).values()) == [2, 2, 2, 1]


async def test_nobody_gives_way_for_ever() -> None:
    """Somebody who takes all of every turn holds others up for some turns only."""
    made = Turning()

    async def hog() -> None:
        while True:
            await made.work("hog", 1.0)

    tasks = [asyncio.create_task(each) for each in (made.count(), hog())]
    await asyncio.sleep(0)
    began = made.turn
    async with asyncio.timeout(40):
        await made.work("other", 0.0)
    assert made.turn - began <= cooperative.TURNS_MAX
    assert sum(name == "hog" for _, name in made.done) > 1
    for task in tasks:
        task.cancel()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1] * 25, [10, 10, 5]),
        ([cooperative.SLICE_BYTES] * 3, [1, 1, 1]),
        ([2 * cooperative.SLICE_BYTES, 1, 1], [1, 2]),
        ([cooperative.SLICE_BYTES // 2] * 5, [2, 2, 1]),
    ],
)
def test_large_objects_are_read_a_few_at_a_time(sizes: list[int], expected: list[int]) -> None:
    """By number and by size, and none is left out, as pieces of a list or as lines."""
    lines = [bytes(size) for size in sizes]
    found = list(cooperative.slices(lines))
    assert [len(each) for each in found] == expected
    assert [line for each in found for line in each] == lines
    assert [len(each) for each in cooperative.slices(list(map(msgspec.Raw, lines)))] == expected
