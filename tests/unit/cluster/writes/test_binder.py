import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests import answers
from tests.unit.cluster.conftest import Handler, Serve
from vscheduler.cluster.writes import binder
from vscheduler.cluster.writes.binder import Binder, BindResult, Outcome, Stamp, Still
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.model.decisions import Bind
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId, TaskStatus

REFUSAL = (
    "pods \"a-0\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
)
KIND = PodClass(request={"pods": 1})
Verdict = BindResult


def a_bind(name: str = "a-0", node: str = "n1") -> Bind:
    """A decision to bind a pod."""
    task = Task(
        uid=TaskId(f"uid-{name}"),
        namespace="ns",
        name=name,
        job=JobId("ns/a"),
        pod_class=KIND,
        status=TaskStatus.PENDING,
        created=0.0,
    )
    return Bind(task=task, node=node)


async def commit(
    serve: Serve,
    handler: Handler,
    binds: list[Bind],
    may_commit: Callable[[], bool] = lambda: True,
    stamp: Stamp | None = None,
    *,
    workers: int = 2,
    still: Still = lambda _: True,
) -> list[Outcome]:
    """Send binds to a server and collect what comes of them."""
    queue = WriteQueue(workers=workers, waiting_max=1)
    outcomes: list[Outcome] = []
    committer = Binder(await serve(handler), queue, may_commit, stamp=stamp)
    task = asyncio.create_task(queue.run())
    committer.bind(binds, outcomes.append, still)
    await asyncio.wait_for(queue.wait_until_quiet(), 40)
    task.cancel()
    await asyncio.wait([task])
    return outcomes


async def test_a_bind_names_the_pod_by_its_uid(serve: Serve) -> None:
    """The whole request: path, UID as a precondition, target."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, json.loads(await request.read())))
        return web.Response(status=201)

    bind = a_bind()
    assert await commit(serve, answer, [bind]) == [Outcome(bind=bind, verdict=Verdict.BOUND)]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a-0", "namespace": "ns", "uid": "uid-a-0"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    assert seen == [("POST", "/api/v1/namespaces/ns/pods/a-0/binding", body)]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (404, Verdict.MISSING),
        (409, Verdict.CONFLICT),
        (403, Verdict.REFUSED),
        (422, Verdict.REFUSED),
        (429, Verdict.THROTTLED),
    ],
)
async def test_a_refusal_is_an_outcome(serve: Serve, code: int, verdict: Verdict) -> None:
    """Whatever the server says, with its words; nothing is raised."""

    async def answer(_: web.Request) -> web.Response:
        details = {"retryAfterSeconds": 0.001}
        return web.json_response({"message": "no", "details": details}, status=code)

    bind = a_bind()
    (outcome,) = await commit(serve, answer, [bind])
    assert outcome == Outcome(bind=bind, verdict=verdict, message="no")


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        ({"uid": "uid-a-0", "spec": {"nodeName": "n1"}}, Verdict.BOUND),
        ({"uid": "uid-a-0", "spec": {"nodeName": "n2"}}, Verdict.CONFLICT),
        ({"uid": "uid-a-0", "spec": {}}, Verdict.FAILED),
        ({"uid": "other", "spec": {}}, Verdict.MISSING),
        (404, Verdict.MISSING),
        (403, Verdict.UNKNOWN),
    ],
)
async def test_a_bind_without_a_clear_answer_is_looked_after(
    serve: Serve, pod: dict[str, Any] | int, verdict: Verdict
) -> None:
    """A server that broke down may have bound the pod: the pod itself says."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.Response(status=500)
        if isinstance(pod, int):
            return web.Response(status=pod)
        return web.json_response(answers.an_object(request.path, **pod))

    (outcome,) = await commit(serve, answer, [a_bind()])
    assert outcome.verdict is verdict


async def test_a_busy_server_is_asked_again(serve: Serve) -> None:
    """429 is waited out, as long as the server says, before it is an outcome."""
    answers = [429, 429, 201]

    async def answer(_: web.Request) -> web.Response:
        details = {"retryAfterSeconds": 0.001}
        return web.json_response({"details": details}, status=answers.pop(0))

    (outcome,) = await commit(serve, answer, [a_bind()])
    assert outcome.verdict is Verdict.BOUND


async def test_nothing_is_sent_without_leave(serve: Serve) -> None:
    """Leave is asked for before each bind: those after it is withdrawn stay unsent."""
    sent = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.path)
        return web.Response(status=201)

    binds = [a_bind(f"a-{n}") for n in range(4)]
    outcomes = await commit(serve, answer, binds, lambda: len(sent) < 2, workers=1)
    bound, withheld = [Verdict.BOUND] * 2, [Verdict.WITHHELD] * 2
    assert [outcome.verdict for outcome in outcomes] == bound + withheld
    assert len(sent) == 2


async def test_one_that_waited_for_its_connection_asks_again(serve: Serve) -> None:
    """Leave that ends after it was given, and before the bytes are written."""
    sent = []
    leave = [True, False]

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.path)
        return web.Response(status=201)

    (outcome,) = await commit(serve, answer, [a_bind()], lambda: leave.pop(0))
    assert (outcome.verdict, sent, leave) == (Verdict.WITHHELD, [], [])


async def test_one_that_is_overtaken_is_not_sent(serve: Serve) -> None:
    """Whether it is still right is asked for each bind, and again as its bytes are written."""
    sent = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.path.split("/")[-2])
        return web.Response(status=201)

    right = {"a-0": [True, True], "a-1": [False], "a-2": [True, False]}
    binds = [a_bind(name) for name in right]
    outcomes = await commit(serve, answer, binds, still=lambda bind: right[bind.task.name].pop(0))
    found = {outcome.bind.task.name: outcome.verdict for outcome in outcomes}
    overtaken = Verdict.OVERTAKEN
    assert found == {"a-0": Verdict.BOUND, "a-1": overtaken, "a-2": overtaken}
    assert (sent, right) == (["a-0"], {"a-0": [], "a-1": [], "a-2": []})


async def test_a_bind_says_who_binds_where_there_is_an_election(serve: Serve) -> None:
    """Without one there is nobody to name, and no annotation."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(json.loads(await request.read())["metadata"])
        return web.Response(status=201)

    stamp = Stamp(holder="host_1", doubt=lambda _: None)
    await commit(serve, answer, [a_bind()], stamp=stamp)
    await commit(serve, answer, [a_bind()])
    whose = {"name": "a-0", "namespace": "ns", "uid": "uid-a-0"}
    assert seen == [{**whose, "annotations": {"vscheduler.io/lease-holder": "host_1"}}, whose]


async def test_one_that_is_fenced_raises_doubts_before_the_next_is_sent(serve: Serve) -> None:
    """The server knows better who holds the Lease: what waits is withheld."""
    sent = []
    doubts: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.path)
        return web.json_response({"message": f"{REFUSAL}fenced: not yours"}, status=422)

    stamp = Stamp(holder="host_1", doubt=doubts.append)
    binds = [a_bind(f"a-{n}") for n in range(5)]
    outcomes = await commit(serve, answer, binds, lambda: not doubts, stamp)
    fenced = [outcome for outcome in outcomes if outcome.verdict is Verdict.FENCED]
    assert 1 <= len(fenced) == len(sent) <= 2, "as many as there are workers"
    assert (
        doubts == [each.message for each in fenced] == [f"{REFUSAL}fenced: not yours"] * len(sent)
    )
    assert [outcome.verdict for outcome in outcomes if outcome not in fenced] == [
        Verdict.WITHHELD
    ] * (5 - len(fenced))


@pytest.mark.parametrize(
    ("code", "message", "verdict"),
    [
        (422, f"{REFUSAL}no binds on Fridays", Verdict.REFUSED),
        (422, "Binding is invalid: fenced: off", Verdict.REFUSED),
        (403, f"{REFUSAL}fenced: not yours", Verdict.REFUSED),
        (409, f"{REFUSAL}fenced: not yours", Verdict.CONFLICT),
    ],
)
async def test_other_refusals_raise_no_doubts(
    serve: Serve, code: int, message: str, verdict: Verdict
) -> None:
    """Only what our own policy says, as it says it, is about the Lease."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": message}, status=code)

    doubts: list[str] = []
    stamp = Stamp(holder="host_1", doubt=doubts.append)
    (outcome,) = await commit(serve, answer, [a_bind()], stamp=stamp)
    assert (outcome.verdict, doubts) == (verdict, [])


@pytest.mark.contains_failures
async def test_a_bind_that_the_scheduler_fails_at_may_have_been_done(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome isn't known, and is told like any other; the next bind is sent."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=201)

    real = binder.binding_body
    left = [ZeroDivisionError()]

    def body(bind: Bind, holder: str) -> bytes:
        if left:
            raise left.pop()
        return real(bind, holder)

    monkeypatch.setattr(binder, "binding_body", body)
    outcomes = await commit(serve, answer, [a_bind(), a_bind()])
    assert [outcome.verdict for outcome in outcomes] == [Verdict.UNKNOWN, Verdict.BOUND]
