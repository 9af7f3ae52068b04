"""Capacity in random trees: no limit is passed, no guarantee is used up, and undoing is exact."""

import math
import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies

from tests.properties import clusters
from tests.unit.core import sessions
from tests.unit.core.sessions import Opened
from vscheduler.core.plugins.capacity import Capacity
from vscheduler.model.jobs import Job, Task
from vscheduler.model.queues import ROOT

CPU = "cpu"
ENDLESS = float("inf")


@dataclass(frozen=True, slots=True)
class World:
    """A plugin, its session, and one waiting pod of each size for each leaf."""

    plugin: Capacity
    session: Opened
    parents: dict[str, str]
    """Of queues but root."""

    def below(self, name: str) -> list[str]:
        """A queue's children."""
        return [each for each, parent in self.parents.items() if parent == name]

    def line(self, name: str) -> list[str]:
        """A queue and all above it."""
        found = [name]
        while found[-1] in self.parents:
            found.append(self.parents[found[-1]])
        return found


def world(chance: random.Random, *, flat: bool) -> World:
    """Up to eight queues, with limits or without."""
    total = chance.choice((0, 10, 40))
    parents: dict[str, str] = {}
    made = []
    for number in range(chance.randint(1, 8)):
        name = f"q{number}"
        parents[name] = ROOT if flat else chance.choice([ROOT, *parents])
        limits: dict[str, dict[str, int]] = {}
        if chance.random() < 0.5:
            limits["capability"] = {CPU: chance.randint(1, 30)}
        if chance.random() < 0.5:
            limits["guarantee"] = limits["deserved"] = {CPU: chance.randint(1, 12)}
        made.append(sessions.queue(name, parent="" if flat else parents[name], **limits))
    leaves = [name for name in parents if name not in parents.values()]
    waiting = [
        sessions.job(
            name,
            *(sessions.task(name, size, of=sessions.pod_class(cpu=size)) for size in (1, 3)),
            queue=name,
        )
        for name in leaves
    ]
    session = sessions.opened(*waiting, queues=made, total=sessions.total(cpu=total))
    plugin = Capacity({}, frozenset() if flat else frozenset({"enableHierarchy"}))
    plugin.open(session)
    plugin.start()
    return World(plugin, session, parents)


def limit(world: World, name: str, resource: str = CPU) -> float:
    """A queue's own capability."""
    known = world.session.queues.get(name)
    return known.capability.get(resource, ENDLESS) if known else ENDLESS


def guarantee(world: World, name: str) -> float:
    """A queue's guarantee, as far as its capability goes, and as it counts.

    What of guarantees counts that are more than there is, test_guarantees works out by hand.
    """
    known = world.session.queues.get(name)
    written = known.guarantee.get(CPU, 0) if known else 0
    kept = float(world.plugin._usage_tree.usages[name].guarantee[0]) if written else 0.0
    return min(written, limit(world, name), kept)


def space(world: World, name: str) -> float:
    """What is there for all below a queue: what its parent has, less what siblings are promised."""
    if name == ROOT:
        return float(world.session.total[0])
    parent = world.parents[name]
    siblings = sum(guarantee(world, each) for each in world.below(parent))
    spare = max(space(world, parent) - siblings, 0)
    return min(spare + guarantee(world, name), limit(world, name))


def held(world: World, name: str, used: Counter[str]) -> float:
    """What a queue uses or is to find free, all below it included."""
    below = sum(held(world, each, used) for each in world.below(name))
    return max(below + used[name], guarantee(world, name))


def books(world: World) -> list[object]:
    """All that can change in the plugin's accounts."""
    accounts = world.plugin._usage_tree.usages
    return [
        (account.name, account.allocated, account.owned, account.held)
        for account in accounts.values()
    ]


@pytest.mark.parametrize("flat", [False, True])
@given(seed=strategies.integers(0, 2**32))
@clusters.bounded(150)
def test_no_limit_is_passed_and_no_guarantee_used_up(flat: bool, seed: int) -> None:
    """Whatever comes and goes, in whatever order; at the end all is as in the beginning."""
    chance = random.Random(seed)
    made = world(chance, flat=flat)
    used: Counter[str] = Counter()
    inner = {*made.parents.values(), ROOT}
    at_least = {name: held(made, name, used) for name in inner}
    before = repr(books(made))
    placed: list[tuple[str, Task]] = []
    for _ in range(60):
        if placed and chance.random() < 0.3:
            queue, task = placed.pop(chance.randrange(len(placed)))
            made.plugin.on_deallocate(task)
            used[queue] -= task.pod_class.request[CPU]
            continue
        state = chance.choice(list(made.session.job_states.values()))
        queue, task = state.job.queue, chance.choice(state.job.tasks)
        if used.total() + task.pod_class.request[CPU] > made.session.total[0]:
            continue  # the nodes are full
        if made.plugin.allocatable(made.session.queues[queue], task):
            made.plugin.on_allocate(task)
            used[queue] += task.pod_class.request[CPU]
            placed.append((queue, task))
        elif not made.plugin.shortages(made.session.queues[queue], task):
            pytest.fail("refused without a reason")
        for name in made.parents:
            amount = sum(used[parent] for parent in made.parents if name in made.line(parent))
            assert amount <= limit(made, name)
        for name in inner:
            assert held(made, name, used) <= max(space(made, name), at_least[name])
    while placed:
        made.plugin.on_deallocate(placed.pop()[1])
    assert repr(books(made)) == before


@given(seed=strategies.integers(0, 2**32))
@clusters.bounded(150)
def test_what_is_guaranteed_is_there(seed: int) -> None:
    """After others took all that they could, a queue still gets what it is guaranteed.

    As far as those above it may have it at all, and guarantees add up to no more than there is.
    """
    chance = random.Random(seed)
    made = world(chance, flat=False)
    nothing: Counter[str] = Counter()
    inner = {*made.parents.values(), ROOT}
    if any(held(made, name, nothing) > space(made, name) for name in inner):
        return
    gangs = list(made.session.job_states.values())
    lucky, *others = chance.sample(gangs, len(gangs))
    for state in others:
        _fill(made, state.job)
    queue = lucky.job.queue
    assert _fill(made, lucky.job) >= guarantee(made, queue)


def _fill(world: World, job: Job) -> int:
    """Place pods of one unit until the queue takes no more; how many. Without a limit, a few."""
    task, count = job.tasks[0], 0
    assert task.pod_class.request[CPU] == 1
    while count < 50 and world.plugin.allocatable(world.session.queues[job.queue], task):
        world.plugin.on_allocate(task)
        count += 1
    return count


@pytest.mark.parametrize("flat", [False, True])
@given(seed=strategies.integers(0, 2**32))
@clusters.bounded(150)
def test_limits_say_how_many_pods_the_queue_takes(flat: bool, seed: int) -> None:
    """In any state: as many as are taken if they are tried one by one."""
    chance = random.Random(seed)
    made = world(chance, flat=flat)
    for state in chance.sample(
        list(made.session.job_states.values()), len(made.session.job_states)
    ):
        limits = made.plugin.queue_limits(made.session.queues[state.job.queue], state.job.tasks[0])
        rooms = {limit.room for limit in limits if limit.resource in (CPU, "pods")}
        if not flat or chance.random() < 0.5:
            assert _fill(made, state.job) == max(0, math.floor(min({50.0, *rooms})))
