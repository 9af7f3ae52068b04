"""Jobs that run: what is added up of them follows every change, as if it were added up anew."""

import dataclasses
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests import running
from tests.unit.core import sessions
from tests.unit.core.placement import unschedulable_cluster
from vscheduler.core.memo import changes, unchanged_jobs
from vscheduler.core.memo.changes import Changes
from vscheduler.core.memo.unchanged_jobs import UnchangedJobs
from vscheduler.core.shares.demands import QueueDemands
from vscheduler.model.jobs import YOUNG, GroupState, Job, JobId, Phase, PodClass, TaskStatus
from vscheduler.model.jobs_by_id import NO_JOBS, JobsById
from vscheduler.model.snapshot import BindRefusal, Reported
from vscheduler.model.topology import TopologyRequest
from vscheduler.testing import pictures

CLASSES = [PodClass(request={"cpu": each, "pods": 1}) for each in range(1, 6)]
QUEUES = ("q", "r", "s")
JOBS = 60
ROUNDS = 80
TREE: Mapping[str, Any] = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": running.tiers("priority gang conformance | proportion predicates"),
}


def some_job(chance: random.Random) -> Job:
    """Return a job that runs, one of a few names."""
    name = f"j{chance.randrange(JOBS):02}"
    held = {
        each: (chance.randint(1, 3), 0) for each in chance.sample(CLASSES, chance.randint(0, 3))
    }
    cpu = sum(each.request["cpu"] * number for each, (number, _) in held.items())
    least = {"cpu": chance.randint(0, cpu)} if chance.random() < 0.3 else None
    return Job(
        id=JobId(name),
        uid=name,
        namespace="ns",
        name=name,
        queue=chance.choice(QUEUES),
        created=0.0,
        state=GroupState(phase=Phase.RUNNING),
        min_resources=least,
        allocated={"cpu": cpu} if cpu else {},
        classes=held,
    )


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_all_jobs(seed: int) -> None:
    """Few or many jobs at a time come, change and go, first ones among them."""
    chance = random.Random(seed)
    unchanged, every, was = UnchangedJobs(), dict[JobId, Job](), NO_JOBS
    for _ in range(ROUNDS):
        for _ in range(chance.choice((0, 1, 1, 2, 20))):
            if every and chance.random() < 0.4:
                del every[chance.choice(sorted(every))]
            else:
                job = some_job(chance)
                every[job.id] = job
        listed = JobsById.of(every[each] for each in sorted(every))
        found = Changes(frozenset(), *changes.of_jobs(was, listed))
        unchanged, was = unchanged.after(found), listed
        others = changes.without(list(listed), {job.id: job for job in unchanged.jobs})
        assert len(unchanged.jobs) == len(every) - len(others)
        more = [job for job in others if chance.random() < 0.8]
        unchanged = unchanged.with_more(more)
        inside = [each for name, each in sorted(every.items()) if name in unchanged]
        assert list(map(id, unchanged.jobs)) == list(map(id, inside))
        active = [each for name, each in sorted(every.items()) if name not in unchanged]
        whole = QueueDemands(sessions.SPACE, [every[each] for each in sorted(every)])
        asked = QueueDemands(sessions.SPACE, active, unchanged=unchanged.counted)
        assert asked.active == whole.active
        assert (asked.queues, asked.held) == (whole.queues, whole.held)
        assert asked.elastic == whole.elastic


def test_jobs_that_may_ask_for_more_stay_awake() -> None:
    """They wait, must stay close to each other, or hold less than they were promised."""
    job = msgspec.structs.replace(some_job(random.Random(5)), counts={TaskStatus.RUNNING: 1})
    running, inqueue = Phase.RUNNING, Phase.INQUEUE
    assert unchanged_jobs.may_skip(job, running)
    promised = msgspec.structs.replace(job, min_resources={"cpu": 10**6})
    assert not unchanged_jobs.may_skip(promised, running)
    assert unchanged_jobs.may_skip(msgspec.structs.replace(job, min_resources={"cpu": 0}), running)
    near = msgspec.structs.replace(job, topology=TopologyRequest(field="spec.networkTopology"))
    assert not unchanged_jobs.may_skip(near, running)
    without = msgspec.structs.replace(job, counts={}, min_member=0)
    waiting = msgspec.structs.replace(job, counts={TaskStatus.PENDING: 1})
    for each in (without, waiting):
        young = msgspec.structs.replace(each, state=GroupState(phase=inqueue))
        assert not unchanged_jobs.may_skip(young, inqueue)


@pytest.mark.parametrize("stored", YOUNG)
def test_a_job_that_has_started_is_unchanged_before_its_phase_is_stored(stored: Phase) -> None:
    """But where nobody has admitted it yet, or a queue could bar it."""
    counts = {TaskStatus.RUNNING: 1}
    state = GroupState(phase=stored)
    job = msgspec.structs.replace(some_job(random.Random(5)), counts=counts, state=state)
    assert unchanged_jobs.may_skip(job, Phase.INQUEUE)
    assert not unchanged_jobs.may_skip(job, Phase.PENDING)
    assert not unchanged_jobs.may_skip(job, Phase.INQUEUE, bars=True)


def test_a_settled_job_that_loses_pods_is_told_of() -> None:
    """Its state is made by `reclaim`; each cycle is compared with one that leaves nothing out."""
    around = unschedulable_cluster.waiting(
        """
        node n1 cpu=4   node n2 cpu=4   queue q   queue r
        job q/there min=1 cpu=1 phase=Running n1*4 n2*4
        """,
        TREE,
    )
    assert [job.id for job in around.opened().unchanged.jobs] == ["default/there"]
    for document in pictures.documents("queue r job r/late min=1 cpu=2 phase=Inqueue -"):
        around.show(document)
    result = around.cycle()
    assert {evict.task.job for evict in result.evicts} == {"default/there"}
    around.cycle()
    for evict in result.evicts:
        around.end(evict.task.name)
    assert JobId("default/there") not in around.opened().unchanged
    around.cycle()


def test_a_job_whose_bind_was_refused_is_told_of() -> None:
    """Although nobody looks at it."""
    around = unschedulable_cluster.waiting(
        "node n1 cpu=4 queue q job q/there min=1 cpu=1 phase=Running n1 n1 -", TREE
    )
    for document in list(around.documents.values()):
        around.show(document)
    bind = around.cycle().binds[0]
    assert around.mirror.assume(bind.task.uid, bind.node, around.now)
    around.cycle()
    (job,) = around.opened().unchanged.jobs
    refused = {job.id: {bind.task.uid: BindRefusal(node="n1", message="no")}}
    around.carried = dataclasses.replace(around.carried, reported=Reported(refused_binds=refused))
    assert around.cycle().groups[0].refused_binds


def test_only_statuses_that_may_have_changed_are_told_apart() -> None:
    """Of jobs that wait, and of those that cycles have just looked at."""
    around = unschedulable_cluster.waiting(
        """
        node n1 cpu=4 queue q
        job q/runs min=1 cpu=1 phase=Running n1 n1
        job q/lacks min=1 cpu=1 phase=Running n1 -
        job q/waits min=1 cpu=8 phase=Inqueue -
        """,
        TREE,
    )
    spec = around.documents["Pod", "lacks-1"]["spec"]
    around.change("Pod", "lacks-1", spec={**spec, "resourceClaims": [{"name": "of no kind"}]})
    around.cycle()

    def changeable() -> set[str]:
        return {status.job.rpartition("/")[2] for status in around.cycle().changeable}

    assert changeable() == {"lacks", "waits"}
    before = around.cycle()
    groups = before.groups
    assert [status.job for status in groups] == ["default/lacks", "default/runs", "default/waits"]
    around.end("runs-0")
    assert changeable() == {"runs", "lacks", "waits"}
    assert before.groups == groups, "an earlier result has changed"
    assert changeable() == {"lacks", "waits"}
