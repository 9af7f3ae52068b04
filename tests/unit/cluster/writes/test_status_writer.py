import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from tests import answers, patience
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.permits import Ending
from vscheduler.cluster.writes import event_recorder, status_writer, write_queue
from vscheduler.cluster.writes.event_recorder import EventRecorder, Identity
from vscheduler.cluster.writes.status_writer import StatusWriter, StoredGroup
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.mirror import statuses
from vscheduler.model import jobs
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.decisions import (
    Bind,
    CycleResult,
    EndsSoon,
    Evict,
    GroupStatus,
    Pipeline,
    Reason,
    ReasonCode,
)
from vscheduler.model.jobs import (
    Condition,
    GroupState,
    InvalidPod,
    Job,
    JobId,
    Phase,
    PodClass,
    SubGroup,
    Task,
    TaskId,
    TaskStatus,
)
from vscheduler.model.snapshot import FRESH, Carried

KIND = PodClass(request={"pods": 1, "cpu": 2000})
JOB = JobId("ns/a")
GROUP_PATH = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/a"
STORED = Job(id=JOB, uid="uid-a", namespace="ns", name="a", queue="q", created=0.0)


def a_task(name: str) -> Task:
    """A pod of the job."""
    return Task(
        uid=TaskId(f"uid-{name}"),
        namespace="ns",
        name=name,
        job=JOB,
        pod_class=KIND,
        status=TaskStatus.PENDING,
        created=0.0,
    )


WAITS = GroupStatus(
    job=JOB,
    uid="uid-a",
    queue="q",
    phase=Phase.PENDING,
    running=0,
    succeeded=0,
    failed=0,
    ready=False,
    unplaced=(a_task("a-0"), a_task("a-1")),
    reason=Reason(code=ReasonCode.NO_NODES, queue="q"),
)
RUNS = replace(WAITS, phase=Phase.RUNNING, running=2, ready=True, unplaced=(), reason=None)


@dataclass
class Desk:
    """A StatusWriter, the PodGroup as it is seen, and what the server was asked."""

    reporter: StatusWriter
    queue: WriteQueue
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    written: Counter[tuple[str, str]] = field(default_factory=Counter)
    group: StoredGroup | None = None
    may_commit: bool | Ending = True
    told_before: set[str] = field(default_factory=set)
    versions: dict[str, str | None] = field(default_factory=dict)
    """The resourceVersions of pods that wait, as the Mirror would have them; 5 for all others."""

    def stored_group(self, job: JobId) -> StoredGroup | None:
        """The PodGroup as the Mirror would have it."""
        if jobs.is_lone_pod(job):
            return None
        assert job in (JOB, NATIVE, TREE)
        return self.group

    def has_reason(self, task: TaskId) -> bool:
        """Whether an earlier process has told the pod why it waits."""
        return task in self.told_before

    def waiting_version(self, task: TaskId) -> str | None:
        """The resourceVersion of a pod without a node, as last seen."""
        return self.versions.get(task, "5")

    def report(
        self,
        *statuses: GroupStatus,
        carried: Carried = FRESH,
        binds: tuple[Bind, ...] = (),
        job: Job = STORED,
        ends_soon: tuple[EndsSoon, ...] = (),
    ) -> None:
        """Report a cycle."""
        result = CycleResult(
            binds=binds,
            ends_soon=ends_soon,
            pipelined=(),
            evicts=(),
            changeable=statuses,
            queues=(),
            total={},
            carried=carried,
        )
        state = self.group.state if self.group else GroupState()
        self.reporter.report(result, lambda _: replace(job, state=state), "cycle-1")

    async def settle(self, seconds: float = 0.06) -> None:
        """Until nothing waits, rests included."""

        def seen() -> object:
            return object() if self.queue.busy else len(self.calls)

        await patience.until_at_rest(seen, seconds)

    def group_bodies(self) -> list[dict[str, Any]]:
        """What was written to the PodGroup."""
        return [body for _, path, body in self.calls if path == GROUP_PATH]

    def events(self) -> Counter[tuple[str, str]]:
        """Events by reason and kind of object."""
        return Counter(
            (body["reason"], body["regarding"]["kind"])
            for _, path, body in self.calls
            if path.endswith("/events")
        )


@asynccontextmanager
async def desk(
    serve: Serve,
    answer: Callable[[str], int] = lambda _: 200,
    details: dict[str, Any] | None = None,
) -> AsyncIterator[Desk]:
    """A StatusWriter at work; `answer` gives the HTTP status for a path, `details` go with it."""

    async def handle(request: web.Request) -> web.Response:
        made.calls.append((request.method, request.path, json.loads(await request.read())))
        body: dict[str, Any] = {"message": "no", "details": details or {}}
        if request.method == "PATCH":
            body |= answers.an_object(request.path, version="20")
        return web.json_response(body, status=answer(request.path))

    def observe(what: str, outcome: str) -> None:
        made.written[what, outcome] += 1

    queue = WriteQueue(workers=2, waiting_max=50)
    link = await serve(handle)
    made = Desk(reporter=None, queue=queue)  # type: ignore[arg-type]  # two lines below
    made.group = StoredGroup(uid="uid-a", resource_version="7", state=GroupState())
    made.reporter = StatusWriter(
        link,
        queue,
        made,
        EventRecorder(
            link,
            queue,
            Identity(controller="vscheduler", instance="here"),
            observe=observe,
        ).under(lambda: True),
        may_commit=lambda: bool(made.may_commit),
        observe=observe,
    )
    task = asyncio.create_task(queue.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of one object are spaced by milliseconds."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.01)
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.01)


async def test_a_waiting_group_and_its_pods_are_told_once(serve: Serve) -> None:
    """The patch carries the version; pods get a condition by UID; each has one event."""
    async with desk(serve) as made:
        made.report(WAITS)
        await made.settle()
        made.report(WAITS)
        await made.settle()
        (body,) = made.group_bodies()
        assert body["metadata"] == {"resourceVersion": "7"}
        (condition,) = body["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Unschedulable", "True")
        pods = [(path, body) for _, path, body in made.calls if path.endswith("/status")]
        assert sorted(path for path, _ in pods) == [
            f"/api/v1/namespaces/ns/pods/a-{n}/status" for n in range(2)
        ]
        assert pods[0][1]["metadata"]["uid"].startswith("uid-a-")
        assert pods[0][1]["status"]["conditions"][0]["reason"] == "Unschedulable"
        assert made.events() == {
            ("Unschedulable", "PodGroup"): 1,
            ("FailedScheduling", "Pod"): 2,
        }


async def test_a_group_that_is_not_admitted_is_told_its_phase_and_why_in_one_write(
    serve: Serve,
) -> None:
    """A new PodGroup has no phase. The write isn't seen yet when the next cycle says the same."""
    async with desk(serve) as made:
        state = GroupState(blank=True)
        made.group = StoredGroup(uid="uid-a", resource_version="7", state=state)
        for _ in range(2):
            made.report(replace(WAITS, unplaced=()))
            await made.settle()
        (body,) = made.group_bodies()
        assert sorted(body["status"]) == ["conditions", "phase"]
        assert body["status"]["phase"] == "Pending"


async def test_other_numbers_are_told_without_another_event(serve: Serve) -> None:
    """An event is for another kind of reason; the condition always has the newest numbers."""
    reason = Reason(code=ReasonCode.TOO_FEW_PODS, queue="q", tasks=1, minimum=4)
    async with desk(serve) as made:
        for tasks in (1, 2, 3):
            made.report(replace(WAITS, reason=replace(reason, tasks=tasks)))
            await made.settle()
        assert made.events()["FailedScheduling", "Pod"] == 2
        assert made.written["pod", "written"] == 6


async def test_a_conflict_is_worked_out_again_from_the_newest_version(serve: Serve) -> None:
    """Somebody else's condition that came in between is kept."""
    codes = [409, 200]
    theirs = Condition(type="Theirs", status="True", reason="x")
    state = GroupState(conditions=(theirs,))

    def answer(path: str) -> int:
        if path != GROUP_PATH:
            return 200
        made.group = StoredGroup(uid="uid-a", resource_version="9", state=state)
        return codes.pop(0)

    async with desk(serve, answer) as made:
        made.report(replace(WAITS, unplaced=()))
        await made.settle()
        first, second = made.group_bodies()
        assert (first["metadata"], second["metadata"]) == (
            {"resourceVersion": "7"},
            {"resourceVersion": "9"},
        )
        kinds = [condition["type"] for condition in second["status"]["conditions"]]
        assert sorted(kinds) == ["Theirs", "Unschedulable"]


async def test_what_the_server_did_not_keep_is_not_written_again(serve: Serve) -> None:
    """A pruned field looks different for ever; only after somebody else's write we write again."""
    async with desk(serve) as made:
        made.report(RUNS)
        await made.settle()
        pruned = GroupState(phase=Phase.RUNNING)
        for version, writes in (("20", 1), ("21", 2)):
            made.group = StoredGroup(
                uid="uid-a", resource_version=version, state=replace(pruned, failed=int(version))
            )
            made.report(RUNS)
            await made.settle()
            assert len(made.group_bodies()) == writes


@pytest.mark.parametrize("why", ["gone", "another"])
async def test_nothing_is_written_to_what_is_not_there(serve: Serve, why: str) -> None:
    """A group that was deleted, or made anew under its name."""
    async with desk(serve) as made:
        assert made.group is not None
        made.group = None if why == "gone" else replace(made.group, uid="other")
        made.report(replace(WAITS, unplaced=()))
        await made.settle()
        assert made.calls == []


@pytest.mark.parametrize(("code", "outcome"), [(404, "notfound"), (403, "forbidden")])
async def test_a_refused_write_is_counted_and_left(serve: Serve, code: int, outcome: str) -> None:
    """What is gone, or forbidden, isn't asked for again and again."""
    async with desk(serve, lambda _: code) as made:
        made.report(WAITS)
        await made.settle()
        await made.settle()
        assert made.written == {("podgroup", outcome): 1, ("pod", outcome): 2}


async def test_a_group_whose_api_was_away_is_told_later(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else has changed meanwhile, so no cycle reports it again."""
    monkeypatch.setattr(write_queue, "REFUSED_SECONDS", 0.02)
    away = [404]
    async with desk(serve, lambda _: away.pop() if away else 200) as made:
        made.report(replace(WAITS, unplaced=()))
        await patience.until(lambda: made.written["podgroup", "written"])
        assert made.written["podgroup", "notfound"] == 1


async def test_a_bound_pod_is_not_told_that_it_waits(serve: Serve) -> None:
    """The condition that waits to be written is withdrawn; its event says Scheduled."""
    async with desk(serve) as made:
        made.report(WAITS)
        made.reporter.bound(Bind(task=a_task("a-0"), node="n1"))
        await made.settle()
        paths = [path for _, path, _ in made.calls]
        assert "/api/v1/namespaces/ns/pods/a-0/status" not in paths
        assert made.events()["Scheduled", "Pod"] == 1


async def test_a_group_that_starts_is_written_to_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its pods are seen on their nodes; not a moment before, too, that they are let in."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 1.0)
    starts = replace(RUNS, phase=Phase.INQUEUE, running=0)
    async with desk(serve) as made:
        made.report(starts, binds=(Bind(task=a_task("a-0"), node="n1"),))
        await asyncio.sleep(0.05)
        assert made.group_bodies() == []
        made.report(RUNS)
        await patience.until(made.group_bodies)
        await made.settle()
        assert [body["status"]["phase"] for body in made.group_bodies()] == ["Running"]


@pytest.mark.parametrize("code", [201, 409])
async def test_a_pod_is_told_once_that_its_time_is_up_soon(serve: Serve, code: int) -> None:
    """Another process records the same event, which the API server has already."""
    soon = EndsSoon(task=a_task("a-0"), at=1000.5, limit=3600.0)
    async with desk(serve, lambda _: code) as made:
        made.report(ends_soon=(soon,))
        made.report(ends_soon=(soon,))
        await made.settle()
        assert [body["metadata"]["name"] for _, _, body in made.calls] == ["a-0.3e9"]
        assert set(made.written) <= {("event", "written")}
        made.report(ends_soon=(replace(soon, at=2000.0),))
        await made.settle()
        assert made.events() == {("EndsSoon", "Pod"): 2}


async def test_an_evicted_pod_is_told_for_whom_it_went(serve: Serve) -> None:
    """Its condition, after the eviction, by UID; an event on it, and one on its group."""
    evict = Evict(task=a_task("a-0"), node="n1", action="reclaim", beneficiary=JobId("ns/needy"))
    async with desk(serve) as made:
        made.reporter.evicted(evict, STORED)
        made.reporter.lost([evict, replace(evict, task=a_task("a-1"))])
        await made.settle()
        (body,) = (body for _, path, body in made.calls if path.endswith("pods/a-0/status"))
        assert body["metadata"] == {"uid": "uid-a-0"}
        (condition,) = body["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "DisruptionTarget",
            "True",
            "PreemptionByScheduler",
        )
        said = "evicted from n1 by reclaim so that ns/needy can start"
        assert condition["message"] == said
        notes = {
            (body["type"], body["regarding"]["kind"], body["action"]): body["note"]
            for _, path, body in made.calls
            if path.endswith("/events")
        }
        assert notes == {
            ("Warning", "Pod", "Evicting"): said,
            ("Normal", "PodGroup", "Evicting"): (
                "2 pods evicted by reclaim so that ns/needy can start"
            ),
        }
        assert made.written["victim", "written"] == 1


NATIVE = jobs.native_id("ns", "a")
NATIVE_PATH = "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/a/status"


async def test_conditions_of_kubernetes_own_groups_are_merged(serve: Serve) -> None:
    """By UID: the conditions of others stay, whoever writes meanwhile."""
    async with desk(serve) as made:
        made.report(replace(WAITS, job=NATIVE), job=replace(STORED, id=NATIVE))
        await made.settle()
        ((method, body),) = ((m, body) for m, path, body in made.calls if path == NATIVE_PATH)
        assert method == "PATCH"
        assert body["metadata"] == {"uid": "uid-a"}
        assert body["status"].keys() == {"conditions"}
        assert made.events()["Unschedulable", "PodGroup"] == 1


TREE = jobs.composite_id("ns", "tree")
TREE_PATH = "/apis/scheduling.k8s.io/v1alpha3/namespaces/ns/compositepodgroups/tree/status"
PART = SubGroup(
    name="PodGroup a",
    minimum=1,
    selector=Selector((Requirement(jobs.POD_GROUP_LABEL, Operator.IN, ("a",)),)),
    keys=(jobs.POD_GROUP_LABEL,),
)


@pytest.mark.parametrize("starts", [True, False])
async def test_a_tree_and_its_groups_are_told(serve: Serve, *, starts: bool) -> None:
    """Each with the condition of its kind; a PodGroup has started with the pods that it needs."""
    task = replace(a_task("a-0"), job=TREE, labels={jobs.POD_GROUP_LABEL: "a"})
    tree = replace(STORED, id=TREE, name="tree", sub_groups=(PART,), tasks=(task,))
    async with desk(serve) as made:
        said = replace(RUNS if starts else WAITS, job=TREE)
        binds = (Bind(task=task, node="n1"),) if starts else ()
        for _ in range(2):
            made.report(said, job=tree, binds=binds)
            await made.settle()
        found = {
            (path, each["type"]): each["status"]
            for _, path, body in made.calls
            for each in body.get("status", {}).get("conditions", ())
            if path in (TREE_PATH, NATIVE_PATH)
        }
        assert found[TREE_PATH, "CompositePodGroupInitiallyScheduled"] == str(starts)
        assert found[NATIVE_PATH, "PodGroupInitiallyScheduled"] == str(starts)
        assert found[NATIVE_PATH, jobs.PHASE] == str(starts)
        assert len([path for _, path, _ in made.calls if path == NATIVE_PATH]) == 1


@pytest.mark.parametrize("away", [True, False])
async def test_a_group_of_a_tree_that_comes_again_is_told(serve: Serve, *, away: bool) -> None:
    """Another one of the same name, or the same one whose API was away when it was to be told."""
    task = replace(a_task("a-0"), job=TREE, labels={jobs.POD_GROUP_LABEL: "a"})
    tree = replace(STORED, id=TREE, name="tree", sub_groups=(PART,), tasks=(task,))
    said = replace(RUNS, job=TREE)
    async with desk(serve) as made:
        group = made.group
        assert group is not None
        made.report(said, job=tree, binds=(Bind(task=task, node="n1"),))
        if away:
            made.group = None
        await made.settle()
        told = [path for _, path, _ in made.calls if path == NATIVE_PATH]
        assert len(told) == (0 if away else 1)
        made.group = group if away else replace(group, uid="another")
        made.report(said, job=tree, binds=(Bind(task=task, node="n1"),))
        await made.settle()
        found = [body["metadata"]["uid"] for _, path, body in made.calls if path == NATIVE_PATH]
        assert found[len(told) :] == [group.uid if away else "another"]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_group_that_is_evicted_whole_is_told_so(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    """With kube-scheduler's condition, again if the API server is busy; not for single pods."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.01)
    task = replace(a_task("a-0"), job=NATIVE)
    evict = Evict(task=task, node="n1", action="reclaim", beneficiary=None, whole=whole)
    codes = [503, 200]
    async with desk(serve, lambda path: codes.pop(0) if path == NATIVE_PATH else 200) as made:
        made.reporter.lost([evict])
        await (patience.until(lambda: not codes) if whole else made.settle())
        bodies = [body for _, path, body in made.calls if path == NATIVE_PATH]
        assert len(bodies) == (2 if whole else 0)
        for body in bodies:
            (condition,) = body["status"]["conditions"]
            assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")


async def test_a_condition_that_the_server_had_no_time_for_is_written_again(serve: Serve) -> None:
    """Not where the pod is another, or gone, by then."""
    evict = Evict(task=a_task("a-0"), node="n1", action="reclaim", beneficiary=None)
    codes = [503, 200]
    async with desk(serve, lambda path: codes.pop(0) if "/pods/" in path else 200) as made:
        made.reporter.evicted(evict, STORED)
        await made.settle()
        assert made.written["victim", "written"] == 1
    for code in (404, 409):
        async with desk(serve, partial(_answer, code)) as made:
            made.reporter.evicted(evict, STORED)
            await made.settle()
            assert len([path for _, path, _ in made.calls if "/pods/" in path]) == 1


def _answer(code: int, path: str) -> int:
    """This code for pods, success for everything else."""
    return code if "/pods/" in path else 200


def nominations(made: Desk) -> list[tuple[str, str | None]]:
    """What was written to status.nominatedNodeName, by pod."""
    return [
        (path.split("/")[-2], body["status"]["nominatedNodeName"])
        for _, path, body in made.calls
        if path.endswith("/status") and "nominatedNodeName" in body.get("status", {})
    ]


async def test_a_pod_that_waits_for_room_says_where_until_it_does_no_more(serve: Serve) -> None:
    """Written once; another node is written anew; taken back when the promise is."""
    first, second = (Pipeline(task=a_task(f"a-{n}"), node="n1") for n in range(2))
    known = Pipeline(task=replace(a_task("a-2"), nominated_node="n1"), node="n1")
    async with desk(serve) as made:
        made.reporter.nominate([first, second, known])
        made.reporter.nominate([first])
        await made.settle()
        assert sorted(nominations(made)) == [("a-0", "n1"), ("a-1", "n1")]
        made.reporter.nominate([replace(first, node="n2")])
        await made.settle()
        assert nominations(made)[2:] == [("a-0", "n2")]
        kept = {TaskId("uid-a-0"): "n2"}
        made.report(
            carried=Carried(nominations=kept),
            binds=(Bind(task=a_task("a-1"), node="n1"),),
        )
        await made.settle()
        assert nominations(made)[3:] == [("a-2", None)]
        made.report()
        await made.settle()
        assert nominations(made)[4:] == [("a-0", None)]


def test_an_event_fits_into_its_bounds() -> None:
    """events.k8s.io/v1: notes up to 1 kB, times with microseconds, who reports."""
    notice = statuses.bound_notice(Bind(task=a_task("a-0"), node="n" * 2000))
    identity = Identity(controller="vscheduler", instance="i" * 300)
    body = json.loads(event_recorder.event_body(notice, "a-0.1", 1.5, identity))
    assert len(body["note"]) <= 1024
    assert len(body["reportingInstance"]) == 128
    assert body["eventTime"] == "1970-01-01T00:00:01.500000Z"
    assert (body["reportingController"], body["action"]) == ("vscheduler", "Binding")
    assert body["regarding"]["uid"] == "uid-a-0"


@pytest.mark.parametrize("adopted", [True, False])
async def test_pods_are_told_that_their_group_has_no_queue_if_that_lasts(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, adopted: bool
) -> None:
    """The controllers write one in a moment, as a rule: that is nothing to write about."""
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 1.0)
    pod = InvalidPod(
        uid=TaskId("uid-a-0"), namespace="ns", name="a-0", field="f", message="no queue"
    )
    waits = replace(WAITS, uid="", queue="", unplaced=(), rejections=(pod,))
    async with desk(serve) as made:

        def messages() -> list[str]:
            said = [body for _, path, body in made.calls if path.endswith("/a-0/status")]
            return [each["status"]["conditions"][0]["message"] for each in said]

        made.report(waits)
        await asyncio.sleep(0.05)
        assert messages() == []
        if adopted:
            made.report(WAITS)
        await patience.until(messages)
        await made.settle()
        assert ["no queue" in each for each in messages()] == [not adopted]
