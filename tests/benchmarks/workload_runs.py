"""`python -m tests.benchmarks.workload_runs`: pods with constraints, beside kube-scheduler."""

import argparse
import dataclasses
import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox import control_plane
from sandbox.client import Client, Object
from sandbox.control_plane import ControlPlane
from sandbox.errors import ApiError
from tests.benchmarks import (
    competitors,
    contest,
    figures,
    loading,
    processes,
    running,
    tables,
    workloads,
)
from tests.benchmarks.competitors import Competitor
from tests.benchmarks.loading import Customer, Loader
from tests.benchmarks.observing import Observer
from tests.benchmarks.running import FailedError
from tests.benchmarks.workloads import Workload
from vscheduler.core.config import policy
from vscheduler.mirror import paths

JSON = Path("build/bench-workloads.json")
NODES = 500
RUNS = 3
LIMIT_SECONDS = 120.0
SLOWEST = 8
"""Pods a second: whoever is slower is given up."""
CHURN_SECONDS = 0.1
"""Between a change and the next one."""
CHURN_OBJECTS = 50
"""Of each kind, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run of one scheduler. Seconds; binds are those of waiting pods."""

    workload: str
    competitor: str
    nodes: int
    pods: int
    window: float
    """From the first bind to the last one."""
    makespan: float
    """From the start of the process to the last bind."""
    cpu: float
    """Of the scheduler, until the last bind."""
    evicted: int

    @property
    def pods_per_second(self) -> float:
        """From the first bind to the last one; from the start where pods had to go, which is most
        of the work and may be done before the first bind, or not.
        """
        if self.evicted:
            return self.pods / self.makespan
        return (self.pods - 1) / max(self.window, 1e-9)


def run(competitor: Competitor, workload: Workload, nodes: int) -> Measured:
    """Start a control plane with the workload, then the scheduler. Raises running.FailedError."""
    customer = competitor.customer
    with control_plane.start() as plane, ExitStack() as stack:
        loader = Loader(plane, customer)
        names = [
            name
            for number in range(workloads.ZONES)
            for name in plane.create_nodes(
                count=len(range(number, nodes, workloads.ZONES)),
                first=number * nodes,
                labels={workloads.ZONE: workloads.zone(number)},
            )
        ]
        made, waiting, _ = workload.sizes(nodes)
        if not workload.evicts:  # and no controller looks at volumes, which are bound already
            stack.enter_context(processes.paused(running.bystander_ids(plane)))
        if workload.prepare:
            workload.prepare(plane.api, names, made + waiting)
        loader.add_pods(workload.pods(customer, names))
        observer = Observer(plane.api)
        stack.callback(observer.stop)
        before = running.asked(plane)
        scheduler = stack.enter_context(running.running(plane, competitor))
        if workload.churn:
            stack.enter_context(_churn(plane.api, customer))

        def bound() -> list[float]:
            seen = dict(observer.bound)
            return [when for name, when in seen.items() if name.startswith("waiting-")]

        seconds = LIMIT_SECONDS + waiting / SLOWEST
        try:
            scheduler.wait(lambda: len(bound()) >= waiting, seconds)
        except FailedError as error:
            raise FailedError(f"{len(bound())} of {waiting} pods bound, {error}") from error
        cpu, times = scheduler.cpu_seconds(), sorted(bound())
        asked = figures.since(running.asked(plane), before)
        contest.audit(asked, waiting)
        return Measured(
            workload=workload.name,
            competitor=competitor.name,
            nodes=nodes,
            pods=waiting,
            window=times[-1] - times[0],
            makespan=times[-1] - scheduler.started,
            cpu=cpu,
            evicted=_evicted(plane, made) if workload.evicts else 0,
        )


def _evicted(plane: ControlPlane, made: int) -> int:
    """How many of the pods that ran are gone, or about to go."""
    left = [
        pod
        for pod in plane.api.list(loading.PODS)
        if pod["metadata"]["name"].startswith("running-")
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return made - len(left)


@contextmanager
def _churn(api: Client, customer: Customer) -> Iterator[None]:
    """Meanwhile, let a node, a pod without room and a service come or go, one after the other."""
    ended = threading.Event()

    def act() -> None:
        for number in itertools.count():
            kind, turn = number % 3, number // 3
            path, body = _passing(kind, turn % CHURN_OBJECTS, customer)
            name = body["metadata"]["name"]
            with suppress(ApiError):
                if turn // CHURN_OBJECTS % 2:
                    api.delete(f"{path}/{name}?gracePeriodSeconds=0")
                else:
                    api.create(path, body)
            if ended.wait(CHURN_SECONDS):
                return

    thread = threading.Thread(target=act, name="churn")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _passing(kind: int, number: int, customer: Customer) -> tuple[str, Object]:
    """Where to create which object."""
    if kind == 0:
        return paths.NODES.everywhere, {"metadata": {"name": f"passing-{number}"}}
    if kind == 1:
        pod = loading.pod(customer, "passing", number, requests=workloads.TOO_LARGE)
        return loading.PODS, pod
    spec = {"ports": [{"port": 80}], "selector": {"app": "none"}}
    body: Object = {"metadata": {"name": f"passing-{number}"}, "spec": spec}
    return workloads.SERVICES.within(loading.NAMESPACE), body


def competing(workload: Workload) -> list[Competitor]:
    """kube-scheduler and vscheduler, for pods without a PodGroup."""
    ours = competitors.single(competitors.vscheduler("--leader-elect=false"))
    return [competitors.kube_scheduler(), _preempting(ours) if workload.evicts else ours]


def _preempting(competitor: Competitor) -> Competitor:
    """With the action for pods of a higher priority, which the built-in configuration lacks."""
    actions = "enqueue, allocate, preempt, backfill"
    return competitors.configured(competitor, {**policy.BUILT_IN, "actions": actions})


COLUMNS = ("workload", "pods", "kube-scheduler, pods/s", "vscheduler, pods/s", "times", "CPU, s")


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """A row for each workload: medians of the runs; CPU is that of kube-scheduler and ours."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for name in dict.fromkeys(each.workload for each in measured):
        of_name = [each for each in measured if each.workload == name]
        speeds, costs = [], []
        for competitor in (competitors.KUBE_SCHEDULER, competitors.VSCHEDULER):
            runs = [each for each in of_name if each.competitor == competitor]
            speeds.append(figures.spread([each.pods_per_second for each in runs]))
            costs.append(figures.spread([each.cpu for each in runs]))
        theirs, ours = speeds
        times = f"{ours.median / theirs.median:.1f}" if theirs and ours else ""
        told = [f"{each.median:,.0f}" if each else "none" for each in speeds]
        cpu = " / ".join(f"{each.median:.1f}" if each else "none" for each in costs)
        yield f"| {name} | {of_name[0].pods:,} | {' | '.join(told)} | {times} | {cpu} |"


def main() -> int:
    """Measure and print; 1 if a run didn't count."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.workload_runs", description=__doc__
    )
    add = parser.add_argument
    add("workloads", nargs="*", help="parts of names; default all")
    add("--nodes", type=int, default=NODES, help=f"default {NODES}")
    add("--runs", type=int, default=RUNS, help=f"of each scheduler; default {RUNS}")
    add("--only", default="", help="part of a scheduler's name")
    add("--json", type=Path, default=JSON, help=f"default {JSON}")
    given = parser.parse_args()
    measured, failed = list[Measured](), 0
    for workload in workloads.ALL:
        if given.workloads and not any(word in workload.name for word in given.workloads):
            continue
        able = [each for each in competing(workload) if given.only in each.name]
        for turn in range(given.runs):
            for competitor in able if turn % 2 else reversed(able):
                try:
                    measured.append(run(competitor, workload, given.nodes))
                except FailedError as error:
                    failed += 1
                    sys.stderr.write(f"{workload.name}, {competitor.name}: {error}\n")
                    continue
                sys.stderr.write(f"{measured[-1]}\n")
        tables.save(given.json, [dataclasses.asdict(each) for each in measured])
    sys.stdout.writelines(f"{line}\n" for line in table(measured))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
