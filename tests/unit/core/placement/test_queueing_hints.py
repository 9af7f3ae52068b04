"""Jobs without room stay out of cycles until something changes that could help them."""

import dataclasses
from typing import Any, ClassVar, NoReturn

import pytest

from tests import running
from tests.unit.core.placement.unschedulable_cluster import PICTURE, TREE, WAITING, Around, waiting
from vscheduler.core import actions, compat, cycle, plugins
from vscheduler.core.api.contracts import FilterResult, Plugin
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.config import policy
from vscheduler.core.config.policy import Policy
from vscheduler.core.memo import unschedulable_jobs
from vscheduler.core.memo.unschedulable_jobs import UnschedulableGroups
from vscheduler.core.session import unschedulable_pool
from vscheduler.core.session.unschedulable_pool import UnschedulablePool
from vscheduler.core.shares import node_domains
from vscheduler.model.decisions import CycleResult, GroupStatus, ReasonCode
from vscheduler.model.jobs import JobId, Task, TaskId
from vscheduler.model.queues import Queue
from vscheduler.model.snapshot import FRESH, NO_MEMOS
from vscheduler.testing import pictures


def test_jobs_without_room_are_left_out() -> None:
    """Their reasons and statuses are those of the last cycle, and nobody makes their states."""
    around = waiting()
    assert around.unschedulable == WAITING
    first = {group.job: group for group in around.cycle().groups}
    second = {group.job: group for group in around.cycle().groups}
    assert all(second[JobId(job)] is first[JobId(job)] for job in WAITING)
    opened = around.opened()
    assert [job.job.id for job in opened.waiting_jobs()] == []
    assert [job.job.id for job in opened.unfinished_jobs()] == sorted(WAITING)


def test_jobs_that_fit_by_now_are_woken() -> None:
    """One pod ends, so that one pod of 6 cpu has room; a job that had its turn in vain
    is unschedulable
    after the next cycle.
    """
    around = waiting()
    around.end("there-0")
    result = around.cycle()
    assert [bind.task.name for bind in result.binds] == ["a1-0"]
    assert around.unschedulable == WAITING - {"default/a1", "default/a2"}
    assert around.mirror.assume(result.binds[0].task.uid, "n1", around.now)
    assert not around.cycle().binds
    assert around.unschedulable == WAITING - {"default/a1"}


def test_more_room_elsewhere_is_no_help_but_changes_reasons() -> None:
    """The largest hole is on another node, where the pods still don't fit."""
    around = waiting(PICTURE.replace("cpu=6", "cpu=7"))
    around.end("there-2")
    result = around.cycle()
    assert not result.binds or {bind.task.name for bind in result.binds} == {"b1-0", "b1-1"}
    (reason,) = [group.reason for group in result.groups if group.job == "default/a1"]
    assert reason is not None
    assert {hole.node for hole in reason.holes} == {"n2"}
    assert {"default/a1", "default/a2"} <= around.unschedulable


SHORT = """
    node n1 cpu=8 memory=8Gi   node n2 cpu=8 memory=1Gi   node n3 cpu=1 memory=7000Mi
    queue q   queue r
    job r/there min=1 cpu=2 memory=600Mi phase=Running n1*3
    job q/a1 min=1 cpu=4 memory=7Gi phase=Inqueue -
"""
"""Most cpu is free on n2, and most memory on n3; n1 has 2 cpu and 6392Mi."""


def refusals(result: CycleResult) -> dict[str, int]:
    """On how many nodes the job a1 lacks each resource."""
    (reason,) = [group.reason for group in result.groups if group.job == "default/a1"]
    assert reason is not None
    return {refusal.subject: count for refusal, count in reason.refusals}


def test_a_node_that_has_just_enough_no_longer_counts() -> None:
    """Of cpu, so that the job still doesn't fit."""
    around = waiting(SHORT)
    assert refusals(around.cycle()) == {"cpu": 2, "memory": 3}
    around.end("there-0")
    assert refusals(around.cycle()) == {"cpu": 1, "memory": 3}
    around.change("Pod", "there-0", status={"phase": "Running"})
    assert refusals(around.cycle()) == {"cpu": 2, "memory": 3}


@pytest.mark.parametrize(("node", "largest"), [("n1", "n2"), ("n2", "n1")])
def test_reasons_follow_the_largest_hole(node: str, largest: str) -> None:
    """A pod starts on a node, and ends; of nodes that are equal, the first one is named."""
    around = waiting(
        """
        node n1 cpu=8   node n2 cpu=8   queue q
        job q/a1 min=1 cpu=7 phase=Inqueue -
        job q/there min=1 cpu=2 phase=Running n1 n2
        """
    )
    more = f"node {node} cpu=8   queue q   job q/more min=1 cpu=1 phase=Running {node}"
    group, pod = pictures.documents(more)[2:]
    around.show(group)
    for phase, expected in (("Running", largest), ("Succeeded", "n1"), ("Running", largest)):
        around.show({**pod, "status": {"phase": phase}})
        (reason,) = [group.reason for group in around.cycle().groups if group.job == "default/a1"]
        assert reason is not None
        assert [(hole.node, hole.free) for hole in reason.holes] == [(expected, 6000.0)]


@pytest.mark.parametrize(
    ("kind", "name", "parts"),
    [
        ("Node", "n3", {"spec": {"unschedulable": True}}),
        ("Queue", "q", {"spec": {"weight": 3}}),
    ],
)
def test_other_nodes_and_queues_wake_all(kind: str, name: str, parts: dict[str, Any]) -> None:
    """What jobs may use has changed, and all of them are looked at again."""
    around = waiting()
    around.change(kind, name, **parts)
    assert around.unschedulable == set()
    around.cycle()
    assert around.unschedulable == WAITING


@pytest.mark.parametrize(
    "picture",
    [
        "job q/other min=1 cpu=2 scheduler=other nominated=n1 -",
        "job q/apart min=1 cpu=1 label=app=db apart=app=db@host phase=Pending -",
    ],
    ids=["nominated", "anti-affinity"],
)
def test_pods_that_others_must_respect_wake_all(picture: str) -> None:
    """More than resources then decides where pods may go."""
    around = waiting()
    for document in pictures.documents(f"queue q {picture}")[1:]:
        around.show(document)
    assert around.unschedulable == set()
    around.cycle()
    assert around.unschedulable == set()


def test_a_node_that_is_avoided_wakes_all() -> None:
    """It is avoided for a while only, and reasons say so."""
    around = waiting()
    status = {"phase": "Failed", "reason": "OutOfcpu", "startTime": pictures.NOW.isoformat()}
    around.change("Pod", "there-5", status=status)
    assert around.unschedulable == set()
    around.cycle()
    assert around.unschedulable == set()


def test_nominations_wake_all() -> None:
    """Room that evictions made is kept for single pods."""
    around = waiting()
    nominations = {TaskId("a1-00000"): "n1"}
    around.carried = dataclasses.replace(around.carried, nominations=nominations)
    assert around.unschedulable == set()


def test_another_configuration_wakes_all() -> None:
    """Whatever the difference is."""
    around = waiting()
    around.policy = running.policy_of({**TREE, "actions": "enqueue, allocate"})
    assert around.unschedulable == set()


def test_too_many_kinds_of_nodes_wake_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all domains are told apart then, and how they are merged depends on all pods."""
    around = waiting()
    monkeypatch.setattr(node_domains, "DOMAINS_MAX", 1)
    around.show(pictures.documents("queue q job q/late cpu=5 select=zone=a -")[1])
    around.show(pictures.documents("queue q job q/late cpu=5 select=zone=a -")[2])
    around.cycle()
    assert around.unschedulable == set()


def test_a_job_that_changes_is_woken() -> None:
    """The others stay where they are."""
    around = waiting()
    around.change("PodGroup", "a1", spec={"queue": "q", "minMember": 2})
    assert around.unschedulable == WAITING - {"default/a1"}
    around.cycle()


def test_what_was_promised_ends_in_time() -> None:
    """A job whose admission expires is active, and the cycle is due at that time."""
    around = waiting(PICTURE.replace("job q/b1 min=2", "job q/b1 min=2 minresources=cpu:10"))
    assert around.unschedulable == WAITING
    around.now += 10.0
    result = around.cycle()
    assert result.wake_at == around.now + 590.0
    around.now += 590.0
    assert around.unschedulable == WAITING - {"default/b1"}
    around.cycle()
    assert around.unschedulable == WAITING - {"default/b1"}


HELD = """
    node n1 cpu=8   queue q
    job q/there min=1 cpu=6 phase=Running n1
"""


@pytest.mark.parametrize("settings", ["port=80", "apart=app=db@host label=app=db", "subgroups=1x1"])
def test_pods_that_wait_for_more_than_resources_stay_awake(settings: str) -> None:
    """Host ports and other pods decide as well, or which pods of a group are placed."""
    around = waiting(f"{HELD} job q/a min=1 cpu=4 phase=Inqueue {settings} -")
    assert around.unschedulable == set()


class Moody(Plugin):
    """A plugin that may refuse pods for reasons of its own."""

    name = "moody"
    refuses: ClassVar[bool] = False

    def allocatable(self, queue: object, task: Task) -> bool:
        """Answer as it likes."""
        del queue, task
        return not self.refuses


class Steady(Moody):
    """The same, but it declares when its answers change."""

    name = "steady"

    def _refuses(self, _: object) -> bool:
        return self.refuses

    @depends_on(On.QUEUE, fingerprint=_refuses)
    def allocatable(self, queue: object, task: Task) -> bool:
        """Answer as it likes."""
        return super().allocatable(queue, task)


class Full(Plugin):
    """A plugin for which a queue has enough, or has not."""

    name = "full"
    refuses: ClassVar[bool] = False

    def _refuses(self, _: object) -> bool:
        return self.refuses

    @depends_on(On.QUEUE, fingerprint=_refuses)
    def overused(self, queue: object) -> bool:
        """Answer as it likes."""
        return self._refuses(queue)


def with_plugin(plugin: type[Plugin]) -> Policy:
    """The configuration with one more plugin."""
    tree = {**TREE, "tiers": [*TREE["tiers"], {"plugins": [{"name": plugin.name}]}]}
    parsed = policy.parse(tree, (*plugins.PLUGINS, plugin), actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None, parsed.problems
    return parsed.policy


class Picky(Plugin):
    """A plugin with a filter that declares nothing."""

    name = "picky"

    @depends_on(On.NOTHING)
    def class_nodes(self, *_: object) -> None:
        """All nodes."""

    def filter_nodes(self, *_: object) -> list[FilterResult]:
        """All nodes."""
        return []


def test_a_filter_that_declares_nothing_has_all_jobs_active() -> None:
    """Comparing its answers about all nodes would cost as much as the jobs."""
    around = Around()
    around.policy = with_plugin(Picky)
    around.cycle()
    assert around.unschedulable == set()


@pytest.mark.parametrize("plugin", [Moody, Steady, Full])
def test_what_plugins_say_about_queues_is_heard_at_once(
    plugin: type[Plugin], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not they declare it: jobs without room are left out all the same."""
    around = Around()
    around.policy = with_plugin(plugin)
    around.cycle()
    assert around.unschedulable == WAITING
    monkeypatch.setattr(plugin, "refuses", True)
    codes = {group.reason.code for group in around.cycle().groups if group.reason is not None}
    assert codes == {ReasonCode.PLUGIN_REFUSED}


class Labelled(Plugin):
    """A plugin that reads a label of the Queue."""

    name = "labelled"

    @depends_on(On.QUEUE)
    def allocatable(self, queue: Queue, task: Task) -> str | None:
        """Say what the label says."""
        del task
        return queue.labels.get("acme.io/closed")


def test_a_label_of_a_queue_is_heard_of_at_once() -> None:
    """Jobs that wait without being asked about are told what the plugin makes of it."""
    around = Around()
    around.policy = with_plugin(Labelled)
    around.cycle()
    assert around.unschedulable == WAITING
    metadata = around.documents["Queue", "q"]["metadata"] | {"labels": {"acme.io/closed": "tax"}}
    around.change("Queue", "q", metadata=metadata)
    found = {group.reason.subject for group in around.cycle().groups if group.reason is not None}
    assert found == {"tax"}


def test_reasons_follow_what_the_queue_has() -> None:
    """Where the queue may have the pod, only room is lacking, and the other way round."""
    around = waiting(
        """
        node n1 cpu=5   node n2 cpu=3   queue q capability=cpu:4   queue r
        job q/own min=1 cpu=2 phase=Running n1   job r/there min=1 cpu=2 phase=Running n1
        job q/a1 min=1 cpu=4 phase=Inqueue -
        """
    )
    code = ReasonCode
    for phase, expected in (
        ("Succeeded", code.NO_ROOM),
        ("Running", code.QUEUE_OVER_SHARE),
        ("Succeeded", code.NO_ROOM),
    ):
        assert around.unschedulable == {"default/a1"}
        around.change("Pod", "own-0", status={"phase": phase})
        found = [group.reason for group in around.cycle().groups if group.job == "default/a1"]
        assert [reason and reason.code for reason in found] == [expected]


def test_reasons_are_told_within_the_budget() -> None:
    """What the budget doesn't suffice for is told by the next cycles, and wakes nobody."""
    around = waiting(PICTURE.replace("cpu=6", "cpu=7"))
    around.end("there-2")
    around.show(pictures.documents("queue q job q/late min=1 cpu=2 phase=Inqueue -")[1])
    told: dict[JobId, GroupStatus] = {}
    for _ in range(6):
        result = around.cycle(60)
        told |= {group.job: group for group in result.groups}
        if result.finished:
            break
    assert result.finished
    final = {group.job: group for group in around.cycle().groups}
    assert {job: told[job] for job in final} == final


MANY = """
    node n1 cpu=8   node n2 cpu=8   queue q
    job q/there min=1 cpu=2 phase=Running n1 n2
    job q/a min=1 cpu=7 phase=Inqueue -      job q/b min=1 cpu=7500m phase=Inqueue -
    job q/c min=1 cpu=7700m phase=Inqueue -  job q/d min=1 cpu=7800m phase=Inqueue -
"""
"""Four kinds of jobs, whose reasons all name the largest hole."""


def test_nothing_is_said_of_those_for_whom_the_budget_is_too_small() -> None:
    """Neither the old reason nor a new one; the next cycles go on with them."""
    around = waiting(MANY)
    around.cycle()
    assert len(around.unschedulable) == 4
    around.show(pictures.documents("node n1 cpu=8 queue q job q/e min=1 cpu=1 phase=Running n1")[2])
    around.show(pictures.documents("node n1 cpu=8 queue q job q/e min=1 cpu=1 phase=Running n1")[3])
    told = {group.job: group.reason for group in around.cycle(150).groups if group.reason}
    assert 1 <= len(told) < 4
    assert {hole.node for each in told.values() for hole in each.holes} == {"n2"}
    assert len(around.opened().unschedulable.unchecked) == 4 - len(told)
    while not around.cycle(150).finished:
        pass
    assert not around.opened().unschedulable.unchecked
    around.cycle()


def test_what_is_left_of_groups_stays_stale() -> None:
    """Whoever leaves them, and whoever joins."""
    around = waiting()
    groups = around.opened().unschedulable.found.groups
    found = UnschedulableGroups(groups, {groups[0]})
    left = found.only({JobId("default/a2"), JobId("default/b1")})
    assert [list(group.members) for group in left.unchecked] == [["default/a2"]]
    one, other = (groups[0].only({job}) for job in groups[0].members)
    assert one is not None
    assert other is not None
    joined = unschedulable_pool.merged([one, other, groups[1]], {one})
    assert [list(group.members) for group in joined.unchecked] == [["default/a1", "default/a2"]]
    assert not unschedulable_pool.merged([one, other, groups[1]], {groups[1]}).unchecked.isdisjoint(
        groups
    )


def test_each_resource_has_a_largest_hole_of_its_own() -> None:
    """One node has most of both; then another has more memory, and no more cpu."""
    around = waiting(
        """
        node n1 cpu=8 memory=8Gi   node n2 cpu=7 memory=7Gi   queue q
        job q/a2 min=1 cpu=7500m memory=7500Mi phase=Inqueue -
        job q/there min=1 cpu=1 memory=2Gi phase=Running n1
        job q/other min=1 cpu=1 memory=3Gi phase=Running n2
        """
    )
    around.cycle()
    around.end("other-0")
    result = around.cycle()
    (reason,) = [group.reason for group in result.groups if group.job == "default/a2"]
    assert reason is not None
    assert {hole.resource: hole.node for hole in reason.holes} == {"cpu": "n1", "memory": "n2"}


def test_a_rest_that_was_left_out_is_told_later() -> None:
    """An unchecked group has no status, and keeps its jobs unschedulable."""
    around = waiting()
    groups = around.opened().unschedulable.found.groups
    found = UnschedulablePool(UnschedulableGroups(groups, {groups[0]}))
    assert {status.job for status in found.now().statuses} == WAITING - groups[0].members.keys()
    assert found.now() is found.found
    found.set_reason(groups[0], groups[0].reason)
    assert {status.job for status in found.now().statuses} == WAITING


@pytest.mark.parametrize("declares", [False, True])
def test_nothing_is_kept_after_a_plugin_failed(*, declares: bool) -> None:
    """The cycle started again, with answers that may not be those of the plugin."""

    def fail(*_: object) -> NoReturn:
        raise ValueError

    def allow(*_: object) -> bool:
        return True

    method = depends_on(On.QUEUE, fingerprint=fail)(allow) if declares else fail
    taken = Around().mirror.snapshot(pictures.NOW.timestamp(), FRESH)
    failing = type("Failing", (Steady,), {"name": "failing", "allocatable": method})
    result = cycle.run_cycle(taken, with_plugin(failing))
    assert [fault.hook for fault in result.faults] == ["allocatable"]
    assert result.carried.memos is NO_MEMOS


def test_groups_are_in_order_of_their_first_jobs() -> None:
    """Whoever leaves a group; and a group without jobs is none."""
    around = waiting()
    found = around.opened().unschedulable.found
    assert [list(group.members) for group in found.groups] == [
        ["default/a1", "default/a2"],
        ["default/b1"],
    ]
    left = found.only({JobId("default/a2"), JobId("default/b1")})
    assert [list(group.members) for group in left.groups] == [["default/a2"], ["default/b1"]]
    assert found.only(set()).groups == unschedulable_jobs.NO_GROUPS.groups
