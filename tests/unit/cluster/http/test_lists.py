"""Pages of lists, and those that are requested before anybody reads them."""

import asyncio
from collections import Counter

import pytest
from aiohttp import web

from tests import patience
from tests.unit.cluster.conftest import Serve
from vscheduler.cluster.http import lists
from vscheduler.cluster.http.connection import Unavailable
from vscheduler.cluster.http.lists import EarlyPages
from vscheduler.mirror.paths import Path

THINGS = Path.to("/things")
CUSTOM = Path.to("/customs", api_version="example.com/v1")


class Pages:
    """A server with a list of several pages."""

    def __init__(self, count: int, *, failures: int = 0) -> None:
        self.count = count
        self.failures = failures
        self.asked: Counter[str] = Counter()
        self.limits: list[str] = []
        self.all_asked = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A page with one object, whose name is the page's number."""
        token = request.query.get("continue", "")
        self.asked[token] += 1
        self.limits.append(request.query.get("limit", ""))
        if self.asked.total() <= self.failures:
            return web.json_response({"code": 503, "message": "later"}, status=503)
        number = int(token or 0)
        if number + 1 == self.count:
            self.all_asked.set()
        more = str(number + 1) if number + 1 < self.count else ""
        metadata = {"resourceVersion": "7", "continue": more}
        return web.json_response({"metadata": metadata, "items": [{"number": number}]})


async def read(early: EarlyPages, size: int = lists.PAGE_SIZE, path: Path = THINGS) -> list[bytes]:
    """All objects of the list."""
    found: list[bytes] = []
    token = ""
    while True:
        page = await early.take(path, size, token)
        found += map(bytes, page.items or [])
        token = page.metadata.continue_
        if not token:
            return found


async def test_pages_are_requested_before_they_are_read_and_only_once(serve: Serve) -> None:
    """The reader finds all of them there."""
    pages = Pages(3)
    early = EarlyPages(await serve(pages.answer), [THINGS])
    await asyncio.wait_for(pages.all_asked.wait(), patience.SECONDS)
    assert await read(early) == [b'{"number": %d}' % number for number in range(3)]
    assert pages.asked == {"": 1, "1": 1, "2": 1}


async def test_a_page_is_handed_out_once(serve: Serve) -> None:
    """A second list shows the newest state."""
    pages = Pages(2)
    early = EarlyPages(await serve(pages.answer), [THINGS])
    assert len(await read(early)) == len(await read(early)) == 2
    assert pages.asked == {"": 2, "1": 2}


async def test_a_failed_request_is_repeated_by_the_reader(serve: Serve) -> None:
    """What failed before anybody read is no failure of the reader's."""
    pages = Pages(1, failures=1)
    early = EarlyPages(await serve(pages.answer), [THINGS])
    assert len(await read(early)) == 1
    assert pages.asked == {"": 2}


async def test_errors_reach_the_reader(serve: Serve) -> None:
    """Where the repeated request fails, too."""
    early = EarlyPages(await serve(Pages(1, failures=2).answer), [THINGS])
    with pytest.raises(Unavailable):
        await read(early)


async def test_a_reader_of_other_pages_asks_itself(serve: Serve) -> None:
    """After a page that was too large, smaller ones are wanted."""
    pages = Pages(1)
    early = EarlyPages(await serve(pages.answer), [THINGS])
    await asyncio.wait_for(pages.all_asked.wait(), patience.SECONDS)
    assert len(await read(early, size=10)) == 1
    assert pages.asked == {"": 2}


async def test_custom_resources_are_requested_in_one_piece(serve: Serve) -> None:
    """The API server has them in its cache; pages of them are expensive. All others have pages."""
    pages = Pages(1)
    early = EarlyPages(await serve(pages.answer), [CUSTOM])
    await asyncio.wait_for(pages.all_asked.wait(), patience.SECONDS)
    assert len(await read(early, lists.first_size(CUSTOM), CUSTOM)) == 1
    assert len(await read(early)) == 1
    assert pages.limits == ["", "500"]


async def test_early_pages_have_a_bound(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest waits for the reader."""
    monkeypatch.setattr(lists, "EARLY_BYTES_MAX", 100)
    pages = Pages(50)
    early = EarlyPages(await serve(pages.answer), [THINGS])
    await early.take(THINGS, lists.PAGE_SIZE, "")
    await patience.until_at_rest(lambda: len(pages.asked), 0.05)
    assert 1 < len(pages.asked) < 4
    await early.close()


async def test_what_nobody_reads_is_dropped(serve: Serve) -> None:
    """What is under way may end; nothing more is requested."""
    pages = Pages(50, failures=1)
    early = EarlyPages(await serve(pages.answer), [THINGS, Path.to("/others")])
    await early.close()
    asked = pages.asked.total()
    await asyncio.sleep(0.02)
    assert pages.asked.total() == asked
