import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests import answers, running
from tests.unit.cluster.conftest import Serve
from vscheduler.cluster.writes import evictor as evicting
from vscheduler.cluster.writes.evictor import EvictionResult, Evictor, Outcome, Plan
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.decisions import OVERDUE, CycleResult, Evict, Pipeline
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.snapshot import Budget, Carried

KIND = PodClass(request={"pods": 1})
NEEDY = JobId("ns/needy")
Verdict = EvictionResult
Answer = Callable[[str, bool], int]
"""The HTTP status for a pod's name, and whether it is a rehearsal."""


def a_task(name: str, job: str = "ns/a", **fields: Any) -> Task:
    """A pod that runs on n1."""
    return Task(
        uid=TaskId(f"uid-{name}"),
        namespace="ns",
        name=name,
        job=JobId(job),
        pod_class=KIND,
        status=TaskStatus.RUNNING,
        created=0.0,
        node="n1",
        **fields,
    )


def an_evict(name: str, beneficiary: JobId | None = NEEDY, **fields: Any) -> Evict:
    """A decision to evict a pod."""
    whole, action = bool(fields.pop("whole", False)), str(fields.pop("action", "reclaim"))
    return Evict(
        task=a_task(name, **fields),
        node="n1",
        action=action,
        beneficiary=beneficiary,
        whole=whole,
    )


def result(
    *evicts: Evict, pipelined: tuple[Task, ...] = (), kept: tuple[str, ...] = ()
) -> CycleResult:
    """What a cycle decided about evictions."""
    return msgspec.structs.replace(
        running.EMPTY,
        pipelined=tuple(Pipeline(task=task, node="n1") for task in pipelined),
        evicts=evicts,
        carried=Carried(nominations={TaskId(uid): "n1" for uid in kept}),
    )


class Desk:
    """What the server was asked, and what was told and reported."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        """Of the lanes, at each call."""
        self.calls: list[tuple[str, str, dict[str, Any] | None]] = []
        self.most = 0
        """Calls that were under way at the same time."""
        self.told: list[str] = []
        self.outcomes: list[Outcome] = []

    def sent(self) -> list[tuple[str, bool]]:
        """Evictions that were asked for: the pod, and whether as a rehearsal."""
        return [
            (path.split("/")[-2], "dryRun" in body["deleteOptions"])
            for method, path, body in self.calls
            if method == "POST" and body is not None
        ]

    def verdicts(self) -> list[Verdict]:
        """Of the only plan."""
        (outcome,) = self.outcomes
        return [step.verdict for step in outcome.steps]


async def carry_out(
    serve: Serve,
    evicts: list[Evict],
    answer: Answer = lambda *_: 201,
    *,
    pod: dict[str, Any] | int = 404,
    may_commit: Callable[[], bool] = lambda: True,
    covered: int = 0,
) -> Desk:
    """Carry one plan out on a server; `pod` is what a read of a pod gives."""
    desk = Desk()
    queue = WriteQueue(workers=2, waiting_max=1)
    under_way = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal under_way
        under_way += 1
        desk.most = max(desk.most, under_way)
        try:
            await asyncio.sleep(0.001)  # so that calls overlap
            return await respond(request)
        finally:
            under_way -= 1

    async def respond(request: web.Request) -> web.Response:
        text = await request.read()
        body = json.loads(text) if text else None
        desk.calls.append((request.method, request.path, body))
        desk.steps.append(queue.steps)
        if body is None:
            if isinstance(pod, int):
                return web.json_response({"message": "no"}, status=pod)
            return web.json_response(answers.an_object(request.path, **pod))
        if request.method == "DELETE":
            code = answer(request.path.split("/")[-1], "dryRun" in body)
            return web.json_response({"message": "no"}, status=code)
        code = answer(request.path.split("/")[-2], "dryRun" in body["deleteOptions"])
        details: dict[str, Any] = {"retryAfterSeconds": 0.001}
        if code == 4290:
            code, details = 429, {"causes": [{"reason": "DisruptionBudget", "message": "x"}]}
        return web.json_response({"message": "no", "details": details}, status=code)

    evictor = Evictor(await serve(handle), queue, may_commit)
    task = asyncio.create_task(queue.run())
    plan = Plan(evicts=tuple(evicts), covered=covered)
    evictor.carry_out(plan, lambda evict: desk.told.append(evict.task.name), desk.outcomes.append)
    await asyncio.wait_for(queue.wait_until_quiet(), 40)
    task.cancel()
    await asyncio.wait([task])
    return desk


async def test_a_plan_is_rehearsed_whole_and_then_done(serve: Serve) -> None:
    """The whole requests: path, UID as a precondition, dryRun in the first round only."""
    desk = await carry_out(serve, [an_evict("a-0"), an_evict("a-1")])
    assert desk.sent() == [("a-0", True), ("a-1", True), ("a-0", False), ("a-1", False)]
    assert (desk.verdicts(), desk.told) == ([Verdict.EVICTED] * 2, ["a-0", "a-1"])
    rehearsal, _, real, _ = desk.calls
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a-0", "namespace": "ns"},
        "deleteOptions": {"preconditions": {"uid": "uid-a-0"}},
    }
    assert real == ("POST", "/api/v1/namespaces/ns/pods/a-0/eviction", body)
    assert rehearsal[2] is not None
    assert rehearsal[2]["deleteOptions"] == {
        "preconditions": {"uid": "uid-a-0"},
        "dryRun": ["All"],
    }
    (outcome,) = desk.outcomes
    assert outcome.obstacle is None
    assert [evict.task.name for evict in outcome.evicted] == ["a-0", "a-1"]


async def test_a_pod_whose_time_is_up_is_deleted(serve: Serve) -> None:
    """No budget is asked, and its UID is a precondition. One pod alone needs no dry run."""
    desk = await carry_out(serve, [an_evict("a-0", None, action=OVERDUE)], lambda *_: 200)
    uid = {"preconditions": {"uid": "uid-a-0"}}
    path = "/api/v1/namespaces/ns/pods/a-0"
    assert desk.calls == [("DELETE", path, uid)]
    assert (desk.verdicts(), desk.told) == ([Verdict.EVICTED], ["a-0"])


async def test_a_newer_pod_is_not_deleted(serve: Serve) -> None:
    """Nor one that is gone, and nothing is told of either."""
    evicts, newer = [an_evict("a-0", None, action=OVERDUE)], {"metadata": {"uid": "other"}}
    for code, pod in ((409, newer), (404, 404)):
        desk = await carry_out(serve, evicts, lambda *_, code=code: code, pod=pod)
        assert (desk.verdicts(), desk.told) == ([Verdict.GONE], [])


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (4290, Verdict.PROTECTED),
        (403, Verdict.REFUSED),
        (422, Verdict.REFUSED),
        (429, Verdict.THROTTLED),
        (500, Verdict.FAILED),
    ],
)
async def test_nothing_is_sent_of_a_plan_of_which_a_part_is_refused(
    serve: Serve, code: int, verdict: Verdict
) -> None:
    """The first refusal ends the rehearsal; those before and after it are spared."""
    evicts = [an_evict(f"a-{number}") for number in range(3)]
    desk = await carry_out(serve, evicts, lambda name, _: code if name == "a-1" else 201)
    assert all(rehearsal for _, rehearsal in desk.sent())
    assert "a-2" not in {name for name, _ in desk.sent()}
    assert desk.verdicts() == [Verdict.SPARED, verdict, Verdict.SPARED]
    (outcome,) = desk.outcomes
    assert outcome.obstacle is not None
    assert (outcome.obstacle.evict, outcome.obstacle.message) == (evicts[1], "no")
    assert (outcome.evicted, desk.told) == ((), [])


async def test_a_budget_is_not_waited_for(serve: Serve) -> None:
    """429 of a PodDisruptionBudget is an answer; 429 of a busy server is asked again."""
    desk = await carry_out(serve, [an_evict("a-0")], lambda *_: 4290)
    assert len(desk.sent()) == 1
    answers = [429, 429, 201, 429, 201]
    desk = await carry_out(serve, [an_evict("a-0")], lambda *_: answers.pop(0))
    assert desk.verdicts() == [Verdict.EVICTED]


async def test_a_refusal_after_the_rehearsal_leaves_the_rest_alone(serve: Serve) -> None:
    """What was evicted before it is told of; nothing more is sent."""
    evicts = [an_evict(f"a-{number}") for number in range(3)]

    def answer(name: str, rehearsal: bool) -> int:
        return 403 if name == "a-1" and not rehearsal else 201

    desk = await carry_out(serve, evicts, answer)
    assert desk.sent()[3:] == [("a-0", False), ("a-1", False)]
    assert desk.verdicts() == [Verdict.EVICTED, Verdict.REFUSED, Verdict.SPARED]
    assert desk.told == ["a-0"]
    assert [evict.task.name for evict in desk.outcomes[0].evicted] == ["a-0"]


async def test_a_pod_that_has_gone_is_no_obstacle(serve: Serve) -> None:
    """404, or another pod of that name: its room is free; nobody is told that it was evicted."""
    evicts = [an_evict("a-0"), an_evict("a-1")]
    desk = await carry_out(serve, evicts, lambda name, _: 404 if name == "a-0" else 201)
    assert (desk.verdicts(), desk.told) == ([Verdict.GONE, Verdict.EVICTED], ["a-1"])
    other = {"uid": "other"}
    desk = await carry_out(serve, evicts, lambda name, _: 409 if name == "a-0" else 201, pod=other)
    assert desk.verdicts() == [Verdict.GONE, Verdict.EVICTED]


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        ({"uid": "uid-a-0", "metadata": {"deletionTimestamp": "now"}}, Verdict.EVICTED),
        ({"uid": "uid-a-0"}, Verdict.FAILED),
        ({"uid": "other"}, Verdict.GONE),
        (404, Verdict.GONE),
        (403, Verdict.UNKNOWN),
    ],
)
async def test_an_eviction_without_a_clear_answer_is_looked_after(
    serve: Serve, pod: dict[str, Any] | int, verdict: Verdict
) -> None:
    """A server that broke down may have done it: the pod itself says."""
    desk = await carry_out(
        serve, [an_evict("a-0")], lambda _, rehearsal: 201 if rehearsal else 500, pod=pod
    )
    assert desk.verdicts() == [verdict]
    assert bool(desk.told) == (verdict is Verdict.EVICTED)


async def test_a_long_plan_is_seen_to_go_on(serve: Serve) -> None:
    """Each eviction is a call of its own."""
    desk = await carry_out(serve, [an_evict("a-0"), an_evict("a-1")])
    assert desk.steps == [0, 1, 2, 3]


async def test_pods_of_a_long_plan_go_several_at_a_time(serve: Serve) -> None:
    """A refusal ends it with those that were under way; pods under a budget go one by one."""
    evicts = [an_evict(f"a-{number:02}") for number in range(32)]

    def refused(name: str, rehearsal: bool) -> int:
        return 403 if name == "a-04" and not rehearsal else 201

    for covered in (0, 6):
        desk = await carry_out(serve, evicts, refused, covered=covered)
        real = [name for name, rehearsal in desk.sent() if not rehearsal]
        assert sorted(real) == [f"a-{number:02}" for number in range(5 if covered else 8)]
        assert desk.verdicts()[4] is Verdict.REFUSED
        assert desk.verdicts()[len(real) :] == [Verdict.SPARED] * (32 - len(real))
        assert sorted(desk.told) == [name for name in sorted(real) if name != "a-04"]
        assert desk.outcomes[0].obstacle is not None


async def test_evictions_keep_to_the_limit_of_the_queue(serve: Serve) -> None:
    """Of a long plan as well: while the API server is busy, fewer calls are made at once."""
    desk = await carry_out(serve, [an_evict(f"a-{number:02}") for number in range(64)])
    assert desk.verdicts() == [Verdict.EVICTED] * 64
    assert desk.most <= 2


async def test_nothing_is_sent_without_leave(serve: Serve) -> None:
    """Leave is asked for before each call, in the middle of a plan too."""
    leave = [True] * 6 + [False]  # asked for twice: before a call, and as it is written
    evicts = [an_evict("a-0"), an_evict("a-1")]
    desk = await carry_out(serve, evicts, may_commit=lambda: leave.pop(0))
    assert len(desk.sent()) == 3
    assert desk.verdicts() == [Verdict.EVICTED, Verdict.WITHHELD]


def test_one_plan_makes_room_for_one_job() -> None:
    """With the pods that wait for that room; who has no promise claims nothing."""
    other = JobId("ns/other")
    waits = a_task("w", "ns/needy")
    pipelined = (waits, a_task("x", "ns/needy"), a_task("y", "ns/other"))
    found = evicting.plans(
        result(
            *(an_evict("a-0"), an_evict("b-0", other), an_evict("a-1")),
            pipelined=pipelined,
            kept=("uid-w", "uid-y"),
        ),
        (),
    )
    assert [[evict.task.name for evict in plan.evicts] for plan in found] == [
        ["a-0", "a-1"],
        ["b-0"],
    ]
    assert [plan.beneficiary for plan in found] == [NEEDY, other]
    assert [[nomination.task.name for nomination in plan.nominations] for plan in found] == [
        ["w"],
        ["y"],
    ]


def test_without_a_beneficiary_only_a_whole_gang_goes_together() -> None:
    """Other pods don't depend on each other."""
    evicts = [an_evict(name, None) for name in ("a-0", "a-1")]
    gang = [an_evict(name, None, job="ns/g", whole=True) for name in ("g-0", "g-1")]
    found = evicting.plans(result(*evicts, *gang), ())
    assert [[evict.task.name for evict in plan.evicts] for plan in found] == [
        ["a-0"],
        ["a-1"],
        ["g-0", "g-1"],
    ]
    assert {plan.nominations for plan in found} == {()}


def test_pods_under_a_budget_go_first() -> None:
    """Their eviction is the likeliest to be refused; the order is kept otherwise."""
    covers = Requirement(key="app", operator=Operator.IN, values=("x",))
    budget = Budget(
        namespace="ns",
        name="b",
        selector=Selector(requirements=(covers,)),
        allowed=1,
    )
    evicts = [an_evict("a-0"), an_evict("a-1"), an_evict("a-2", labels={"app": "x"})]
    (plan,) = evicting.plans(result(*evicts), (budget,))
    assert [evict.task.name for evict in plan.evicts] == ["a-2", "a-0", "a-1"]
    (plan,) = evicting.plans(result(*evicts), ())
    assert [evict.task.name for evict in plan.evicts] == ["a-0", "a-1", "a-2"]


@pytest.mark.contains_failures
async def test_a_plan_that_the_scheduler_fails_at_is_told_of(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It isn't begun; who waits for its end hears of it."""

    def body(*_: object, **__: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(evicting, "eviction_body", body)
    desk = await carry_out(serve, [an_evict("a-0"), an_evict("a-1")])
    assert desk.verdicts() == [Verdict.UNKNOWN, Verdict.SPARED]
    assert desk.calls == []
