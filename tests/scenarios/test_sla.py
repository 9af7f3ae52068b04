from typing import Any

import pytest

from tests import running
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

NOW = pictures.NOW.timestamp()
BORN = pictures.BORN.timestamp()


def cycle(
    picture: str, waits: dict[str, str], *, wait: str | None = None, **more: Any
) -> CycleResult:
    """One cycle in which overcommit and gang say no to most; waits: annotations by job."""
    arguments = {"arguments": {"sla-waiting-time": wait}} if wait else {}
    tree = {
        "actions": "enqueue, allocate",
        "tiers": [
            {"plugins": [{"name": "sla", **arguments}]},
            *running.tiers("gang | overcommit predicates"),
        ],
        **more,
    }
    documents = pictures.documents(picture)
    for document in documents:
        name = document["metadata"]["name"]
        if document["kind"] == "PodGroup" and name in waits:
            document["metadata"]["annotations"] = {"volcano.sh/sla-waiting-time": waits[name]}
    options = Options(claim_unowned=True, now=NOW)
    return run.simulate(documents, running.policy_of(tree), options).last


def phases(result: CycleResult) -> dict[str, str]:
    """By job."""
    return {status.job.partition("/")[2]: str(status.phase) for status in result.groups}


HUGE = """
    node  n1 cpu=4
    queue q
    job   q/a phase=Pending minresources=cpu:40
    job   q/b phase=Pending minresources=cpu:40
    """


@pytest.mark.parametrize(
    ("waits", "wait", "admitted"),
    [
        ({}, None, set()),
        ({"a": "1h"}, None, {"a"}),
        ({"a": "60m1s"}, None, set()),
        ({"a": "2h"}, "30m", {"b"}),
        ({}, "1h", {"a", "b"}),
    ],
    ids=["no time", "over", "not yet over", "its own before the plugin's", "the plugin's"],
)
def test_a_group_that_waited_for_long_enough_is_let_in(
    waits: dict[str, str], wait: str | None, admitted: set[str]
) -> None:
    """An hour after they were made, whatever overcommit says."""
    result = cycle(HUGE, waits, wait=wait)
    assert {job for job, phase in phases(result).items() if phase == "Inqueue"} == admitted


def test_the_daemon_is_told_when_a_waiting_time_is_over() -> None:
    """The first of them."""
    assert cycle(HUGE, {"a": "3h", "b": "2h"}).wake_at == BORN + 2 * 3600
    assert cycle(HUGE, {}).wake_at is None


def test_the_job_whose_time_is_over_first_comes_first() -> None:
    """One node: the sooner takes it; a job without a time comes last."""
    picture = """
        node  n1 cpu=1
        queue q
        job   q/a age=50 -   job q/b -   job q/c -
        """
    (bind,) = cycle(picture, {"b": "5h", "c": "4h"}).binds
    assert bind.task.name == "c-0"


def test_room_is_held_for_a_job_whose_time_is_over() -> None:
    """Two of its four pods fit: nobody else gets that room, until it can start."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/big min=4 -*4   job q/small -   job q/runs n1*2
        """
    assert [bind.task.name for bind in cycle(picture, {"big": "2h"}).binds] == ["small-0"]
    late = cycle(picture, {"big": "1h"})
    assert late.binds == ()
    assert {each.task.name for each in late.pipelined} == {"big-0", "big-1"}


@pytest.mark.parametrize("text", ["soon", "0", "0s", "-5m", "10"])
def test_a_waiting_time_that_can_not_be_read_is_said(text: str) -> None:
    """Volcano passes over it, and takes the plugin's."""
    result = cycle(HUGE, {"a": text}, wait="1h")
    assert phases(result) == {"a": "Pending", "b": "Inqueue"}
    (told,) = [group.reason for group in result.groups if group.job == "default/a"]
    assert told is not None
    assert told.code is ReasonCode.BAD_SETTING
    assert "volcano.sh/sla-waiting-time" in told.subject
    assert text in told.subject
    ignored = cycle(HUGE, {"a": text}, wait="1h", compatibility="volcano")
    assert phases(ignored) == {"a": "Inqueue", "b": "Inqueue"}


def test_a_job_that_was_let_in_before_is_told_as_well() -> None:
    """Its annotation was changed since."""
    result = cycle("node n1 cpu=4 queue q job q/a -", {"a": "soon"})
    assert result.binds == ()
    assert [group.reason and group.reason.code for group in result.groups] == [
        ReasonCode.BAD_SETTING
    ]
