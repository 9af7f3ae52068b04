"""One run of one competitor on one shape, on a control plane of its own."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sandbox import control_plane
from sandbox.client import Object
from tests.benchmarks import figures, loading, processes, running
from tests.benchmarks.competitors import Competitor
from tests.benchmarks.loading import Loader
from tests.benchmarks.observing import Observer
from tests.benchmarks.running import FailedError, Running
from tests.benchmarks.shapes import Shape
from vscheduler.mirror import paths

GREETING = "greeting"
GREETING_SECONDS = 120.0
LIMIT_SECONDS = 120.0
SLOWEST = 25
SLOWEST_WITH_CHOICES = 8
"""Pods a second, the latter with devices or racks: whoever is slower is given up."""
PARTS = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What is the same for all runs of a benchmark."""

    kubelets: bool = False
    """Whether bound pods start at once, and controllers look at them."""
    crds: Path | None = None
    """Other definitions of PodGroup and Queue than ours."""
    with_gang_api: bool = False
    """Whether Kubernetes' own gang API is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycles:
    """What vscheduler tells of its cycles."""

    number: int
    parts_ms: Mapping[str, float]
    """The mean of each part."""
    lag_p99_ms: float | None
    """Of its event loop meanwhile; the upper bound of a bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was measured. Seconds; a pod waits from its creation, or from the scheduler's start."""

    competitor: str
    shape: str
    pods: int
    makespan: float
    """From the scheduler's start, or the first pod's creation, to the last bind."""
    first_bind: float
    """From the same instant."""
    waits: tuple[float, ...]
    """P50, P90 and P99."""
    cpu_bound: float
    """CPU seconds of the scheduler until the last bind."""
    cpu_settled: float
    """And until events and statuses were written, too."""
    server_cpu: float
    """Of the API server and etcd, until settled."""
    settled: float
    peak_mib: float
    calls: Mapping[str, float]
    """Writes per pod, by `POST pods/binding`."""
    refused: Mapping[str, int]
    """Calls that were answered by 4xx or 5xx, by `POST pods/binding 409`."""
    cycles: Cycles | None = None
    """Where it tells of them."""

    @property
    def pods_per_second(self) -> float:
        """Over the whole makespan: the start of the process counts, too."""
        return self.pods / self.makespan

    @property
    def window(self) -> float:
        """Pods a second from the first bind to the last, however long the first one took."""
        return (self.pods - 1) / max(self.makespan - self.first_bind, 1e-9)


def run(competitor: Competitor, shape: Shape, conditions: Conditions) -> Run:
    """Start a control plane, make the load, and watch. Raises running.FailedError."""
    serves = conditions.with_gang_api or bool(shape.racks)
    with (
        control_plane.start(crds=conditions.crds, with_gang_api=serves) as plane,
        ExitStack() as stack,
    ):
        loader = Loader(plane, competitor.customer)
        nodes = loader.add_nodes(shape.nodes, shape.racks)
        if shape.devices:
            loader.add_devices(nodes, shape.devices)
            loader.add_gangs(shape)
            loader.wait_for_claims()
        if not conditions.kubelets:
            stack.enter_context(processes.paused(running.bystander_ids(plane)))
        if not (shape.rate or shape.devices):
            loader.add_gangs(shape)
        observer = Observer(plane.api)
        stack.callback(observer.stop)
        before = running.asked(plane)
        server_cpu = processes.cpu_seconds(running.server_ids(plane))
        scheduler = stack.enter_context(running.running(plane, competitor))
        if shape.rate:
            _greet(competitor, loader, observer, scheduler)
            loader.add_gangs(shape)
        names = [name for name in loader.created if name != f"{GREETING}-0"]
        _wait_for_binds(scheduler, observer, len(loader.created), shape)
        cpu_bound = scheduler.cpu_seconds()
        settled = scheduler.settle()
        found = figures.since(running.asked(plane), before)
        begun = max(scheduler.started, min(loader.created[name] for name in names))
        binds = [observer.bound[name] for name in names]
        waits = [
            observer.bound[name] - max(loader.created[name], scheduler.started) for name in names
        ]
        audit(found, len(loader.created))
        if shape.racks:
            audit_racks(plane.api.list(paths.NODES.everywhere), plane.api.list(loading.PODS))
        return Run(
            competitor=competitor.name,
            shape=str(shape),
            pods=shape.pods,
            makespan=max(binds) - begun,
            first_bind=min(binds) - begun,
            waits=tuple(figures.percentile(waits, part) for part in PARTS),
            cpu_bound=cpu_bound,
            cpu_settled=scheduler.cpu_seconds(),
            server_cpu=processes.cpu_seconds(running.server_ids(plane)) - server_cpu,
            settled=settled - begun,
            peak_mib=scheduler.peak_mib(),
            calls=per_pod(found, shape),
            refused=figures.refused(found),
            cycles=cycles(scheduler.metrics()),
        )


def _wait_for_binds(scheduler: Running, observer: Observer, pods: int, shape: Shape) -> None:
    """Wait until all pods are bound. Raises running.FailedError, with how many were."""
    slowest = SLOWEST_WITH_CHOICES if shape.devices or shape.racks else SLOWEST
    seconds = LIMIT_SECONDS + shape.pods / slowest
    try:
        scheduler.wait(lambda: len(observer.bound) >= pods, seconds)
    except FailedError as error:
        raise FailedError(f"{len(observer.bound)} of {pods} pods bound, {error}") from error


def _greet(
    competitor: Competitor,
    loader: Loader,
    observer: Observer,
    scheduler: Running,
) -> None:
    """Have it bind one pod, so that it is known to be up; then give it a moment to be idle."""
    loader.add_groups([GREETING], 1)
    loader.add_pods([loading.pod(competitor.customer, GREETING, 0)])
    scheduler.wait(lambda: bool(observer.bound), GREETING_SECONDS)
    time.sleep(1)


def audit(found: Counter[tuple[str, str]], pods: int) -> None:
    """Each pod was bound once. Raises running.FailedError."""
    binds = found["POST pods/binding", "201"]
    if binds != pods:
        raise FailedError(f"{pods} pods are bound by {binds} binds")


def audit_racks(nodes: Iterable[Object], pods: Iterable[Object]) -> None:
    """All pods of a gang are in one rack. Raises running.FailedError."""
    racks = {node["metadata"]["name"]: node["metadata"]["labels"][loading.RACK] for node in nodes}
    found = {
        (pod["metadata"]["name"].rpartition("-")[0], racks[pod["spec"]["nodeName"]]) for pod in pods
    }
    torn = [gang for gang, number in Counter(gang for gang, _ in found).items() if number > 1]
    if torn:
        raise FailedError(f"{len(torn)} gangs are in several racks, such as {min(torn)}")


def per_pod(found: Counter[tuple[str, str]], shape: Shape) -> dict[str, float]:
    """The scheduler's writes for each pod; those that made the load are left out."""
    made = {"POST pods", "POST podgroups"} if shape.rate else set()
    return {
        call: number / shape.pods
        for call, number in sorted(figures.answered(found).items())
        if figures.is_write(call) and call not in made
    }


def cycles(metrics: str) -> Cycles | None:
    """What metrics tell of cycles; None where there are none."""
    part = "vscheduler_cycle_part_milliseconds"
    numbers = [value for _, value in figures.samples(metrics, f"{part}_count")]
    if not numbers:
        return None
    lag = figures.quantile(figures.histogram(metrics, "vscheduler_loop_lag_milliseconds"), 0.99)
    return Cycles(
        number=int(max(numbers)),
        parts_ms=figures.means(metrics, part, "part"),
        lag_p99_ms=None if math.isnan(lag) else lag,
    )
