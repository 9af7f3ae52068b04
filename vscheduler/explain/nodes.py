"""Changes of nodes: more of them, and nodes that take pods which they refuse now."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vscheduler.explain import estimates, pods
from vscheduler.explain.changes import (
    Amounts,
    Change,
    LabelNodes,
    LargerNodes,
    MoreNodes,
    Remedy,
    RemoveTaint,
    Uncordon,
)
from vscheduler.explain.search import Search
from vscheduler.mirror.decode.wire import Pod
from vscheduler.model.constraints import Taint
from vscheduler.model.jobs import Job
from vscheduler.simulator.network import Network

MORE_MAX = 64
"""More nodes than this are nobody's remedy."""

SHAPES_MAX = 4
"""So many shapes of nodes are tried, the most frequent first."""

SET_BY_KUBERNETES = (
    *("kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/"),
    *("beta.kubernetes.io/", "failure-domain.beta.kubernetes.io/", "nvidia.com/"),
)
"""Prefixes of labels that the kubelet, the cloud, or a driver sets from what a node is."""

SHOWN_MAX = 2
"""So many shapes of nodes are shown, those of which the fewest are needed."""


def more(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield how many more nodes like an existing one start the job, for the best shapes."""
    del job
    remedies = []
    vain: set[Amounts] = set()
    for like, allocatable in _shapes(search)[:SHAPES_MAX]:
        if allocatable in vain and search.quick:
            continue
        guess = partial(search.estimates.more_nodes, dict(allocatable))
        remedy = search.smallest(partial(_added, like, allocatable), MORE_MAX, guess)
        if remedy is None:
            vain.add(allocatable)
        else:
            remedies.append((_size(remedy.change), like, remedy))
    for _, _, remedy in sorted(remedies, key=lambda each: each[:2])[:SHOWN_MAX]:
        yield remedy


def larger(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield nodes that are as large as the largest pod, where none is, for a shape of nodes."""
    del job
    asked: dict[str, int] = {}
    for task in pods.tasks(search):
        for name, amount in task.pod_class.request.items():
            asked[name] = max(asked.get(name, 0), amount)
    short = [
        (like, {name: amount for name, amount in asked.items() if amount > dict(size).get(name, 0)})
        for like, size in _shapes(search)
    ]
    if not all(more for _, more in short):
        return
    for like, more in short[:SHAPES_MAX]:
        more_of = tuple(sorted(more.items()))
        remedy = search.smallest(partial(_larger, like, more_of), MORE_MAX)
        if remedy is not None:
            yield remedy
            return


def _larger(like: str, allocatable: Amounts, count: int) -> Change:
    return LargerNodes(like=like, count=count, allocatable=allocatable)


def _added(like: str, allocatable: Amounts, count: int) -> Change:
    return MoreNodes(like=like, count=count, allocatable=allocatable)


def _size(change: Change) -> int:
    assert isinstance(change, MoreNodes)
    return change.count


def _shapes(search: Search) -> list[tuple[str, Amounts]]:
    """Return the first node of each shape, and its capacity: the most frequent shape first, but
    before all others those in the best domains of the network, and in a large cluster those last
    that the job's selectors and tolerations exclude.
    """
    table, space = search.trials.snapshot.nodes, search.trials.snapshot.space
    groups: dict[object, list[int]] = {}
    for row, (spec, shape) in enumerate(
        zip(table.layout.specs, estimates.shapes(table), strict=True)
    ):
        if spec.ready and not spec.unschedulable:
            groups.setdefault(shape, []).append(row)
    last = ~search.estimates.usable if search.quick else np.zeros(table.layout.size, dtype=np.bool_)
    near = _in_best_domains(search)
    made = []
    for rows in sorted(
        groups.values(),
        key=lambda rows: (bool(last[rows[0]]), near[rows].max(), -len(rows), rows[0]),
    ):
        amounts = space.amounts(table.allocatable[rows[0]])
        capacity = tuple(sorted((name, int(each)) for name, each in amounts.items()))
        made.append((table.layout.names[rows[0]], capacity))
    return made


def _in_best_domains(search: Search) -> NDArray[np.int64]:
    """Return for each node (N,) the place of its domain among those that the reason names, the best
    first; all alike for other reasons.
    """
    snapshot, reason = search.trials.snapshot, search.reason
    found = np.full(snapshot.nodes.layout.size, SHAPES_MAX, dtype=np.int64)
    named = [(each.tier, each.name) for each in reason.domains] if reason else []
    job = next(each for each in snapshot.jobs if each.id == search.trials.job)
    tree = Network(snapshot, search.trials.policy).tree(job) if named else None
    for at, domain in enumerate(tree.domains if tree else ()):
        if tree is not None and (domain.tier, domain.name) in named:
            found[tree.rows(at)] = named.index((domain.tier, domain.name))
    return found


def opened(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the fewest nodes to untaint, to uncordon and to label so that the job starts.

    Only nodes without the label are labelled, and only by labels that people give.
    """
    del job
    by_room = _by_room(search)
    specs = {spec.name: spec for spec in search.trials.snapshot.nodes.layout.specs}
    for taint, names in pods.barring(search)[: pods.CANDIDATES_MAX]:
        ordered = [name for name in by_room if name in set(names)]
        yield from _fewest(search, ordered, partial(_untainted, taint))
    cordoned = [name for name in by_room if specs[name].unschedulable]
    yield from _fewest(search, cordoned, _uncordoned)
    for key, value in _selected(search)[: pods.CANDIDATES_MAX]:
        # A node with another value says what it is: a label that lies helps nobody.
        without = [name for name in by_room if key not in dict(specs[name].labels)]
        if key.startswith(SET_BY_KUBERNETES):
            continue
        yield from _fewest(search, without, partial(_labelled, key, value))


def _untainted(taint: Taint, names: tuple[str, ...]) -> Change:
    return RemoveTaint(taint=taint, nodes=names)


def _uncordoned(names: tuple[str, ...]) -> Change:
    return Uncordon(nodes=names)


def _labelled(key: str, value: str, names: tuple[str, ...]) -> Change:
    return LabelNodes(key=key, value=value, nodes=names)


def _fewest(
    search: Search,
    names: Sequence[str],
    change: Callable[[tuple[str, ...]], Change],
) -> Iterator[Remedy]:
    """Yield the change of as few of these nodes as suffice, taken in their order."""
    remedy = search.fewest(change, names, MORE_MAX, partial(search.estimates.nodes_of, names))
    if remedy is not None:
        yield remedy


def _by_room(search: Search) -> list[str]:
    """Return the names of all nodes, those with the largest free part first."""
    table = search.trials.snapshot.nodes
    free = (table.allocatable - table.used) / table.allocatable.max(axis=0, initial=1)
    rooms = free[:, _columns(search)].min(axis=1, initial=np.inf)
    order = np.lexsort((np.arange(len(rooms)), -rooms))
    return [table.layout.names[row] for row in order.tolist()]


def _columns(search: Search) -> list[int]:
    """Return the columns of the resources that pods of the job request."""
    space = search.trials.snapshot.space
    names = {name for task in pods.tasks(search) for name in task.pod_class.request}
    return sorted(space.columns[name] for name in names if name in space.columns)


def _selected(search: Search) -> list[tuple[str, str]]:
    """Return the labels that pods of the job require of nodes by nodeSelector."""
    waiting: tuple[Pod, ...] = search.trials.objects.waiting
    return sorted({entry for pod in waiting for entry in pod.spec.node_selector.items()})
