"""Backfill on random traces of plain jobs, gangs in one rack and gangs with devices: promises are
kept, and nobody starves.
"""

import random
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.properties.test_backfill import FIFO, policy, seeds
from vscheduler.core.config.policy import Policy
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate.translation import Node
from vscheduler.model.decisions import CycleResult
from vscheduler.model.nodes import NodeSpec
from vscheduler.model.resources import ALLOCATABLE_MAX, CPU, MEMORY, PODS
from vscheduler.model.snapshot import Carried
from vscheduler.model.topology import TopologyRequest
from vscheduler.simulator.replay import clusters, virtual_time
from vscheduler.simulator.replay.clusters import NodeShape
from vscheduler.simulator.replay.traces import CORE, GPU, Trace, TraceJob
from vscheduler.simulator.replay.virtual_time import History, Options, _Live, _World

RACK = "rack"
NEAR = TopologyRequest(field="spec.networkTopology", tier_name=RACK, key=RACK)


class Machine(NamedTuple):
    """A node."""

    rack: str
    cores: int
    gpus: int


class Mixed(NamedTuple):
    """Nodes, and jobs that can all start on them once they are empty."""

    machines: tuple[Machine, ...]
    trace: Trace
    near: frozenset[str]
    """Jobs whose pods have to be in one rack."""


def drawn(seed: int) -> Mixed:
    """A cluster of two or three racks, of which some nodes have devices."""
    draw = random.Random(seed)
    machines = tuple(
        Machine(draw.choice("abc"), draw.randint(1, 4), draw.choice((0, 0, 1, 2)))
        for _ in range(draw.randint(3, 7))
    )
    near, jobs = set(), []
    for at, submit in enumerate(sorted(draw.randint(0, 60) for _ in range(draw.randint(8, 24)))):
        request = draw.choice(({CPU: CORE}, {CPU: CORE}, {CPU: 2 * CORE}, {CPU: CORE, GPU: 1}))
        together = draw.random() < 0.4
        most = room(machines, request, in_one_rack=together)
        if not most:
            continue
        duration = draw.randint(1, 30)
        if together:
            near.add(str(at))
        jobs.append(
            TraceJob(
                id=str(at),
                submit=float(submit),
                duration=float(duration),
                limit=float(duration + draw.choice((0, draw.randint(1, 40)))),
                pods=min(most, draw.choice((1, 2, 3, most))),
                request=request,
                queue=f"q{draw.randrange(2)}",
            )
        )
    return Mixed(machines, Trace(jobs=tuple(jobs)), frozenset(near))


def room(machines: tuple[Machine, ...], request: Mapping[str, int], *, in_one_rack: bool) -> int:
    """How many of these pods fit on the empty nodes."""
    by_rack = dict.fromkeys((machine.rack for machine in machines), 0)
    for machine in machines:
        most = machine.cores * CORE // request[CPU]
        by_rack[machine.rack] += min(most, machine.gpus) if GPU in request else most
    return max(by_rack.values()) if in_one_rack else sum(by_rack.values())


def cluster(mixed: Mixed, rules: Policy) -> Mirror:
    """The nodes and queues."""
    mirror = clusters.of_shape(NodeShape(nodes=1, cores=1), rules.reads)
    for at, machine in enumerate(mixed.machines):
        labels = (("kubernetes.io/hostname", f"node-{at}"), (RACK, machine.rack))
        amounts = {
            CPU: CORE * machine.cores,
            MEMORY: ALLOCATABLE_MAX,
            PODS: ALLOCATABLE_MAX,
            GPU: machine.gpus,
        }
        spec = NodeSpec(name=f"node-{at}", labels=labels)
        clusters.show(mirror, Kind.NODE, {spec.name: Node(spec=spec, allocatable=amounts)})
    clusters.add_queues(mirror, {job.queue for job in mixed.trace.jobs})
    return mirror


def played(mixed: Mixed, rules: Policy, monkeypatch: pytest.MonkeyPatch) -> History:
    """What becomes of the jobs."""
    made = _World._new

    def asking_topology(world: _World, at: int, job: TraceJob) -> _Live:
        live = made(world, at, job)
        if job.id in mixed.near:
            live.group = replace(live.group, job=replace(live.group.job, topology=NEAR))
        return live

    monkeypatch.setattr(_World, "_new", asking_topology)
    return virtual_time.replay(mixed.trace, cluster(mixed, rules), rules, Options())


@pytest.mark.parametrize("mode", ["easy", "conservative"])
@pytest.mark.parametrize("names", [FIFO, f"{FIFO}, proportion"])
@pytest.mark.parametrize("seed", seeds(5000, 6, 60))
def test_promises_are_kept_to_all_kinds_of_jobs(
    seed: int, names: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None becomes later, whoever comes after it; each job starts in the end, and near ones in one
    rack.
    """
    mixed = drawn(seed)
    promised: dict[str, float] = {}
    racks: dict[str, set[str]] = {}
    decide = virtual_time._decide

    def recorded(mirror: Mirror, rules: Policy, now: float, carried: Carried) -> CycleResult:
        result = decide(mirror, rules, now, carried)
        for each in result.carried.reservations:
            assert each.start <= promised.get(each.job, each.start)
            promised[each.job] = each.start
        for bind in result.binds:
            machine = mixed.machines[int(bind.node.rpartition("-")[2])]
            racks.setdefault(bind.task.job, set()).add(machine.rack)
            assert now <= promised.get(bind.task.job, now)
        return result

    monkeypatch.setattr(virtual_time, "_decide", recorded)
    found = played(mixed, policy(mode, f"{names}, network-topology-aware"), monkeypatch)
    assert found.unstarted == {}
    assert len(found.runs) == len(mixed.trace.jobs)
    assert all(len(racks[f"default/job-{job}"]) == 1 for job in mixed.near)
