"""Cases that KAI-Scheduler publishes figures of: 500 nodes of 8 GPUs (docs/scale-tests there)."""

from collections.abc import Callable, Iterator
from functools import partial

from tests.benchmarks.core.clusters import Amounts, Cluster, Gang

GPU = "nvidia.com/gpu"
NODE: Amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
PER_NODE = 8
ONE: Amounts = {"cpu": "1", "memory": "1Gi", GPU: "1"}
FOUR: Amounts = {"cpu": "4", "memory": "4Gi", GPU: "4"}
ALL: Amounts = {"cpu": "8", "memory": "8Gi", GPU: "8"}
SMALL_GANG = 10
GIVES, WANTS = "gives", "wants"


def built(nodes: int) -> Iterator[tuple[str, int, Callable[[], Cluster], int, int]]:
    """Names, pods that wait, clusters, and how many pods are bound and evicted in the cycle."""
    gpus, half = PER_NODE * nodes, nodes // 2
    yield "one-GPU jobs", gpus, partial(empty, nodes), gpus, 0
    yield "reclaim for one gang", half, partial(taken, nodes, [half], ALL), 0, PER_NODE * half
    size, count = min(SMALL_GANG, nodes), max(1, nodes // SMALL_GANG)
    gangs = partial(taken, nodes, [size] * count, FOUR)
    yield "reclaim for gangs of 10", size * count, gangs, 0, 4 * size * count
    yield "no room", half, partial(taken, nodes, [half], ALL, queue=GIVES), 0, 0


def empty(nodes: int) -> Cluster:
    """Free nodes, and as many jobs of one GPU as there are GPUs."""
    cluster = Cluster()
    cluster.add_nodes(nodes, [NODE] * nodes)
    for number in range(PER_NODE * nodes):
        cluster.add(Gang(name=f"job-{number:05}", requests=[ONE]))
    return cluster


def taken(nodes: int, sizes: list[int], request: Amounts, *, queue: str = WANTS) -> Cluster:
    """A queue's jobs of one GPU on all GPUs, and gangs of such sizes that wait."""
    cluster = Cluster([GIVES, WANTS])
    places = cluster.add_nodes(nodes, [NODE] * nodes)
    for number in range(PER_NODE * nodes):
        place = [places[number // PER_NODE]]
        cluster.add(Gang(name=f"job-{number:05}", requests=[ONE], nodes=place, queue=GIVES))
    for number, size in enumerate(sizes):
        cluster.add(Gang(name=f"gang-{number:03}", requests=[request] * size, queue=queue))
    return cluster
