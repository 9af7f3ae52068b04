import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace
from structlog import testing

from tests import answers, patience, running
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.permits import Ending
from vscheduler.cluster.http import connection
from vscheduler.cluster.writes import queue_status_writer
from vscheduler.cluster.writes.queue_status_writer import QueueStatusWriter
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.mirror import queue_status
from vscheduler.model.decisions import (
    Basis,
    Entitlement,
    Exclusion,
    LimitedBy,
    QueueFigures,
)
from vscheduler.model.queues import Queue, QueueState
from vscheduler.model.refusals import Refusal, RefusalCode

BASIS = Basis(deserved=2000, usable=6000, bound=LimitedBy.WEIGHT, weight=1, weights=3)
FIGURES = QueueFigures(
    name="q",
    state=QueueState.OPEN,
    weight=1,
    allocated={"cpu": 1000},
    request={"cpu": 4000},
    entitlement=Entitlement(
        deserved={"cpu": 2000},
        real_capability={"cpu": 6000},
        share=0.5,
        bases={"cpu": BASIS},
    ),
)
MORE = replace(FIGURES, allocated={"cpu": 2000})
BY_REQUEST = replace(
    FIGURES,
    entitlement=Entitlement(
        deserved={"cpu": 2000},
        bases={"cpu": replace(BASIS, bound=LimitedBy.REQUEST)},
    ),
)
UNDECLARED = (
    "failed to create typed patch object (/q; scheduling.volcano.sh/v1beta1, Kind=Queue): "
    ".status.deserved: field not declared in schema"
)


@dataclass
class Desk:
    """A QueueStatusWriter, and what the server has and was asked."""

    reporter: QueueStatusWriter
    uid: str = "uid-q"
    stored: dict[str, Any] = field(default_factory=dict)
    """The status on the server."""
    looked: int = 0
    patches: list[dict[str, Any]] = field(default_factory=list)
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Content type and query of each patch."""
    written: Counter[str] = field(default_factory=Counter)
    may_commit: bool | Ending = True

    def report(
        self,
        *figures: QueueFigures,
        uid: str = "uid-q",
        excluded: tuple[Exclusion, ...] = (),
        parent: str = "",
    ) -> None:
        """Report a cycle that knew these queues, all but the first below the parent."""
        result = msgspec.structs.replace(
            running.EMPTY,
            queues=figures,
            excluded=excluded,
        )
        known = {
            figure.name: Queue(
                name=figure.name, uid=uid, created=0.0, parent=parent if number else ""
            )
            for number, figure in enumerate(figures)
        }
        self.reporter.report(result, known)

    async def settle(self) -> None:
        """Until nothing waits, rests included."""
        await patience.until(lambda: not self.reporter._coalescing._busy)

    def statuses(self) -> list[dict[str, Any]]:
        """What was written."""
        return [body["status"] for body in self.patches]


Answer = Callable[[dict[str, Any]], tuple[int, str]]


@asynccontextmanager
async def desk(serve: Serve, answer: Answer = lambda _: (200, "")) -> AsyncIterator[Desk]:
    """A QueueStatusWriter at work; `answer` gives HTTP status and message for a status."""

    async def handle(request: web.Request) -> web.Response:
        if request.method == "GET":
            made.looked += 1
            found = answers.an_object(request.path, uid=made.uid, status=made.stored)
            return web.json_response(found)
        assert request.path.endswith("/status")
        made.headers.append((request.content_type, request.query_string))
        made.patches.append(json.loads(await request.read()))
        code, message = answer(made.patches[-1]["status"])
        return web.json_response(
            {**answers.an_object(request.path), "message": message}, status=code
        )

    def observe(what: str, outcome: str) -> None:
        assert what == "queue"
        made.written[outcome] += 1

    queue = WriteQueue(workers=2, waiting_max=50)
    link = await serve(handle)
    reporter = QueueStatusWriter(
        link, queue, "example.com", may_commit=lambda: bool(made.may_commit), observe=observe
    )
    made = Desk(reporter=reporter)
    task = asyncio.create_task(queue.run())
    try:
        yield made
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of one queue are spaced by milliseconds."""
    monkeypatch.setattr(queue_status_writer, "STATUS_SPACING_SECONDS", 0.01)


async def test_figures_and_their_reason_are_applied_once(serve: Serve) -> None:
    """Server-side apply under the scheduler's name; the same figures again are no news."""
    async with desk(serve) as made:
        for _ in range(3):
            made.report(FIGURES)
            await made.settle()
        (body,) = made.patches
        assert made.headers == [(connection.APPLY_PATCH, "fieldManager=example.com&force=true")]
        assert (body["kind"], body["metadata"]) == ("Queue", {"name": "q"})
        (condition,) = body["status"].pop("conditions")
        assert body["status"] == {
            "allocated": {"cpu": "1", "memory": "0"},
            "request": {"cpu": "4"},
            "deserved": {"cpu": "2"},
            "realCapability": {"cpu": "6"},
            "share": 0.5,
            "schedulers": [
                {
                    "name": "example.com",
                    "allocated": {"cpu": "1"},
                    "deserved": {"cpu": "2"},
                    "share": 0.5,
                }
            ],
        }
        assert condition["type"] == "example.com/FairShare"
        assert condition["message"] == "2 of 6 usable CPU: weight 1 of 3 that want more"
        assert (made.looked, made.written) == (1, {"written": 1})


async def test_a_parent_has_what_the_queues_below_it_have(serve: Serve) -> None:
    """It changes with them."""
    async with desk(serve) as made:
        below = [replace(FIGURES, name=name) for name in ("a", "b")]
        for number in (1, 2):
            made.report(FIGURES, *below[:number], parent="q")
            await made.settle()
        of_parent = [each for each in made.patches if each["metadata"]["name"] == "q"]
        assert [each["status"]["allocated"]["cpu"] for each in of_parent] == ["2", "3"]


async def test_figures_that_change_quickly_are_written_now_and_then(serve: Serve) -> None:
    """The newest that waits is written, and the last one for certain."""
    async with desk(serve) as made:
        for milli in range(1000, 21_000, 1000):
            made.report(replace(FIGURES, allocated={"cpu": milli}))
        await made.settle()
        assert len(made.patches) <= 2
        assert made.statuses()[-1]["allocated"] == {"cpu": "20", "memory": "0"}


async def test_figures_that_look_the_same_are_not_written(serve: Serve) -> None:
    """A millionth of a share, or what no words are made of."""
    async with desk(serve) as made:
        made.report(FIGURES)
        await made.settle()
        made.report(replace(FIGURES, weight=2))
        await made.settle()
        assert len(made.patches) == 1


async def test_nodes_that_are_left_out_change_the_sentence(serve: Serve) -> None:
    """The condition keeps its time, as what binds the queue is the same."""
    async with desk(serve) as made:
        made.stored = {
            "conditions": [
                {
                    "type": "example.com/FairShare",
                    "status": "True",
                    "reason": "Weight",
                    "lastTransitionTime": "2020-02-02T02:02:02Z",
                }
            ]
        }
        made.report(FIGURES)
        await made.settle()
        cordoned = Refusal(RefusalCode.CORDONED)
        out = Exclusion(refusal=cordoned, nodes=("n1",))
        made.report(FIGURES, excluded=(out,))
        await made.settle()
        made.report(BY_REQUEST)
        await made.settle()
        first, second, third = (status["conditions"][0] for status in made.statuses())
        assert first["lastTransitionTime"] == "2020-02-02T02:02:02Z"
        assert second["lastTransitionTime"] == "2020-02-02T02:02:02Z"
        assert second["message"].endswith("; n1 not usable: cordoned")
        assert third["lastTransitionTime"] > "2026"
        assert made.looked == 1


async def test_a_queue_that_was_made_anew_gets_its_status_again(serve: Serve) -> None:
    """Its name is the same, its UID another."""
    async with desk(serve) as made:
        made.report(FIGURES)
        await made.settle()
        made.uid = "uid-2"
        made.report(FIGURES, uid="uid-2")
        await made.settle()
        first, second = made.statuses()
        for status in (first, second):
            del status["conditions"][0]["lastTransitionTime"]  # a second may have passed
        assert first == second
        made.report()
        made.report(FIGURES, uid="uid-2")
        await made.settle()
        assert len(made.patches) == 3


async def test_a_queue_that_is_another_by_now_is_left_alone(serve: Serve) -> None:
    """The watch will tell of it, and then it has its own figures."""
    async with desk(serve) as made:
        made.uid = "uid-2"
        made.report(FIGURES)
        await made.settle()
        assert (made.looked, made.patches) == (1, [])
        made.report(FIGURES, uid="uid-2")
        await made.settle()
        assert len(made.patches) == 1


async def test_a_queue_that_is_gone_is_forgotten(serve: Serve) -> None:
    """Nothing is tried again for it."""
    codes = [404]
    async with desk(serve, lambda _: (codes.pop() if codes else 200, "not found")) as made:
        made.report(FIGURES)
        await made.settle()
        assert (len(made.patches), made.written) == (1, {"notfound": 1})
        made.report(FIGURES)
        await made.settle()
        assert (len(made.patches), made.written["written"]) == (2, 1)


async def test_what_may_not_be_written_is_told_of_once(serve: Serve) -> None:
    """And asked again only when there is something new to say."""
    with testing.capture_logs() as logs:
        async with desk(serve, lambda _: (403, "queues/status is forbidden")) as made:
            for figures in (FIGURES, FIGURES, MORE):
                made.report(figures)
                await made.settle()
            assert (len(made.patches), made.written) == (2, {"forbidden": 2})
    assert [line["message"] for line in logs if line["event"] == "write.failed"] == [
        "queues/status is forbidden"
    ]


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_busy_server_is_asked_again(serve: Serve, code: int) -> None:
    """With the newest figures by then."""
    codes = [code, code]
    async with desk(serve, lambda _: (codes.pop() if codes else 200, "later")) as made:
        made.report(FIGURES)
        await made.settle()
        assert (len(made.patches), made.written["written"]) == (3, 1)


async def test_figures_are_told_again_after_others_without_an_answer(serve: Serve) -> None:
    """The others may be stored."""
    other = replace(FIGURES, allocated={"cpu": 3000})

    def answer(status: dict[str, Any]) -> tuple[int, str]:
        if status["allocated"]["cpu"] == "1":
            return 200, ""
        made.report(FIGURES)
        return 500, "no answer"

    async with desk(serve, answer) as made:
        made.report(FIGURES)
        await made.settle()
        made.report(other)
        await made.settle()
        assert [status["allocated"]["cpu"] for status in made.statuses()] == ["1", "3", "1"]


async def test_volcanos_crd_gets_what_it_has_a_place_for(serve: Serve) -> None:
    """One line in the log for all queues; changes of other figures aren't sent at all."""

    def answer(status: dict[str, Any]) -> tuple[int, str]:
        return (500, UNDECLARED) if "deserved" in status else (200, "")

    with testing.capture_logs() as logs:
        async with desk(serve, answer) as made:
            for figures in (FIGURES, BY_REQUEST, MORE):
                made.report(figures)
                await made.settle()
            refused, *taken = made.statuses()
            assert "deserved" in refused
            assert [each["allocated"]["cpu"] for each in taken] == ["1", "2"]
            assert all(set(each) == {"allocated"} for each in taken)
            assert made.written == {"written": 2}
    (line,) = [line for line in logs if line["event"] == "queue.fields_missing"]
    assert line["fields"] == [
        "conditions",
        "deserved",
        "realCapability",
        "request",
        "schedulers",
        "share",
    ]
    assert [line["share"] for line in logs if line["event"] == "queue.told"] == [0.5, 0.0, 0.5]


async def test_a_crd_that_is_replaced_is_noticed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then all is tried, and then all is written."""
    monkeypatch.setattr(queue_status, "NARROW_SECONDS", 0.0)
    lacks = [True]

    def answer(status: dict[str, Any]) -> tuple[int, str]:
        return (500, UNDECLARED) if lacks and "deserved" in status else (200, "")

    async with desk(serve, answer) as made:
        made.report(FIGURES)
        await made.settle()
        lacks.clear()
        made.report(MORE)
        await made.settle()
        assert made.statuses()[-1]["deserved"] == {"cpu": "2"}
        assert len(made.patches) == 3


async def test_nothing_is_written_that_may_not_be_committed(serve: Serve) -> None:
    """A scheduler that pauses is silent, and makes up for it when it goes on."""
    async with desk(serve) as made:
        made.may_commit = False
        made.report(FIGURES)
        await asyncio.sleep(0.1)
        assert (made.looked, made.patches) == (0, [])
        made.may_commit = True
        await patience.until(lambda: made.patches)
        assert len(made.patches) == 1


async def test_leave_that_ends_while_the_queue_is_read_keeps_it_from_being_written(
    serve: Serve,
) -> None:
    """It is asked again when the bytes are written."""
    async with desk(serve) as made:
        made.may_commit = ending = Ending(1)
        made.report(FIGURES)
        await patience.until(lambda: ending.left < 0)
        await asyncio.sleep(0.1)
        assert made.looked == 1
        assert made.patches == []
