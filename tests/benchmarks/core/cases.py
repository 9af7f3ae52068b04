"""What the core is timed on: each case is a cluster, and perhaps something that then changes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.benchmarks.core import clusters, published
from tests.benchmarks.core.clusters import Amounts, Cluster, Gang
from vscheduler.model.run_times import MAX_RUN_TIME

GANG = 100
"""Pods in a gang."""
SMALL_GANG = 10
STARVED = 20
"""How many small gangs wait, at most."""
BIG: Amounts = {"cpu": "4", "memory": "4Gi"}
"""Eight of these fill a node's CPU."""
PER_NODE = 8
BOUND_PER_NODE = 35
HALF: Amounts = {"cpu": "16", "memory": "1Gi"}
MORE: Amounts = {"cpu": "20", "memory": "1Gi"}
"""A node has room for one of these, but not beside the other."""

BACKFILLS = {
    "none": (80, 80),
    "easy": (75, 50),
    "conservative": (34, 48),
    "conservative, 1000": (51, 48),
}
"""Kinds of backfill, with how many jobs are promised a start at most, and how many pods start in
the case as it is, with shares and without.
"""
QUEUES = 10
ENDING = 10
"""So many gangs end at once."""

Change = Callable[[Cluster], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cluster; figures of those that share a series show how costs grow."""

    name: str
    nodes: int
    pods: int
    """Those that the cycle is about: waiting ones, or bound ones where nothing waits."""
    build: Callable[[], Cluster]
    change: Change | None = None
    """Done after other cycles; the next one is timed."""
    cycles: int = 1
    """How many cycles come before a change."""
    actions: str = "enqueue, allocate, backfill, reclaim"
    tiers: Sequence[str] = ()
    """Names of plugins, in place of the built-in ones; `drf+tree` with enableHierarchy."""
    allocate: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the action."""
    bound: int = 0
    evicted: int = 0
    """What the timed cycle must come to: a case that does something else is worth nothing."""
    series: tuple[str, ...] = ()
    """Names of the growth tables that it belongs to: by nodes, by pods."""


def cases(scale: float = 1.0) -> Iterator[Case]:
    """All of them; a scale below 1 makes everything smaller in proportion."""

    def size(number: int) -> int:
        return max(4, round(number * scale))

    for kind, build in (("equal pods", equal), ("different pods", different)):
        yield from _grid(kind, build, size)
    nodes, pods = size(1000), size(10_000)
    build_queues = partial(many_queues, nodes, pods)
    yield Case(name="20 queues", nodes=nodes, pods=pods, build=build_queues, bound=pods)
    for nodes in map(size, (1000, 2000, 4000)):
        yield _one_change(nodes)
    for waiting in map(size, (2500, 5000, 10_000)):
        yield from _without_room(size(1000), waiting)
        yield _classes_without_room(size(500), waiting)
        yield _classes_without_room(size(500), waiting, lent=True)
        yield _waiting_at_rest(size(500), waiting)
    for count in map(size, (1000, 2000, 4000)):
        yield _one_comes(size(250), count)
    for wanted in map(size, (250, 500, 1000)):
        yield from _evicting(size(1000), wanted)
    for nodes in map(size, (1000, 2000, 4000)):
        yield _starved(nodes)
    for kind in BACKFILLS if scale == 1.0 else ():  # how many start depends on all of them
        yield from _backfill(1000, 1000, kind)
    for name, pods, shown, bound, evicted in published.built(size(500)):
        yield Case(
            name=f"KAI: {name}",
            nodes=size(500),
            pods=pods,
            build=shown,
            bound=bound,
            evicted=evicted,
        )


def _grid(
    kind: str, build: Callable[[int, int], Cluster], size: Callable[[int], int]
) -> Iterator[Case]:
    """Nodes from 500 to 5,000 with 10,000 pods, and 2,500 to 20,000 pods on 1,000 nodes."""
    by_nodes = [(size(nodes), size(10_000)) for nodes in (500, 1000, 2000, 5000)]
    by_pods = [(size(1000), size(pods)) for pods in (2500, 5000, 10_000, 20_000)]
    for nodes, pods in sorted({*by_nodes, *by_pods}):
        series = [f"{kind}, by nodes"] * ((nodes, pods) in by_nodes)
        series += [f"{kind}, by pods"] * ((nodes, pods) in by_pods)
        yield Case(
            name=kind,
            nodes=nodes,
            pods=pods,
            build=partial(build, nodes, pods),
            bound=pods,
            series=tuple(series),
        )


def _one_change(nodes: int) -> Case:
    """One bound pod ends among very many."""
    gang = Gang(name="gang-00000", requests=[clusters.POD] * BOUND_PER_NODE)
    first = "node-00000"

    def end_one(cluster: Cluster) -> None:
        cluster.show_pod(gang, 0, clusters.POD, node=first, phase="Succeeded")

    return Case(
        name="one change, all bound",
        nodes=nodes,
        pods=nodes * BOUND_PER_NODE,
        build=partial(all_bound, nodes),
        change=end_one,
        series=("one change, all bound, by nodes",),
    )


def _without_room(nodes: int, waiting: int) -> Iterator[Case]:
    """The first time that jobs are tried in vain, and the next, after a change that is no help."""
    series = "jobs without room, by pods"
    case = partial(Case, nodes=nodes, pods=waiting, build=partial(without_room, nodes, waiting))
    yield case(name="jobs without room", series=(series,))
    late = Gang(name="late", requests=[clusters.POD])
    name = "jobs without room, one comes"
    yield case(
        name=name,
        change=lambda cluster: cluster.add(late),
        bound=1,
        series=(f"{name}, by pods",),
    )


def _classes_without_room(nodes: int, waiting: int, *, lent: bool = False) -> Case:
    """Every fifth waiting job asks for something else, and then a gang comes that fits.

    With `lent`, another queue holds the pods that are there, in a gang that is too large to go.
    """
    name = "classes without room, a gang comes" + ", two queues" * lent
    late = Gang(name="late", requests=[clusters.POD] * 2)
    return Case(
        name=name,
        nodes=nodes,
        pods=waiting,
        build=partial(without_room, nodes, waiting, max(1, waiting // 5), lent=lent),
        change=lambda cluster: cluster.add(late),
        bound=2,
        series=(f"{name}, by pods",),
    )


def _waiting_at_rest(nodes: int, waiting: int) -> Case:
    """The same jobs, in a cycle in which nothing has changed for any of them."""
    name = "classes without room, at rest"
    return Case(
        name=name,
        nodes=nodes,
        pods=waiting,
        build=partial(without_room, nodes, waiting, max(1, waiting // 5)),
        change=lambda _cluster: None,
        cycles=2,
        series=(f"{name}, by pods",),
    )


def _one_comes(nodes: int, count: int) -> Case:
    """Jobs of one pod run, and one more comes, which fits."""
    name = "running jobs, one comes"
    late = Gang(name="late", requests=[clusters.POD])
    return Case(
        name=name,
        nodes=nodes,
        pods=count,
        build=partial(running_jobs, nodes, count),
        change=lambda cluster: cluster.add(late),
        bound=1,
        series=(f"{name}, by pods",),
    )


def _evicting(nodes: int, wanted: int) -> Iterator[Case]:
    """A large gang that needs the room of others."""
    case = partial(Case, nodes=nodes, pods=wanted, evicted=wanted)
    yield case(
        name="reclaim",
        build=partial(full, nodes, wanted, queue="starved"),
        series=("reclaim, by pods",),
    )
    yield case(
        name="preempt",
        build=partial(full, nodes, wanted, gang=max(GANG, 2 * wanted), priority=1000),
        actions="enqueue, allocate, preempt",
        series=("preempt, by pods",),
    )


def _starved(nodes: int) -> Case:
    """Small gangs that need the room of others, all in one cycle."""
    pods = min(SMALL_GANG, nodes) * min(STARVED, nodes // SMALL_GANG or 1)
    return Case(
        name="starved gangs",
        nodes=nodes,
        pods=pods,
        build=partial(starved, nodes, pods),
        evicted=pods,
        series=("starved gangs, by nodes",),
    )


def equal(nodes: int, pods: int) -> Cluster:
    """Gangs of pods that all ask for the same."""
    cluster = Cluster()
    cluster.add_nodes(nodes)
    for number in range(0, pods, GANG):
        requests = [clusters.POD] * min(GANG, pods - number)
        cluster.add(Gang(name=f"gang-{number:05}", requests=requests))
    return cluster


def different(nodes: int, pods: int) -> Cluster:
    """Gangs of pods of which no two ask for the same."""
    cluster = Cluster()
    cluster.add_nodes(nodes)
    for number in range(0, pods, GANG):
        requests = [
            {"cpu": "1", "memory": f"{2**20 + each}Ki"}
            for each in range(number, min(number + GANG, pods))
        ]
        cluster.add(Gang(name=f"gang-{number:05}", requests=requests))
    return cluster


def many_queues(nodes: int, pods: int, queues: int = 20) -> Cluster:
    """Gangs of equal pods, in turn of each queue."""
    names = [f"queue-{number:02}" for number in range(queues)]
    cluster = Cluster(names)
    cluster.add_nodes(nodes)
    for turn, number in enumerate(range(0, pods, GANG)):
        requests = [clusters.POD] * min(GANG, pods - number)
        queue = names[turn % queues]
        cluster.add(Gang(name=f"gang-{number:05}", requests=requests, queue=queue))
    return cluster


def all_bound(nodes: int) -> Cluster:
    """A cluster with 35 pods on each node and nothing to do."""
    cluster = Cluster()
    for number, name in enumerate(cluster.add_nodes(nodes)):
        requests = [{"cpu": "900m", "memory": "1Gi"}] * BOUND_PER_NODE
        places = [name] * BOUND_PER_NODE
        cluster.add(Gang(name=f"gang-{number:05}", requests=requests, nodes=places))
    return cluster


def _backfill(nodes: int, waiting: int, kind: str) -> Iterator[Case]:
    """Gangs end before their limits where many others wait, with and without shares."""
    mode, _, depth = kind.partition(", ")
    arguments = {"allocate.backfill": mode, "allocate.backfillDepth": int(depth or 100)}
    without = "priority gang", "predicates nodeorder"
    for name, tiers, bound in zip(("", ", no shares"), ((), without), BACKFILLS[kind], strict=True):
        yield Case(
            name=f"backfill {kind}{name}",
            nodes=nodes,
            pods=waiting,
            build=partial(with_limits, nodes, waiting),
            change=end_gangs,
            cycles=2,
            actions="enqueue, allocate, backfill",
            tiers=tiers,
            allocate=arguments,
            bound=bound,
        )


def running_jobs(nodes: int, count: int) -> Cluster:
    """Jobs of one pod, which run on the nodes in turn."""
    cluster = Cluster()
    places = cluster.add_nodes(nodes)
    for number in range(count):
        place = [places[number % nodes]]
        cluster.add(Gang(name=f"gang-{number:05}", requests=[clusters.POD], nodes=place))
    return cluster


def without_room(nodes: int, waiting: int, classes: int = 1, *, lent: bool = False) -> Cluster:
    """Nodes that are half full, and jobs of one pod that needs more than the other half."""
    queue = "lender" if lent else "default"
    cluster = Cluster(sorted({"default", queue}))
    places = cluster.add_nodes(nodes)
    cluster.add(Gang(name="there", requests=[HALF] * nodes, nodes=places, queue=queue))
    for number in range(waiting):
        request = {**MORE, "memory": f"{1024 + number % classes}Mi"}
        cluster.add(Gang(name=f"gang-{number:05}", requests=[request]))
    return cluster


def starved(nodes: int, wanted: int, queues: int = 4) -> Cluster:
    """Every node full of gangs of several queues, at twice their minimum, and a queue in want."""
    names = [f"queue-{number:02}" for number in range(queues)]
    cluster = Cluster([*names, "starved"])
    places = [name for name in cluster.add_nodes(nodes) for _ in range(PER_NODE)]
    for number in range(0, len(places), SMALL_GANG):
        there = places[number : number + SMALL_GANG]
        cluster.add(
            Gang(
                name=f"gang-{number:05}",
                requests=[BIG] * len(there),
                minimum=max(1, len(there) // 2),
                nodes=there,
                queue=names[number // SMALL_GANG % queues],
            )
        )
    for number in range(0, wanted, SMALL_GANG):
        requests = [BIG] * min(SMALL_GANG, wanted - number)
        cluster.add(Gang(name=f"want-{number:03}", requests=requests, queue="starved"))
    return cluster


def full(
    nodes: int, wanted: int, *, gang: int = GANG, queue: str = "default", priority: int = 0
) -> Cluster:
    """Every node full of gangs at twice their minimum, and one gang that asks for more room.

    Plugin drf lets no job take pods of one with a smaller share, whatever their priorities are.
    """
    cluster = Cluster(sorted({"default", queue}))
    places = [name for name in cluster.add_nodes(nodes) for _ in range(PER_NODE)]
    for number in range(0, len(places), gang):
        there = places[number : number + gang]
        cluster.add(
            Gang(
                name=f"gang-{number:05}",
                requests=[BIG] * len(there),
                minimum=max(1, len(there) // 2),
                nodes=there,
            )
        )
    wanting = Gang(name="wanting", requests=[BIG] * wanted, queue=queue, priority=priority)
    cluster.add(wanting)
    return cluster


def with_limits(
    nodes: int, waiting: int, largest: int = 64, kind: type[Cluster] = Cluster
) -> Cluster:
    """Nodes full of gangs in ten queues, and more gangs of 1 to so many pods that wait; the run
    times of all are known.
    """
    names = [f"queue-{number}" for number in range(QUEUES)]
    cluster = kind(names)
    places = cluster.add_nodes(nodes)
    for number in range(nodes):
        there = [places[(number + 125 * at) % nodes] for at in range(PER_NODE)]
        cluster.add(_limited(f"gang-{number:05}", number, [BIG] * PER_NODE, there))
    for number in range(waiting):
        requests = [MORE if number % 5 == 0 else BIG] * (1 + 7 * number % largest)
        cluster.add(_limited(f"late-{number:05}", number, requests))
    return cluster


def _limited(
    name: str, number: int, requests: Sequence[Amounts], nodes: Sequence[str] = ()
) -> Gang:
    limit = {MAX_RUN_TIME: f"{3600 + number * 37 % 997 * 36}s"}
    queue = f"queue-{number % QUEUES}"
    return Gang(name=name, requests=requests, queue=queue, nodes=nodes, annotations=limit)


def end_gangs(cluster: Cluster) -> None:
    """Let some of the gangs with limits end."""
    for number in range(ENDING):
        gang = Gang(name=f"gang-{number * 91:05}", requests=[BIG] * PER_NODE)
        for at in range(PER_NODE):
            cluster.show_pod(gang, at, BIG, node="node-00000", phase="Succeeded")
