"""`python -m tests.benchmarks.stub.restart`: a scheduler that starts beside many running pods.

Pods run in PodGroups, and one more gang waits. Measured from the start of the process to its first
bind, in front of the same API server in memory. Prints a table in Markdown.
"""

import argparse
import asyncio
import gc
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import uvloop

from sandbox.contents import NodeShape
from tests.benchmarks import loading
from tests.benchmarks.running import FailedError
from tests.benchmarks.stub import scheduler, server
from tests.benchmarks.stub.scheduler import Place
from tests.benchmarks.stub.server import Stub
from tests.simulation.api_server import kinds

SIZES = ((1000, 20_000, 10_000), (15_000, 150_000, 15_000))
"""Nodes, pods that run, and their PodGroups."""
WAITING = 10
"""Pods of the gang that waits."""
COLUMNS = ("nodes", "pods", "PodGroups", "first bind, s", "CPU until then, s", "MiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One start."""

    nodes: int
    pods: int
    groups: int
    seconds: float
    """From the start of the process to the first bind."""
    cpu: float
    peak_mib: float


async def measure(nodes: int, pods: int, groups: int) -> Restart:
    """Start vscheduler once. Raises running.FailedError."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stub = Stub(asyncio.get_running_loop())
        directory = Path(folder)
        place = Place(kubeconfig=await server.listen(stub, directory), directory=directory)
        _fill(stub, nodes, pods, groups)
        command = scheduler.vscheduler().command(place)
        started = stack.enter_context(scheduler.started([command], directory / "log"))
        await scheduler.wait_for_binds(stub, started, 1, scheduler.START_SECONDS)
        return Restart(
            nodes=nodes,
            pods=pods,
            groups=groups,
            seconds=min(stub.bound.values()) - started.at,
            cpu=started.cpu_seconds(),
            peak_mib=started.peak_mib(),
        )


def _fill(stub: Stub, nodes: int, pods: int, groups: int) -> None:
    """Let pods run, and a gang wait."""
    names = [_add_node(stub, number) for number in range(nodes)]
    stub.client.create(loading.QUEUES, loading.queue("default"))
    customer, size = scheduler.vscheduler().customer, pods // groups
    kind = stub.catalogue.called("podgroups")
    group = stub.template(loading.GROUPS, loading.group("gang", size))
    pod = stub.template(loading.PODS, loading.pod(customer, "gang", 0))
    for number in range(groups):
        name = f"gang-{number}"
        stub.add(kind, group, name, {"status": {"phase": "Running", "running": size}})
        for member in range(size):
            changed = {
                "metadata": {"annotations": {loading.GROUP_ANNOTATION: name}},
                "spec": {"nodeName": names[(number * size + member) % nodes]},
                "status": {"phase": "Running"},
            }
            stub.add(kinds.PODS, pod, f"{name}-{member}", changed)
    stub.client.create(loading.GROUPS, loading.group("fresh", WAITING))
    for member in range(WAITING):
        stub.client.create(loading.PODS, loading.pod(customer, "fresh", member))


def _add_node(stub: Stub, number: int) -> str:
    """Create a node; return its name."""
    body = NodeShape().node(number)
    stub.add_node(body)
    return str(body["metadata"]["name"])


def main() -> int:
    """Measure and print; 1 if a run failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.stub.restart", description=__doc__
    )
    add = parser.add_argument
    add("--size", help="NODESxPODSxPODGROUPS; default: the sizes of docs/benchmarks.md")
    add("--runs", type=int, default=1, help="of each size; default 1")
    given = parser.parse_args()
    sizes = [tuple(map(int, given.size.split("x")))] if given.size else SIZES
    failed = 0
    gc.disable()  # what is stored stays until the end
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n" + "|---" * len(COLUMNS) + "|\n")
    for nodes, pods, groups in given.runs * list(sizes):
        try:
            run = uvloop.run(measure(nodes, pods, groups))
        except FailedError as error:
            failed += 1
            sys.stderr.write(f"{nodes} nodes: {error}\n")
            continue
        first = f"| {nodes:,} | {pods:,} | {groups:,} | {run.seconds:.1f} | {run.cpu:.1f} "
        sys.stdout.write(f"{first}| {run.peak_mib:,.0f} |\n")
        sys.stdout.flush()
        gc.collect()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
