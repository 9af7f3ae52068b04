import asyncio
import datetime as dt
import functools
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from structlog import testing

from tests import patience, running
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from vscheduler.cluster import cooperative
from vscheduler.cluster.cooperative import CooperativeYield
from vscheduler.cluster.writes import binder
from vscheduler.cluster.writes.status_writer import StatusWriter
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.session.session import Session
from vscheduler.daemon import scheduling_loop
from vscheduler.daemon.pacing import Pace
from vscheduler.daemon.scheduling_loop import SchedulingLoop
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import Bind
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

TWO_GANGS = """
    node  n1 cpu=4
    queue default
    job   default/whole min=3 cpu=1   - - -
    job   default/large min=2 cpu=3   - -
"""


async def test_what_fits_is_bound_what_does_not_is_told_and_then_all_is_quiet(
    serve: Serve,
) -> None:
    """A gang whole, its events, the other's condition with numbers; no more cycles or writes."""
    async with worlds.world(serve, TWO_GANGS) as made:
        await patience.until(lambda: len(made.bound()) == 3)
        await patience.until(lambda: made.statuses("large") and made.statuses("whole"))
        await worlds.rest(made)
        assert made.bound() == {"whole-0": 1, "whole-1": 1, "whole-2": 1}
        (status,) = made.statuses("large")
        (condition,) = status["conditions"]
        assert (condition["type"], condition["status"]) == ("Unschedulable", "True")
        assert "needs 6 cpu for 2 pods" in condition["message"]
        notices = Counter(
            (body["reason"], body["regarding"]["kind"])
            for _, path, body in made.calls
            if path.endswith("/events")
        )
        assert notices == {
            ("Scheduled", "Pod"): 3,
            ("Scheduled", "PodGroup"): 1,
            ("Unschedulable", "PodGroup"): 1,
            ("FailedScheduling", "Pod"): 2,
        }


async def test_binds_are_sent_before_anything_is_reported(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that starts waits for no statuses."""
    done: list[str] = []
    body, report = binder.binding_body, StatusWriter.report

    def sending(bind: Bind, holder: str = "") -> bytes:
        done.append("sent")
        return body(bind, holder)

    def reporting(self: StatusWriter, *given: Any) -> None:
        done.append("reported")
        report(self, *given)

    monkeypatch.setattr(cooperative, "TURN_SECONDS", 600.0)
    monkeypatch.setattr(binder, "binding_body", sending)
    monkeypatch.setattr(StatusWriter, "report", reporting)
    async with worlds.world(serve, "node n1 cpu=4\nqueue q\njob q/a min=2 cpu=1 -*2") as made:
        await patience.until(lambda: made.bound().total() == 2)
    assert done[:3] == ["sent", "sent", "reported"]


async def test_what_no_decision_depends_on_makes_no_cycle(serve: Serve) -> None:
    """A node's heartbeat, for one."""
    node, *_ = pictures.documents(TWO_GANGS)
    async with worlds.world(serve, TWO_GANGS) as made:
        await patience.until(lambda: made.statuses("large"))
        await worlds.rest(made)
        cycles = made.loop.cycles
        heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}
        made.show({**node, "status": {**node["status"], "conditions": [heartbeat]}})
        await asyncio.sleep(0.1)
        assert made.loop.cycles == cycles


async def test_a_pod_that_could_not_be_bound_is_tried_again_after_a_rest(serve: Serve) -> None:
    """At once the first time, then later and later; the others of its gang aren't sent again."""
    async with worlds.world(serve, TWO_GANGS, answers={"whole-1/binding": [409, 409, 409]}) as made:
        await patience.until(lambda: made.bound()["whole-1"] == 4)
        await asyncio.sleep(0.05)
        assert made.bound() == {"whole-0": 1, "whole-1": 4, "whole-2": 1}


async def test_a_gang_of_which_a_pod_went_while_the_cycle_ran_is_not_bound(serve: Serve) -> None:
    """None of its binds is sent; the next cycle knows that the gang is too small."""
    decided, seen = threading.Event(), threading.Event()

    class Slow(Allocate):
        """Decides, and then takes its time."""

        def execute(self, session: Session) -> None:
            super().execute(session)
            decided.set()
            assert seen.wait(40)

    documents = pictures.documents(TWO_GANGS)
    (victim,) = [document for document in documents if document["metadata"]["name"] == "whole-2"]
    async with worlds.world(serve, TWO_GANGS, action=Slow) as made:
        await patience.until(decided.is_set)
        made.feed([worlds.event_of(victim, "DELETED")])
        seen.set()
        await patience.until(lambda: made.statuses("whole"))
        assert not made.bound().keys() & {"whole-0", "whole-1", "whole-2"}
        assert made.mirror.assumed == 0 or made.bound().keys() == {"large-0", "large-1"}


async def test_a_cycle_with_a_mistake_is_dropped_and_the_next_one_works(serve: Serve) -> None:
    """Nothing of it is sent; it is logged and counted; the process lives.

    Who watches is told when it happens again and again.
    """

    class Broken(Allocate):
        """Goes wrong three times, after it has decided."""

        left: ClassVar[list[BaseException]] = [
            AssertionError("node over"),
            KeyError("x"),
            SystemExit(0),
        ]

        def execute(self, session: Session) -> None:
            super().execute(session)
            assert made.cycles.oldest() is not None
            if self.left:
                assert not made.bound()
                raise self.left.pop()
            told.append(made.cycles.keeps_dropping())

    told: list[bool | None] = []
    with testing.capture_logs() as said:
        async with worlds.world(serve, TWO_GANGS, action=Broken) as made:
            await patience.until(lambda: len(made.bound()) == 3)
            assert b"vscheduler_cycles_dropped_total 3.0" in made.observed.exposition()
            await patience.until(lambda: made.cycles.keeps_dropping() is None)
            assert made.cycles.oldest() is None
    assert [each["event"] for each in said].count("cycle.dropped") == 3
    assert told[0] is True


async def test_a_cycle_that_its_budget_cuts_short_is_continued(serve: Serve) -> None:
    """Until all jobs have had their turn."""
    jobs = "\n".join(f"job default/j{number} min=2 cpu=1 - -" for number in range(20))
    pace = Pace(debounce_seconds=0.005, period_seconds=60, budget=150)
    async with worlds.world(serve, f"node n1 cpu=64\nqueue default\n{jobs}", pace=pace) as made:
        await patience.until(lambda: len(made.bound()) == 40)
        assert made.loop.cycles > 3
        assert set(made.bound().values()) == {1}


async def test_a_cycle_that_was_held_up_is_not_rested_after(serve: Serve) -> None:
    """The rest is as long as what it cost, not as what others had of the processor meanwhile: the
    event loop reads what tenants write, and a new job would wait four times as long as that took.
    """

    class Late(Allocate):
        """Does nothing for a while."""

        def execute(self, session: Session) -> None:
            super().execute(session)
            time.sleep(0.5)  # a rest by that takes 25 s

    pace = Pace(debounce_seconds=0.005, period_seconds=600, rest_factor=50)
    full = "node n1 cpu=4\nqueue default\njob default/large min=2 cpu=3 - -"
    async with worlds.world(serve, full, pace=pace, action=Late) as made:
        await patience.until(lambda: made.statuses("large"))
        made.show(*pictures.documents("node n2 cpu=4"))
        await patience.until(lambda: len(made.bound()) == 2)


async def test_a_cycle_that_was_busy_is_rested_after(serve: Serve) -> None:
    """Its own thread's work counts: a full cluster doesn't keep the processor."""

    class Busy(Allocate):
        """Takes a while to decide."""

        def execute(self, session: Session) -> None:
            super().execute(session)
            until = time.thread_time() + 0.2
            while time.thread_time() < until:
                pass

    pace = Pace(debounce_seconds=0.005, period_seconds=600, rest_factor=50)
    full = "node n1 cpu=4\nqueue default\njob default/large min=2 cpu=3 - -"
    async with worlds.world(serve, full, pace=pace, action=Busy) as made:
        await patience.until(lambda: made.statuses("large"))
        made.show(*pictures.documents("node n2 cpu=4"))
        await asyncio.sleep(1.5)
        assert made.loop.cycles == 1


async def test_a_change_between_two_parts_of_a_round_is_seen_by_all(serve: Serve) -> None:
    """A job that had its turn before the change has another one after the round."""
    second, seen = threading.Event(), threading.Event()

    class Slow(Allocate):
        """Waits in the second cycle."""

        cycles: ClassVar[list[int]] = []

        def execute(self, session: Session) -> None:
            self.cycles.append(1)
            if len(self.cycles) == 2:
                second.set()
                assert seen.wait(40)
            super().execute(session)

    giants = "\n".join(f"job default/giant{number} min=1 cpu=16 -" for number in range(5))
    picture = f"node n1 cpu=1\nqueue default\njob default/a min=1 priority=9 cpu=8 -\n{giants}"
    later = f"node n2 cpu=8\n{picture}"
    pace = Pace(debounce_seconds=0.005, period_seconds=0.01, budget=1)
    async with worlds.world(serve, picture, action=Slow, pace=pace) as made:
        await patience.until(second.is_set)
        made.show(pictures.documents(later)[0])
        seen.set()
        await patience.until(lambda: made.bound() == {"a-0": 1})


async def test_a_bind_that_the_watch_never_shows_is_sent_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the assumption has expired, by the clock on which it began."""
    monkeypatch.setattr(worlds, "Options", functools.partial(Options, assume_seconds=0.1))
    async with worlds.world(serve, "node n1 cpu=4\nqueue default\njob default/a -") as made:
        await patience.until(lambda: made.bound()["a-0"] == 2)


@pytest.mark.parametrize("code", [403, 422])
async def test_a_pod_that_is_always_refused_does_not_busy_the_server(
    serve: Serve, code: int
) -> None:
    """The pauses between attempts double."""
    pace = Pace(debounce_seconds=0.001, tick_seconds=0.005, retry_seconds=0.05)
    picture = "node n1 cpu=4\nqueue default\njob default/a min=1 cpu=1 -"
    async with worlds.world(serve, picture, pace=pace, answers={"/binding": [code] * 99}) as made:
        started = time.monotonic()
        await patience.until(lambda: made.bound()["a-0"] == 5)
        assert time.monotonic() - started > 0.05 + 0.1 + 0.2


async def test_a_pod_that_waits_for_its_podgroup_is_told_so(serve: Serve) -> None:
    """Once it has waited for long; a pod that is just made gets it in a moment."""
    documents = pictures.documents(TWO_GANGS)
    pod = next(document for document in documents if document["metadata"]["name"] == "whole-0")
    now = dt.datetime.now(dt.UTC)
    late, early = (
        {**pod, "metadata": {"name": name, "namespace": "default", "uid": name, **rest}}
        for name, rest in (
            ("late", {"creationTimestamp": now - dt.timedelta(minutes=1)}),
            ("early", {"creationTimestamp": now}),
        )
    )
    async with worlds.world(serve, TWO_GANGS) as made:
        made.show(late, early)

        def told(name: str) -> list[Any]:
            end = f"/pods/{name}/status"
            return [body["status"] for _, path, body in made.calls if path.endswith(end)]

        await patience.until(lambda: told("late"))
        await worlds.rest(made)
        assert not told("early")
        ((condition,),) = [status["conditions"] for status in told("late")]
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "PodGroupNeeded")
        assert condition["message"].startswith("waits for a PodGroup, which the controllers make")


async def test_what_is_left_out_is_told_once(serve: Serve) -> None:
    """A bad object by name and field; pods without a group by their number, but for
    finished ones; the rest goes on.
    """
    documents = pictures.documents(TWO_GANGS)
    pod = next(document for document in documents if document["metadata"]["name"] == "whole-0")
    loner = {**pod, "metadata": {"name": "loner", "namespace": "default", "uid": "u"}}
    done = {**pod, "metadata": {"name": "done", "namespace": "default", "uid": "d"}}
    done = {**done, "status": {"phase": "Succeeded"}}
    queue = next(document for document in documents if document["kind"] == "Queue")
    bad = {**queue, "metadata": {"name": "bad"}, "spec": {"weight": "much"}}
    with testing.capture_logs() as said:
        async with worlds.world(serve, TWO_GANGS) as made:
            made.show(loner, done, bad)
            await patience.until(lambda: len(made.bound()) == 3)
            await worlds.rest(made)
            exposition = made.observed.exposition().decode()
    (rejected,) = [each for each in said if each["event"] == "object.rejected"]
    assert (rejected["kind"], rejected["object"], rejected["field"]) == (
        "Queue",
        "bad",
        "spec.weight",
    )
    assert [each["pods"] for each in said if each["event"] == "pods.ungrouped"] == [1]
    assert "vscheduler_rejected_objects 1.0" in exposition
    assert "vscheduler_ungrouped_pods 1.0" in exposition


async def test_a_podgroup_that_is_invalid_is_told_so_once_per_version(serve: Serve) -> None:
    """By a warning that names the field; it is told again if a change doesn't correct it."""
    documents = pictures.documents(TWO_GANGS)
    group = next(document for document in documents if document["kind"] == "PodGroup")

    def bad(version: str) -> Document:
        metadata = {"name": "bad", "namespace": "default", "uid": "b", "resourceVersion": version}
        return {**group, "metadata": metadata, "spec": {"minResources": {"cpu": "much"}}}

    def told() -> list[dict[str, Any]]:
        return [body for _, _, body in made.calls if body.get("reason") == "PodGroupInvalid"]

    async with worlds.world(serve, TWO_GANGS) as made:
        made.show(bad("7"))
        await patience.until(lambda: len(told()) == 1)
        await worlds.rest(made)
        (event,) = told()
        made.show(bad("8"))
        await patience.until(lambda: len(told()) == 2)
        await worlds.rest(made)
        assert len(told()) == 2
    assert (event["type"], event["regarding"]["name"], event["regarding"]["uid"]) == (
        "Warning",
        "bad",
        "b",
    )
    assert event["note"].startswith("spec.minResources")


async def test_a_queue_in_the_wrong_place_is_told_of_once(serve: Serve) -> None:
    """What is wrong when it is seen first, and that it was put right; then its jobs start."""
    tiers = running.tiers("gang | capacity:enableHierarchy=true predicates")
    tree = {"actions": "allocate", "tiers": tiers}
    broken = "node n1 cpu=4   queue default   queue leaf parent=team   job leaf/j -"
    with testing.capture_logs() as said:
        async with worlds.world(serve, broken, tree=tree) as made:
            await patience.until(lambda: made.statuses("j"))
            made.show(*pictures.documents("node n2 cpu=1"))
            await asyncio.sleep(0.1)
            made.show(*pictures.documents("queue team"))
            await patience.until(lambda: made.bound() == {"j-0": 1})
    told = [each for each in said if each["event"].startswith("queue.")]
    assert [(each["event"], each["queue"]) for each in told] == [
        ("queue.set_aside", "leaf"),
        ("queue.put_right", "leaf"),
    ]
    assert told[0]["message"].startswith("parent team of queue leaf doesn't exist; ")


async def test_a_gang_that_fits_is_bound_within_two_cycles_of_its_last_pod(serve: Serve) -> None:
    """Though sixty jobs that don't fit are before it: a cycle's budget is enough for hundreds."""
    giants = "\n".join(
        f"job default/giant{number:02} min=1 cpu={16 + number} -" for number in range(60)
    )
    there = "node n1 cpu=80\nqueue default\njob default/there min=1 cpu=70 n1"
    picture = f"{there}\n{giants}\n"
    async with worlds.world(serve, picture) as made:
        await patience.until(lambda: made.statuses("giant59"))
        await worlds.rest(made)
        made.show(*pictures.documents(f"{picture}job default/small min=3 cpu=1 - - -")[-4:])
        seen = made.loop.cycles
        await patience.until(made.bound, every_seconds=0)
        assert made.loop.cycles <= seen + 2


class Stuck(CooperativeYield):
    """Stops for good before another pod is assumed, once so many are."""

    def __init__(self, assumed: Callable[[], int], pods: int) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._assumed, self._pods = assumed, pods

    async def give_way(self) -> None:
        """Let others run."""
        if self._assumed() >= self._pods:
            self.reached.set()
            await asyncio.Event().wait()


async def test_an_end_within_a_gang_leaves_nothing_assumed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent, so whoever comes next finds all of it waiting."""
    stuck = Stuck(lambda: made.mirror.assumed, pods=1)
    monkeypatch.setattr(scheduling_loop, "CooperativeYield", lambda: stuck)
    async with worlds.world(serve, "node n1 cpu=4   queue q   job q/a min=2 - -") as made:
        await asyncio.wait_for(stuck.reached.wait(), patience.SECONDS)
        assert made.mirror.assumed == 1
    assert made.mirror.assumed == 0
    assert made.bound() == {}


async def test_binds_of_a_job_go_out_while_those_of_the_next_are_assumed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of thousands of pods doesn't wait for the last."""
    stuck = Stuck(lambda: made.mirror.assumed, pods=3)
    monkeypatch.setattr(scheduling_loop, "CooperativeYield", lambda: stuck)
    picture = "node n1 cpu=9   queue q   job q/a min=2 - -   job q/b min=2 - -"
    async with worlds.world(serve, picture) as made:
        await asyncio.wait_for(stuck.reached.wait(), patience.SECONDS)
        await patience.until(lambda: len(made.bound()) == 2)
        assert set(made.bound()) == {"a-0", "a-1"}


@pytest.mark.contains_failures
async def test_a_writer_that_fails_keeps_no_bind_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of those who are handed what a cycle found out may fail by itself."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(StatusWriter, "report", fail)
    monkeypatch.setattr(SchedulingLoop, "_evict", fail)
    with testing.capture_logs() as said:
        async with worlds.world(serve, TWO_GANGS) as made:
            await patience.until(lambda: len(made.bound()) == 3)
            await patience.until(lambda: made.loop.cycles)
    failed = {each["object"] for each in said if each["event"] == "work.failed"}
    assert failed == {"evictions", "statuses of jobs"}


@pytest.mark.contains_failures
async def test_statuses_that_were_not_reported_are_reported_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a job that the next cycle would leave out."""
    fails, report = True, StatusWriter.report

    def reporting(self: StatusWriter, *given: Any) -> None:
        if fails:
            raise ZeroDivisionError
        report(self, *given)

    monkeypatch.setattr(StatusWriter, "report", reporting)
    picture = "node n1 cpu=4\nqueue q\njob q/runs min=1 cpu=1 phase=Inqueue n1"
    async with worlds.world(serve, picture) as made:
        await worlds.rest(made)
        assert made.loop.cycles
        assert not made.statuses("runs")
        fails = False
        made.loop.reconsider()
        await patience.until(lambda: made.statuses("runs"))


@pytest.mark.contains_failures
async def test_what_fails_around_a_cycle_drops_it_and_the_next_one_works(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot, say."""
    left = [ZeroDivisionError(), KeyError("x")]
    real = Mirror.snapshot

    def fail(*arguments: Any) -> Any:
        if left:
            raise left.pop()
        return real(*arguments)

    monkeypatch.setattr(Mirror, "snapshot", fail)
    with testing.capture_logs() as said:
        async with worlds.world(serve, TWO_GANGS) as made:
            await patience.until(lambda: len(made.bound()) == 3)
            assert b"vscheduler_cycles_dropped_total 2.0" in made.observed.exposition()
    assert [each["event"] for each in said].count("cycle.dropped") == 2


@pytest.mark.contains_failures
async def test_cycles_of_which_nothing_can_be_handed_on_are_dropped_in_a_row(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is decided, so that only what follows it shows that nobody is served."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SchedulingLoop, "_bind", fail)
    with testing.capture_logs():
        async with worlds.world(serve, TWO_GANGS) as made:
            await patience.until(made.cycles.keeps_dropping)
            monkeypatch.undo()
            await patience.until(lambda: len(made.bound()) == 3)
            await patience.until(lambda: made.cycles.keeps_dropping() is None)
