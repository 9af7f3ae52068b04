"""Reasons of waiting pods that change, and change back."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.writes.test_status_writer import WAITS, desk
from vscheduler.cluster.writes import status_writer, write_queue
from vscheduler.core.model import decisions


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
    closed = decisions.Reason(code=decisions.ReasonCode.QUEUE_CLOSED, queue="q")
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


@pytest.mark.parametrize("when", ["waits", "is under way", "got no answer", "was refused"])
async def test_a_pod_is_told_again_what_it_was_told_before_another_reason(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The reason is the old one again while the write of the other reason is still to come."""
    monkeypatch.setattr(write_queue, "REFUSED_SECONDS", 0.1)
    other = decisions.Reason(code=decisions.ReasonCode.TOO_FEW_PODS, queue="q", tasks=1, minimum=4)
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
