"""Reasons of waiting pods that change, and change back."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.writes.test_status_writer import STORED, WAITS, desk
from vscheduler.cluster.writes import status_writer, write_queue
from vscheduler.model import jobs
from vscheduler.model.decisions import Evict, Pipeline, Reason, ReasonCode


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes of one object are spaced by milliseconds."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.01)
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.01)


@pytest.mark.parametrize("by", ["nobody", "this process", "an earlier process"])
async def test_a_reason_that_pods_need_not_know_replaces_an_older_one(
    serve: Serve, by: str
) -> None:
    """Such as a closed queue. The older reason might let an autoscaler add nodes."""
    closed = Reason(code=ReasonCode.QUEUE_CLOSED, queue="q")
    first, second = WAITS.unplaced
    async with desk(serve) as made:
        if by == "this process":
            made.report(replace(WAITS, unplaced=(first,)))
            await made.settle()
        elif by == "an earlier process":
            made.told_before = {first.uid}
        made.calls.clear()
        made.report(replace(WAITS, unplaced=(), withheld=(first, second), reason=closed))
        await made.settle()
        told = [(path, body) for _, path, body in made.calls if "/pods/" in path]
    assert [path.split("/")[-2] for path, _ in told] == ([] if by == "nobody" else ["a-0"])
    for _, body in told:
        assert body["status"]["conditions"][0]["reason"] == "QueueClosed"


async def test_a_pod_without_a_podgroup_is_told_whatever_it_waits_for(serve: Serve) -> None:
    """Nothing else can say it; what doesn't ask for nodes isn't called Unschedulable."""
    closed = Reason(code=ReasonCode.QUEUE_CLOSED, queue="q")
    first, _ = WAITS.unplaced
    job = jobs.pod_id("ns", "a-0")
    alone = replace(WAITS, job=job, uid="", unplaced=(), withheld=(first,), reason=closed)
    async with desk(serve) as made:
        made.report(alone, job=replace(STORED, id=job))
        await made.settle(0.3)
        (body,) = [body for _, path, body in made.calls if path.endswith("/pods/a-0/status")]
    assert body["status"]["conditions"][0]["reason"] == "QueueClosed"


@pytest.mark.parametrize("when", ["waits", "is under way", "got no answer", "was refused"])
async def test_a_pod_is_told_again_what_it_was_told_before_another_reason(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The reason is the old one again while the write of the other reason is still to come."""
    monkeypatch.setattr(write_queue, "REFUSED_SECONDS", 0.1)
    other = Reason(code=ReasonCode.TOO_FEW_PODS, queue="q", tasks=1, minimum=4)
    answers_to_pods = itertools.count(1)
    refused: list[dict[str, Any]] = []

    def answer(path: str) -> int:
        if "/pods/" not in path or next(answers_to_pods) != 3 or when == "waits":
            return 200
        made.report(WAITS)
        if when != "was refused":
            return 200 if when == "is under way" else 500
        refused.append(made.calls[-1][2])
        return 403

    async with desk(serve, answer) as made:
        made.report(WAITS)
        await made.settle()
        made.report(replace(WAITS, reason=other))
        if when == "waits":
            made.report(WAITS)
        await made.settle(0.3)
        pods = [call for call in made.calls if "/pods/" in call[1] and call[2] not in refused]
        said = {path: body["status"]["conditions"][0]["reason"] for _, path, body in pods}
        assert list(said.values()) == ["Unschedulable"] * 2


async def test_what_a_bind_says_of_a_pod_is_never_written_over(serve: Serve) -> None:
    """The bind overtakes the reason, which was under way before: the API server refuses it then.

    Later, the watch shows the pod on its node, and no reason is sent.
    """
    stored = {"a-0": 5, "a-1": 5}

    def answer(path: str) -> int:
        if "/pods/" not in path:
            return 200
        name, body = path.split("/")[-2], made.calls[-1][2]
        if name == "a-0" and stored["a-0"] == 5:  # bound, just before this patch arrives
            stored["a-0"], made.versions["uid-a-0"] = 6, None
        return 200 if body["metadata"].get("resourceVersion") == str(stored[name]) else 409

    async with desk(serve, answer) as made:
        made.report(WAITS)
        await made.settle(0.3)
        told = [path.split("/")[-2] for _, path, _ in made.calls if "/pods/" in path]
    assert sorted(told) == ["a-0", "a-1"]
    assert made.written["pod", "conflict"] == 1
    assert made.written["pod", "written"] == 1
    assert made.events()["FailedScheduling", "Pod"] == 1


async def test_a_reason_that_somebody_s_change_overtook_is_written_to_the_newest_pod(
    serve: Serve,
) -> None:
    """A label was set, say: the pod still waits, and is told why."""

    def answer(path: str) -> int:
        if "/pods/a-0/" not in path:
            return 200
        made.versions["uid-a-0"] = "6"
        return 200 if made.calls[-1][2]["metadata"]["resourceVersion"] == "6" else 409

    async with desk(serve, answer) as made:
        made.report(WAITS)
        await made.settle(0.3)
    assert made.written["pod", "written"] == 2


async def test_a_pod_that_is_bound_by_now_is_nominated_for_no_node(serve: Serve) -> None:
    """Its bind has cleared what it was nominated for."""
    first, _ = WAITS.unplaced
    async with desk(serve) as made:
        made.versions[first.uid] = None
        made.reporter.nominate([Pipeline(task=first, node="n1")])
        await made.settle()
        assert [path for _, path, _ in made.calls if "/pods/" in path] == []


async def test_a_refused_write_names_the_pod(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each kind of refusal, the first is in the log."""
    async with desk(serve, lambda path: 400 if "/pods/" in path else 200) as made:
        made.report(WAITS)
        await made.settle()
    (line,) = [
        splitline
        for splitline in capsys.readouterr().out.splitlines()
        if "write.failed" in splitline
    ]
    assert "ns/a-" in line
    assert "pod" in line


async def test_the_condition_of_a_victim_made_anew_is_nobodys_mistake(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its owner was faster than the write; the API server says that its UID is immutable."""
    first, _ = WAITS.unplaced
    evict = Evict(task=first, node="n1", action="reclaim", beneficiary=None)
    causes = {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]}
    async with desk(serve, lambda path: 422 if "/pods/" in path else 200, causes) as made:
        made.reporter.evicted(evict, STORED)
        await made.settle()
    assert made.written["victim", "conflict"] == 1
    assert "write.failed" not in capsys.readouterr().out
