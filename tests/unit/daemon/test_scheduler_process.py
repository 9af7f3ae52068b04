"""What a term makes of the names whose Leases are held."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests import answers, patience, running
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import runtimes, worlds
from tests.unit.daemon.leading import Decided
from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.cluster.writes import status_writer, write_queue
from vscheduler.cluster.writes.queue_status_writer import UsageWriter
from vscheduler.core import cycle
from vscheduler.daemon import leader_session, scheduler_process, settings
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.scheduler_process import Scheduler
from vscheduler.daemon.settings import Given
from vscheduler.history.queries import Filter, PastJob, Reader
from vscheduler.history.schema import HistoryError
from vscheduler.history.store import InUseError, Limits, Store
from vscheduler.mirror.decode.events import Upsert
from vscheduler.mirror.index.entries import Change, Event
from vscheduler.mirror.state import Mirror
from vscheduler.model.decisions import CycleResult

HOLDER = "vscheduler.io/lease-holder"


@dataclass
class Half:
    """The scheduler's half of a daemon, on an API server that only takes notes."""

    decided: Decided
    serving: Scheduler
    mirror: Mirror
    observed: Metrics
    stopping: bool = False
    withholding: bool = False
    slow: asyncio.Event | None = None
    """What every bind waits for."""
    begun: int = 0
    """Binds that were asked for, answered or not."""
    binds: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    events: int = 0
    writes: list[str] = field(default_factory=list)
    """What was asked for but looks."""
    lists: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Pods whose status was written to."""

    def show(self, *documents: Document) -> None:
        """Let a watch show these objects."""
        self.serving.feed([manifests.event_of(document) for document in documents])

    def bound(self) -> Counter[str]:
        """How many binds of each pod were asked for."""
        return Counter(name for name, _ in self.binds)

    async def rest(self) -> None:
        """Give whoever might bind the time to do it."""
        await patience.until_at_rest(lambda: (self.begun, len(self.writes), len(self.lists)), 0.3)


@asynccontextmanager
async def half(
    serve: Serve, *names: str, elected: bool = True, history: str = ""
) -> AsyncIterator[Half]:
    """One that stands for these names and has a node; nothing is held."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            made.lists += request.query.getall("fieldSelector", [])
            partial = "PartialObjectMetadataList" in request.headers["Accept"]
            found = answers.a_metadata_list() if partial else answers.a_list(request.path)
            return web.json_response(found)
        made.writes.append(request.path)
        body = json.loads(await request.read() or "{}")
        if request.method == "PATCH" and "/pods/" in request.path:
            made.told.append(request.path.split("/")[-2])
        made.events += request.path.endswith("/events")
        if request.path.endswith("/binding"):
            made.begun += 1
            if made.slow is not None:
                await made.slow.wait()
            made.binds.append((request.path.split("/")[-2], body))
        return web.json_response(answers.an_object(request.path, version="99"), status=201)

    given = settings.check(
        Given(
            scheduler_name=names,
            only=settings.SCHEDULER,
            leader_elect=elected,
            history_file=history,
        )
    )
    runtime = runtimes.by(
        await serve(answer),
        given,
        stopping=lambda: made.stopping,
        withholding=lambda: made.withholding,
    )
    made = Half(
        decided=Decided(),
        serving=Scheduler(runtime, running.policy_of(running.TREE)),
        mirror=runtime.mirror,
        observed=runtime.metrics,
    )
    made.show(manifests.node("n1", {"cpu": "16", "pods": "50"}), manifests.queue("default"))
    leases = given.election.lease_of.values()
    work = leader_session.run_while_leading(made.decided, leases, made.serving.work, name="serve")
    async with asyncio.TaskGroup() as group:
        runtime.informers.start(group)
        tasks = [group.create_task(each) for each in (runtime.write_queue.run(), work)]
        yield made
        assert not [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()


def waiting(name: str, scheduler: str = "vscheduler", **rest: Any) -> tuple[Document, ...]:
    """A pod that waits, and its group."""
    group = manifests.group(f"g-{name}", {"minMember": 1})
    return group, manifests.pod(name, group=f"g-{name}", scheduler=scheduler, **rest)


async def test_a_standby_sees_all_and_sends_nothing(serve: Serve) -> None:
    """What came while it stood by is placed as soon as it leads, with its name on it."""
    async with half(serve, "vscheduler") as made:
        made.show(*waiting("early"))
        await made.rest()
        assert made.bound() == {}
        made.decided.gain("vscheduler")
        await patience.until(lambda: made.bound() == {"early": 1})
        made.show(*waiting("late"))
        await patience.until(lambda: made.bound() == {"early": 1, "late": 1})
        assert [body["metadata"]["annotations"] for _, body in made.binds] == [{HOLDER: "us"}] * 2


async def test_the_first_binds_are_over_once_no_more_follow(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before there was a cycle, and not while a bind of it is in progress."""
    monkeypatch.setattr(write_queue, "QUIET_SECONDS", 0.0)
    async with half(serve, "vscheduler") as made:
        made.show(*waiting("a"))
        made.slow = asyncio.Event()
        wait = asyncio.create_task(made.serving.wait_for_first_binds())
        await made.rest()
        assert not wait.done()
        made.decided.gain("vscheduler")
        await patience.until(lambda: made.begun)
        await made.rest()
        assert not wait.done()
        made.slow.set()
        await patience.until(wait.done)


async def test_who_stands_by_has_no_first_binds_to_wait_for_long(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its controllers may hold Leases of their own."""
    monkeypatch.setattr(scheduler_process, "FIRST_BINDS_SECONDS", 0.05)
    async with half(serve, "vscheduler") as made:
        async with asyncio.timeout(10):
            await made.serving.wait_for_first_binds()


async def test_nothing_is_decided_before_the_predecessors_binds_are_seen(serve: Serve) -> None:
    """Its own pods are listed once for each term."""
    async with half(serve, "vscheduler") as made:
        assert made.lists == []
        for number in (1, 2):
            made.decided.gain("vscheduler")
            await patience.until(lambda: len(made.lists) == number)  # noqa: B023 - at once
            made.decided.lose("vscheduler")
        assert {each.partition(",")[0] for each in made.lists} == {"spec.schedulerName=vscheduler"}


async def test_who_has_no_predecessor_lists_nothing_again(serve: Serve) -> None:
    """Without an election the first lists are as new as any."""
    async with half(serve, "vscheduler", elected=False) as made:
        made.show(*waiting("a"))
        made.decided.gain("vscheduler")
        await patience.until(lambda: made.bound() == {"a": 1})
        assert made.lists == []


async def test_who_lost_its_lease_sends_nothing_more(serve: Serve) -> None:
    """It goes on standing by, and serves again when it leads again."""
    async with half(serve, "vscheduler") as made:
        made.decided.gain("vscheduler")
        made.show(*waiting("a"))
        await patience.until(lambda: made.bound() == {"a": 1})
        await patience.until(lambda: b"volcano_queue_weight{" in made.observed.exposition())
        made.decided.lose("vscheduler")
        made.show(*waiting("b"))
        await made.rest()
        assert made.bound() == {"a": 1}
        assert b"volcano_queue_weight{" not in made.observed.exposition()
        made.decided.gain("vscheduler")
        await patience.until(lambda: made.bound() == {"a": 1, "b": 1})


@pytest.mark.parametrize("returns", [False, True])
async def test_a_standby_forgets_what_its_last_session_never_saw_confirmed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, *, returns: bool
) -> None:
    """Unless it soon leads again: then the call still counts, as it may still be executed."""
    monkeypatch.setattr(leader_session, "CONFIRMED_SECONDS", 0.1)
    async with half(serve, "vscheduler") as made:
        made.decided.gain("vscheduler")
        made.show(*waiting("a"))
        await patience.until(lambda: made.bound() == {"a": 1})
        made.decided.lose("vscheduler")
        await patience.until(lambda: not made.decided.held(["vscheduler"]))
        if not returns:
            await patience.until(lambda: made.mirror.assumed == 0)
            return
        made.decided.gain("vscheduler")
        await made.rest()
        assert made.mirror.assumed == 1


async def test_who_stands_by_tells_of_no_strays(serve: Serve) -> None:
    """Those that it saw while it led are told of by whoever leads now."""
    async with half(serve, "vscheduler") as made:
        made.show(manifests.pod("stray", group="gone"))
        for led in (1, 0, 1):
            told = b"vscheduler_ungrouped_pods %.1f" % led
            (made.decided.gain if led else made.decided.lose)("vscheduler")
            await patience.until(lambda: told in made.observed.exposition())  # noqa: B023 - at once


async def test_acting_pauses_without_a_renewal(serve: Serve) -> None:
    """The Lease isn't lost yet: nothing is sent, and nothing is forgotten."""
    async with half(serve, "vscheduler") as made:
        made.decided.gain("vscheduler")
        made.show(*waiting("a"))
        await patience.until(lambda: made.bound() == {"a": 1})
        made.decided.tokens["vscheduler"].good = False
        made.show(*waiting("b"))
        await made.rest()
        assert made.bound() == {"a": 1}
        made.decided.tokens["vscheduler"].good = True
        await patience.until(lambda: made.bound() == {"a": 1, "b": 1})


async def test_of_two_names_only_those_that_are_held_are_served(serve: Serve) -> None:
    """Pods of the other one are somebody else's: they take room, and are left alone."""
    async with half(serve, "a", "b") as made:
        made.decided.gain("b")
        made.show(*waiting("first", "b"))
        await patience.until(lambda: made.bound() == {"first": 1})
        made.show(*waiting("pod-a", "a"), *waiting("pod-b", "b"))
        await patience.until(lambda: made.bound() == {"first": 1, "pod-b": 1})
        await made.rest()
        assert made.bound() == {"first": 1, "pod-b": 1}


async def test_who_stops_sends_nothing_more(serve: Serve) -> None:
    """Though its Lease is held until what is under way has ended."""
    async with half(serve, "vscheduler") as made:
        made.decided.gain("vscheduler")
        await patience.until(lambda: made.lists)
        made.stopping = True
        made.show(*waiting("a"))
        await made.rest()
        assert made.bound() == {}


async def test_what_an_earlier_tenure_left_behind_is_not_sent_in_a_later_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Lease is held still, and one more was gained: only the later one tells a pod why."""
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 5.0)
    async with half(serve, "a", "b") as made:
        made.decided.gain("a")
        await made.rest()
        made.show(*waiting("big", "a", requests={"cpu": "99"}))
        await patience.until(lambda: made.told == ["big"])
        made.show(manifests.node("n2", {"cpu": "20", "pods": "50"}))
        await made.rest()
        assert made.told == ["big"]
        made.decided.gain("b")
        await patience.until(lambda: made.told == ["big"] * 2)
        await asyncio.sleep(5.0)
        assert made.told == ["big"] * 2


async def test_who_stops_and_acts_no_more_writes_no_records(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leads by now has written newer ones."""
    closed = []
    monkeypatch.setattr(UsageWriter, "close", lambda _, may: closed.append(may()))
    async with half(serve, "vscheduler") as made:
        made.serving.close()
        made.decided.gain("vscheduler")
        await patience.until(lambda: made.lists)
        await made.rest()
        made.stopping = True
        made.serving.close()
        made.decided.tokens["vscheduler"].good = False
        made.serving.close()
    assert closed == [True, False]


@pytest.mark.parametrize("withheld", [False, True])
async def test_a_gang_that_is_being_bound_at_a_stop_is_finished(
    serve: Serve, withheld: bool
) -> None:
    """What was decided is sent, as long as there is time for it."""
    async with half(serve, "vscheduler") as made:
        made.slow = asyncio.Event()
        made.decided.gain("vscheduler")
        pods = [manifests.pod(f"p{number}", group="g") for number in range(12)]
        made.show(manifests.group("g", {"minMember": 12}), *pods)
        await patience.until(lambda: made.begun == 4)
        made.stopping, made.withholding = True, withheld
        made.slow.set()
        expected = 4 if withheld else 12
        await patience.until(lambda: len(made.bound()) == expected)
        await made.rest()
        assert len(made.bound()) == expected


async def test_a_cycle_that_comes_back_when_this_instance_has_given_up_commits_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hang for long, and then go on as if nothing had been."""
    inside, go = threading.Event(), threading.Event()
    run_cycle = cycle.run_cycle

    def hang(*arguments: Any) -> CycleResult:
        if not inside.is_set():
            inside.set()
            go.wait(40)
        return run_cycle(*arguments)

    async with half(serve, "vscheduler") as made:
        made.show(*waiting("early"), *waiting("large", requests={"cpu": "64"}))
        monkeypatch.setattr(cycle, "run_cycle", hang)
        made.decided.gain("vscheduler")
        assert await asyncio.to_thread(inside.wait, 20)
        made.withholding = True
        before = list(made.writes)  # the cycle was begun with leave
        go.set()
        await made.rest()
        assert made.writes == before
        made.withholding = False
        await patience.until(lambda: made.bound() == {"early": 1})


async def test_events_ask_for_the_same_leave_as_binds(serve: Serve) -> None:
    """They go out after all else: those that wait when the Lease is lost aren't sent."""
    async with half(serve, "vscheduler") as made:
        made.decided.gain("vscheduler")
        made.show(*waiting("early"))
        await patience.until(lambda: made.events)
        made.slow = asyncio.Event()
        made.show(*waiting("late"))
        await patience.until(lambda: made.begun == 2)
        await made.rest()
        before = made.events
        made.decided.tokens["vscheduler"].good = False
        made.slow.set()
        await patience.until(lambda: made.bound() == {"early": 1, "late": 1})
        await made.rest()
        assert made.events == before


@pytest.mark.contains_failures
async def test_an_object_that_the_mirror_fails_at_hides_no_other(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one batch the rest is taken in, and placed."""
    real = Mirror.apply

    def apply(mirror: Mirror, event: Event) -> Change:
        if isinstance(event, Upsert) and event.object.metadata.name == "bad":
            raise ZeroDivisionError
        return real(mirror, event)

    async with half(serve, "vscheduler") as made:
        monkeypatch.setattr(Mirror, "apply", apply)
        made.decided.gain("vscheduler")
        documents = [*waiting("bad"), *waiting("good")]
        made.serving.feed([worlds.event_of(document) for document in documents])
        await patience.until(lambda: made.bound() == {"good": 1})


async def test_the_default_queue_is_made_only_while_leading(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the Lease is renewed, nothing is sent."""
    monkeypatch.setattr(scheduler_process, "QUEUE_RETRY_SECONDS", 0.01)
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.json_response({"message": "no"}, status=404)

    link = await serve(answer)
    ensuring = asyncio.create_task(scheduler_process.ensure_queue(link, "default", lambda: False))
    await patience.until(lambda: len(asked) > 3)
    ensuring.cancel()
    await asyncio.wait({ensuring})
    assert set(asked) == {"GET"}


async def test_who_leads_keeps_the_history(serve: Serve, tmp_path: Path) -> None:
    """What ran is in the file once the daemon has ended; a standby doesn't even make it."""
    path = tmp_path / "history.db"
    async with half(serve, "vscheduler", history=str(path)) as made:
        made.show(*waiting("a"))
        await made.rest()
        assert not path.exists()
        made.decided.gain("vscheduler")
        await patience.until(lambda: made.bound() == {"a": 1})
        made.show(waiting("a", node="n1", version="2")[1])
        await patience.until(lambda: path.exists() and bool(_history(path)))
        made.decided.lose("vscheduler")
        await made.rest()
        await patience.until(lambda: _unlocked(path))
        made.serving.close()
        made.serving.observe()
        (job,) = _history(path)
        assert (job.job, job.scheduler, job.pods) == ("ns/g-a", "vscheduler", 1)
        assert b"vscheduler_history_failing 0.0" in made.observed.exposition()


def _history(path: Path) -> list[PastJob]:
    """The jobs that ran; none as long as there are no tables."""
    with suppress(HistoryError):
        now = int(time.time())
        return [job for job in Reader(path).jobs(Filter(), now, limit=10) if job.pods]
    return []


def _unlocked(path: Path) -> bool:
    """Whether another process might write to the file."""
    try:
        Store(path, Limits()).close()
    except InUseError:
        return False
    return True
