"""Pods that the API server refuses to bind: who is told so, and for how long."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests import patience, running
from tests.unit.cluster.conftest import Serve
from tests.unit.cluster.writes.test_status_writer import a_task
from tests.unit.daemon import worlds
from vscheduler.cluster.writes import status_writer
from vscheduler.cluster.writes.binder import BindResult, Outcome
from vscheduler.daemon import scheduling_loop
from vscheduler.daemon.scheduling_loop import RefusedBinds
from vscheduler.model.decisions import Bind
from vscheduler.model.jobs import TaskId, TaskStatus
from vscheduler.model.snapshot import BindRefusal
from vscheduler.testing import pictures

REFUSED = BindResult.REFUSED


def outcome(name: str, verdict: BindResult = REFUSED, message: str = "denied") -> Outcome:
    """The result of a bind of this pod of ns/a."""
    bind = Bind(task=a_task(name), node="n1")
    return Outcome(bind=bind, verdict=verdict, message=message)


def refusal(message: str = "denied") -> BindRefusal:
    """What is kept of a refusal."""
    return BindRefusal(node="n1", message=message)


def everybody(uid: TaskId) -> bool:
    """No pod is gone."""
    return bool(uid)


def test_a_refusal_is_known_until_the_pod_is_bound_or_gone() -> None:
    """It is news once; another message is news as well."""
    known = RefusedBinds()
    assert known.take(outcome("a-0"))
    assert not known.take(outcome("a-0"))
    assert known.take(outcome("a-0", message="quota"))
    assert known.take(outcome("a-1"))
    assert known.current(everybody) == {"ns/a": {"uid-a-0": refusal("quota"), "uid-a-1": refusal()}}
    assert not known.take(outcome("a-0", BindResult.BOUND))
    assert known.current(everybody) == {"ns/a": {"uid-a-1": refusal()}}
    assert known.current(lambda _: False) == {}
    assert known.current(everybody) == {}


def test_neither_messages_nor_memory_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook writes the messages, and tenants make the pods."""
    monkeypatch.setattr(scheduling_loop, "PODS_MAX", 2)
    known = RefusedBinds()
    assert known.take(outcome("a-0", message="x" * 9999))
    ((told,),) = (each.values() for each in known.current(everybody).values())
    assert len(told.message) == scheduling_loop.LENGTH_MAX
    known.take(outcome("a-0", message="two\nlines \x1b[31m" + "\u202e" * 9999))
    ((told,),) = (each.values() for each in known.current(everybody).values())
    assert told.message.startswith(r"two\nlines \x1b[31m\u202e")
    assert len(told.message) == scheduling_loop.LENGTH_MAX
    for name in ("a-1", "a-2"):
        known.take(outcome(name))
    assert known.current(everybody) == {"ns/a": {"uid-a-2": refusal()}}


def true_conditions(statuses: list[dict[str, Any]]) -> set[str]:
    """Those that the newest status with conditions has."""
    *_, newest = ([], *(status["conditions"] for status in statuses if "conditions" in status))
    return {each["type"] for each in newest if each["status"] == "True"}


@pytest.mark.parametrize("minimum", [2, 1])
async def test_a_gang_is_not_scheduled_before_the_api_server_lets_its_pods_pass(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, minimum: int
) -> None:
    """Whose binding is refused is told so, by whom and why; a retry changes no status."""
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.3)
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.05)
    picture = f"node n1 cpu=4\nqueue default\njob default/a min={minimum} cpu=1 - -"
    refusals = {"/a-1/binding": [403] * 99}
    async with worlds.world(serve, picture, answers=refusals) as made:
        await patience.until(lambda: made.bound()["a-1"] >= 3)
        await patience.until(lambda: minimum == 1 or "to bind pod" in str(made.statuses("a")))
        refused = made.bound()["a-1"]
        refusals["/a-1/binding"].clear()
        await patience.until(lambda: made.bound()["a-1"] > refused)
        made.show(*pictures.documents(picture.replace("- -", "n1 n1"))[-2:])
        await patience.until(lambda: "Scheduled" in true_conditions(made.statuses("a")))
        await worlds.rest(made, 0.6)
        told = [
            body["status"]["conditions"][0]
            for _, path, body in made.calls
            if path.endswith("/pods/a-1/status")
        ]
        conditions = [
            {each["type"]: each for each in status["conditions"]}
            for status in made.statuses("a")
            if "conditions" in status
        ]
    message = "the API server refused to bind the pod to n1: no"
    assert [(each["reason"], each["message"]) for each in told] == [("SchedulerError", message)]
    if minimum == 1:
        assert [sorted(condition) for condition in conditions] == [["Scheduled"]]
        return
    # The gang is ready until the first refusal is known, and a slow answer lets that be written.
    while "Unschedulable" not in conditions[0]:
        conditions.pop(0)
    first, last = conditions
    assert first["Unschedulable"]["message"] == (
        "the API server refused to bind pod default/a-1 to n1: no"
    )
    assert first.get("Scheduled", {"status": "False"})["status"] == "False"
    assert (last["Scheduled"]["status"], last["Unschedulable"]["status"]) == ("True", "False")


def test_other_failures_say_nothing() -> None:
    """They pass by themselves."""
    known = RefusedBinds()
    for verdict in set(BindResult) - {REFUSED}:
        assert not known.take(replace(outcome("a-0"), verdict=verdict))
    assert known.current(everybody) == {}


async def test_another_refusal_is_told_during_the_pause(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else makes a cycle then."""
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.05)
    picture = "node n1 cpu=4\nqueue default\njob default/a min=1 cpu=1 -"
    pace = replace(worlds.PACE, retry_seconds=600.0, retry_max_seconds=600.0)
    async with worlds.world(serve, picture, pace=pace, answers={"/binding": [403] * 9}) as made:
        await patience.until(lambda: made.bound()["a-0"] == 2)
        await worlds.rest(made)
        ((task,),) = (job.tasks for job in made.mirror.snapshot(0.0).jobs)
        bind = Bind(task=task, node="n1")
        made.loop.take(Outcome(bind=bind, verdict=REFUSED, message="another"))
        await patience.until(lambda: "bind the pod to n1: another" in str(made.calls))
        assert made.bound()["a-0"] == 2


def test_three_refusals_in_a_row_last_until_the_pod_is_bound() -> None:
    """Any other answer in between ends the row."""
    known = RefusedBinds()
    for _ in range(2):
        known.take(outcome("a-0"))
        known.take(outcome("a-0"))
        assert not known.lasting_jobs
        known.take(outcome("a-0", BindResult.THROTTLED))
    for _ in range(3):
        assert not known.lasts(TaskId("uid-a-0"))
        known.take(outcome("a-0"))
    assert known.lasts(TaskId("uid-a-0"))
    assert not known.lasts(TaskId("uid-a-1"))
    assert known.lasting_jobs == {"ns/a"}
    known.take(outcome("a-0", BindResult.BOUND))
    assert not known.lasting_jobs


@pytest.mark.parametrize("code", [403, 400])
async def test_a_pod_that_may_not_be_bound_keeps_nobody_from_starting(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """After some refusals in a row, its place is free during the pause. Its reason names the
    refusal, also when the place is taken.
    """
    monkeypatch.setattr(status_writer, "GROUP_SPACING_SECONDS", 0.05)
    monkeypatch.setattr(status_writer, "POD_SPACING_SECONDS", 0.05)
    picture = (
        "node n1 cpu=1\nqueue default\njob default/a min=1 cpu=1 -\njob default/b min=1 cpu=1 -"
    )
    refusals = {"/a-0/binding": [code] * 999}
    message = "the API server refused to bind pod default/a-0 to n1: no"
    async with worlds.world(serve, picture, answers=refusals) as made:
        await patience.until(lambda: made.bound()["b-0"] >= 1)
        attempts = made.bound()["a-0"]
        await patience.until(lambda: f"; before, {message}" in str(made.statuses("a")))
        await worlds.rest(made)
        assert made.bound()["a-0"] == attempts
    # On a busy machine, a pause may be over before a cycle sees it.
    assert attempts >= scheduling_loop.LASTING
    assert "refused" not in str(made.statuses("b"))
    assert "SchedulingGated" not in str(made.calls)


async def test_nobody_is_evicted_for_a_pod_that_may_not_be_bound(serve: Serve) -> None:
    """The bind would be refused again, and the victims would be evicted in vain each time."""
    picture = """
        node n1 cpu=2
        queue gold
        queue lead
        job gold/a min=1 cpu=1 -
        job lead/b min=1 cpu=1 n1 -
    """
    tree = {"actions": "allocate, reclaim", "tiers": running.tiers("gang | proportion")}
    refusals = {"/a-0/binding": [403] * 999}
    async with worlds.world(serve, picture, tree=tree, answers=refusals) as made:
        await patience.until(lambda: made.bound()["b-1"] >= 1)
        there = pictures.documents(picture.replace("n1 -", "n1 n1"))
        made.show(*there[-1:])
        await patience.until(lambda: "; before, the API server refused" in str(made.statuses("a")))
        await worlds.rest(made)
    assert not [path for _, path, _ in made.calls if path.endswith("/eviction")]


async def test_a_session_leaves_no_pod_held_back(serve: Serve) -> None:
    """The next one knows nothing of the refusals."""
    picture = "node n1 cpu=1\nqueue default\njob default/a min=1 cpu=1 -"
    pace = replace(worlds.PACE, retry_seconds=0.01, retry_max_seconds=600.0)
    async with worlds.world(serve, picture, pace=pace, answers={"/binding": [403] * 999}) as made:
        await patience.until(lambda: made.bound()["a-0"] >= scheduling_loop.LASTING)

        def statuses() -> set[TaskStatus]:
            return {task.status for job in made.mirror.snapshot(0.0).jobs for task in job.tasks}

        await patience.until(lambda: statuses() == {TaskStatus.GATED})
    assert statuses() == {TaskStatus.PENDING}
