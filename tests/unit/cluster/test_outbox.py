import asyncio

from vscheduler.cluster import lanes, outbox


async def test_an_outbox_writes_the_newest_and_not_too_often() -> None:
    """Of what was offered while a key rests, only the last is written."""
    queue = lanes.Lanes(workers=1, waiting_max=10)
    box = outbox.Outbox(queue, lanes.Lane.STATUS, spacing_seconds=0.4)
    seen: list[int] = []

    def noting(number: int) -> outbox.Write:
        async def write() -> None:
            seen.append(number)

        return write

    async def until(numbers: list[int]) -> None:
        async with asyncio.timeout(5):
            while seen != numbers:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)

    task = asyncio.create_task(queue.run())
    for number in range(3):
        box.offer("key", noting(number))
    await until([2])
    for number in range(3, 6):
        box.offer("key", noting(number))
    box.offer_again("key", noting(9))
    await asyncio.sleep(0.05)
    assert seen == [2]
    await until([2, 5])
    box.offer("key", noting(6))
    box.withdraw("key")
    await asyncio.sleep(0.6)
    assert seen == [2, 5]
    task.cancel()
    await asyncio.wait([task])


async def test_an_outbox_tries_a_full_lane_again() -> None:
    """What says how things are is not dropped, only late."""
    queue = lanes.Lanes(workers=1, waiting_max=1)
    box = outbox.Outbox(queue, lanes.Lane.STATUS, spacing_seconds=0.005)
    seen: list[str] = []

    def noting(word: str) -> outbox.Write:
        async def write() -> None:
            seen.append(word)

        return write

    for word in ("a", "b"):
        box.offer(word, noting(word))
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0.05)
    assert sorted(seen) == ["a", "b"]
    task.cancel()
    await asyncio.wait([task])
