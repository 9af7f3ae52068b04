from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from vscheduler.controllers.queues import queue_objects, queue_reconcile
from vscheduler.controllers.queues.queue_objects import Action, Queue
from vscheduler.controllers.queues.queue_reconcile import Mark, Plan, Release, Step, Tell
from vscheduler.mirror.translate import translation
from vscheduler.model import jobs

NOW = 1767225600.0
NONE = dict.fromkeys(queue_objects.COUNTERS, 0)


def a_queue(name: str, parent: str = "", **fields: Any) -> Queue:
    """A Queue as it may be stored."""
    fields = {"uid": f"uid-{name}", "version": "5", **fields}
    return Queue(name=name, parent=parent, **fields)


def in_state(state: str) -> Mapping[str, Any]:
    """A status that says nothing else."""
    return {"state": state, **NONE}


def plan(*known: Queue, **groups: int) -> dict[str, Plan]:
    """Plans for these queues, which hold so many running PodGroups."""
    counts = {name: Counter(running=number) for name, number in groups.items()}
    return queue_reconcile.plans({each.name: each for each in known}, counts)


def states(*known: Queue, **groups: int) -> dict[str, str]:
    """The state that each of these is to have."""
    return {name: each.status["state"] for name, each in plan(*known, **groups).items()}


def told(each: Plan) -> dict[str, tuple[str, str]]:
    """Reasons and messages of a plan's conditions by type."""
    return {
        one["type"].removeprefix("vscheduler.io/"): (one["reason"], one["message"])
        for one in each.status.get("conditions", ())
    }


@pytest.mark.parametrize(
    ("wanted", "stored", "jobs", "state"),
    [
        ("", "", 0, "Open"),
        ("", "Open", 3, "Open"),
        ("", "Unknown", 0, "Open"),
        ("", "Closed", 0, "Closed"),
        ("", "Closed", 2, "Closing"),
        ("", "Closing", 2, "Closing"),
        ("", "Closing", 0, "Closed"),
        ("Closed", "Open", 0, "Closed"),
        ("Closed", "", 1, "Closing"),
        ("Open", "Closed", 0, "Open"),
        ("Open", "Closing", 4, "Open"),
        ("shut", "Open", 0, "Open"),
        ("shut", "Closed", 0, "Closed"),
    ],
)
def test_a_state_follows_the_wish_then_what_is_stored(
    wanted: str, stored: str, jobs: int, state: str
) -> None:
    """Closing while it holds PodGroups; without a wish the stored state goes on."""
    queue = a_queue("red", wanted=wanted, status={"state": stored})
    assert states(queue, red=jobs) == {"red": state}


def test_closing_goes_down_and_is_remembered() -> None:
    """Those below are marked, but for one that its owner has closed; root never closes."""
    known = (
        a_queue("root", wanted="Closed"),
        a_queue("top", wanted="Closed"),
        a_queue("left", "top"),
        a_queue("leaf", "left", wanted="Open"),
        a_queue("right", "top", wanted="Closed"),
        a_queue("other"),
    )
    plans = plan(*known, leaf=1)
    assert {name: each.status["state"] for name, each in plans.items()} == {
        "root": "Open",
        "top": "Closed",
        "left": "Closed",
        "leaf": "Closing",
        "right": "Closed",
        "other": "Open",
    }
    assert [name for name, each in plans.items() if each.closed_by_parent] == ["left", "leaf"]
    assert told(plans["leaf"]) == {
        "WantedState": (
            "ParentClosed",
            "queue top, which is above this one, is closed; this one opens with it",
        )
    }
    assert told(plans["root"])["WantedState"][0] == "RootStaysOpen"


def unreadable(word: str) -> tuple[str, str]:
    """The answer to a wish that nobody understands."""
    message = f"annotation vscheduler.io/wanted-state is {word!r}; write Open or Closed"
    return "Unreadable", message


ROOT_STAYS = (
    "RootStaysOpen",
    "root can't be closed; close queues below it, and remove annotation vscheduler.io/wanted-state",
)
PARENT_CLOSED = (
    "ParentClosed",
    "queue shut, which is above this one, is closed; this one opens with it",
)


def test_a_setting_that_cannot_be_read_is_told() -> None:
    """With what follows from it until it is corrected; the queue stays open."""
    problem = translation.eviction_setting_problem({translation.MIN_RUN_TIME: "soon"})
    plans = plan(a_queue("red", problem=problem), a_queue("blue"))
    message = (
        "annotation vscheduler.io/min-run-time: 'soon' is no duration such as 15s, 1m30s or 100ms; "
        "until it is corrected, pods of the queue aren't evicted"
    )
    assert told(plans["red"]) == {"Settings": ("Unreadable", message)}
    assert told(plans["blue"]) == {}
    assert plans["red"].status["state"] == "Open"


@pytest.mark.parametrize(
    ("name", "parent", "wish", "answer"),
    [
        ("red", "", "", None),
        ("red", "", "Open", None),
        ("red", "", "Closed", None),
        ("red", "", "closed", unreadable("closed")),
        ("red", "", "x" * 65, unreadable("x" * 64)),
        ("red", "shut", "", PARENT_CLOSED),
        ("red", "shut", "Open", PARENT_CLOSED),
        ("red", "shut", "Closed", None),
        ("red", "shut", "what", unreadable("what")),
        ("root", "", "Open", None),
        ("root", "", "Closed", ROOT_STAYS),
        ("root", "", "what", unreadable("what")),
    ],
)
def test_a_wish_that_is_not_granted_is_answered(
    name: str, parent: str, wish: str, answer: tuple[str, str] | None
) -> None:
    """By one condition that says why, and what to do; there is none for a wish that is granted."""
    plans = plan(a_queue(name, parent, wanted=wish), a_queue("shut", wanted="Closed"))
    conditions = plans[name].status.get("conditions", [])
    assert [(condition["reason"], condition["message"]) for condition in conditions] == [
        answer
    ] * bool(answer)
    assert {(condition["type"], condition["status"]) for condition in conditions} <= {
        ("vscheduler.io/WantedState", "False")
    }


def test_what_a_parent_closed_opens_with_it() -> None:
    """A stored Closed is the owner's wish only without the mark."""
    marked = a_queue("leaf", "top", closed_by_parent=True, status={"state": "Closed"})
    own = a_queue("own", "top", status={"state": "Closed"})
    assert states(a_queue("top"), marked, own) == {"top": "Open", "leaf": "Open", "own": "Closed"}


@pytest.mark.parametrize(
    ("jobs", "pods", "reason", "message"),
    [
        (3, 2, "PodGroups", "the deletion waits for 1 PodGroup and 2 pods without a PodGroup"),
        (1, 1, "Pods", "the deletion waits for 1 pod without a PodGroup"),
    ],
)
def test_a_queue_that_is_being_deleted_waits_for_pods(
    jobs: int, pods: int, reason: str, message: str
) -> None:
    """Those without a PodGroup are among what is counted, and named apart."""
    known = {"top": a_queue("top", deleting=True)}
    plan = queue_reconcile.plans(known, {"top": {"running": jobs}}, {"top": pods})["top"]
    (condition,) = plan.status["conditions"]
    assert (condition["reason"], condition["message"]) == (reason, message)
    assert (plan.status["running"], plan.held) == (jobs, True)


def test_a_queue_that_is_being_deleted_closes_alone() -> None:
    """It takes no PodGroups; those below it aren't touched, and stay untouched once it says so."""
    for state in ("Open", "Closing", "Closed"):
        top = a_queue("top", deleting=True, status={"state": state})
        assert states(top, a_queue("leaf", "top"), top=1) == {"top": "Closing", "leaf": "Open"}


@pytest.mark.parametrize(
    ("jobs", "kids", "reason", "message"),
    [
        (1, (), "PodGroups", "the deletion waits for 1 PodGroup"),
        (2, ("b",), "PodGroups", "the deletion waits for 2 PodGroups and child queue b"),
        (0, ("c", "b"), "ChildQueues", "the deletion waits for child queues b and c"),
        (
            0,
            ("a", "b", "c", "d"),
            "ChildQueues",
            "the deletion waits for 4 child queues (a, b, c, ...)",
        ),
    ],
)
def test_a_deletion_says_what_it_waits_for(
    jobs: int, kids: tuple[str, ...], reason: str, message: str
) -> None:
    """PodGroups are counted, a few child queues named."""
    top = a_queue("top", deleting=True)
    plans = plan(top, *(a_queue(kid, "top") for kid in kids), top=jobs)
    assert told(plans["top"]) == {"InUse": (reason, message)}
    assert plans["top"].held
    assert not told(plan(a_queue("top"), top=jobs)["top"])


def test_a_queue_holds_its_groups_and_children() -> None:
    """Root holds all that name no parent, and not itself."""
    plans = plan(a_queue("root"), a_queue("a"), a_queue("b", "a"), a_queue("c", "gone"), c=1)
    assert [name for name, each in plans.items() if each.held] == ["root", "a", "c"]


def step(queue: Queue, planned: Plan, sent: Mapping[str, Any] | None = None) -> Step | None:
    """The next step; what was sent is what is stored unless told otherwise."""
    return queue_reconcile.next_step(queue, planned, queue.status if sent is None else sent, NOW)


def test_nothing_is_to_be_done_where_all_is_as_planned() -> None:
    """The stored status, mark and finalizer are compared."""
    queue = a_queue("red", status=in_state("Open"))
    assert step(queue, plan(queue)["red"]) is None


def test_marks_come_before_the_state_and_go_after_it() -> None:
    """So a crash in between never makes a parent's wish look like the owner's."""
    top, leaf = a_queue("top", wanted="Closed"), a_queue("leaf", "top", status=in_state("Open"))
    first = step(leaf, plan(top, leaf)["leaf"])
    assert first == Mark(
        patch={
            "metadata": {
                "uid": "uid-leaf",
                "resourceVersion": "5",
                "annotations": {"volcano.sh/closed-by-parent": "true"},
            }
        }
    )
    marked = a_queue("leaf", "top", status=in_state("Open"), closed_by_parent=True)
    second = step(marked, plan(top, marked)["leaf"])
    assert isinstance(second, Tell)
    assert second.status["state"] == "Closed"
    shut = a_queue("leaf", "top", status=in_state("Closed"), closed_by_parent=True)
    third = step(shut, plan(a_queue("top"), shut)["leaf"])
    assert isinstance(third, Tell)
    assert third.status == in_state("Open")
    opened = a_queue("leaf", "top", status=in_state("Open"), closed_by_parent=True)
    fourth = step(opened, plan(a_queue("top"), opened)["leaf"])
    assert isinstance(fourth, Mark)
    assert fourth.patch["metadata"]["annotations"] == {"volcano.sh/closed-by-parent": None}


def test_the_finalizer_comes_first_and_others_stay() -> None:
    """It is added to a queue that holds something, never to one that is on its way out."""
    queue = a_queue("red", finalizers=("theirs",))
    first = step(queue, plan(queue, red=1)["red"])
    assert isinstance(first, Mark)
    assert first.patch["metadata"]["finalizers"] == ["theirs", "vscheduler.io/in-use"]
    going = a_queue("red", finalizers=("theirs",), deleting=True)
    assert isinstance(step(going, plan(going, red=1)["red"]), Tell)
    empty = a_queue("red", finalizers=("vscheduler.io/in-use",), status=in_state("Open"))
    last = step(empty, plan(empty)["red"])
    assert isinstance(last, Mark)
    assert last.patch["metadata"]["finalizers"] == []


def test_a_deleted_queue_is_released_only_when_it_holds_nothing() -> None:
    """And by a patch of that very version."""
    queue = a_queue(
        "red",
        finalizers=("vscheduler.io/in-use", "theirs"),
        deleting=True,
        status=in_state("Closed"),
    )
    assert step(queue, plan(queue)["red"]) == Release()
    assert not isinstance(step(queue, plan(queue, red=1)["red"]), Release)
    patch = {"uid": "uid-red", "resourceVersion": "5", "finalizers": ["theirs"]}
    assert queue_reconcile.release(queue) == {"metadata": patch}


def test_what_was_sent_is_not_sent_again_though_less_is_stored() -> None:
    """A CRD may have no place for conditions; a foreign hand on the state is put right."""
    queue = a_queue("red", "nowhere", status=in_state("Open"))
    planned = plan(queue)["red"]
    first = step(queue, planned)
    assert isinstance(first, Tell)
    assert step(queue, planned, first.status) is None
    assert first.status["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    meddled = a_queue("red", "nowhere", wanted="Open", status=in_state("Closed"))
    assert step(meddled, planned, first.status) == first


def test_only_counts_can_wait() -> None:
    """A new state or condition can't."""
    stored = in_state("Open")
    assert queue_reconcile.only_counts({**stored, "running": 2}, stored)
    assert not queue_reconcile.only_counts(stored, in_state("Closed"))
    assert not queue_reconcile.only_counts({**stored, "conditions": [{}]}, stored)


def problems(*known: Queue) -> dict[str, tuple[str, str]]:
    """Reason and message of each queue that stands badly in the tree."""
    return {
        name: (each["reason"], each["message"])
        for name, each in queue_reconcile.tree_of(known).problems.items()
    }


def test_bad_parents_are_told_below_them_too() -> None:
    """A missing one and a cycle, each with what hangs on it; others aren't touched."""
    found = problems(
        a_queue("fine"),
        a_queue("lost", "nowhere"),
        a_queue("below", "lost"),
        a_queue("east", "west"),
        a_queue("west", "east"),
    )
    missing = "parent nowhere of queue lost doesn't exist; create it, or correct spec.parent"
    assert found["lost"] == found["below"] == ("ParentMissing", missing)
    assert found["east"] == found["west"]
    assert found["east"][0] == "ParentCycle"
    assert "fine" not in found


def test_five_levels_are_enough() -> None:
    """The sixth, and what is below it, is told."""
    known = [a_queue("q1")] + [a_queue(f"q{n}", f"q{n - 1}") for n in range(2, 8)]
    found = problems(*known)
    assert sorted(found) == ["q6", "q7"]
    message = (
        "the queue is 6 levels below root (root > q1 > q2 > q3 > q4 > q5); 5 are the most that "
        "are allowed; correct spec.parent"
    )
    assert found["q6"] == ("TooDeep", message)


def test_children_may_not_be_promised_more_than_their_parent() -> None:
    """What it doesn't name is nothing; queues below root aren't added up."""
    kids = [a_queue(name, "top", deserved={"cpu": 6000}) for name in ("a", "b")]
    top = a_queue("top", deserved={"cpu": 10000})
    message = (
        "its child queues together deserve 12 of cpu, more than its own 10; "
        "lower theirs, or raise its own"
    )
    assert problems(top, *kids) == {"top": ("ChildrenOverDeserved", message)}
    assert not problems(a_queue("top", deserved={"cpu": 12000}), *kids)
    kid = a_queue("a", "top", guarantee={"memory": 2**30})
    assert problems(a_queue("top"), kid)["top"][0] == "ChildrenOverGuarantee"
    assert not problems(a_queue("root"), a_queue("a", guarantee={"cpu": 1}))


def test_objects_are_read_as_far_as_they_matter() -> None:
    """Others' conditions and figures are left out; what is malformed counts as absent."""
    body = {
        "metadata": {
            "name": "red",
            "uid": "u",
            "resourceVersion": "7",
            "annotations": {
                "vscheduler.io/wanted-state": "Closed",
                "volcano.sh/closed-by-parent": "false",
            },
            "finalizers": ["x"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"parent": "top", "deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": []}}},
        "status": {
            "state": "Closing",
            "running": 2,
            "share": 1,
            "conditions": [{"type": "vscheduler.io/Tree"}, {"type": "a/FairShare"}, None],
        },
    }
    queue = queue_objects.queue(body)
    assert queue == Queue(
        name="red",
        uid="u",
        version="7",
        parent="top",
        deserved={"cpu": 2000},
        wanted="Closed",
        finalizers=("x",),
        deleting=True,
        status={"state": "Closing", "running": 2, "conditions": [{"type": "vscheduler.io/Tree"}]},
        schedulers=frozenset({"a"}),
    )
    assert queue_objects.queue({"metadata": None, "status": None}).name == ""


@pytest.mark.parametrize(
    ("phase", "counter"),
    [("", "pending"), ("Running", "running"), ("Completed", "completed"), ("Odd", "unknown")],
)
def test_groups_count_by_their_phase(phase: str, counter: str) -> None:
    """A phase that nobody knows counts as unknown."""
    group = queue_objects.group({"metadata": {"uid": "u"}, "status": {"phase": phase}})
    assert group.counter == counter


def test_only_commands_to_queues_are_ours() -> None:
    """Those to Jobs, and words that nobody knows, are somebody else's."""
    metadata = {"uid": "u", "name": "c", "namespace": "ns"}
    target = {"kind": "Queue", "name": "red", "uid": "q"}
    read = queue_objects.command({"metadata": metadata, "action": "OpenQueue", "target": target})
    assert read is not None
    assert (read.action, read.queue, read.queue_uid) == (Action.OPEN, "red", "q")
    assert read.path == "/apis/bus.volcano.sh/v1alpha1/namespaces/ns/commands/c"
    assert queue_objects.command({"action": "AbortJob", "target": target}) is None
    assert queue_objects.command({"action": "OpenQueue", "target": {"kind": "Job"}}) is None


def test_versions_are_numbers_that_grow() -> None:
    """9 is older than 10; what is no number may be newer."""
    assert queue_objects.newer("10", than="9")
    assert not queue_objects.newer("9", than="9")
    assert queue_objects.newer("x", than="9")


@pytest.mark.parametrize(
    ("phase", "initially", "counter"),
    [
        ("Pending", "", "pending"),
        ("Inqueue", "False", "inqueue"),
        ("Running", "True", "running"),
        ("Completed", "True", "completed"),
        ("", "", "pending"),
        ("", "True", "running"),
        ("", "False", "pending"),
        ("whatever", "True", "running"),
    ],
)
def test_the_phase_of_a_native_group_is_in_its_conditions(
    phase: str, initially: str, counter: str
) -> None:
    """Ours, or else whether another scheduler has started it."""
    conditions: list[Any] = ["bad", {"type": jobs.INITIALLY_SCHEDULED, "status": initially}]
    conditions += [{"type": jobs.PHASE, "reason": phase}] if phase else []
    metadata = {"namespace": "ns", "name": "g", "labels": {translation.QUEUE: "q"}}
    body = {"metadata": metadata, "status": {"conditions": conditions}}
    group = queue_objects.native_group(body)
    assert group is not None
    assert (group.queue, group.counter, group.key) == ("q", counter, jobs.native_id("ns", "g"))


def test_a_native_group_that_names_no_queue_is_in_none() -> None:
    """Not in the default one: the controllers write its queue first."""
    unnamed: tuple[dict[str, Any], ...] = ({}, {"annotations": {translation.QUEUE: ""}})
    for metadata in (*unnamed, {"annotations": None}):
        assert queue_objects.native_group({"metadata": metadata}) is None
