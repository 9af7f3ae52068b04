"""Pods that could be evicted: kept from cycle to cycle, as if all of them were read anew."""

import random

import pytest

from tests.unit.core import sessions
from vscheduler.core.memo.evictable_pods import EvictablePods
from vscheduler.model.jobs import EVICTABLE, PREEMPTABLE, Job, TaskId, TaskStatus
from vscheduler.model.jobs_by_id import NO_JOBS, JobsById
from vscheduler.model.nodes import NodeLayout, NodeSpec

NAMES = [f"j{number:02}" for number in range(30)]
NODES = [f"n{number}" for number in range(6)]
QUEUES = ("q", "r", "s")
CLASSES = [sessions.pod_class(cpu=cpu) for cpu in range(1, 7)]
STATUSES = (*sorted(EVICTABLE), TaskStatus.PENDING, TaskStatus.RELEASING)
ROUNDS = 80


class World:
    """Jobs, nodes and queues, some of which change in each round."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.jobs: dict[str, Job] = {}
        self.every = NO_JOBS
        self.layout = layout(NODES)
        self.queues = dict.fromkeys(QUEUES)
        self.refused: frozenset[TaskId] = frozenset()
        self.began = self.is_same = False
        """Whether nodes and queues are; otherwise nothing is known (core.memo.memos)."""

    def change(self) -> None:
        """Let jobs come, change and go, and at times nodes, queues, and refused evictions."""
        chance, nodes, queues = self.chance, self.layout, self.queues
        names = chance.sample(NAMES, chance.choice((0, 0, 1, 2, 5, 30)))
        for name in names:
            if self.jobs.pop(name, None) is None or chance.random() < 0.6:
                self.jobs[name] = self._job(name)
        if names:
            self.every = JobsById.of(job for _, job in sorted(self.jobs.items()))
        if chance.random() < 0.1:
            self.layout = layout(chance.sample(NODES, 4))
        if chance.random() < 0.1:
            self.queues = dict.fromkeys(chance.sample(QUEUES, 2))
        self.is_same = self.began and nodes is self.layout and queues is self.queues
        self.began = True
        if chance.random() < 0.3:
            tasks = [task.uid for job in self.every for task in job.tasks]
            self.refused = frozenset(chance.sample(tasks, min(len(tasks), chance.choice((0, 4)))))

    def _job(self, name: str) -> Job:
        chance = self.chance
        tasks = [
            sessions.task(
                name,
                place,
                chance.choice(STATUSES),
                chance.choice(CLASSES),
                node=chance.choice(NODES),
                scheduled_at=chance.choice((None, 1.0, 2.0)),
                priority=chance.randrange(3),
                preemptable=chance.random() < 0.8,
            )
            for place in range(chance.randrange(5))
        ]
        return sessions.job(
            name,
            *tasks,
            queue=chance.choice(QUEUES),
            min_member=chance.randrange(1, 4),
            priority=chance.randrange(3),
            annotations=chance.choice(({}, {PREEMPTABLE: "false"})),
        )

    def follow(self, before: EvictablePods) -> EvictablePods:
        """Return the pods as they are now."""
        known = before if self.is_same else EvictablePods(self.layout, self.queues)
        return known.of_jobs(self.every, self.refused)

    def anew(self) -> EvictablePods:
        """Return the same, with nothing known."""
        return EvictablePods(self.layout, self.queues).of_jobs(self.every, self.refused)


def layout(names: list[str]) -> NodeLayout:
    """Return nodes with these names."""
    return NodeLayout([NodeSpec(name=name) for name in sorted(names)])


def shown(pods: EvictablePods) -> list[object]:
    """Return all that is to be seen, but for how many were read."""
    columns = (
        *(pods.rows, pods.bounds, pods.owners, pods.class_numbers, pods.starts),
        *(pods.priorities, pods.preemptable, pods.spare, pods.protected),
        *(pods.owner_queues, pods.owner_priorities),
    )
    return [
        list(map(id, pods.owner_jobs)),
        list(pods.classes),
        list(pods.queue_names),
        [column.tolist() for column in columns],
        [id(pods.task(place)) for place in range(len(pods.rows))],
    ]


@pytest.mark.parametrize("seed", range(6))
def test_pods_follow_all_changes(seed: int) -> None:
    """Jobs, nodes, queues and refused evictions change; nothing that was known shows."""
    world, known, seen = World(seed), EvictablePods(layout([]), ()), 0
    for _ in range(ROUNDS):
        world.change()
        before, shown_before = known, shown(known)
        known = world.follow(before)
        assert shown(known) == shown(world.anew())
        assert shown(before) == shown_before, "a value has changed"
        seen += len(known.rows)
    assert seen > ROUNDS * 5


@pytest.mark.parametrize("seed", range(3))
def test_pods_are_those_of_the_jobs(seed: int) -> None:
    """Told from the jobs one by one: who may be evicted, where, and in which order."""
    world, known = World(seed), EvictablePods(layout([]), ())
    for _ in range(ROUNDS):
        world.change()
        known = world.follow(known)
        expected = sorted(
            (world.layout.rows[task.node or ""], job.id, place, task)
            for job in world.every
            for place, task in enumerate(job.tasks)
            if task.status in EVICTABLE
            if task.node in world.layout.rows
            if job.queue in world.queues
            if task.uid not in world.refused
        )
        every = range(len(known.rows))
        assert list(map(known.task, every)) == [task for *_, task in expected]
        assert known.rows.tolist() == [row for row, *_ in expected]
        owners = [known.owner_jobs[owner].id for owner in known.owners]
        assert owners == [job for _, job, *_ in expected]
        classes = [known.classes[number] for number in known.class_numbers]
        assert classes == [task.pod_class for *_, task in expected]
        queues = [known.queue_names[number] for number in known.owner_queues]
        assert queues == [job.queue for job in known.owner_jobs]
        assert list(known.queue_names) == sorted(set(queues))
        assert known.owner_priorities.tolist() == [job.priority for job in known.owner_jobs]
        assert known.protected.tolist() == [job.protected for job in known.owner_jobs]
        for row in range(world.layout.size):
            here = [task.uid for there, *_, task in expected if there == row]
            assert [task.uid for task in known.on(row)] == sorted(here)


def test_pods_are_counted_as_read_once() -> None:
    """What reading costs doesn't depend on what was kept: the next one who reads pays nothing."""
    running = sessions.task("a", 0, TaskStatus.RUNNING, node="n0")
    nobody = EvictablePods(layout(["n0"]), ("q",))
    first = sessions.job("a", running)
    found = nobody.of_jobs(JobsById.of([first]), frozenset())
    assert found.read == 1
    for before in (found, nobody):
        assert before.of_jobs(JobsById.of([first]), frozenset()).read == 0
    changed = sessions.job("a", running, sessions.task("a", 1))
    assert found.of_jobs(JobsById.of([changed]), frozenset()).read == 2
    assert nobody.of_jobs(JobsById.of([changed]), frozenset()).read == 0


def test_the_same_jobs_are_not_looked_at() -> None:
    """With the same refused evictions, the columns are the same arrays."""
    job = sessions.job("a", sessions.task("a", 0, TaskStatus.RUNNING, node="n0"))
    every = JobsById.of([job])
    found = EvictablePods(layout(["n0"]), ("q",)).of_jobs(every, frozenset())
    again = found.of_jobs(every, frozenset())
    assert again.read == 0
    assert again.rows is found.rows
