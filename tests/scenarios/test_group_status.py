"""What PodGroups are told: their phase, whether they have their minimum, why pods wait."""

from typing import Any

import pytest

from tests import running
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import GroupStatus, ReasonCode
from vscheduler.model.jobs import Condition, GroupState, Phase
from vscheduler.model.snapshot import BindRefusal, Carried, Reported
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

TIERS = "priority gang | predicates proportion"
WAYS = pytest.mark.parametrize("volcano", [False, True], ids=["ours", "volcano"])


def told(
    picture: str,
    *finished: str,
    actions: str = "allocate, backfill",
    volcano: bool = False,
    end: str = "Succeeded",
    queues: bool = True,
) -> GroupStatus:
    """What one cycle says of group a; the pods of these names have this end."""
    documents = [each for each in pictures.documents(picture) if queues or each["kind"] != "Queue"]
    for document in documents:
        if document["metadata"]["name"] in finished:
            document["status"]["phase"] = end
        if document["kind"] == "PodGroup":
            name = {"scheduling.volcano.sh/scheduler-name": pictures.SCHEDULER}
            document["metadata"].setdefault("annotations", {}).update(name)
    tree: dict[str, Any] = {"actions": actions, "tiers": running.tiers(TIERS)}
    if volcano:
        tree["compatibility"] = "volcano"
    groups = running.run(documents, tree).groups
    return next(status for status in groups if status.job.endswith("/a"))


def conditions(status: GroupStatus, *known: Condition) -> dict[str, str]:
    """The PodGroup's conditions by type, on top of those that are known."""
    stored = GroupState(conditions=known)
    state = statuses.group_state(status, stored, now=0.0, transition="1")
    return {condition.type: condition.status for condition in state.conditions}


IDLERS = {
    "none fits": ("node n1 cpu=4 queue q job q/a min=1 select=zone=x -@0 -@0", 2),
    "not all fit": ("node n1 cpu=4 pods=1 queue q job q/a min=2 -@0 -@0", 2),
    "some are there": ("node n1 cpu=4 pods=1 queue q job q/a min=2 phase=Running n1 -@0", 1),
    "in a role": ("node n1 cpu=4 pods=1 queue q job q/a min=2 roles=x:1,y:1 x:-@0 y:-@0", 2),
}


@WAYS
@pytest.mark.parametrize(("picture", "left"), IDLERS.values(), ids=IDLERS)
def test_members_that_ask_for_nothing_make_no_minimum_while_they_wait(
    picture: str, left: int, volcano: bool
) -> None:
    """The group isn't Scheduled, and has one reason, which its pods are told, too."""
    status = told(picture, volcano=volcano)
    assert conditions(status) == {"Unschedulable": "True"}
    assert status.reason is not None
    assert status.reason.code is ReasonCode.NO_ROOM
    assert len(status.unplaced) == left


def test_a_group_that_loses_such_a_member_isnt_scheduled_any_more() -> None:
    """Its condition turns when the pod that was made anew finds no slot."""
    before = Condition(type="Scheduled", status="True", reason=statuses.READY_REASON)
    status = told("node n1 cpu=4 pods=1 queue q job q/a min=2 phase=Running n1 -@0")
    assert conditions(status, before) == {"Scheduled": "False", "Unschedulable": "True"}
    assert status.phase is Phase.UNKNOWN


def test_in_volcano_such_a_group_falls_back() -> None:
    """Its members count as placed for the phase, which is Volcano's."""
    status = told("node n1 cpu=4 pods=1 queue q job q/a min=2 phase=Running n1 -@0", volcano=True)
    assert status.phase is Phase.PENDING


def test_members_that_are_bound_make_the_minimum() -> None:
    """In the very cycle."""
    status = told("node n1 cpu=4 queue q job q/a min=3 - -@0 -@0")
    assert conditions(status) == {"Scheduled": "True"}
    assert status.reason is None


def test_room_that_is_only_kept_makes_no_minimum() -> None:
    """As many as minMember have room now, and wait for that of a role, which is being freed."""
    picture = """
        node n1 cpu=2   node n2 cpu=4 label=zone=x
        queue q
        job   q/a min=2 roles=x:1,y:1 x:- x:- y:-@4
        job   q/gone min=0 cpu=4 ~n2
        """
    status = told(picture)
    assert conditions(status) == {"Unschedulable": "True"}
    assert status.reason is not None
    assert status.reason.code is ReasonCode.WAITS_FOR_RELEASE


def test_nor_do_they_where_there_is_no_queue() -> None:
    """Nobody looks for a place for them."""
    assert conditions(told("node n1 cpu=4 job missing/a min=1 -@0")) == {"Unschedulable": "True"}


FINISHED = {
    "all are done": ("+n1 +n1", ("a-0", "a-1"), Phase.COMPLETED, Phase.COMPLETED),
    "one runs": ("n1 n1", ("a-0",), Phase.RUNNING, Phase.RUNNING),
    "one waits": ("n1 -@9", ("a-0",), Phase.RUNNING, Phase.COMPLETED),
    "one is bound now": ("n1 -", ("a-0",), Phase.RUNNING, Phase.COMPLETED),
    "one waits for room that is being freed": (
        "n1 -@3 job q/gone min=0 cpu=3 ~n1",
        ("a-0",),
        Phase.RUNNING,
        Phase.COMPLETED,
    ),
    "one is behind a gate": ("n1 !", ("a-0",), Phase.RUNNING, Phase.COMPLETED),
    "one is being deleted": ("n1 ~n1", ("a-0",), Phase.RUNNING, Phase.RUNNING),
}


@pytest.mark.parametrize(("pods", "done", "ours", "volcanos"), FINISHED.values(), ids=FINISHED)
def test_a_group_is_completed_when_all_its_pods_are_done(
    pods: str, done: tuple[str, ...], ours: Phase, volcanos: Phase
) -> None:
    """Until then it is Running, if those that are done make its minimum; Volcano goes by those
    that have nodes.
    """
    picture = f"node n1 cpu=4 queue q job q/a min=1 phase=Running {pods}"
    assert told(picture, *done).phase is ours
    assert told(picture, *done, volcano=True).phase is volcanos


ENDED = {
    "it failed": ("min=1 phase=Running n1", ("a-0",)),
    "it failed before its phase was written": ("min=1 phase=Inqueue n1", ("a-0",)),
    "one failed, and the others were deleted": ("min=3 phase=Unknown n1", ("a-0",)),
    "all have failed, and were deleted": ("min=2 phase=Completed", ()),
}


@WAYS
@pytest.mark.parametrize(("pods", "failed"), ENDED.values(), ids=ENDED)
def test_a_group_waits_for_nothing_once_its_pods_have_ended(
    pods: str, failed: tuple[str, ...], volcano: bool
) -> None:
    """Whatever came of them; what it was told while it waited doesn't hold any more."""
    status = told(f"node n1 cpu=4 queue q job q/a {pods}", *failed, volcano=volcano, end="Failed")
    assert (status.phase, status.reason) == (Phase.COMPLETED, None)
    before = Condition(type="Unschedulable", status="True", reason="NotEnoughTasks")
    assert conditions(status, before) == {"Unschedulable": "False"}


STILL_WAITS = {
    "one is created again": ("min=1 phase=Completed n1 -@9", ("a-0",), "NeverFits"),
    "one is behind a gate": ("min=1 phase=Completed n1 !", ("a-0",), "SchedulingGated"),
    "one of two failed, the other runs": ("min=2 phase=Running n1 n1", ("a-0",), "NotEnoughTasks"),
    "it never had pods": ("min=2 phase=Inqueue", (), "NotEnoughTasks"),
}


@pytest.mark.parametrize(("pods", "failed", "code"), STILL_WAITS.values(), ids=STILL_WAITS)
def test_a_group_with_a_pod_that_may_still_run_waits(
    pods: str, failed: tuple[str, ...], code: str
) -> None:
    """Its phase isn't Completed, and it has a reason."""
    status = told(f"node n1 cpu=4 queue q job q/a {pods}", *failed, end="Failed")
    assert status.phase is not Phase.COMPLETED
    assert status.reason is not None
    assert status.reason.code == code


WITHOUT_QUEUE = {
    "its only pod is created again": ("-", Phase.PENDING, Phase.PENDING),
    "another pod waits": ("n1 -", Phase.RUNNING, Phase.COMPLETED),
    "all its pods have ended": ("n1", Phase.COMPLETED, Phase.COMPLETED),
    "its pods were deleted": ("", Phase.COMPLETED, Phase.COMPLETED),
}


@pytest.mark.parametrize(("pods", "ours", "volcanos"), WITHOUT_QUEUE.values(), ids=WITHOUT_QUEUE)
def test_a_completed_group_without_its_queue_goes_by_its_pods(
    pods: str, ours: Phase, volcanos: Phase
) -> None:
    """As with a queue: who looks at a Completed group looks for no reason."""
    picture = f"node n1 cpu=4 queue q job q/a min=1 phase=Completed {pods}"
    for volcano, expected in ((False, ours), (True, volcanos)):
        done = ("a-0",) if "n1" in pods else ()
        status = told(picture, *done, queues=False, volcano=volcano)
        assert status.phase is expected
        assert status.reason is not None
        assert status.reason.code is ReasonCode.QUEUE_MISSING


def test_nobody_is_to_create_pods_while_a_gang_is_being_deleted() -> None:
    """Its pods count until they are gone: more may come, or not."""
    status = told("node n1 cpu=4 queue q job q/a min=2 phase=Running n1 ~n1 ~n1", "a-0")
    assert (status.phase, status.reason) == (Phase.RUNNING, None)


def test_a_pod_that_cant_be_used_waits_too() -> None:
    """It isn't done."""
    documents = pictures.documents("node n1 cpu=4 queue q job q/a min=1 phase=Running n1 -")
    for document in documents:
        if document["metadata"]["name"] == "a-0":
            document["status"]["phase"] = "Succeeded"
        if document["metadata"]["name"] == "a-1":
            document["spec"]["resourceClaims"] = [{"name": "gpu"}]
    policy = running.policy_of({"actions": "allocate", "tiers": running.tiers(TIERS)})
    (status,) = run.simulate(documents, policy, Options()).last.groups
    assert status.rejections
    assert status.phase is Phase.RUNNING


SHORT = "1 of 2 pods of the sub-group with volcano.sh/task-spec=y of policy role exist"
GATED = "1 of 2 pods of the sub-group with volcano.sh/task-spec=y of policy role may be placed"
NOTHING = ""
SUB_GROUPS = {
    "one lacks a pod": ("min=2 subgroups=1x2 x:- x:- y:-", SHORT, 1),
    "one is behind a gate": ("min=2 subgroups=1x2 x:- x:- y:- y:!", GATED, 1),
    "it asks for nothing": ("min=2 subgroups=1x2 x:- x:- y:-@0", SHORT, 1),
    "several do": ("min=2 subgroups=1x2 x:- x:- y:- z:-", SHORT, 2),
    "the job can't start without it": ("min=1 subgroups=0x2 y:-", SHORT, 1),
    "nor with its gate": ("min=1 subgroups=0x2 y:- y:!", GATED, 1),
    "nor without what asks for nothing": ("min=1 subgroups=0x2 y:-@0", SHORT, 1),
    "no other waits": ("min=2 subgroups=1x2 x:- x:- y:- y:-", NOTHING, 0),
}


@WAYS
@pytest.mark.parametrize(("pods", "said", "left"), SUB_GROUPS.values(), ids=SUB_GROUPS)
def test_pods_of_a_sub_group_that_cant_be_whole_are_told_so(
    pods: str, said: str, left: int, volcano: bool
) -> None:
    """Whether the job starts without them or not; nobody is to make nodes for them."""
    picture = f"node n1 cpu=4 queue q job q/a {pods}"
    status = told(picture, volcano=volcano)
    sentence = "" if status.reason is None else sentences.sentence(status.reason)
    assert said in sentence
    assert bool(said) is bool(sentence)
    assert len(status.unplaced) == left
    if status.reason is not None:
        assert statuses.pod_reason(status.reason) != statuses.UNSCHEDULABLE


@WAYS
def test_that_others_find_no_room_is_told_before(volcano: bool) -> None:
    """A node would help those."""
    status = told(
        "node n1 cpu=4 queue q job q/a min=2 subgroups=1x2 x:- x:- y:- -@9", volcano=volcano
    )
    assert status.reason is not None
    assert status.reason.code in (
        ReasonCode.NEVER_FITS,
        ReasonCode.QUEUE_OVER_SHARE,
    )


REPORTED = {
    "more nodes would help": ("state=Open", "cpu=9", 2, 0),
    "nodes wouldn't help": ("state=Closed", "cpu=1", 0, 2),
}


@pytest.mark.parametrize(("queue", "pods", "all_", "told_before"), REPORTED.values(), ids=REPORTED)
def test_pods_that_are_not_admitted_are_told_if_nodes_help_or_they_were_told_otherwise(
    queue: str, pods: str, all_: int, told_before: int
) -> None:
    """An older reason might let an autoscaler add nodes for a closed queue."""
    picture = f"node n1 cpu=4 queue q {queue} job q/a min=2 phase=Pending {pods} - -"
    status = told(picture, actions="enqueue, allocate")
    assert status.phase is Phase.PENDING
    assert (len(status.unplaced), len(status.withheld)) == (all_, told_before)


@WAYS
@pytest.mark.parametrize(("minimum", "ready"), [(2, False), (1, True)])
def test_a_pod_whose_bind_was_refused_has_no_node_before_the_next_bind(
    minimum: int, ready: bool, volcano: bool
) -> None:
    """The pod keeps its place, and is bound again; that it will succeed isn't known."""
    documents = pictures.documents(f"node n1 cpu=4 queue q job q/a min={minimum} - -")
    tree: dict[str, Any] = {"actions": "allocate", "tiers": running.tiers(TIERS)}
    if volcano:
        tree["compatibility"] = "volcano"
    plain = running.run(documents, tree)
    first, second = (bind.task for bind in plain.binds)
    denied = BindRefusal(node="n1", message="denied")
    refusal = {first.job: {second.uid: denied}}
    carried = Carried(reported=Reported(refused_binds=refusal))
    result = running.run(documents, tree, carried=carried)
    assert [bind.task.key for bind in result.binds] == [first.key, second.key]
    (status,) = result.groups
    assert status.ready is ready
    assert status.reason is not None
    assert sentences.sentence(status.reason) == (
        "the API server refused to bind pod default/a-1 to n1: denied"
    )
    ((pod, words),) = statuses.pod_words(status)
    assert (pod.name, words.reason) == ("a-1", "SchedulerError")
    assert words.message == "the API server refused to bind the pod to n1: denied"
    refused_both = {first.job: {first.uid: denied, second.uid: denied}}
    carried = Carried(reported=Reported(refused_binds=refused_both))
    (status,) = running.run(documents, tree, carried=carried).groups
    assert status.reason is not None
    assert "bind pod default/a-0 to n1, and 1 more: denied" in sentences.sentence(status.reason)


CREATORS = {
    "a Job": ("batch/v1", "Job", "job/late"),
    "a Volcano Job": ("batch.volcano.sh/v1alpha1", "Job", "vcjob/late"),
    "a RayCluster": ("ray.io/v1", "RayCluster", "raycluster/late"),
    "a pod, which is gone": ("v1", "Pod", ""),
}


@pytest.mark.parametrize("pods", ["", "-"], ids=["none", "some"])
@pytest.mark.parametrize(("version", "kind", "creator"), CREATORS.values(), ids=CREATORS)
def test_who_has_an_owner_isnt_told_to_create_pods(
    version: str, kind: str, creator: str, pods: str
) -> None:
    """The owner creates them, if it isn't suspended or waiting itself."""
    documents = pictures.documents(f"node n1 cpu=4 queue q job q/a min=2 phase=Inqueue {pods}")
    for document in documents:
        if document["kind"] == "PodGroup":
            document["metadata"]["annotations"] = {
                "scheduling.volcano.sh/scheduler-name": "vscheduler"
            }
            document["metadata"]["ownerReferences"] = [
                {"apiVersion": version, "kind": kind, "name": "late", "uid": "u"}
            ]
    tree = {"actions": "allocate", "tiers": running.tiers(TIERS)}
    (status,) = running.run(documents, tree).groups
    assert status.reason is not None
    said = sentences.sentence(status.reason)
    assert said.startswith(f"{'1' if pods else '0'} of 2 pods exist (minMember 2); ")
    assert (creator or "; create ") in said
    assert bool(creator) is ("; create " not in said)
