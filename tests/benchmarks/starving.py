"""How soon starved gangs get what is theirs, in a cluster that others have filled."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox import control_plane
from tests.benchmarks import figures, loading, running
from tests.benchmarks.competitors import Competitor
from tests.benchmarks.contest import Conditions
from tests.benchmarks.loading import Loader
from tests.benchmarks.observing import Observer

LENDERS = 4
"""Queues that use the whole cluster."""
GANG = 10
PER_NODE = 8
"""Pods that fill a node of 32 CPU."""
REQUESTS: Mapping[str, str] = {"cpu": "4", "memory": "1Gi"}
LIMIT_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Starved:
    """A full cluster, and gangs of a queue that has nothing. Seconds from the process's start."""

    competitor: str
    nodes: int
    running: int
    """Pods that fill the cluster."""
    starved: int
    """Gangs of ten pods that wait."""
    first_bind: float
    last_bind: float
    cpu: float
    """CPU seconds until the last bind."""
    evictions: int


def starved(
    competitor: Competitor,
    conditions: Conditions,
    *,
    nodes: int = 1000,
    gangs: int = 20,
) -> Starved:
    """Fill a cluster, let gangs of another queue wait, and start the scheduler.

    kwok runs: evicted pods must end.
    """
    customer = competitor.customer
    with control_plane.start(crds=conditions.crds) as plane:
        loader = Loader(plane, customer)
        places = itertools.cycle(loader.add_nodes(nodes))
        pods = nodes * PER_NODE
        for lender in range(LENDERS):
            loader.add_queue(f"lender-{lender}")
            names = [f"lent-{number}" for number in range(lender, pods // GANG, LENDERS)]
            loader.add_groups(names, GANG, f"lender-{lender}")
            loader.add_pods(
                loading.pod(customer, name, number, requests=REQUESTS, node=next(places))
                for name in names
                for number in range(GANG)
            )
        loader.add_queue("starved")
        waiting = [f"starved-{number}" for number in range(gangs)]
        loader.add_groups(waiting, GANG, "starved")
        loader.add_pods(
            loading.pod(customer, name, number, requests=REQUESTS)
            for name in waiting
            for number in range(GANG)
        )
        observer = Observer(plane.api)
        before = running.asked(plane)
        try:
            with running.running(plane, competitor) as scheduler:
                scheduler.wait(lambda: len(observer.bound) >= gangs * GANG, LIMIT_SECONDS)
                times = sorted(observer.bound.values())
                cpu = scheduler.cpu_seconds()
                found = figures.since(running.asked(plane), before)
                return Starved(
                    competitor=competitor.name,
                    nodes=nodes,
                    running=pods,
                    starved=gangs,
                    first_bind=times[0] - scheduler.started,
                    last_bind=times[-1] - scheduler.started,
                    cpu=cpu,
                    evictions=found["POST pods/eviction", "201"],
                )
        finally:
            observer.stop()
