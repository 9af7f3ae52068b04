"""`python -m tests.benchmarks.stub`: pods that arrive one by one, without an API server in the way.

An API server in memory answers every request after a millisecond. It has one core, the scheduler
the other one. Pods have no PodGroups. Prints a table in Markdown.
"""

import argparse
import asyncio
import dataclasses
import gc
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop
from msgspec import structs

from sandbox.contents import NodeShape
from tests.benchmarks import competitors, figures, loading, tables
from tests.benchmarks.competitors import Competitor
from tests.benchmarks.running import FailedError
from tests.benchmarks.stub import scheduler, server
from tests.benchmarks.stub.scheduler import Place, Started, TooSlowError
from tests.benchmarks.stub.server import Stub
from tests.simulation.api_server.store import Item

RESULTS = Path("build/bench-stub.json")
RATES = (100, 500, 2000)
NODES = 1000
SECONDS = 10.0
WARM = 100
"""Pods before those that count."""
TICK_SECONDS = 0.002
QUIET_SECONDS = 1.0
"""Who writes nothing for so long has told everything."""
PART = "part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is measured."""

    competitor: str
    rate: int
    nodes: int
    seconds: float
    schedulers: int = 1
    """Each has an equal part of the nodes and of the pods."""

    @property
    def pods(self) -> int:
        """How many pods arrive."""
        return int(self.rate * self.seconds)

    def competitors(self) -> list[Competitor]:
        """The schedulers."""
        if self.competitor == competitors.KUBE_SCHEDULER:
            return [scheduler.kube_scheduler()]
        if self.schedulers == 1:
            return [scheduler.vscheduler()]
        return [self._part(number) for number in range(self.schedulers)]

    def _part(self, number: int) -> Competitor:
        name = f"{competitors.VSCHEDULER}-{number}"
        flags = (f"--scheduler-name={name}", f"--node-selector={PART}={number}")
        made = scheduler.vscheduler(*flags)
        return replace(made, customer=replace(made.customer, scheduler=name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run."""

    case: Case
    per_second: float
    """Pods, from the first bind to the last one."""
    p50_ms: float
    p99_ms: float
    """From the pod's creation to its bind, of those that were bound."""
    left: int
    """Pods that weren't bound in twice the time in which they came, and as much again."""
    cpu_ms: float
    """Of the scheduler, for each pod, all that it writes about it included."""
    stub_share: float
    """Of its core, until the last bind."""
    writes: float
    """For each pod."""
    peak_mib: float


async def measure(case: Case) -> Measured:
    """Run a case. Raises running.FailedError."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stub = Stub(asyncio.get_running_loop())
        directory = Path(folder)
        place = Place(kubeconfig=await server.listen(stub, directory), directory=directory)
        shape = NodeShape(cpu="64", memory="256Gi", pods=1000)
        for number in range(case.nodes):
            labels = {PART: str(number % case.schedulers)}
            stub.add_node(structs.replace(shape, labels=labels).node(number))
        able = [competitors.single(each) for each in case.competitors()]
        commands = [each.command(place) for each in able]
        bodies = [loading.pod(each.customer, "a", 0) for each in able]
        templates = [stub.template(loading.PODS, body) for body in bodies]
        started = stack.enter_context(scheduler.started(commands, directory / "log"))
        await _arrive(stub, templates, "warm", WARM, WARM)
        await scheduler.wait_for_binds(stub, started, WARM, scheduler.START_SECONDS)
        await _quiet(stub)
        return await _measure(stub, case, templates, started)


async def _measure(stub: Stub, case: Case, templates: Sequence[Item], started: Started) -> Measured:
    """Measure the pods that count."""
    known = set(stub.created)
    cpu, own, since = started.cpu_seconds(), time.process_time(), time.monotonic()
    stub.writes.clear()
    await _arrive(stub, templates, "pod", case.pods, case.rate)
    with suppress(TooSlowError):
        await scheduler.wait_for_binds(stub, started, case.pods + WARM, 2 * case.seconds)
    share = (time.process_time() - own) / (time.monotonic() - since)
    await _quiet(stub)
    bound = {name: when for name, when in stub.bound.items() if name not in known}
    waits = [1000 * (when - stub.created[name]) for name, when in bound.items()]
    first, last = min(bound.values()), max(bound.values())
    return Measured(
        case=case,
        per_second=(len(bound) - 1) / (last - first),
        p50_ms=figures.percentile(waits, 0.5),
        p99_ms=figures.percentile(waits, 0.99),
        left=case.pods - len(bound),
        cpu_ms=1000 * (started.cpu_seconds() - cpu) / len(bound),
        stub_share=share,
        writes=stub.writes.total() / len(bound),
        peak_mib=started.peak_mib(),
    )


async def _arrive(stub: Stub, templates: Sequence[Item], name: str, count: int, rate: int) -> None:
    """Create pods at a rate."""
    since = time.monotonic()
    made = 0
    while made < count:
        due = min(count, int((time.monotonic() - since) * rate) + 1)
        for number in range(made, due):
            stub.add_pod(templates[number % len(templates)], f"{name}-{number}")
        made = due
        await asyncio.sleep(TICK_SECONDS)


async def _quiet(stub: Stub) -> None:
    """Wait until nothing is written any more."""
    known = -1
    while stub.writes.total() != known:
        known = stub.writes.total()
        await asyncio.sleep(QUIET_SECONDS)


COLUMNS = (
    "pods arriving per second",
    "",
    "bound per second",
    "P50 / P99, ms",
    "CPU per pod, ms",
    "writes per pod",
    "MiB",
    "the stub's core",
)


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """A row for each case: medians of the runs."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for case in dict.fromkeys(each.case for each in measured):
        runs = [each for each in measured if each.case == case]

        def median(name: str, runs: Sequence[Measured] = runs) -> float:
            return figures.percentile([getattr(each, name) for each in runs], 0.5)

        name = case.competitor
        if case.schedulers > 1:
            name = f"{case.schedulers} x {name}"
        cells = (
            f"{case.rate:,}",
            name,
            f"{median('per_second'):,.0f}",
            "falls behind"
            if median("left")
            else f"{median('p50_ms'):,.0f} / {median('p99_ms'):,.0f}",
            f"{median('cpu_ms'):.2f}",
            f"{median('writes'):.1f}",
            f"{median('peak_mib'):,.0f}",
            f"{median('stub_share'):.0%}",
        )
        yield f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure and print; 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stub", description=__doc__)
    add = parser.add_argument
    add("rates", nargs="*", type=int, help=f"pods per second; default {RATES}")
    add("--nodes", type=int, default=NODES, help=f"default {NODES}")
    add("--seconds", type=float, default=SECONDS, help=f"how long pods arrive; default {SECONDS}")
    add("--runs", type=int, default=1, help="of each case; default 1")
    add("--only", default="", help="part of a scheduler's name")
    add("--schedulers", type=int, default=1, help="of ours, each with a part of the nodes")
    add("--json", type=Path, default=RESULTS, help=f"default {RESULTS}")
    given = parser.parse_args()
    names = (competitors.KUBE_SCHEDULER, competitors.VSCHEDULER)
    able = [name for name in names if given.only in name]
    if given.schedulers > 1:
        able = [competitors.VSCHEDULER]
    measured, failed = list[Measured](), 0
    gc.disable()  # what is stored stays until the end
    for rate in given.rates or RATES:
        for name in given.runs * able:
            case = Case(
                competitor=name,
                rate=rate,
                nodes=given.nodes,
                seconds=given.seconds,
                schedulers=given.schedulers,
            )
            try:
                measured.append(uvloop.run(measure(case)))
            except FailedError as error:
                failed += 1
                sys.stderr.write(f"{name}, {rate} pods per second: {error}\n")
                continue
            sys.stderr.write(f"{measured[-1]}\n")
            gc.collect()
    tables.save(given.json, [dataclasses.asdict(each) for each in measured])
    sys.stdout.writelines(f"{line}\n" for line in table(measured))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
