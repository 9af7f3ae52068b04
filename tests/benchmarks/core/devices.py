"""`python -m tests.benchmarks.core.devices`: gangs whose pods have claims for devices.

Nodes have 16 GPUs each, and pods of gangs of four have a claim for one or two of them. Claims are
written right after each cycle, as by an API server without delay. Shown is the thread CPU, with the
daemon's budget: to take the cluster in, and until all gangs run.
"""

import argparse
import gc
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests import device_labs, volume_labs
from tests.benchmarks import loading
from tests.benchmarks.core import clusters, timing
from tests.benchmarks.core.clusters import Document, Gang
from tests.integration import devices
from vscheduler.core import cycle
from vscheduler.daemon import application
from vscheduler.mirror import device_requests
from vscheduler.mirror.decode.events import Kind
from vscheduler.model.decisions import CycleResult
from vscheduler.model.devices import ResourceClaim
from vscheduler.model.snapshot import FRESH

GANG = 4
DEVICES = 16
"""Of each node."""
CLAIM = "gpus"
SIZES = ((500, 100), (1000, 200), (2000, 400))
"""Nodes and gangs."""
CYCLES_MAX = 1000
POLICY = timing.policy_of("enqueue, allocate, backfill, reclaim")


class Cluster(clusters.Cluster):
    """A cluster with devices, in which the tests write claims."""

    def __init__(self) -> None:
        super().__init__()
        self._versions = itertools.count(1)
        self._claims: dict[str, Document] = {}

    def add_devices(self, names: Sequence[str], first: int = 0) -> None:
        """A pool of equal GPUs on each node, small and large ones in turn."""
        for number, name in enumerate(names, start=first):
            memory = (loading.SMALL, loading.LARGE)[number % 2]
            slice_ = devices.a_slice(name, DEVICES, memory)
            self._show(Kind.RESOURCE_SLICE, slice_)

    def add_class(self) -> None:
        """The class of all GPUs."""
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{devices.DRIVER}"'}}]}
        document = {"metadata": {"name": devices.CLASS, "uid": "uid-class"}, "spec": spec}
        self._show(Kind.DEVICE_CLASS, document)

    def add_gang(self, name: str) -> None:
        """A gang that waits, and the claims of its pods."""
        self.add(Gang(name=name, requests=[clusters.POD] * GANG, claim=CLAIM))
        for number in range(GANG):
            pod = f"{name}-{number:05}"
            owner = {"kind": "Pod", "name": pod, "uid": f"uid-{pod}", "controller": True}
            claim, templates = f"{pod}-{CLAIM}", [*loading.TEMPLATES.values()]
            self._put_claim(
                {
                    "metadata": {
                        "name": claim,
                        "namespace": clusters.NAMESPACE,
                        "uid": f"uid-{claim}",
                        "ownerReferences": [owner],
                    },
                    "spec": devices.asked(*templates[number % len(templates)]),
                    "status": {},
                }
            )

    def _put_claim(self, document: Document) -> None:
        document["metadata"]["resourceVersion"] = str(next(self._versions))
        self._claims[document["metadata"]["name"]] = document
        self._show(Kind.RESOURCE_CLAIM, document)

    def write(self, result: CycleResult) -> None:
        """Carry out what a cycle has decided: claims first, as the daemon does, then binds."""
        for change in device_labs.allocations(result):
            target = self.mirror.claims.target(change)
            assert target is not None
            assert isinstance(target.value, ResourceClaim)
            wanted = self.mirror.claims.begin(target, change, since=0.0)
            stored = self._claims[change.name]
            patch = device_requests.status_patch(target.value, change, target.version)
            self._put_claim(volume_labs.merged(stored, patch))
            self.mirror.claims.end(target, wanted)
        self.bind(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a cluster costs: thread CPU seconds."""

    take_in: float
    """Of all objects, and the first snapshot."""
    first: float
    """Of the first cycle."""
    rest: float
    """Of all further cycles, with their snapshots."""
    longest: float
    """Of a cycle after the first one."""
    cycles: int


def run(nodes: int, gangs: int, clock: Callable[[], float] = time.thread_time) -> Cost:
    """Take a cluster in, and let cycles follow each other until all gangs run."""
    began = clock()
    cluster = filled(nodes, gangs)
    cluster.snapshot()
    took_in = clock() - began
    costs: list[float] = []
    bound, carried = 0, FRESH
    while bound < gangs * GANG:
        assert len(costs) < CYCLES_MAX, f"{bound} pods bound"
        began = clock()
        result = cycle.run_cycle(cluster.snapshot(carried), POLICY, timing.BUDGET)
        costs.append(clock() - began)
        assert not result.faults, result.faults
        cluster.write(result)
        bound, carried = bound + len(result.binds), result.carried
    return Cost(
        take_in=took_in,
        first=costs[0],
        rest=sum(costs[1:]),
        longest=max(costs[1:]),
        cycles=len(costs),
    )


def filled(nodes: int, gangs: int) -> Cluster:
    """A cluster in which all gangs wait."""
    cluster = Cluster()
    cluster.add_class()
    cluster.add_devices(cluster.add_nodes(nodes))
    for number in range(gangs):
        cluster.add_gang(f"gang-{number:05}")
    return cluster


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.devices")
    parser.add_argument(
        "sizes", nargs="*", type=_size, default=SIZES, help="NODESxGANGS; default 500x100 and more"
    )
    given = parser.parse_args(arguments)
    gc.set_threshold(application.YOUNG_OBJECTS_MAX)
    columns = (
        "nodes",
        "devices",
        "gangs",
        "taken in ms",
        "first cycle ms",
        "rest ms",
        "longest ms",
    )
    sys.stdout.write(f"| {' | '.join(columns)} | cycles |\n" + "|---" * 8 + "|\n")
    for nodes, gangs in given.sizes:
        cost = run(nodes, gangs)
        sizes = [f"{each:,}" for each in (nodes, nodes * DEVICES, gangs)]
        taken = (cost.take_in, cost.first, cost.rest, cost.longest)
        times = [f"{1000 * each:,.0f}" for each in taken]
        sys.stdout.write(f"| {' | '.join([*sizes, *times])} | {cost.cycles} |\n")
        sys.stdout.flush()
    return 0


def _size(text: str) -> tuple[int, int]:
    nodes, gangs = text.split("x")
    return int(nodes), int(gangs)


if __name__ == "__main__":
    sys.exit(main())
