from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.core import sessions
from vscheduler.core import compat
from vscheduler.core.api.contracts import Key
from vscheduler.core.compat.plugins import VolcanoGang
from vscheduler.core.config import cycle_rules
from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.core.plugins.gang import Gang
from vscheduler.core.plugins.priority import Priority
from vscheduler.core.session.job_state import JobState
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.decisions import ReasonCode
from vscheduler.model.jobs import Job, SubGroup, TaskStatus

Status = TaskStatus
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


def drawn(minimum: int, picture: str, **roles: int) -> JobState:
    """A gang with one pod per word: `m:r` runs in role m, `b` is pending and asks for nothing."""
    nothing = sessions.pod_class(cpu=0)
    tasks = []
    for place, word in enumerate(picture.split()):
        role, _, letter = word.rpartition(":")
        of = nothing if letter == "b" else None
        tasks.append(sessions.task("j", place, LETTERS[letter], of, role=role))
    return JobState(sessions.job("j", *tasks, min_member=minimum, min_task_member=roles))


PLUGIN = Gang({})
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
def test_a_gang_is_ready_with_its_minimum(subject: JobState, ready: bool, pipelined: bool) -> None:
    """Ready: room now. Pipelined: room now or later."""
    assert PLUGIN.job_ready(subject) is ready
    assert PLUGIN.job_pipelined(subject) is pipelined


VALID = {
    "enough pods, gated ones included": (drawn(3, "r p g"), None),
    "too few": (drawn(3, "r x f p"), (ReasonCode.TOO_FEW_PODS, "", 2, 3)),
    "too few of a role, which comes first": (
        drawn(4, "m:p w:x", m=1, w=2),
        (ReasonCode.TOO_FEW_OF_ROLE, "w", 0, 2),
    ),
    "the first role by name": (
        drawn(2, "o:p", m=1, a=1),
        (ReasonCode.TOO_FEW_OF_ROLE, "a", 0, 1),
    ),
    "role minima above minMember are ignored": (drawn(1, "m:p", m=1, w=1), None),
}


@pytest.mark.parametrize(("subject", "reason"), VALID.values(), ids=VALID)
def test_a_gang_needs_its_pods(
    subject: JobState, reason: tuple[ReasonCode, str, int, int] | None
) -> None:
    """The reason has the numbers."""
    found = PLUGIN.job_valid(subject)
    said = found and (found.code, found.role, found.tasks, found.minimum)
    assert said == reason
    assert found is None or found.queue == "q"


def divided(min_member: int, picture: str, **policy: Any) -> Job:
    """A job with one pod per word, `a:r` with the label part=a, in sub-groups of two by it."""
    job = drawn(min_member, picture).job
    tasks = tuple(
        replace(task, labels={"part": task.role} if task.role else {}) for task in job.tasks
    )
    sub_group = SubGroup(**{"name": "by part", "size": 2, "keys": ("part",), **policy})
    return replace(job, tasks=tasks, sub_groups=(sub_group,))


SUB_GROUPS = {
    "all have their pods": ("a:p a:p b:p b:g", 2, None, False, False),
    "one lacks a pod": ("a:p a:p b:p", 2, (1, 2), False, False),
    "pods that failed aren't there": ("a:p a:f", 1, (0, 1), False, False),
    "one is enough": ("a:r a:a b:p", 1, None, True, True),
    "one has room, one will have": ("a:r a:a b:w b:a", 2, None, False, True),
    "one is torn": ("a:a b:a", 1, (0, 1), False, False),
    "pods that ask for nothing count while they wait": ("a:a a:b", 1, None, True, True),
    "and are there once": ("a:b", 1, (0, 1), False, False),
    "none is needed": ("a:a", 0, None, True, True),
    "pods without the label are in none": ("a a", 1, (0, 1), False, False),
}


@pytest.mark.parametrize(
    ("picture", "minimum", "lacking", "ready", "pipelined"), SUB_GROUPS.values(), ids=SUB_GROUPS
)
def test_a_job_needs_whole_sub_groups(
    picture: str, minimum: int, lacking: tuple[int, int] | None, ready: bool, pipelined: bool
) -> None:
    """As many as its policy says, whatever minMember says."""
    subject = JobState(divided(1, picture, minimum=minimum))
    reason = PLUGIN.job_valid(subject)
    assert (reason and (reason.tasks, reason.minimum)) == lacking
    if reason is not None:
        assert reason.code is ReasonCode.TOO_FEW_SUB_GROUPS
        assert reason.subject == "by part"
    assert PLUGIN.job_ready(subject) is ready
    assert PLUGIN.job_pipelined(subject) is pipelined


def test_sub_groups_follow_what_the_cycle_does() -> None:
    """Placed and taken back again."""
    subject = JobState(divided(2, "a:p a:p", minimum=1))
    tasks = subject.job.tasks
    for task in tasks:
        subject.move(task, Status.ALLOCATED, "n1")
    assert PLUGIN.job_ready(subject)
    subject.move(tasks[0], Status.PIPELINED, "n1")
    assert not PLUGIN.job_ready(subject)
    assert PLUGIN.job_pipelined(subject)
    subject.move(tasks[0], Status.PENDING, None)
    assert not PLUGIN.job_pipelined(subject)


@pytest.mark.parametrize(
    ("rules", "valid"), [(cycle_rules.DEFAULT, True), (compat.VOLCANO.rules, False)]
)
def test_a_policy_without_keys_makes_one_sub_group(rules: CycleRules, valid: bool) -> None:
    """Of all pods that its selector matches; in Volcano it never has any."""
    selector = Selector((Requirement("part", Operator.IN, ("a",)),))
    job = divided(1, "a:p a:p b:p", minimum=1, keys=(), selector=selector)
    subject = JobState(job, rules)
    assert (PLUGIN.job_valid(subject) is None) is valid


def test_a_pod_is_in_the_first_policy_that_it_matches() -> None:
    """The others don't count it."""
    job = divided(1, "a:p a:p", minimum=1)
    job = replace(job, sub_groups=(*job.sub_groups, replace(job.sub_groups[0], name="second")))
    reason = PLUGIN.job_valid(JobState(job))
    assert reason is not None
    assert (reason.subject, reason.tasks) == ("second", 0)


@pytest.mark.parametrize(
    ("picture", "spared"),
    [
        ("a:r a:r", [False, False]),
        ("a:r a:r a:r", [True, True, True]),
        ("a:r a:r b:r r", [False, False, True, True]),
    ],
)
def test_a_whole_sub_group_spares_no_pod(picture: str, spared: list[bool]) -> None:
    """Only what it has above its size, and pods that are in no whole one."""
    subject = JobState(divided(0, picture, minimum=1))
    assert [subject.spares(task) for task in subject.job.tasks] == spared


@pytest.mark.parametrize(
    ("picture", "whole"),
    [("a:r a:w", True), ("a:p a:w", False), ("b:p a:r a:w", True), ("r w", True), ("p p", True)],
)
def test_nobody_is_evicted_for_a_part_of_a_sub_group(picture: str, whole: bool) -> None:
    """Sub-groups of which nothing was placed don't count."""
    subject = JobState(divided(1, picture))
    assert subject.sub_groups is not None
    placed = [task for task in subject.job.tasks if task.status is Status.PIPELINED]
    assert all(map(subject.sub_groups.is_complete, placed)) is whole


@pytest.mark.parametrize(("kind", "expected"), [(Gang, [0, 0, 1, 2]), (VolcanoGang, [0, 1, 0, 1])])
def test_gangs_without_their_minimum_come_first(kind: type[Gang], expected: list[int]) -> None:
    """Of these such as have started; in Volcano's way they are all alike."""
    plugin = kind({})
    plugin.open(sessions.opened())
    broken, fresh, whole = drawn(2, "r p"), drawn(2, "p p"), drawn(1, "r p")
    headless = drawn(2, "w:r w:r m:p", **BOTH)
    keys = [plugin.job_key(each) for each in (broken, headless, fresh, whole)]
    assert keys == expected


def test_orders() -> None:
    """The more important job and pod first."""
    orders = Priority({})
    low, high = (
        JobState(sessions.job("j", sessions.task("j", priority=weight), priority=weight))
        for weight in (-5, 7)
    )
    assert sorted([low, high], key=orders.job_key) == [high, low]
    tasks: list[Key] = [orders.task_key(each.job.tasks[0]) for each in (low, high)]
    assert tasks[1] < tasks[0]  # type: ignore[operator]  # both are numbers
