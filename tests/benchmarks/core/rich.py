"""`python -m tests.benchmarks.core.rich`: what constraints of many kinds cost, beside plain pods.

Gangs of ten pods, two pods for each node. Nodes, pods and what belongs to them (queues, node pools,
namespaces) grow together. With the daemon's budget, cycles follow each other until all pods are
bound; the longest cycle is shown, the snapshot included.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tests.benchmarks import figures
from tests.benchmarks.core import clusters, timing
from tests.benchmarks.core.cases import Case
from tests.benchmarks.core.clusters import Amounts, Cluster, Gang
from tests.benchmarks.core.timing import Timing
from vscheduler.model.snapshot import FRESH

GANG = 10
NODES = (1250, 2500, 5000)
ZONES = 20
TYPES = 20
NAMESPACES = 200
TEAMS = 20
VALUES = 1000
"""In one list of node affinity."""
NODES_PER_POOL = 10
NODES_PER_QUEUE = 5
LEVELS = 5
CYCLES_MAX = 400
ZONE = "topology.kubernetes.io/zone"
PLUGINS = ("priority gang conformance pdb", "overcommit drf predicates {} nodeorder binpack")
CAPACITY = (PLUGINS[0], PLUGINS[1].format("capacity+tree"))
DRF = (PLUGINS[0], "overcommit drf+tree predicates nodeorder binpack")
GROUPS = (PLUGINS[0], PLUGINS[1].format("proportion nodegroup"))

Extra = Callable[[int], Mapping[str, Any]]
"""What a gang has, by number: fields of clusters.Gang."""


def cases(scale: float = 1.0) -> Iterator[Case]:
    """All kinds in several sizes; the plain pods first."""
    for name, (build, tiers) in KINDS.items():
        for nodes in (max(GANG, round(count * scale)) for count in NODES):
            yield Case(
                name=name,
                nodes=nodes,
                pods=gangs_of(nodes) * GANG,
                build=partial(build, nodes),
                tiers=tiers,
                bound=gangs_of(nodes) * GANG,
                series=(f"{name}, by pods",),
            )


def gangs_of(nodes: int) -> int:
    """How many gangs wait on so many nodes."""
    return max(1, 2 * nodes // GANG)


def _zone(number: int) -> Mapping[str, str]:
    return {ZONE: f"zone-{number % ZONES:02}"}


def _wait(cluster: Cluster, nodes: int, more: Extra, request: Amounts = clusters.POD) -> Cluster:
    """Add the gangs."""
    for number in range(gangs_of(nodes)):
        fields = {"requests": [request] * GANG, **more(number)}
        cluster.add(Gang(name=f"gang-{number:05}", **fields))
    return cluster


def plain(nodes: int) -> Cluster:
    """Gangs without constraints."""
    cluster = Cluster()
    cluster.add_nodes(nodes, labels=_zone)
    return _wait(cluster, nodes, lambda _number: {})


def apart(nodes: int, *, key: str) -> Cluster:
    """The pods of a gang exclude each other: one of them for each value of the node label."""
    cluster = Cluster()
    cluster.add_nodes(nodes, labels=_zone)

    def more(number: int) -> Mapping[str, Any]:
        labels = {"job": f"job-{number}"}
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
        needed = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return {"labels": labels, "constraints": {"affinity": {"podAntiAffinity": needed}}}

    return _wait(cluster, nodes, more)


def near_team(nodes: int) -> Cluster:
    """The pods of a team's namespaces share a zone: affinity with a namespaceSelector."""
    cluster = Cluster()
    cluster.add_nodes(nodes, labels=_zone)
    for number in range(NAMESPACES):
        cluster.add_namespace(f"space-{number:03}", {"team": f"team-{number % TEAMS}"})

    def more(number: int) -> Mapping[str, Any]:
        space, labels = number % NAMESPACES, {"app": "worker"}
        term = {
            "labelSelector": {"matchLabels": labels},
            "namespaceSelector": {"matchLabels": {"team": f"team-{space % TEAMS}"}},
            "topologyKey": ZONE,
        }
        needed = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return {
            "namespace": f"space-{space:03}",
            "labels": labels,
            "constraints": {"affinity": {"podAffinity": needed}},
        }

    return _wait(cluster, nodes, more)


def spread(nodes: int) -> Cluster:
    """The pods of each gang are spread over zones and over hosts."""
    cluster = Cluster()
    cluster.add_nodes(nodes, labels=_zone)

    def more(number: int) -> Mapping[str, Any]:
        labels = {"job": f"job-{number}"}
        both = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
            for key in (ZONE, clusters.HOST)
        ]
        return {"labels": labels, "constraints": {"topologySpreadConstraints": both}}

    return _wait(cluster, nodes, more)


def gpu_types(nodes: int) -> Cluster:
    """Each node has GPUs of one type, a resource of its own, and each gang selects a type."""
    cluster = Cluster()
    types = min(TYPES, nodes)
    amounts = [{**clusters.NODE, f"example.com/gpu-{n % types}": "8"} for n in range(nodes)]
    cluster.add_nodes(nodes, amounts, lambda number: {"gpu": f"type-{number % types}"})

    def more(number: int) -> Mapping[str, Any]:
        request = {**clusters.POD, f"example.com/gpu-{number % types}": "1"}
        selector = {"nodeSelector": {"gpu": f"type-{number % types}"}}
        return {"requests": [request] * GANG, "constraints": selector}

    return _wait(cluster, nodes, more)


def pools(nodes: int, *, label: str = "pool") -> Cluster:
    """Each queue has nodes of its own, which its pods select: 500 queues on 5,000 nodes."""
    count = max(1, nodes // NODES_PER_POOL)
    cluster = Cluster([f"queue-{number:04}" for number in range(count)])
    cluster.add_nodes(nodes, labels=lambda number: {label: f"pool-{number % count:04}"})
    return _wait(
        cluster,
        nodes,
        lambda number: {
            "queue": f"queue-{number % count:04}",
            "constraints": {"nodeSelector": {label: f"pool-{number % count:04}"}},
        },
    )


def groups(nodes: int) -> Cluster:
    """The same by plugin nodegroup: queues name groups of nodes."""
    count = max(1, nodes // NODES_PER_POOL)
    cluster = Cluster(())
    for number in range(count):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [f"group-{number:04}"]}
        cluster.add_queue(f"queue-{number:04}", affinity={"nodeGroupAffinity": required})
    group = "volcano.sh/nodegroup-name"
    cluster.add_nodes(nodes, labels=lambda number: {group: f"group-{number % count:04}"})
    return _wait(cluster, nodes, lambda number: {"queue": f"queue-{number % count:04}"})


def tree(nodes: int, *, by_annotation: bool) -> Cluster:
    """Queues in five levels: 1,000 on 5,000 nodes; gangs wait in those without children."""
    count = max(LEVELS, nodes // NODES_PER_QUEUE)
    parents = parents_of(count)
    cluster = Cluster(())
    for number, parent in enumerate(parents):
        path = [number]
        while parents[path[-1]] is not None:
            path.append(parents[path[-1]] or 0)
        if by_annotation:
            steps = "/".join(("root", *(f"queue-{each:04}" for each in reversed(path))))
            weights = "/".join(["1"] * (len(path) + 1))
            annotations = {"volcano.sh/hierarchy": steps, "volcano.sh/hierarchy-weights": weights}
            cluster.add_queue(f"queue-{number:04}", annotations)
        else:
            above: Mapping[str, Any] = {} if parent is None else {"parent": f"queue-{parent:04}"}
            cluster.add_queue(f"queue-{number:04}", **above)
    cluster.add_nodes(nodes)
    leaves = sorted(set(range(count)) - set(parents))
    return _wait(
        cluster, nodes, lambda number: {"queue": f"queue-{leaves[number % len(leaves)]:04}"}
    )


def parents_of(count: int) -> list[int | None]:
    """The parent of each queue, None for those below root: few children each, five levels."""
    width = next(w for w in range(1, count + 1) if sum(w**n for n in range(1, LEVELS + 1)) >= count)
    return [None if number < width else number // width - 1 for number in range(count)]


def lists(nodes: int, *, alike: bool) -> Cluster:
    """Node affinity In with 1,000 host names; all gangs have the same list, or each its own."""
    cluster = Cluster()
    names = cluster.add_nodes(nodes)
    values = min(VALUES, nodes)

    def more(number: int) -> Mapping[str, Any]:
        first = 0 if alike else number * 7
        wanted = [names[(first + each) % nodes] for each in range(values)]
        terms = [{"key": clusters.HOST, "operator": "In", "values": wanted}]
        needed = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}}
        return {"constraints": {"affinity": affinity}}

    return _wait(cluster, nodes, more)


KINDS: Mapping[str, tuple[Callable[[int], Cluster], Sequence[str]]] = {
    "plain pods": (plain, ()),
    "anti-affinity by host": (partial(apart, key=clusters.HOST), ()),
    "anti-affinity by zone": (partial(apart, key=ZONE), ()),
    "affinity across 200 namespaces": (near_team, ()),
    "spread over zones and hosts": (spread, ()),
    "20 GPU types": (gpu_types, ()),
    "500 queues with node pools": (pools, ()),
    "500 queues with node groups": (groups, GROUPS),
    "1,000 queues in a tree, capacity": (partial(tree, by_annotation=False), CAPACITY),
    "1,000 queues in a tree, drf": (partial(tree, by_annotation=True), DRF),
    "one In-list of 1,000 values": (partial(lists, alike=True), ()),
    "an In-list of 1,000 values each": (partial(lists, alike=False), ()),
}
"""How each kind of cluster is built, and the plugins if they aren't the built-in ones."""


def longest(case: Case) -> tuple[float, int]:
    """Return the seconds of the longest cycle with the daemon's budget, and how many there were.

    A cycle includes its snapshot. Raises AssertionError if some pod is never bound.
    """
    cluster, policy = case.build(), timing.policy_of(case.actions, case.tiers)
    carried, longest_seconds, bound, cycles = FRESH, 0.0, 0, 0
    with timing.collecting_between():
        while bound < case.bound and cycles < CYCLES_MAX:
            cycles += 1
            result, seconds = timing.with_budget(cluster, carried, policy)
            longest_seconds = max(longest_seconds, seconds)
            carried = result.carried
            bound += len(result.binds)
            gc.collect()
    assert bound == case.bound, f"{case.name}: {bound} of {case.bound} bound"
    return longest_seconds, cycles


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each kind; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.rich")
    parser.add_argument("kinds", nargs="*", help="parts of the names; default all")
    parser.add_argument("--rounds", type=int, default=2, help="the quickest of so many counts")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: everything smaller")
    parser.add_argument("--limit", type=float, default=300, help="milliseconds of thread CPU")
    given = parser.parse_args(arguments)
    by_name: dict[str, list[Case]] = {}
    for case in cases(given.scale):
        by_name.setdefault(case.name, []).append(case)
    first = next(iter(by_name))
    sys.stdout.write("| constraints | snapshot and decide, ms | exponent | of plain pods |")
    sys.stdout.write(" operations, exponent | longest cycle, ms | cycles |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    base, over = 0.0, False
    for name, sizes in by_name.items():
        if given.kinds and name != first and not any(word in name for word in given.kinds):
            continue
        timings = [_quickest(case, given.rounds) for case in sizes]
        pods = [case.pods for case in sizes]
        costs = [timing.snapshot + timing.decide for timing in timings]
        done = [float(timing.operations_in_all) for timing in timings]
        base = base or costs[-1]
        tries = [longest(sizes[-1]) for _ in range(given.rounds)]
        seconds, cycles = min(tries)
        over |= seconds * 1000 > given.limit
        shown = " / ".join(f"{cost * 1000:,.0f}" for cost in costs)
        sys.stdout.write(
            f"| {name} | {shown} | {figures.exponent(pods, costs):.2f} | {costs[-1] / base:.1f} | "
            f"{figures.exponent(pods, done):.2f} | {seconds * 1000:.0f} | {cycles} |\n"
        )
        sys.stdout.flush()
    return int(over)


def _quickest(case: Case, rounds: int) -> Timing:
    return min(
        (timing.measure(case) for _ in range(rounds)), key=lambda each: each.snapshot + each.decide
    )


if __name__ == "__main__":
    sys.exit(main())
