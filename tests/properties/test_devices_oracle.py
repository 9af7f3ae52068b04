"""Devices: our answers against a judge that tries everything."""

import copy
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies

from tests import device_labs, device_worlds, running, volume_labs
from tests.device_worlds import Features, World
from tests.oracle import manifests
from tests.properties import clusters
from tests.properties.devices_by_hand import Judge
from vscheduler.core import cycle
from vscheduler.core.claims.devices import needs as device_needs
from vscheduler.core.placement.placement import Placement
from vscheduler.core.session.session import Session
from vscheduler.mirror import device_requests
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.model.devices import ResourceClaim
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.testing import pictures

POLICY = running.policy_of(
    {"actions": "allocate, backfill", "tiers": running.tiers(running.STANDARD)}
)
GROUP = "scheduling.k8s.io/group-name"
SEEDS = strategies.integers(0, 10**6)

Document = device_worlds.Document


def documents(world: World, *, together: bool) -> list[Document]:
    """The world, with its pods as ours: each in a group of its own, or all in one."""
    found: list[Document] = [manifests.QUEUE, *world.nodes, *world.devices]
    for pod in copy.deepcopy(world.pods):
        name = "gang" if together else pod["metadata"]["name"]
        pod["metadata"]["annotations"] = {GROUP: name}
        pod["spec"]["schedulerName"] = pictures.SCHEDULER
        found.append(pod)
    names = {"gang"} if together else {pod["metadata"]["name"] for pod in world.pods}
    for name in sorted(names):
        group = manifests.group(device_worlds.NAMESPACE, name)
        group["spec"]["minMember"] = len(world.pods) if together else 1
        found.append(group)
    return found


def opened(listed: Sequence[Document]) -> Session:
    """A session on these objects."""
    return cycle.open_session(running.snapshot_of(listed), POLICY)


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


def decide(listed: Sequence[Document]) -> CycleResult:
    """One cycle."""
    return cycle.run_cycle(running.snapshot_of(listed), POLICY)


@given(SEEDS)
@clusters.bounded(200)
def test_nodes_of_a_pod_are_those_of_the_judge(seed: int) -> None:
    """For every pod by itself, and each node, with everything that claims can ask for."""
    world = device_worlds.world(device_worlds.ALL, seed)
    judge = Judge(world)
    session = opened(documents(world, together=False))
    by_name = {task.name: task for task in pending(session)}
    for pod in world.pods:
        expected = {name for name in judge.nodes if judge.takes(pod, name)}
        assert choices(session, by_name[pod["metadata"]["name"]]) == expected


@given(SEEDS)
@clusters.bounded(200)
def test_a_gang_starts_if_and_only_if_it_fits(seed: int) -> None:
    """With numbers of devices and selectors, whichever devices its pods could share."""
    world = device_worlds.world(device_worlds.PLAIN, seed)
    result = decide(documents(world, together=True))
    placed = {each.task.name for each in result.pipelined}
    fits = Judge(world).fits(world.pods)
    assert placed == ({pod["metadata"]["name"] for pod in world.pods} if fits else set())


ALTERNATIVES = Features(alternatives=True, constraints=True)


@pytest.mark.parametrize(
    ("features", "seed"),
    [(Features(constraints=True), 48), (ALTERNATIVES, 37), (ALTERNATIVES, 55)],
)
def test_a_gang_is_searched_by_what_it_asks_for_at_least(features: Features, seed: int) -> None:
    """Of constraints and alternatives, the search for a gang knows the smallest numbers only."""
    world = device_worlds.world(features, seed, pods=(2, 4), nodes=(3, 5))
    assert Judge(world).fits(world.pods)
    assert len(decide(documents(world, together=True)).pipelined) == len(world.pods)


@given(SEEDS)
@clusters.bounded(200)
def test_what_is_allocated_is_right(seed: int) -> None:
    """Devices are free, on the pods' nodes, and as the claims ask for."""
    world = device_worlds.world(device_worlds.ALL, seed)
    listed = documents(world, together=True)
    result = decide(listed)
    judge = Judge(world)
    nodes = {each.task.name: each.node for each in result.pipelined}
    taken: list[tuple[str, str, str]] = []
    for allocated in device_labs.allocations(result):
        assert allocated.allocation is not None
        own = [
            tuple(device.id) for device in allocated.allocation.devices if not device.admin_access
        ]
        taken += own  # type: ignore[arg-type]  # three texts
        for consumer in allocated.reserved_for:
            node = nodes[consumer.name]
            assert frozenset(own) in set(
                judge.ways(judge.claims[allocated.name], node, frozenset())
            )
            assert all(
                tuple(device.id) in judge.on(node) for device in allocated.allocation.devices
            )
    assert len(set(taken)) == len(taken)
    assert not judge.used & set(taken)
    wanted = {name for pod in world.pods if nodes for name in judge.names(pod)}
    assert {claim.name for claim in device_labs.allocations(result)} == wanted


Masks = tuple[tuple[int, ...], tuple[int, ...]]


def masks(session: Session, tasks: Sequence[Task]) -> dict[str, Masks]:
    """The rows that take each task, now and later."""
    placing, found = session.placement, {}
    assert isinstance(placing, Placement)
    for task in tasks:
        plan = placing._plan(task)
        now, later = (np.flatnonzero(each > -np.inf) for each in (plan.idle, plan.future))
        found[task.name] = tuple(now.tolist()), tuple(later.tolist())
    return found


def looked_at_anew(session: Session, tasks: Sequence[Task]) -> dict[str, Masks]:
    """The same without anything that plans keep, each task by itself."""
    kept, found = session.placement, dict[str, Masks]()
    for task in tasks:
        session.placement = Placement(session)
        found |= masks(session, [task])
    session.placement = kept
    return found


def alike(world: World, chance: random.Random) -> None:
    """Let most pods ask for the same devices as the first one, and some of these for more else."""
    claims = [device for device in world.devices if "ownerReferences" in device["metadata"]]
    for claim in claims[1:]:
        if chance.random() < 0.5:
            claim["spec"] = claims[0]["spec"]
    for pod in world.pods:
        if chance.random() < 0.3:
            pod["spec"]["nodeSelector"] = {"zone": chance.choice(("x", "y"))}
        if chance.random() < 0.3:
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"


@given(SEEDS, strategies.randoms(use_true_random=False))
@clusters.bounded(100)
def test_plans_follow_placements_and_rollback_is_exact(seed: int, chance: random.Random) -> None:
    """Pods are placed on any nodes that take them, one after the other, and all undone."""
    features = chance.choice((device_worlds.ALL, device_worlds.PLAIN))
    world = device_worlds.world(features, seed, pods=(3, 6), nodes=(2, 3))
    alike(world, chance)
    session = opened(documents(world, together=False))
    tasks = sorted(pending(session), key=lambda task: task.name)
    before = masks(session, tasks)
    with session.statement() as trial:
        for number, task in enumerate(tasks):
            now, _ = masks(session, [task])[task.name]
            if now:
                trial.allocate(task, chance.choice(now))
                left = tasks[number + 1 :]
                assert masks(session, left) == looked_at_anew(session, left)
    assert masks(session, tasks) == before == looked_at_anew(session, tasks)


def leaving(world: World) -> list[Document]:
    """The pod that has the occupied devices, while it leaves."""
    pod = copy.deepcopy(world.pods[0])
    pod["metadata"] |= {"name": "other", "uid": "other", "annotations": {GROUP: "other"}}
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pod["spec"] |= {
        "schedulerName": pictures.SCHEDULER,
        "nodeName": world.nodes[0]["metadata"]["name"],
        "resourceClaims": [{"name": "own", "resourceClaimName": "other"}],
    }
    pod["status"] = {"phase": "Running"}
    return [pod, manifests.group(device_worlds.NAMESPACE, "other")]


@given(SEEDS, strategies.randoms(use_true_random=False))
@clusters.bounded(400)
def test_whatever_was_tried_before_no_device_is_given_away_in_use(
    seed: int, chance: random.Random
) -> None:
    """A pod may have waited for devices of a pod that leaves, and then been placed elsewhere."""
    features = chance.choice((device_worlds.ALL, Features(shared=True)))
    world = device_worlds.world(features, seed, pods=(3, 5), nodes=(1, 1))
    session = opened(documents(world, together=False) + leaving(world))
    tasks = [task for task in pending(session) if task.name != "other"]
    used = Judge(world).used
    for _ in range(4):
        with session.statement() as trial:
            allocated = []
            for task in chance.sample(tasks, len(tasks)):
                now, later = masks(session, [task])[task.name]
                if now and chance.random() < 0.7:
                    allocated.append((task, chance.choice(now)))
                    trial.allocate(*allocated[-1])
                elif later:
                    trial.pipeline(task, chance.choice(later))
            for task, _ in allocated:
                assert not session.devices.lacks_choice(task)
                for claim in session.devices.unallocated(task):
                    assert claim.allocation is None or not used.intersection(
                        tuple(device.id)
                        for device in claim.allocation.devices
                        if not device.admin_access
                    )


def allocated_in_part(listed: Sequence[Document], chance: random.Random) -> list[Document]:
    """The same objects after a cycle of whose writes some were made."""
    found = copy.deepcopy(list(listed))
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    for document in found:
        kind = events.kind_of(document)
        assert kind is not None
        mirror.apply(events.convert(kind, document))
    result = cycle.run_cycle(mirror.snapshot(pictures.NOW.timestamp()), POLICY)
    claims = {each["metadata"]["name"]: each for each in found if each["kind"] == "ResourceClaim"}
    for change in device_labs.allocations(result):
        target = mirror.claims.target(change)
        assert target is not None
        assert isinstance(target.value, ResourceClaim)
        if chance.random() < 0.7:
            patch = device_requests.status_patch(target.value, change, target.version)
            volume_labs.merged(claims[change.name], patch)
    return found


@given(SEEDS, strategies.randoms(use_true_random=False))
@clusters.bounded(100)
def test_pods_with_devices_look_at_their_nodes_alone(seed: int, chance: random.Random) -> None:
    """As if they had looked at all of them, also while other pods are placed."""
    world = device_worlds.world(device_worlds.ALL, seed, pods=(2, 5))
    alike(world, chance)
    listed = allocated_in_part(documents(world, together=chance.random() < 0.5), chance)
    decided = []
    for few in (0, 10**9):  # always, and never
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(device_needs, "FEW", few)
            session, order = opened(listed), random.Random(seed)
            tasks = sorted(pending(session), key=lambda task: task.name)
            found = [masks(session, tasks)]
            with session.statement() as trial:
                for number, task in enumerate(tasks):
                    now, _ = masks(session, [task])[task.name]
                    if now:
                        trial.allocate(task, order.choice(now))
                        found.append(masks(session, tasks[number + 1 :]))
            result = decide(listed)
            binds = {bind.task.name: bind.node for bind in result.binds}
            waits = {each.task.name: each.node for each in result.pipelined}
            claims = [allocation.requests for allocation in result.claims]
            decided.append((found, binds, waits, claims))
    assert decided[0] == decided[1]
