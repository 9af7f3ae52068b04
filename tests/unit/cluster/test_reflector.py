import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace
from structlog import testing

from tests import patience
from tests.unit.cluster.conftest import Serve
from vscheduler.cluster import cooperative, reflector
from vscheduler.cluster.http.connection import ApiError, NotFound, Throttled, Unavailable
from vscheduler.cluster.reflector import Pace, Reflector
from vscheduler.containment import Failures
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

FAST = Pace(retry_seconds=0.001, absent_max_seconds=0.002, silence_seconds=60, at_once_seconds=0)
Event = tuple[str, str]


class Names:
    """A codec that keeps an object's name."""

    def read(self, items: Sequence[msgspec.Raw]) -> list[str]:
        """The names."""
        return [name_of(item) for item in items]

    def begin(self, found: Sequence[str]) -> list[Event]:
        """Nothing before the list is whole."""
        del found
        return []

    def replace(self, found: Sequence[str]) -> list[Event]:
        """One event for a list."""
        return [("REPLACE", ",".join(found))]

    def change(self, kind: str, item: bytes) -> list[Event]:
        """One event for a change."""
        return [(kind, name_of(item))]


def name_of(item: bytes) -> str:
    """An object's name."""
    return str(json.loads(bytes(item))["metadata"]["name"])


def an_object(name: str, version: int) -> dict[str, Any]:
    """An object of which only the name matters."""
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def line(kind: str, version: int, name: str = "") -> bytes:
    """One watch event, written as API servers do, or with spaces."""
    separators = (",", ":") if version % 2 else (", ", ": ")
    body = {"type": kind, "object": an_object(name, version)}
    return json.dumps(body, separators=separators).encode() + b"\n"


def gone() -> bytes:
    """The event that ends a watch whose version is too old."""
    body = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return json.dumps({"type": "ERROR", "object": body}).encode() + b"\n"


def a_list(*names: str, version: int = 10, more: str = "") -> web.Response:
    """A page of a list."""
    metadata = {"resourceVersion": str(version), "continue": more}
    items = [an_object(name, 1) for name in names]
    return web.json_response({"metadata": metadata, "items": items})


def refusal(code: int, **more: Any) -> web.Response:
    """A Status as an answer."""
    return web.json_response({"code": code, "message": f"said {code}", **more}, status=code)


@dataclass
class Script:
    """What the server answers to one request after the other, and what it was asked."""

    steps: list[web.Response | list[bytes]]
    asked: list[dict[str, str]] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The next step: an answer, or the chunks of a watch; a last watch stays open."""
        self.asked.append(dict(request.query))
        step = self.steps.pop(0) if self.steps else []
        if isinstance(step, web.Response):
            return step
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in step:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        if not self.steps:
            self.done.set()
            await asyncio.sleep(patience.SECONDS)
        return response


@asynccontextmanager
async def following(
    serve: Serve,
    script: Script,
    pace: Pace = FAST,
    *,
    codec: Names | None = None,
    sink: Callable[[list[Event]], None] = lambda _: None,
    failed: Callable[[str], None] = lambda _: None,
    kind: str = "",
    path: Path | None = None,
) -> AsyncIterator[tuple[Reflector[Event], list[list[Event]]]]:
    """A watch that has gone through the whole script, and the batches it handed on."""
    link = await serve(script.answer)
    batches: list[list[Event]] = []

    def take(batch: list[Event]) -> None:
        sink(batch)
        batches.append(batch)

    watch = Reflector(
        link,
        path or Path.to("/things", kind=kind),
        codec or Names(),
        take,
        pace=pace,
        chance=random.Random(1),
        failures=Failures(failed),
    )
    task = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(script.done.wait(), patience.SECONDS)
        await patience.until_at_rest(lambda: len(flat(batches)), 0.03)
        yield watch, batches
    finally:
        task.cancel()
        await asyncio.wait([task])


def flat(batches: list[list[Event]]) -> list[Event]:
    """All events in order."""
    return [event for batch in batches for event in batch]


async def test_changes_that_come_soon_after_others_are_read_together(serve: Serve) -> None:
    """The first one at once, so that a single change isn't late."""
    chunks = [line("ADDED", 11 + number, f"n{number}") for number in range(8)]
    pace = replace(FAST, gather_seconds=1)
    async with following(serve, Script([a_list(), chunks]), pace) as (_, batches):
        assert flat(batches)[1] == ("ADDED", "n0")
        await patience.until(lambda: len(flat(batches)) >= 9)
        assert flat(batches)[1:] == [("ADDED", f"n{number}") for number in range(8)]
        assert len(batches) <= 4


async def test_pages_make_one_list_and_the_watch_goes_on_from_it(serve: Serve) -> None:
    """All pages are one Replace; the watch starts at the list's version, with bookmarks."""
    script = Script([a_list("a", "b", more="next"), a_list("c"), [line("ADDED", 11, "d")]])
    async with following(serve, script) as (watch, batches):
        assert flat(batches) == [("REPLACE", "a,b,c"), ("ADDED", "d")]
        assert watch.listed.is_set()
    first, second, third = script.asked
    assert first == {"limit": "500"}
    assert second == {"limit": "500", "continue": "next"}
    seconds = int(third.pop("timeoutSeconds"))
    assert third == {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "10"}
    assert 16 <= seconds <= 20


async def test_a_long_list_holds_nobody_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read in slices, in order, and others have their turn in between."""
    names = [f"n{number}" for number in range(5)]
    script = Script([a_list(*names, more="next"), a_list("z"), []])
    others: list[int] = []
    reads: list[int] = []

    class Slow(Names):
        def read(self, items: Sequence[msgspec.Raw]) -> list[str]:
            reads.append(len(items))
            asyncio.get_running_loop().call_soon(lambda: others.append(len(reads)))
            return super().read(items)

    monkeypatch.setattr(cooperative, "SLICE", 2)
    monkeypatch.setattr("tests.unit.cluster.test_reflector.Names", Slow)
    async with following(serve, script) as (_, batches):
        assert flat(batches) == [("REPLACE", ",".join([*names, "z"]))]
    assert reads == [2, 2, 1, 1]
    assert others == [1, 2, 3, 4]


async def test_the_first_list_is_handed_on_as_it_comes_in(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once more when it is whole; a later one only then, as others decide by what is known."""

    class Eager(Names):
        def begin(self, found: Sequence[str]) -> list[Event]:
            return [("BEGIN", ",".join(found))]

    monkeypatch.setattr("tests.unit.cluster.test_reflector.Names", Eager)
    script = Script([a_list("a", "b", more="next"), a_list("c"), [gone()], a_list("d"), []])
    async with following(serve, script) as (_, batches):
        assert flat(batches) == [
            ("BEGIN", "a,b"),
            ("BEGIN", "c"),
            ("REPLACE", "a,b,c"),
            ("REPLACE", "d"),
        ]


async def test_events_are_cut_at_lines_and_handed_on_in_batches(serve: Serve) -> None:
    """Chunks end anywhere; all events of one chunk make one batch; the order stays."""
    text = b"".join(line("MODIFIED", 20 + number, f"n{number}") for number in range(4))
    cut = len(text) // 2 - 7
    script = Script([a_list(), [text[:cut], text[cut:]]])
    async with following(serve, script) as (_, batches):
        assert flat(batches)[1:] == [("MODIFIED", f"n{number}") for number in range(4)]
        assert len(batches) == 3


async def test_many_events_at_once_hold_nobody_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are handed on in several batches, in order, up to the last one before an error."""
    monkeypatch.setattr(cooperative, "SLICE", 2)
    text = b"".join(line("MODIFIED", 20 + number, f"n{number}") for number in range(5))
    script = Script([a_list(), [text + gone()], a_list(), []])
    async with following(serve, script) as (_, batches):
        sizes = [len(batch) for batch in batches]
        names = [("MODIFIED", f"n{number}") for number in range(5)]
        assert flat(batches) == [("REPLACE", ""), *names, ("REPLACE", "")]
        assert sizes == [1, 2, 2, 1, 1]


async def test_a_watch_that_ends_is_resumed_where_it_was(serve: Serve) -> None:
    """Bookmarks move the version on and are no events; nothing is listed anew."""
    script = Script([a_list(), [line("ADDED", 11, "a"), line("BOOKMARK", 50)], []])
    async with following(serve, script) as (watch, batches):
        assert flat(batches) == [("REPLACE", ""), ("ADDED", "a")]
        assert (watch.relists, watch.reconnects) == (0, 1)
    assert script.asked[-1]["resourceVersion"] == "50"


async def test_a_version_that_is_too_old_is_listed_anew(serve: Serve) -> None:
    """410 comes as a status, or as an event after others, which still count."""
    for expired in (refusal(410), [line("ADDED", 11, "a") + gone()]):
        script = Script([a_list("old"), expired, a_list("new", version=90), []])
        with testing.capture_logs() as said:
            async with following(serve, script) as (watch, batches):
                pass
        assert [each["event"] for each in said].count("watch.expired") == 1
        events = flat(batches)
        assert events[0] == ("REPLACE", "old")
        assert events[-1] == ("REPLACE", "new")
        assert (("ADDED", "a") in events) == isinstance(expired, list)
        assert watch.relists == 1
        assert script.asked[-1]["resourceVersion"] == "90"


async def test_a_list_that_expires_between_pages_is_taken_whole(serve: Serve) -> None:
    """A continue token lives for some minutes only."""
    script = Script([a_list("a", more="next"), refusal(410), a_list("a", "b"), []])
    async with following(serve, script) as (_, batches):
        assert flat(batches) == [("REPLACE", "a,b")]
    assert script.asked[2] == {}


async def test_errors_are_waited_out(serve: Serve) -> None:
    """A missing API, an overloaded, broken or forbidding server: tried again until it works."""
    refusals = [
        refusal(404),
        refusal(429, details={"retryAfterSeconds": 0.01}),
        refusal(500),
        refusal(403),
        web.Response(text="no JSON"),
    ]
    script = Script([*refusals, a_list("a"), []])
    async with following(serve, script) as (_, batches):
        assert flat(batches) == [("REPLACE", "a")]


async def test_a_line_that_is_no_event_is_answered_by_a_new_list(serve: Serve) -> None:
    """What it said is lost, so the state is taken anew; events before it still count."""
    script = Script([a_list(), [line("ADDED", 11, "a") + b"{nonsense\n"], a_list("a", "b"), []])
    async with following(serve, script) as (_, batches):
        assert flat(batches) == [("REPLACE", ""), ("ADDED", "a"), ("REPLACE", "a,b")]


async def test_a_silent_watch_is_taken_up_again(serve: Serve) -> None:
    """Without bytes for a time (bookmarks should have come) the connection is dead."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        if "watch" not in request.query:
            return a_list()
        response = web.StreamResponse()
        await response.prepare(request)
        if sum("watch" in each for each in asked) > 2:
            seen.set()
        await asyncio.sleep(patience.SECONDS)
        return response

    asked: list[dict[str, str]] = []
    seen = asyncio.Event()
    link = await serve(answer)
    pace = Pace(silence_seconds=0.02, retry_seconds=0.001)
    watch: Reflector[Event] = Reflector(
        link, Path.to("/things"), Names(), lambda _: None, pace=pace, chance=random.Random(1)
    )
    task = asyncio.create_task(watch.run())
    await asyncio.wait_for(seen.wait(), patience.SECONDS)
    task.cancel()
    await asyncio.wait([task])
    first = next(number for number, each in enumerate(asked) if "watch" in each)
    assert [each.get("resourceVersion") for each in asked[first : first + 2]] == ["10", "10"]


@pytest.mark.parametrize(("error", "bound"), [(Unavailable("x"), 30.0), (NotFound("x"), 5.0)])
def test_pauses_grow_up_to_a_bound(error: ApiError, bound: float) -> None:
    """Twice as long each time; an API that isn't there yet is asked for more often."""
    chance = random.Random(1)
    pauses = [reflector.pause(Pace(), error, failures, chance) for failures in range(12)]
    assert 0.12 <= pauses[0] <= 0.25
    assert pauses[3] > pauses[0]
    assert bound / 2 <= pauses[-1] <= bound
    assert reflector.pause(Pace(), Throttled("x"), 0, chance) == 1.0


async def test_a_kind_that_is_not_served_is_logged_once(serve: Serve) -> None:
    """Most clusters serve some kinds never; one that vanishes again is told of again."""
    codes = (404, 404, 503, 404, 404)
    steps: list[web.Response | list[bytes]] = [*map(refusal, codes), a_list(), []]
    with testing.capture_logs() as said:
        async with following(serve, Script(steps)):
            pass
    kinds = [each["event"] for each in said if each["event"] in ("watch.absent", "watch.failed")]
    assert kinds == ["watch.absent", "watch.failed", "watch.absent"]
    assert {each["log_level"] for each in said if each["event"] == "watch.absent"} == {"warning"}


async def test_a_kind_that_clusters_need_not_serve_is_no_warning(serve: Serve) -> None:
    """Nothing is wrong with a cluster without Kubernetes' own PodGroups."""
    steps: list[web.Response | list[bytes]] = [refusal(404), a_list(), []]
    with testing.capture_logs() as said:
        async with following(serve, Script(steps), path=paths.NATIVE_POD_GROUPS.everywhere):
            pass
    (absent,) = [each for each in said if each["event"] == "watch.absent"]
    assert absent["log_level"] == "info"
    assert absent["message"].endswith(": clusters needn't serve it")


async def test_a_kind_that_is_served_again_is_listed_anew(serve: Serve) -> None:
    """What the last watch showed may be long gone."""
    refused = [refusal(404), refusal(503)]
    script = Script([a_list("a"), [], *refused, a_list("b", version=30), []])
    async with following(serve, script) as (watch, batches):
        assert flat(batches) == [("REPLACE", "a"), ("REPLACE", "b")]
        assert not watch.unserved


@pytest.mark.parametrize(("code", "unserved"), [(503, True), (429, True), (403, False)])
async def test_a_busy_server_does_not_say_whether_a_kind_is_served(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, code: int, *, unserved: bool
) -> None:
    """But one that forbids it does."""
    seen: list[bool] = []
    mark = Reflector._mark_current

    def note(watch: Reflector[Event]) -> None:
        seen.append(watch.unserved)
        mark(watch)

    monkeypatch.setattr(Reflector, "_mark_current", note)
    async with following(serve, Script([refusal(404), refusal(code), a_list(), []])):
        assert seen[0] is unserved


class Fragile(Names):
    """A codec that fails at an object of one name."""

    def read(self, items: Sequence[msgspec.Raw]) -> list[str]:
        """The names."""
        found = super().read(items)
        assert "bad" not in found
        return found

    def change(self, kind: str, item: bytes) -> list[Event]:
        """One event for a change."""
        assert name_of(item) != "bad"
        return super().change(kind, item)


@pytest.mark.contains_failures
async def test_an_object_that_a_codec_fails_at_hides_no_other(serve: Serve) -> None:
    """In a list, and in a watch, which goes on behind it."""
    changes = [line("ADDED", 11, "a"), line("ADDED", 12, "bad"), line("ADDED", 13, "b")]
    script = Script([a_list("x", "bad", "y"), [b"".join(changes)], [line("ADDED", 14, "c")]])
    failed: list[str] = []
    with testing.capture_logs() as logs:
        async with following(serve, script, codec=Fragile(), failed=failed.append) as (_, batches):
            pass
    events = [*itertools.chain(*batches)]
    assert events == [("REPLACE", "x,y"), ("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    assert failed == ["object", "object"]
    assert [log["object"] for log in logs if log["event"] == "work.failed"] == ["/things bad"]
    assert script.asked[-1]["resourceVersion"] == "13"


@pytest.mark.contains_failures
async def test_a_watch_whose_sink_fails_begins_anew(serve: Serve) -> None:
    """What the sink has missed is in the next list."""
    script = Script([a_list("a"), a_list("a", "b"), [line("ADDED", 11, "c")]])
    failed: list[str] = []
    left = [ZeroDivisionError()]

    def sink(_: list[Event]) -> None:
        if left:
            raise left.pop()

    async with following(serve, script, sink=sink, failed=failed.append) as (_, batches):
        pass
    assert [*itertools.chain(*batches)] == [("REPLACE", "a,b"), ("ADDED", "c")]
    assert failed == ["watch"]


@pytest.mark.parametrize("kind", ["Pod", "PodList", "Status", ""])
async def test_what_is_no_list_of_its_kind_empties_nothing(serve: Serve, kind: str) -> None:
    """Were an answer of another kind taken, or one without items, all would be gone."""
    metadata = {"resourceVersion": "1"}
    wrong = {"kind": kind, "metadata": metadata, "items": []}
    nothing = {"kind": "ThingList", "metadata": metadata}
    right = nothing | {"items": None}
    script = Script([web.json_response(each) for each in (wrong, nothing, right)])
    with testing.capture_logs() as logs:
        async with following(serve, script, kind="Thing") as (_, batches):
            pass
    assert batches == [[("REPLACE", "")]]
    assert any("not a list of Thing" in log.get("message", "") for log in logs)
