"""Volumes: our answers against a judge that reads the documents, and exact rollback."""

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from hypothesis import given, strategies

from tests import running
from tests.oracle import manifests, volumes
from tests.oracle.worlds import World
from tests.properties import clusters
from tests.properties.volumes_by_hand import Judge
from vscheduler.core import cycle
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.core.placement.placement import Placement
from vscheduler.core.session.session import Session
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.testing import pictures

Document = manifests.Document

POLICY = running.policy_of(
    {"actions": "allocate, backfill", "tiers": running.tiers(running.STANDARD)}
)
GROUP = "scheduling.k8s.io/group-name"
WORLDS = strategies.builds(
    volumes.world, strategies.sampled_from(list(volumes.FEATURES)), strategies.integers(0, 10**6)
)
CHANCE = strategies.randoms(use_true_random=False)


def asked(world: World, *, together: bool = False) -> list[Document]:
    """The pods that wait as ours, each in a group of its own or all in one."""
    found = []
    for pod in world.waiting:
        name = "gang" if together else pod["metadata"]["name"]
        metadata = {**pod["metadata"], "uid": manifests.key(pod), "annotations": {GROUP: name}}
        spec = {**pod["spec"], "schedulerName": pictures.SCHEDULER}
        found.append({**pod, "metadata": metadata, "spec": spec})
    return found


def opened(world: World, waiting: Sequence[Document]) -> Session:
    """A session on the world."""
    names = {document["metadata"]["annotations"][GROUP] for document in waiting}
    groups = [manifests.group("oracle-a", name) for name in sorted(names)]
    documents = [
        *(manifests.QUEUE, *world.nodes, *world.storage, *world.standing),
        *(*groups, *waiting),
    ]
    return cycle.open_session(running.snapshot_of(documents), POLICY)


def pending(session: Session) -> list[Task]:
    """All tasks that wait."""
    waits = TaskStatus.PENDING
    return [task for state in session.job_states.values() for task in state.tasks(waits)]


def choices(session: Session, task: Task) -> frozenset[str]:
    """The nodes that take the task now."""
    placing = session.placement
    assert isinstance(placing, Placement)
    rows = np.flatnonzero(placing._plan(task).idle > -np.inf).tolist()
    return frozenset(session.layout.names[row] for row in rows)


@given(WORLDS)
@clusters.bounded(120)
def test_nodes_are_those_of_the_judge(world: World) -> None:
    """For every pod, and each node."""
    waiting = asked(world)
    session = opened(world, waiting)
    judge = Judge([*world.nodes, *world.storage, *world.standing, *waiting])
    by_key = {task.key: task for task in pending(session)}
    for pod in waiting:
        expected = {name for name in judge.nodes if judge.takes(pod, name)}
        assert choices(session, by_key[manifests.key(pod)]) == expected


@given(WORLDS, CHANCE)
@clusters.bounded(80)
def test_members_of_a_gang_pass_alone(world: World, chance: random.Random) -> None:
    """All that one cycle places, each judged where it is with all others in place."""
    waiting = asked(world, together=True)
    session = opened(world, waiting)
    nodes, objects, given_away = dict[str, str](), copy.deepcopy(list(world.storage)), set[str]()
    by_claim: dict[str, str | None] = {}
    with session.statement() as trial:
        tasks = pending(session)
        chance.shuffle(tasks)
        for task in tasks:
            choice = session.placement.choose(task)
            if choice is None:
                continue
            before = session.volumes.unbound(task, choice.row)
            (trial.allocate if chance.random() < 0.7 else trial.pipeline)(task, choice.row)
            assert session.volumes.unbound(task, choice.row) == before
            nodes[task.key] = session.layout.names[choice.row]
            for binding in before:
                if binding.key in by_claim:
                    assert by_claim[binding.key] == binding.volume
                elif binding.volume is not None:
                    assert binding.volume not in given_away
                    given_away.add(binding.volume)
                by_claim[binding.key] = binding.volume
    reserve(objects, by_claim)
    there = [each for each in waiting if manifests.key(each) in nodes]
    placed = [placed_on(each, nodes[manifests.key(each)]) for each in there]
    judge = Judge([*world.nodes, *objects, *world.standing, *placed])
    for pod in placed:
        assert judge.takes(pod, pod["spec"]["nodeName"]), manifests.key(pod)


def placed_on(pod: Document, node: str) -> Document:
    """The pod on a node."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def reserve(objects: Sequence[Document], by_claim: Mapping[str, str | None]) -> None:
    """Give the chosen volumes to their claims; where the rest is made is for others to see."""
    claims = {
        manifests.key(document): document for document in objects if document["kind"] == CLAIM
    }
    for document in objects:
        for claim, volume in by_claim.items():
            if document["kind"] == "PersistentVolume" and document["metadata"]["name"] == volume:
                names = claims[claim]["metadata"]
                document["spec"]["claimRef"] = {
                    name: names[name] for name in ("namespace", "name", "uid")
                }
    for claim in by_claim:
        # Members that share a claim needn't be where it is made.
        claims[claim]["metadata"]["annotations"].pop("volume.kubernetes.io/selected-node", None)


CLAIM = "PersistentVolumeClaim"


@given(WORLDS, CHANCE)
@clusters.bounded(80)
def test_rollback_restores_volumes_exactly(world: World, chance: random.Random) -> None:
    """After any placements and changes of mind nothing is left, and answers are equal."""
    session = opened(world, asked(world, together=True))
    assert isinstance(session.volumes, VolumeState)
    tasks, rows = pending(session), range(session.layout.size)
    before = books(session.volumes)
    said = [choices(session, task) for task in tasks]
    bindings = [session.volumes.unbound(task, row) for task in tasks for row in rows]
    for _ in range(3):
        with session.statement() as trial:
            for task in chance.sample(tasks, len(tasks)):
                choice = session.placement.choose(task)
                if choice is not None:
                    (trial.allocate if chance.random() < 0.5 else trial.pipeline)(task, choice.row)
                if chance.random() < 0.2:
                    trial.rollback(trial.checkpoint() // 2)
        assert books(session.volumes) == before
        assert [choices(session, task) for task in tasks] == said
        again = [session.volumes.unbound(task, row) for task in tasks for row in rows]
        assert again == bindings


def books(found: VolumeState) -> object:
    """All that the volumes of a cycle keep account of."""
    binding, users = found._choices, found._users
    given_away = {name: dict(each) for name, each in binding._given.items() if each}
    claims = {key: counts for key, counts in users._of_claims.items() if any(counts)}
    return (
        dict(binding._choices),
        dict(binding._chosen),
        given_away,
        copy.deepcopy(users.changes),
        copy.deepcopy(claims),
    )


@given(WORLDS)
@clusters.bounded(40)
def test_a_cycle_that_remembers_decides_like_one_that_does_not(world: World) -> None:
    """What placement keeps of volumes between placements changes no answer."""
    waiting = asked(world, together=True)
    remembering = opened(world, waiting)
    with remembering.statement() as trial:
        taken: list[tuple[str, int]] = []
        for task in pending(remembering):
            with afresh(world, waiting, taken) as forgetful:
                by_key = {each.key: each for each in pending(forgetful)}
                assert choices(remembering, task) == choices(forgetful, by_key[task.key])
            choice = remembering.placement.choose(task)
            if choice is not None:
                trial.allocate(task, choice.row)
                taken.append((task.key, choice.row))


@contextmanager
def afresh(
    world: World, waiting: Sequence[Document], taken: Sequence[tuple[str, int]]
) -> Iterator[Session]:
    """A session with these tasks placed before anything was asked."""
    session = opened(world, waiting)
    by_key = {task.key: task for task in pending(session)}
    with session.statement() as trial:
        for key, row in taken:
            trial.allocate(by_key[key], row)
        yield session


def test_worlds_have_what_they_are_for() -> None:
    """Each feature lets some pods onto some nodes, and refuses others, but for broken claims."""
    for name in volumes.FEATURES:
        found = list(shares(name))
        assert min(found) < 1
        assert max(found) > 0 or name == "volumes-broken", name


def shares(name: str) -> Iterator[float]:
    """Which part of the nodes takes a pod, in a few worlds."""
    for seed in range(4):
        world = volumes.world(name, seed)
        session = opened(world, asked(world))
        for task in pending(session):
            yield len(choices(session, task)) / len(world.nodes)
