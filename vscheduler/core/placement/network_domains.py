"""Network domains: which parts of the network a gang may start in, and which of these is best.

How many pods each domain has room for is known for all domains at once: for equal pods that
nothing but their size restricts, exactly. So only domains in which the gang may fit are tried: the
lowest tier first, and there the domain in which least is left over, so that large ones stay whole.
"""

import contextlib
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from vscheduler.core.placement import nominated_pods
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.topology.groups import SCATTERED, Group, JobTopology
from vscheduler.core.topology.tree import Flags, Floats, Ints, Tree
from vscheduler.model import resources
from vscheduler.model.decisions import DomainRoom, Reason, ReasonCode
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.resources import Vector

TRIES_MAX = 32
"""So many domains are tried for one job in one cycle, and as often as this for one sub-group."""

DOMAINS_COST, NODES_PER_UNIT = 100, 20
"""Approximate microseconds for the capacities of all domains for one class of pods; so many nodes
cost one more."""

SHOWN_MAX = 3
"""So many domains are named that are too small."""


class Room(msgspec.Struct, frozen=True, eq=False):
    """What domains have room for."""

    pods: Ints
    """How many of the pods, (D,)."""
    copies: Ints
    """How many pods if there were any number of them, by domain (D,)."""
    by_node: Ints
    """The same by node, (N,)."""
    suffices: Flags
    """The domains (D,) in which enough of the pods may fit."""


def room_for(
    session: Session, tree: Tree, tasks: Sequence[Task], needed: int, *, later: bool
) -> Room:
    """Return what domains have free for these waiting pods, or will have after pending releases
    (`later`). As many as `needed` must fit.
    """
    nodes, domains = session.layout.size, len(tree.domains)
    pods, copies = np.zeros(domains, dtype=np.int64), np.zeros(domains, dtype=np.int64)
    suffices, by_node = np.ones(domains, dtype=np.bool_), np.zeros(nodes, dtype=np.int64)
    by_class: dict[object, list[Task]] = {}
    for task in tasks:
        by_class.setdefault(nominated_pods.alike(session, task), []).append(task)
    usable = np.zeros(nodes, dtype=np.bool_)
    for each in by_class.values():
        session.spend("domains", DOMAINS_COST + nodes // NODES_PER_UNIT)
        now, then = session.placement.fits(each[0])
        free = nominated_pods.room(session, each[0])
        if not later:
            free = np.minimum(free, session.cluster.allocatable - session.cluster.used)
        fits = then if later else now
        usable |= fits
        held = np.where(fits, resources.copies(session.request(each[0]), free), 0)
        of_domains = tree.sums(held)
        pods += np.minimum(of_domains, len(each))
        copies += of_domains
        by_node += held
        if needed == len(tasks):
            suffices &= of_domains >= len(each)
    suffices &= pods >= needed
    if len(by_class) > 1 and needed == len(tasks):
        most = session.cluster.future_used if later else session.cluster.used
        free = np.where(usable[:, np.newaxis], session.cluster.allocatable - most, 0)
        asked = sum((session.request(task) for task in tasks), session.space.zeros())
        suffices &= (tree.sums(np.maximum(free, 0)) >= asked).all(axis=1)
    return Room(pods, copies, by_node, suffices)


def room_after(
    session: Session, tree: Tree, tasks: Sequence[Task], needed: int, most: Vector
) -> Room:
    """Return what domains have room for if all were gone that may be evicted: `most` (N, R)."""
    nodes, domains = session.layout.size, len(tree.domains)
    pods, by_node = np.zeros(domains, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    copies = np.zeros(domains, dtype=np.int64)
    by_class: dict[object, list[Task]] = {}
    for task in tasks:
        by_class.setdefault(nominated_pods.alike(session, task), []).append(task)
    for each in by_class.values():
        session.spend("domains", DOMAINS_COST + nodes // NODES_PER_UNIT)
        free = nominated_pods.room(session, each[0]) + most
        usable = session.placement.reachable(each[0])
        held = np.where(usable, resources.copies(session.request(each[0]), free), 0)
        of_domains = tree.sums(held)
        pods += np.minimum(of_domains, len(each))
        copies += of_domains
        by_node += held
    return Room(pods, copies, by_node, pods >= needed)


def with_fewest_victims(
    group: Group, free: Room, after: Room, needed: int, count: int
) -> list[int]:
    """Return the domains in which evictions may make room, at most so many: those first in which
    the most pods fit without, then by tier and name.
    """
    domains = np.flatnonzero(after.suffices & (group.tree.tiers <= group.tier))
    order = np.argsort(-np.minimum(free.pods[domains], needed), kind="stable")
    return [int(each) for each in domains[order][:count]]


def candidates(group: Group, room: Room, needed: int, *, inside: int | None = None) -> list[int]:
    """Return the domains to try, the best first; `inside` this one, if any.

    With pods in a place by now: those around it, the smallest first.
    """
    tree = group.tree
    place = group.place
    if group.anchor == SCATTERED:
        return []
    if place is not None:
        around = tree.ancestors(place)
        allowed = around if inside is None else around[: around.index(inside) + 1]
        found = [each for each in allowed if tree.tiers[each] <= group.tier]
        return [each for each in found if room.suffices[each]]
    mask = room.suffices & (tree.tiers <= group.tier)
    if inside is not None:
        mask &= tree.inside(inside)
    domains = np.flatnonzero(mask)
    # Domains are in order of tiers and names.
    order = np.lexsort((room.copies[domains] - needed, tree.tiers[domains]))
    return _few(domains[order], tree.tiers)


def _few(domains: Ints, tiers: Ints) -> list[int]:
    """Return at most TRIES_MAX of these: of each tier the first ones, so that wider domains, in
    which a search finds whatever there is, have their turn.
    """
    if domains.size <= TRIES_MAX:
        return [int(each) for each in domains]
    each_tier = max(1, TRIES_MAX // len(set(tiers[domains].tolist())))
    found: list[int] = []
    for tier in sorted(set(tiers[domains].tolist())):
        found += domains[tiers[domains] == tier][:each_tier].tolist()
    return found


@contextlib.contextmanager
def within(group: Group, domain: int, room: Room, needed: int) -> Iterator[None]:
    """Let the pods of the group use this domain alone, and fill few domains below it."""
    group.chosen = domain
    group.to_fill, group.order = _order(group.tree, domain, room, needed)
    try:
        yield
    finally:
        group.chosen, group.to_fill, group.order = None, (), None


def _order(
    tree: Tree, domain: int, room: Room, needed: int
) -> tuple[tuple[int, ...], Floats | None]:
    """Return which smallest domains in this one are filled one after the other, and how early nodes
    (N,) are filled for that; nothing if it has no domains below.

    The largest domains come first, and for the rest the smallest in which it fits.
    """
    if tree.lowest_is(domain):
        return (), None
    leaves: list[int] = []
    _fill(tree, domain, room, needed, leaves)
    order = np.zeros(len(tree.lowest))
    for place, leaf in enumerate(leaves):
        order[tree.lowest == leaf] = 1 - place / len(leaves)
    return tuple(leaves), order


def _fill(tree: Tree, domain: int, room: Room, needed: int, leaves: list[int]) -> int:
    """Append the smallest domains to fill, in order; return how many pods are left."""
    children = [each for each in tree.children(domain) if room.copies[each]]
    while children and needed > 0:
        enough = [each for each in children if room.copies[each] >= needed]
        # Of equal ones the first by name.
        child = min(enough or children, key=lambda each: abs(int(room.copies[each]) - needed))
        children.remove(child)
        needed = _fill(tree, child, room, needed, leaves)
    if needed > 0:
        here = int(room.by_node[tree.lowest == domain].sum())
        if here:
            leaves.append(domain)
            needed -= here
    return needed


def pending(state: JobState) -> list[Task]:
    """Return the waiting pods of a job, best-effort pods included."""
    return list(state.tasks(TaskStatus.PENDING))


def needed_of(state: JobState) -> int:
    """Return how many more pods the job needs to start, or to grow by one."""
    missing = state.minimum - state.ready_tasks - state.waiting_tasks
    return min(max(1, missing), max(1, state.counts[TaskStatus.PENDING]))


def too_small(session: Session, state: JobState, topology: JobTopology, room: Room) -> Reason:
    """Return that no allowed domain has room for as many pods as must start together."""
    group, tree = topology.whole, topology.tree
    mask = tree.tiers <= group.tier
    place = group.place
    if place is not None and group.anchor not in (None, SCATTERED):
        mask &= np.isin(np.arange(mask.size), tree.ancestors(place))
    allowed = np.flatnonzero(mask)
    best = allowed[np.lexsort((tree.tiers[allowed], -room.pods[allowed]))][:SHOWN_MAX]
    return reasons_of(
        session,
        state,
        tuple(
            DomainRoom(
                name=tree.domains[at].name,
                tier=tree.domains[at].tier,
                tier_name=tree.domains[at].tier_name,
                pods=int(room.pods[at]),
                nodes=tree.size(int(at)),
            )
            for at in best
        ),
    )


def reasons_of(session: Session, state: JobState, best: tuple[DomainRoom, ...]) -> Reason:
    """Return the reason with these domains, the best first."""
    return Reason(
        code=ReasonCode.NO_DOMAIN,
        queue=state.job.queue,
        tasks=state.valid_tasks - state.counts[TaskStatus.GATED],
        minimum=state.minimum,
        placed=state.ready_tasks,
        lacking=needed_of(state),
        nodes=session.layout.size,
        domains=best,
    )
