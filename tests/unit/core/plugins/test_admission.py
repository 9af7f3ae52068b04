from typing import Any

import pytest

from tests.unit.core import sessions
from tests.unit.core.sessions import JobState
from vscheduler.core.compat.capacity import VolcanoCapacity
from vscheduler.core.compat.plugins import VolcanoOvercommit, VolcanoProportion
from vscheduler.core.plugins.capacity import Capacity
from vscheduler.core.plugins.overcommit import Overcommit
from vscheduler.core.plugins.proportion import Proportion
from vscheduler.core.plugins.resourcequota import ResourceQuota
from vscheduler.core.plugins.sla import Sla
from vscheduler.core.shares import inqueue_resources
from vscheduler.model.decisions import AdmissionFailure, LimitExcess, ReasonCode, Shortage
from vscheduler.model.jobs import GroupState, Job, Phase, SubGroup, TaskStatus
from vscheduler.model.jobs_by_id import NO_JOBS
from vscheduler.model.queues import QueueState
from vscheduler.model.snapshot import Quota, Snapshot

RUNNING, GATED, PENDING, SUCCEEDED, FAILED = (
    TaskStatus.RUNNING,
    TaskStatus.GATED,
    TaskStatus.PENDING,
    TaskStatus.SUCCEEDED,
    TaskStatus.FAILED,
)
INQUEUE = GroupState(phase=Phase.INQUEUE)
STARTED = GroupState(phase=Phase.RUNNING)


def job(name: str = "j", *standing: TaskStatus, **fields: Any) -> Job:
    """A job of pods of one cpu that stand so, and with minResources of four cpus and a device."""
    tasks = [sessions.task(name, place, status) for place, status in enumerate(standing)]
    least = {"cpu": 4000, sessions.GPU: 1}
    return sessions.job(name, *tasks, **{"min_resources": least, **fields})


def gang(*standing: TaskStatus, **fields: Any) -> JobState:
    """The same as a cycle sees it."""
    return JobState(job("j", *standing, **fields))


FIGURES = {
    "nothing there yet": ((), (4000, 1), (4000, 1), (4000, 1)),
    "some run, some wait": ((RUNNING, PENDING), (4000, 1), (3000, 1), (2000, 1)),
    "some behind a gate": ((RUNNING, GATED), (3000, 1), (2000, 1), (2000, 1)),
    "more behind a gate than it needs": ((GATED,) * 9, (0, 1), (0, 1), (0, 1)),
    "more than it needs": ((RUNNING,) * 9, (4000, 1), (0, 1), (0, 1)),
    "what is done has given its room back": ((SUCCEEDED,), (4000, 1), (4000, 1), (4000, 1)),
}


@pytest.mark.parametrize(("standing", "least", "left", "missing"), FIGURES.values(), ids=FIGURES)
def test_what_a_group_is_promised(
    standing: tuple[TaskStatus, ...],
    least: tuple[int, int],
    left: tuple[int, int],
    missing: tuple[int, int],
) -> None:
    """By resource that minResources name: at admission, of that not yet had, and not asked for."""
    subject = gang(*standing)
    for figure, expected in (
        (inqueue_resources.minimum, least),
        (inqueue_resources.unallocated, left),
        (inqueue_resources.missing_pods, missing),
    ):
        assert figure(subject) == dict(zip(("cpu", sessions.GPU), expected, strict=True))


DONE = (SUCCEEDED,) * 3
OUTSTANDING = {
    "none is done: executors are created later": ((PENDING,), 1, 4000),
    "none is done, and the gang lost a pod": ((RUNNING, RUNNING, RUNNING, PENDING), 4, 1000),
    "the last of four": ((*DONE, PENDING), 4, 1000),
    "the last two of four, one of which runs": ((*DONE[:2], RUNNING, PENDING), 4, 1000),
    "more wait than the gang lacks": ((*DONE, PENDING, PENDING, PENDING), 5, 2000),
    "more wait than minResources cover": ((SUCCEEDED, *[PENDING] * 9), 8, 4000),
    "not all exist that it lacks": ((SUCCEEDED, PENDING), 3, 4000),
    "one that it lacks is behind a gate": ((SUCCEEDED, GATED, PENDING), 3, 3000),
    "one that it doesn't lack is behind a gate": ((SUCCEEDED, GATED, PENDING), 2, 1000),
    "failed pods are replaced": ((*DONE, FAILED, PENDING), 4, 1000),
    "it has its minimum: others are created later": ((*DONE, PENDING), 3, 4000),
}


@pytest.mark.parametrize(("standing", "minimum", "cpu"), OUTSTANDING.values(), ids=OUTSTANDING)
def test_a_gang_with_finished_members_needs_what_it_lacks(
    standing: tuple[TaskStatus, ...], minimum: int, cpu: int
) -> None:
    """Pods that have succeeded are members, but need nothing any more."""
    subject = gang(*standing, min_member=minimum)
    has = subject.job.allocated.get("cpu", 0)
    assert inqueue_resources.outstanding(subject)["cpu"] == cpu
    if GATED not in standing:
        assert inqueue_resources.required(subject)["cpu"] == has + cpu
    asked = subject.job.pending.get("cpu", 0)
    assert inqueue_resources.missing_pods(subject)["cpu"] == max(0, cpu - asked)


def test_the_largest_of_the_waiting_pods_count() -> None:
    """Which two of three pods are placed is decided later; a class may have several pods."""
    sizes = {"large": 2, "small": 1}
    tasks = [sessions.task("j", 0, SUCCEEDED)]
    for name, count in sizes.items():
        kind = sessions.pod_class(cpu=1500 if name == "large" else 200, gpu=name == "small")
        first = len(tasks)
        tasks += [sessions.task("j", first + n, PENDING, kind) for n in range(count)]
    least = {"cpu": 9000, sessions.GPU: 9}
    subject = JobState(sessions.job("j", *tasks, min_member=3, min_resources=least))
    assert inqueue_resources.outstanding(subject) == {"cpu": 3000, sessions.GPU: 1}
    assert inqueue_resources.required(subject) == {"cpu": 3000, sessions.GPU: 1}


@pytest.mark.parametrize(
    "terms", [{"min_task_member": {"": 2}}, {"sub_groups": (SubGroup(name="s"),)}]
)
def test_all_waiting_pods_count_where_not_any_pod_will_do(terms: dict[str, Any]) -> None:
    """The gang lacks one pod, but of a certain role or sub-group."""
    subject = gang(*DONE, PENDING, PENDING, min_member=4, **terms)
    assert inqueue_resources.outstanding(subject)["cpu"] == 2000


def test_volcano_counts_finished_members_in_full() -> None:
    """In all plugins that admit groups, where ours ask for one cpu of four."""
    one = {"min_member": 4, "state": INQUEUE}
    for ours, volcano in (
        (Proportion({}), VolcanoProportion({})),
        (Overcommit({}), VolcanoOvercommit({})),
        (Capacity({}), VolcanoCapacity({})),
    ):
        for plugin, cpu in ((ours, 1000), (volcano, 4000)):
            held = job("held", *DONE, PENDING, **one)
            asks = job("asks", min_resources={"cpu": 20_000})
            opened = sessions.opened(held, asks, total=sessions.total(cpu=9000, gpu=8))
            sessions.start(plugin, opened)
            answer = plugin.job_enqueueable(opened.job_state("asks"))
            assert isinstance(answer, AdmissionFailure)
            (shortage,) = answer.shortages
            assert shortage.allocated == cpu


def test_a_group_without_minimum_is_promised_nothing() -> None:
    """And all that it has is above its minimum."""
    subject = gang(RUNNING, RUNNING, min_resources=None, state=INQUEUE)
    assert inqueue_resources.unallocated(subject) == {}
    assert not inqueue_resources.holds(subject)
    assert subject.job.elastic == {"cpu": 2000, "pods": 2}


def test_what_is_above_the_minimum_is_counted_by_resource() -> None:
    """Six cpus of four; no device of one."""
    assert gang(*[RUNNING] * 6).job.elastic == {"cpu": 2000, "pods": 6}


@pytest.mark.parametrize(
    ("state", "standing", "holds"),
    [
        (INQUEUE, (), True),
        (STARTED, (RUNNING, RUNNING), True),
        (STARTED, (RUNNING, SUCCEEDED), False),
        (GroupState(), (), False),
        (GroupState(phase=Phase.UNKNOWN), (RUNNING,), False),
    ],
)
def test_who_is_promised_something(
    state: GroupState, standing: tuple[TaskStatus, ...], holds: bool
) -> None:
    """Groups that are let in, and those that run with their minimum of two."""
    assert inqueue_resources.holds(gang(*standing, state=state, min_member=2)) is holds


def test_a_place_that_was_lost_is_seen_by_its_phase_in_the_cycle() -> None:
    """Not by the one that is stored."""
    subject = gang(state=INQUEUE)
    subject.phase = Phase.PENDING
    assert not inqueue_resources.holds(subject)


def test_a_queue_deserves_something_for_pods_that_are_still_to_be_made() -> None:
    """Four cpus of each group that waits or is let in, and none of one that it can't have."""
    waits = job("w", PENDING, queue="a")
    admitted = job("i", queue="b", state=INQUEUE)
    huge = job("h", queue="c", min_resources={"cpu": 40_000})
    shut = job("s", queue="d")
    there = [
        *(sessions.queue(name) for name in "abc"),
        sessions.queue("d", state=QueueState.CLOSED),
    ]
    whole = sessions.total(cpu=20_000, gpu=8)
    opened = sessions.opened(waits, admitted, huge, shut, queues=there, total=whole)
    for kind in (Proportion, VolcanoProportion):
        volcano = kind is not Proportion
        plugin = kind({})
        sessions.start(plugin, opened)
        deserved = {name: each.deserved for name, each in plugin.entitlements().items()}
        assert deserved["a"].get("cpu", 0) == (1000 if volcano else 4000)
        assert deserved["a"].get(sessions.GPU, 0) == (0 if volcano else 1)
        assert deserved["b"].get("cpu", 0) == (0 if volcano else 4000)
        assert "cpu" not in deserved["c"]
        assert "cpu" not in deserved["d"]


def test_a_queue_tells_its_own_limit_from_the_cluster_s() -> None:
    """Its capability is nobody else's matter; of what the cluster hasn't there could be more."""
    small = sessions.queue("small", capability={"cpu": 3000})
    wide = sessions.queue("wide", capability={"cpu": 90_000})
    refused = [job("a", queue="small"), job("b", queue="wide", min_resources={"cpu": 50_000})]
    opened = sessions.opened(
        *refused, queues=[small, wide], total=sessions.total(cpu=10_000, gpu=8)
    )
    plugin = Proportion({})
    sessions.start(plugin, opened)
    answers = [plugin.job_enqueueable(opened.job_state(name)) for name in "ab"]
    assert answers == [
        AdmissionFailure(
            code=ReasonCode.QUEUE_FULL,
            shortages=(Shortage(resource="cpu", requested=4000, allocated=0, limit=3000),),
            exceeded=(LimitExcess(queue="small", resource="cpu", amount=1000, promised=0),),
        ),
        AdmissionFailure(
            code=ReasonCode.CLUSTER_FULL,
            subject="wide",
            shortages=(Shortage(resource="cpu", requested=50_000, allocated=0, limit=10_000),),
            exceeded=(LimitExcess(queue="wide", resource="cpu", amount=40_000, promised=0),),
        ),
    ]


@pytest.mark.parametrize("named", [False, True])
def test_pod_slots_limit_a_queue_where_its_capability_names_them(named: bool) -> None:
    """Volcano's comparisons leave them out."""
    capability = {"cpu": 9000} | ({"pods": 2} if named else {})
    asked = job("a", min_resources={"pods": 3})
    opened = sessions.opened(
        asked, queues=[sessions.queue(capability=capability)], total=sessions.total(pods=2)
    )
    plugin = Proportion({})
    sessions.start(plugin, opened)
    assert (plugin.job_enqueueable(opened.job_state("a")) is True) is not named


def test_promises_of_a_cycle_add_up() -> None:
    """Each plugin lets two groups of four cpus in where there is room for ten."""
    quota = Quota(namespace="ns", name="small", hard={"cpu": 10_000}, used={})
    for kind in (Proportion, ResourceQuota):
        opened = sessions.opened(*(job(name) for name in "abc"), total=sessions.total(gpu=8))
        opened.snapshot = Snapshot(
            now=0.0,
            space=opened.space,
            nodes=opened.snapshot.nodes,
            queues=opened.queues,
            jobs=NO_JOBS,
            quotas=(quota,),
        )
        plugin = kind({})
        sessions.start(plugin, opened)
        answers = []
        for name in "abc":
            answers.append(plugin.job_enqueueable(opened.job_state(name)))
            if answers[-1] is True:
                plugin.job_enqueued(opened.job_state(name))
        assert answers[:2] == [True, True]
        assert isinstance(answers[2], AdmissionFailure)
        (shortage,) = answers[2].shortages
        assert (shortage.requested, shortage.allocated, shortage.limit) == (4000, 8000, 10_000)


def test_nobody_counts_promises_where_no_group_asks() -> None:
    """A cycle without Pending groups pays nothing."""
    opened = sessions.opened(job("a", state=INQUEUE))
    plugin = Overcommit({})
    sessions.start(plugin, opened)
    assert plugin.job_enqueueable(JobState(job("b", min_resources=None))) is True
    assert opened.requests == 0


@pytest.mark.parametrize(
    ("annotations", "due"),
    [
        ({"volcano.sh/sla-waiting-time": "1m", "sla-waiting-time": "1h"}, 60.0),
        ({"sla-waiting-time": "1h"}, 3600.0),
        ({}, 7200.0),
    ],
)
def test_the_nearest_waiting_time_counts(annotations: dict[str, str], due: float) -> None:
    """The annotation's first name, its second, the plugin's argument."""
    opened = sessions.opened(job("a", annotations=annotations))
    plugin = Sla({"sla-waiting-time": "2h"})
    sessions.start(plugin, opened)
    assert plugin.job_enqueueable(opened.job_state("a")) is None
    assert opened.due == [due]
    assert plugin.job_key(opened.job_state("a")) == (0, due)
