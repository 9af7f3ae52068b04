import pytest

from tests.unit.core import sessions
from vscheduler.core.framework import contracts, gangs
from vscheduler.core.model import decisions, jobs
from vscheduler.core.plugins import gang, priority

Status = jobs.TaskStatus
LETTERS = {
    "p": Status.PENDING,
    "g": Status.GATED,
    "a": Status.ALLOCATED,
    "w": Status.PIPELINED,
    "+": Status.BINDING,
    "r": Status.RUNNING,
    "x": Status.RELEASING,
    "s": Status.SUCCEEDED,
    "f": Status.FAILED,
    "b": Status.PENDING,
}


def drawn(minimum: int, picture: str, **roles: int) -> gangs.Gang:
    """A gang with one pod per word: `m:r` runs in role m, `b` is pending and asks for nothing."""
    nothing = sessions.kind(cpu=0)
    tasks = []
    for place, word in enumerate(picture.split()):
        role, _, letter = word.rpartition(":")
        of = nothing if letter == "b" else None
        tasks.append(sessions.task("j", place, LETTERS[letter], of, role=role))
    return gangs.Gang(sessions.job("j", *tasks, min_member=minimum, min_task_member=roles))


PLUGIN = gang.Gang({})
BOTH = {"m": 1, "w": 1}
CASES = {
    "all wait": (drawn(2, "p p"), False, False),
    "the minimum has room": (drawn(2, "a + p"), True, True),
    "pods that run or are done count": (drawn(3, "r s a"), True, True),
    "pods that fail or leave don't": (drawn(2, "r x f"), False, False),
    "part of it waits for room": (drawn(2, "a w"), False, True),
    "pods that ask for nothing count while they wait": (drawn(3, "a w b"), False, True),
    "only pods that ask for nothing": (drawn(2, "b b"), True, True),
    "each role has its minimum": (drawn(2, "m:a w:a", **BOTH), True, True),
    "one role waits": (drawn(2, "m:a w:w", **BOTH), False, True),
    "one role is short": (drawn(2, "m:a m:a w:p", **BOTH), False, False),
    "a role of pods that ask for nothing": (drawn(2, "m:a w:b", **BOTH), True, True),
    "pods of another role don't stand in": (drawn(2, "m:a m:b w:p", **BOTH), False, False),
    "role minima above minMember are ignored": (drawn(1, "m:a w:p", **BOTH), True, True),
    "no minimum": (drawn(0, "p"), True, True),
}


@pytest.mark.parametrize(("subject", "ready", "pipelined"), CASES.values(), ids=CASES)
def test_a_gang_is_ready_with_its_minimum(
    subject: gangs.Gang, ready: bool, pipelined: bool
) -> None:
    """Ready: room now. Pipelined: room now or later."""
    assert PLUGIN.job_ready(subject) is ready
    assert PLUGIN.job_pipelined(subject) is pipelined


VALID = {
    "enough pods, gated ones included": (drawn(3, "r p g"), None),
    "too few": (drawn(3, "r x f p"), (decisions.ReasonCode.TOO_FEW_PODS, "", 2, 3)),
    "too few of a role, which comes first": (
        drawn(4, "m:p w:x", m=1, w=2),
        (decisions.ReasonCode.TOO_FEW_OF_ROLE, "w", 0, 2),
    ),
    "the first role by name": (
        drawn(2, "o:p", m=1, a=1),
        (decisions.ReasonCode.TOO_FEW_OF_ROLE, "a", 0, 1),
    ),
    "role minima above minMember are ignored": (drawn(1, "m:p", m=1, w=1), None),
}


@pytest.mark.parametrize(("subject", "reason"), VALID.values(), ids=VALID)
def test_a_gang_needs_its_pods(
    subject: gangs.Gang, reason: tuple[decisions.ReasonCode, str, int, int] | None
) -> None:
    """The reason has the numbers."""
    found = PLUGIN.job_valid(subject)
    said = found and (found.code, found.role, found.tasks, found.minimum)
    assert said == reason
    assert found is None or found.queue == "q"


def test_orders() -> None:
    """Gangs without their minimum first; the more important job and pod first."""
    waits, runs = drawn(2, "r p"), drawn(1, "r p")
    assert sorted([runs, waits], key=PLUGIN.job_key) == [waits, runs]
    orders = priority.Priority({})
    low, high = (
        gangs.Gang(sessions.job("j", sessions.task("j", priority=weight), priority=weight))
        for weight in (-5, 7)
    )
    assert sorted([low, high], key=orders.job_key) == [high, low]
    tasks: list[contracts.Key] = [orders.task_key(each.job.tasks[0]) for each in (low, high)]
    assert tasks[1] < tasks[0]  # type: ignore[operator]  # both are numbers
