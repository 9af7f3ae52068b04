from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.core import sessions
from tests.unit.core.sessions import JobState
from vscheduler.core.compat.capacity import VolcanoCapacity
from vscheduler.core.plugins.capacity import Capacity
from vscheduler.model.decisions import AdmissionFailure, LimitExcess, ReasonCode, Shortage
from vscheduler.model.jobs import Job, TaskStatus
from vscheduler.model.queues import Queue, QueueState

RUNNING = TaskStatus.RUNNING
GPU = sessions.GPU
TREE = frozenset({"enableHierarchy"})


def running(queue: str, count: int, **request: int) -> Job:
    """A job called like its queue with so many running pods."""
    of = sessions.pod_class(**request)
    tasks = (sessions.task(queue, place, RUNNING, of) for place in range(count))
    return sessions.job(queue, *tasks, queue=queue)


def plugin(
    *taking_part: Job,
    known: Sequence[Queue],
    volcano: bool = False,
    tree: bool = False,
    level: int = 0,
    **total: int,
) -> Capacity:
    """The plugin in a session with these jobs and queues."""
    session = sessions.opened(
        *taking_part, queues=known, total=sessions.total(**{"cpu": 10_000, **total})
    )
    kind = VolcanoCapacity if volcano else Capacity
    made = kind({"ancestorReclaimLevel": level}, TREE if tree else frozenset())
    made.open(session)
    made.start()
    return made


CLAIMS: dict[str, tuple[dict[str, Any], dict[str, int], tuple[bool, bool]]] = {
    "within all": ({"deserved": {"cpu": 4, "memory": 4}}, {"cpu": 1, "memory": 1}, (True, True)),
    "above one of two": (
        {"deserved": {"cpu": 2, "memory": 4}},
        {"cpu": 1, "memory": 1},
        (False, True),
    ),
    "above one that nothing is said of": (
        {"deserved": {GPU: 1}},
        {"cpu": 1, "gpu": 1},
        (True, True),
    ),
    "nothing of what it asks for is deserved": ({"deserved": {GPU: 1}}, {"cpu": 1}, (False, False)),
    "deserved, but above the capability": (
        {"deserved": {"cpu": 4}, "capability": {"cpu": 2}},
        {"cpu": 1},
        (False, False),
    ),
    "closed": (
        {"deserved": {"cpu": 4}, "state": QueueState.CLOSED},
        {"cpu": 1},
        (False, False),
    ),
    "only pod slots": ({"deserved": {"pods": 9}}, {"cpu": 1}, (True, False)),
    "explicitly nothing": ({"deserved": {"cpu": 0, GPU: 9}}, {"cpu": 1, "gpu": 1}, (False, True)),
}


@pytest.mark.parametrize(("limits", "request_", "owed"), CLAIMS.values(), ids=CLAIMS)
def test_what_is_owed(
    limits: dict[str, Any], request_: dict[str, int], owed: tuple[bool, bool]
) -> None:
    """With two cores and two bytes in use; here, and in Volcano's way."""
    queue = sessions.queue("q", **limits)
    waiting = sessions.task("w", of=sessions.pod_class(**request_))
    taking_part = (running("q", 2, cpu=1, memory=1), sessions.job("w", waiting, queue="q"))
    found = tuple(
        plugin(*taking_part, known=[queue], volcano=volcano, memory=100, gpu=9).preemptive(
            queue, [waiting]
        )
        for volcano in (False, True)
    )
    assert found == owed


VICTIMS: dict[str, tuple[dict[str, Any], dict[str, int], tuple[int, int]]] = {
    "down to what it deserves": ({"deserved": {"cpu": 3}}, {"cpu": 1}, (1, 1)),
    "a pod of none of what it deserves, always": ({"deserved": {"memory": 9}}, {"cpu": 1}, (4, 4)),
    "nothing in common with the preemptor": ({}, {"memory": 1}, (0, 0)),
    "above in what the preemptor doesn't want": (
        {"deserved": {"cpu": 4, GPU: 1}},
        {"cpu": 1},
        (0, 3),
    ),
    "what isn't deserved beside what is": ({"deserved": {GPU: 1}}, {"cpu": 1}, (3, 3)),
    "down to its guarantee": (
        {"deserved": {"cpu": 2}, "guarantee": {"cpu": 2}},
        {"cpu": 1},
        (2, 2),
    ),
    "though it lacks another guarantee": (
        {"deserved": {"cpu": 2, "memory": 2}, "guarantee": {"memory": 2}},
        {"cpu": 1},
        (2, 0),
    ),
    "explicitly nothing of the cpu": ({"deserved": {"cpu": 0, GPU: 9}}, {"cpu": 1}, (4, 0)),
    "more pods than it deserves": ({"deserved": {"pods": 3}}, {"cpu": 1}, (1, 0)),
}


@pytest.mark.parametrize(("limits", "request_", "count"), VICTIMS.values(), ids=VICTIMS)
def test_who_gives_back(
    limits: dict[str, Any], request_: dict[str, int], count: tuple[int, int]
) -> None:
    """How many of four pods of a core and a device go; here, and in Volcano's way."""
    lender = running("v", 4, cpu=1, gpu=1)
    preemptor = sessions.task("c", of=sessions.pod_class(**{"cpu": 0, **request_}))
    known = [sessions.queue("v", **limits), sessions.queue("c")]
    found = tuple(
        len(
            plugin(
                *(lender, sessions.job("c", preemptor, queue="c")),
                known=known,
                volcano=volcano,
                memory=100,
                gpu=9,
            ).reclaimable(preemptor, lender.tasks)
        )
        for volcano in (False, True)
    )
    assert found == count


def family(*, deep: bool) -> list[Queue]:
    """Two branches of one queue; the lender's is as deep as the preemptor's, or deeper."""
    known = [
        sessions.queue("org", deserved={"cpu": 1}),
        sessions.queue("v", parent="org", deserved={"cpu": 1}),
        sessions.queue("c", parent="mid" if deep else "org", deserved={"cpu": 5}),
    ]
    return [*known, sessions.queue("mid", parent="org", deserved={"cpu": 1})] if deep else known


@pytest.mark.parametrize("volcano", [False, True])
@pytest.mark.parametrize(("deep", "level"), [(False, 1), (True, 2)])
def test_an_ancestor_in_common_need_not_lend(deep: bool, level: int, volcano: bool) -> None:
    """What both have above them is no stranger, though Volcano sees it only at equal heights."""
    lender = running("v", 2, cpu=1)
    preemptor = sessions.task("c", of=sessions.pod_class(cpu=1))
    known = [
        sessions.queue("org", deserved={"cpu": 2}) if each.name == "org" else each
        for each in family(deep=deep)
    ]
    made = plugin(
        *(lender, sessions.job("c", preemptor, queue="c")),
        known=known,
        volcano=volcano,
        tree=True,
        level=level,
    )
    blind = volcano and deep
    assert len(made.reclaimable(preemptor, lender.tasks)) == (0 if blind else 1)


def test_a_strange_ancestor_must_lend_as_well() -> None:
    """A branch that has no more than it deserves gives nothing back, when its level counts."""
    lender = running("v", 2, cpu=1)
    preemptor = sessions.task("c", of=sessions.pod_class(cpu=1))
    known = [
        sessions.queue("org", deserved={"cpu": 2}),
        sessions.queue("v", parent="org", deserved={"cpu": 1}),
        sessions.queue("c", deserved={"cpu": 5}),
    ]
    for level, count in ((0, 1), (1, 0)):
        made = plugin(
            *(lender, sessions.job("c", preemptor, queue="c")), known=known, tree=True, level=level
        )
        assert len(made.reclaimable(preemptor, lender.tasks)) == count


def test_a_branch_keeps_its_guarantee() -> None:
    """Also where its leaf has none."""
    lender = running("v", 2, cpu=1)
    preemptor = sessions.task("c", of=sessions.pod_class(cpu=1))
    known = [
        sessions.queue("org", guarantee={"cpu": 1}),
        sessions.queue("v", parent="org"),
        sessions.queue("c", deserved={"cpu": 5}),
    ]
    taking_part = (lender, sessions.job("c", preemptor, queue="c"))
    for volcano, count in ((False, 1), (True, 2)):
        made = plugin(*taking_part, known=known, tree=True, volcano=volcano)
        assert len(made.reclaimable(preemptor, lender.tasks)) == count


def test_what_stays_in_the_branch_is_no_loss_to_it() -> None:
    """One child takes from another what their parent is guaranteed."""
    lender = running("v", 2, cpu=1)
    preemptor = sessions.task("c", of=sessions.pod_class(cpu=1))
    known = [
        sessions.queue("org", guarantee={"cpu": 2}),
        sessions.queue("v", parent="org"),
        sessions.queue("c", parent="org", deserved={"cpu": 1}),
    ]
    made = plugin(lender, sessions.job("c", preemptor, queue="c"), known=known, tree=True)
    assert len(made.reclaimable(preemptor, lender.tasks)) == 2


@pytest.mark.parametrize(("volcano", "allowed"), [(False, False), (True, True)])
def test_pod_slots_count_where_a_capability_names_them(volcano: bool, allowed: bool) -> None:
    """Never in Volcano's way, and nowhere because nodes have few."""
    known = [sessions.queue("q", capability={"pods": 1}), sessions.queue("free")]
    waiting = [
        sessions.job(name, sessions.task(name, of=sessions.pod_class(cpu=1)), queue=queue)
        for name, queue in (("w", "q"), ("x", "free"))
    ]
    made = plugin(running("q", 1, cpu=1), *waiting, known=known, volcano=volcano, pods=1)
    assert made.allocatable(known[0], waiting[0].tasks[0]) is allowed
    assert made.allocatable(known[1], waiting[1].tasks[0])


def test_what_groups_can_do_without_is_free_to_promise() -> None:
    """A group has three pods and needs one."""
    known = [sessions.queue("q", capability={"cpu": 3})]
    of = sessions.pod_class(cpu=1)
    ran = sessions.job(
        "r",
        *(sessions.task("r", place, RUNNING, of) for place in range(3)),
        min_resources={"cpu": 1},
    )
    two, three = (
        sessions.job(f"w{amount}", sessions.task(f"w{amount}"), min_resources={"cpu": amount})
        for amount in (2, 3)
    )
    made = plugin(ran, two, three, known=known)
    assert made.job_enqueueable(JobState(two)) is True
    assert made.job_enqueueable(JobState(three)) == AdmissionFailure(
        code=ReasonCode.QUEUE_FULL,
        shortages=(Shortage(resource="cpu", requested=3, allocated=1, limit=3, elastic=2),),
        subject="q",
        exceeded=(LimitExcess(queue="q", resource="cpu", amount=3, promised=0),),
    )


def test_shares_of_inner_queues_follow_but_in_volcanos_way() -> None:
    """There they stay for the whole cycle (capacity updateShare is called for leaves)."""
    known = [sessions.queue("org", deserved={"cpu": 10}), sessions.queue("q", parent="org")]
    leaf, waiting = known[1], sessions.task("w", of=sessions.pod_class(cpu=5))
    for volcano, share in ((False, 0.5), (True, 0.0)):
        made = plugin(
            sessions.job("w", waiting, queue="q"), known=known, tree=True, volcano=volcano
        )
        assert made.queue_key(leaf) == (0, 0.0, False, 1.0, True)
        made.on_allocate(waiting)
        assert made.queue_key(leaf) == (0, share, False, 1.0, True)


def test_figures_for_people() -> None:
    """What a queue deserves is within what it can have, where no tree says otherwise."""
    known = [
        sessions.queue("a", deserved={"cpu": 99_000}, guarantee={"cpu": 1000}),
        sessions.queue("b", deserved={"cpu": 500}, guarantee={"cpu": 1000}),
    ]
    found = plugin(known=known).entitlements()
    assert found["a"].deserved == {"cpu": 9000}
    assert found["b"].deserved == {"cpu": 1000}
    assert found["a"].real_capability is not None
    assert found["a"].real_capability["cpu"] == 9000
    tree = plugin(known=known, tree=True).entitlements()
    assert tree["a"].deserved == {"cpu": 99_000}
    endless = plugin(known=known, tree=True, volcano=True).entitlements()["a"].real_capability
    assert endless is not None
    assert (endless["cpu"], endless[GPU]) == (float("inf"), 0.0)


def test_a_queue_above_its_capability_takes_nothing_of_what_it_names() -> None:
    """A limit that was lowered under running pods."""
    known = [sessions.queue("q", capability={"cpu": 1})]
    small = sessions.task("s", of=sessions.pod_class(cpu=0, memory=1))
    large = sessions.task("l", of=sessions.pod_class(cpu=1))
    made = plugin(
        *(running("q", 2, cpu=1), sessions.job("s", small), sessions.job("l", large)),
        known=known,
        memory=10,
    )
    assert made.allocatable(known[0], small)
    assert not made.allocatable(known[0], large)
    assert made.shortages(known[0], large) == (
        Shortage(resource="cpu", requested=1, allocated=2, limit=1, owner="q"),
    )


def test_what_will_have_ended_counts_as_given_back() -> None:
    """In the queue and in the queues above it, until that is undone."""
    job = running("a", 2, cpu=1000)
    more = sessions.task("a", 2, of=sessions.pod_class(cpu=1000))
    known = [
        sessions.queue("org", capability={"cpu": 2000}),
        sessions.queue("a", parent="org"),
    ]
    made = plugin(job, known=known, tree=True)
    queue, ended = known[1], {"a": sessions.total(cpu=1000, pods=1)}
    assert not made.allocatable(queue, more)
    made.on_ended(ended)
    assert made.allocatable(queue, more)
    made.on_ended({"a": -ended["a"]})
    assert not made.allocatable(queue, more)
