"""What a scheduler costs at rest, and how soon it binds after a restart."""

import datetime as dt
import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sandbox import control_plane
from sandbox.control_plane import ControlPlane
from tests.benchmarks import figures, loading, processes, running
from tests.benchmarks.competitors import Competitor
from tests.benchmarks.contest import Conditions
from tests.benchmarks.loading import Loader
from tests.benchmarks.observing import Observer
from tests.benchmarks.shapes import Shape
from vscheduler.mirror import paths

HEARTBEAT_SECONDS = 300
"""A kubelet writes its node's status so often where nothing in it changes."""
REST_SECONDS = 60.0
CALM_SECONDS = 15.0
"""Between settling and the look at rest: elections and first heartbeats are over."""
TOO_MUCH: Mapping[str, str] = {"cpu": "64", "memory": "1Gi"}
"""Twice what a node has."""
FRESH_PODS = 10
FIRST_SECONDS = 600.0
RESTARTED = Shape(nodes=1000, gangs=10_000, size=2)
"""What runs before a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A minute in which nothing can be done."""

    competitor: str
    nodes: int
    pods: int
    """Waiting, and too large for every node."""
    writes_per_minute: Mapping[str, float]
    """By call; renewals of Leases are among them, heartbeats of nodes aren't."""
    before: Mapping[str, float]
    """The same before it was started: the API server renews a Lease of its own."""
    core_share: float
    """The part of one core that it uses."""
    peak_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A scheduler that finds a cluster at work, and one new gang."""

    competitor: str
    nodes: int
    pods: int
    groups: int
    first_bind: float
    """Seconds from the start of the process."""
    whole_gang: float
    """Until the last pod of the new gang is bound."""
    cpu: float
    """CPU seconds until settled."""
    peak_mib: float


def rest(
    competitor: Competitor,
    conditions: Conditions,
    *,
    nodes: int = 5000,
    pods: int = 500,
) -> Rest:
    """Let pods wait that never fit, let heartbeats tick, and look for a minute."""
    with control_plane.start(crds=conditions.crds) as plane:
        loader = Loader(plane, competitor.customer)
        names = loader.add_nodes(nodes)
        groups = [f"waiting-{number}" for number in range(pods)]
        loader.add_groups(groups, 1)
        loader.add_pods(
            loading.pod(competitor.customer, name, 0, requests=TOO_MUCH) for name in groups
        )
        with (
            processes.paused(running.bystander_ids(plane)),
            heartbeats(plane, names) as beats,
        ):
            before = _writes(plane, beats)
            with running.running(plane, competitor) as scheduler:
                time.sleep(CALM_SECONDS)
                scheduler.settle()
                cpu, begun = scheduler.cpu_seconds(), time.monotonic()
                after = _writes(plane, beats)
                used = scheduler.cpu_seconds() - cpu
                return Rest(
                    competitor=competitor.name,
                    nodes=nodes,
                    pods=pods,
                    writes_per_minute=after,
                    before=before,
                    core_share=used / (time.monotonic() - begun),
                    peak_mib=scheduler.peak_mib(),
                )


def _writes(plane: ControlPlane, beats: Sequence[float]) -> dict[str, float]:
    """What is written in a minute, by call, without the heartbeats."""
    asked, begun, beaten = running.asked(plane), time.monotonic(), len(beats)
    time.sleep(REST_SECONDS)
    minutes = (time.monotonic() - begun) / 60
    found = figures.answered(figures.since(running.asked(plane), asked))
    found["PATCH nodes/status"] -= len(beats) - beaten
    return {
        call: number / minutes
        for call, number in sorted(found.items())
        if figures.is_write(call) and number > 0
    }


@contextmanager
def heartbeats(plane: ControlPlane, names: Sequence[str]) -> Iterator[list[float]]:
    """Each node's status is written once in five minutes, evenly spread; gives when they were."""
    beaten: list[float] = []
    stopped = threading.Event()

    def beat() -> None:
        turn = itertools.cycle(names)
        while not stopped.wait(HEARTBEAT_SECONDS / len(names)):
            now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
            path = f"{paths.NODES.everywhere}/{next(turn)}/status"
            plane.api.patch(path, {"status": {"conditions": [ready]}}, kind="strategic")
            beaten.append(time.monotonic())

    thread = threading.Thread(target=beat, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield beaten
    finally:
        stopped.set()
        thread.join()


def restarts(
    found: Sequence[Competitor],
    conditions: Conditions,
    shape: Shape,
) -> Iterator[Restart]:
    """Run these gangs, let the first competitor write what it has to, then start each anew.

    All of them are given the same pods, so they must go by the same name.
    """
    customer = found[0].customer
    assert {each.customer for each in found} == {customer}
    groups = [f"running-{number}" for number in range(shape.gangs)]
    with control_plane.start(crds=conditions.crds) as plane:
        loader = Loader(plane, customer)
        places = itertools.cycle(loader.add_nodes(shape.nodes))
        loader.add_groups(groups, shape.size)
        loader.add_pods(
            loading.pod(customer, name, number, node=next(places))
            for name in groups
            for number in range(shape.size)
        )
        with running.running(plane, found[0]) as scheduler:
            time.sleep(CALM_SECONDS)
            scheduler.settle()
        for turn, competitor in enumerate(found):
            fresh = f"fresh-{turn}"
            loader.add_groups([fresh], FRESH_PODS)
            loader.add_pods(loading.pod(customer, fresh, number) for number in range(FRESH_PODS))
            yield _restart(plane, competitor, shape)


def _restart(
    plane: ControlPlane,
    competitor: Competitor,
    shape: Shape,
) -> Restart:
    observer = Observer(plane.api)
    try:
        with running.running(plane, competitor) as scheduler:
            scheduler.wait(lambda: len(observer.bound) >= FRESH_PODS, FIRST_SECONDS)
            times = sorted(observer.bound.values())
            scheduler.settle()
            return Restart(
                competitor=competitor.name,
                nodes=shape.nodes,
                pods=shape.pods,
                groups=shape.gangs,
                first_bind=times[0] - scheduler.started,
                whole_gang=times[-1] - scheduler.started,
                cpu=scheduler.cpu_seconds(),
                peak_mib=scheduler.peak_mib(),
            )
    finally:
        observer.stop()
