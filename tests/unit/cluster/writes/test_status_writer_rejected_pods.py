"""What pods are told that can't be used."""

import pytest
from msgspec.structs import replace

from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.writes.test_status_writer import WAITS, a_task, desk
from vscheduler.cluster.writes import status_writer
from vscheduler.model.jobs import InvalidPod, TaskId


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rests are short."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.01)
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.01)


def rejected(name: str, field: str) -> InvalidPod:
    """A pod of the job with something wrong in this field."""
    uid = TaskId(f"uid-{name}")
    return InvalidPod(uid=uid, namespace="ns", name=name, field=field, message="no")


async def test_a_pod_that_cant_be_used_is_told_once_and_anew_when_it_is_for_another_field(
    serve: Serve,
) -> None:
    """With an event each time; and once it is repaired, whatever it waits for then."""
    async with desk(serve) as made:
        seen = replace(WAITS, unplaced=(), rejections=(rejected("a-0", "spec.x"),))
        for running in range(2):
            made.report(replace(seen, running=running))
            await made.settle()
        assert made.written["pod", "written"] == 1
        assert made.events()["FailedScheduling", "Pod"] == 1
        made.report(replace(seen, rejections=(rejected("a-0", "spec.y"),)))
        await made.settle()
        made.report(replace(WAITS, unplaced=(a_task("a-0"),)))
        await made.settle()
        path = "/api/v1/namespaces/ns/pods/a-0/status"
        bodies = [body for _, called, body in made.calls if called == path]
        told = [body["status"]["conditions"][0] for body in bodies]
        assert [(each["reason"], each["status"]) for each in told] == [
            *[("SchedulerError", "False")] * 2,
            ("Unschedulable", "False"),
        ]
        assert [each["message"] for each in told[:2]] == [
            f"the pod can't be used: {field}: no" for field in ("spec.x", "spec.y")
        ]
        assert bodies[0]["metadata"] == {"uid": "uid-a-0", "resourceVersion": "5"}
        assert made.events()["FailedScheduling", "Pod"] == 3


async def test_what_pods_were_told_is_remembered_while_they_wait(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many others go, and whether a job that is reported has them or none."""
    monkeypatch.setattr(status_writer, "REASONS_SLACK", 0)
    async with desk(serve) as made:
        many = tuple(rejected(f"p-{at}", "spec.x") for at in range(4))
        seen = replace(WAITS, unplaced=(), rejections=many[:3])
        for running in range(3):
            made.report(replace(seen, running=running))
            made.reporter.without_group(many[3], "all such pods have one")
            await made.settle()
            made.versions[many[0].uid] = None
        assert made.written["pod", "written"] == len(many)
        made.versions.clear()
        made.report(replace(seen, running=3))
        await made.settle()
        assert made.written["pod", "written"] == len(many) + 1
