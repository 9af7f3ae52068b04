"""Network domains: which parts of the network a gang may start in, and which of these is best.

How many pods each domain has room for is known for all domains at once: for equal pods that
nothing but their size restricts, exactly. So only domains in which the gang may fit are tried: the
lowest tier first, and there the domain in which least is left over, so that large ones stay whole.
"""

import contextlib
from collections.abc import Hashable, Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from vscheduler.core.api.contracts import FilterResult
from vscheduler.core.placement import nominated_pods
from vscheduler.core.placement.explanations import RefusedNodes
from vscheduler.core.session import reasons
from vscheduler.core.session.job_state import JobState, Key
from vscheduler.core.session.session import Session
from vscheduler.core.topology import network
from vscheduler.core.topology.groups import SCATTERED, Group, JobTopology
from vscheduler.core.topology.tree import Flags, Floats, Ints, Tree
from vscheduler.model import refusals, resources
from vscheduler.model.constraints import HOSTNAME
from vscheduler.model.decisions import DomainRoom, Reason, ReasonCode, RefusalCounts
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.resources import Vector

TRIES_MAX = 32
"""So many domains are tried for one job in one cycle, and as often as this for one sub-group."""

DOMAINS_COST, NODES_PER_UNIT = 100, 20
"""Approximate microseconds for the capacities of all domains for one class of pods; so many nodes
cost one more."""

ANYWHERE = -1
"""Instead of a domain: the search chooses one."""

SHOWN_MAX = 3
"""So many domains are named that are too small."""

MEMBERS = frozenset({*network.COUNTED, TaskStatus.PENDING})
"""Pods that would have to move together."""


class Room(msgspec.Struct, frozen=True, eq=False):
    """What domains have room for."""

    needed: int
    """So many of the pods must start together."""
    pods: Ints
    """How many of the pods, (D,)."""
    copies: Ints
    """How many pods if there were any number of them, by domain (D,)."""
    by_node: Ints
    """The same by node, (N,)."""
    suffices: Flags
    """The domains (D,) in which enough of the pods may fit."""
    rank: Floats
    """Which domains (D,) of a tier come first: the lower, the earlier."""
    exact: bool
    """Whether that many of the pods do fit: these are equal, and only their size matters."""


def room_for(
    session: Session, tree: Tree, tasks: Sequence[Task], needed: int, *, later: bool
) -> Room:
    """Return what domains have free for these waiting pods, or will have after pending releases
    (`later`). As many as `needed` must fit.
    """
    counts, classes = _Counts(session, tree), _classes(session, tasks)
    usable = np.zeros(session.layout.size, dtype=np.bool_)
    for task, number in classes:
        free, fits = nominated_pods.room(session, task), _usable(session, task, later=later)
        if not later:
            free = np.minimum(free, session.cluster.allocatable - session.cluster.used)
        usable |= fits
        counts.add(task, number, free, fits)
    suffices = counts.pods >= needed
    if needed == len(tasks):
        suffices &= counts.suffices
    if len(classes) > 1 and needed == len(tasks):
        most = session.cluster.future_used if later else session.cluster.used
        free = np.where(usable[:, np.newaxis], session.cluster.allocatable - most, 0)
        asked = sum((session.request(task) for task in tasks), session.space.zeros())
        suffices &= (tree.sums(np.maximum(free, 0)) >= asked).all(axis=1)
    exact = len(classes) == 1 and not _is_restricted(tasks[0])
    rank = session.topology.rank(tree, tasks, session.cluster.used)
    rank = counts.copies.astype(np.float64) if rank is None else rank
    return Room(needed, counts.pods, counts.copies, counts.by_node, suffices, rank, exact)


class _Counts:
    """How many pods fit, class by class."""

    def __init__(self, session: Session, tree: Tree) -> None:
        self._session, self._tree = session, tree
        domains, nodes = len(tree.domains), session.layout.size
        self.pods, self.copies = (
            np.zeros(domains, dtype=np.int64),
            np.zeros(domains, dtype=np.int64),
        )
        self.by_node = np.zeros(nodes, dtype=np.int64)
        """These three: see Room."""
        self.suffices = np.ones(domains, dtype=np.bool_)
        """The domains (D,) in which all pods of each class fit."""

    def add(self, task: Task, number: int, free: Vector, usable: Flags) -> None:
        """Count as many pods like this task, with so much free (N, R) on these nodes (N,)."""
        held = np.where(usable, resources.copies(self._session.request(task), free), 0)
        if _are_apart(self._session, task):
            held = np.minimum(held, 1)
        of_domains = self._tree.sums(held)
        self.pods += np.minimum(of_domains, number)
        self.copies += of_domains
        self.by_node += held
        self.suffices &= of_domains >= number


def _classes(session: Session, tasks: Sequence[Task]) -> list[tuple[Task, int]]:
    """Return a task of each class, and how many are alike."""
    found: dict[Hashable, list[Task]] = {}
    for task in tasks:
        found.setdefault(nominated_pods.alike(session, task), []).append(task)
    session.spend("domains", len(found) * (DOMAINS_COST + session.layout.size // NODES_PER_UNIT))
    return [(each[0], len(each)) for each in found.values()]


def _usable(session: Session, task: Task, *, later: bool) -> Flags:
    """Return the nodes (N,) that take the task, or would beside other pods of its gang."""
    if not _is_restricted(task):
        return session.placement.fits(task)[later]
    found = np.ones(session.layout.size, dtype=np.bool_)
    for result in session.placement.verdicts(task, session.cluster.view()):
        if refusals.of(result.refusal).code not in refusals.ABOUT_THE_GANG:
            found &= result.later if later and result.later is not None else result.passes
    return found


def _is_restricted(task: Task) -> bool:
    """Whether other pods of the gang matter for more than the size of what they leave over."""
    limits = task.pod_class.constraints
    return bool(
        limits.pod_affinity
        or limits.pod_anti_affinity
        or limits.spread
        or limits.ports
        or limits.volumes
        or limits.resource_claims
    )


def _are_apart(session: Session, task: Task) -> bool:
    """Whether no node takes two such pods: of the rules between pods of a gang, those that bound
    how many a node holds, whatever is there.
    """
    limits = task.pod_class.constraints
    terms = [term for term in limits.pod_anti_affinity if term.topology_key == HOSTNAME]
    labels = session.snapshot.affinity_index.namespace_labels(task.namespace) if terms else {}
    return bool(limits.ports) or any(
        term.pods.includes(task.namespace, task.labels, labels) for term in terms
    )


def room_after(
    session: Session, tree: Tree, tasks: Sequence[Task], needed: int, most: Vector
) -> Room:
    """Return what domains have room for if all were gone that may be evicted: `most` (N, R)."""
    counts = _Counts(session, tree)
    for task, number in _classes(session, tasks):
        free = nominated_pods.room(session, task) + most
        counts.add(task, number, free, session.placement.reachable(task))
    pods, copies = counts.pods, counts.copies
    rank = copies.astype(np.float64)
    return Room(needed, pods, copies, counts.by_node, pods >= needed, rank, exact=False)


def with_fewest_victims(
    group: Group, free: Room, after: Room, needed: int, count: int
) -> list[int]:
    """Return the domains in which evictions may make room, at most so many: those first in which
    the most pods fit without, then by tier and name.
    """
    domains = np.flatnonzero(after.suffices & (group.tree.tiers <= group.tier))
    order = np.argsort(-np.minimum(free.pods[domains], needed), kind="stable")
    return [int(each) for each in domains[order][:count]]


def candidates(group: Group, room: Room, *, inside: int | None = None) -> list[int]:
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
    order = np.lexsort((room.rank[domains], tree.tiers[domains]))
    return _few(domains[order], tree.tiers)


def _few(domains: Ints, tiers: Ints) -> list[int]:
    """Return at most TRIES_MAX of these, of each tier the first ones; if there are more, ANYWHERE
    comes last, so that a search finds whatever there is.
    """
    if domains.size <= TRIES_MAX:
        return [int(each) for each in domains]
    each_tier = max(1, TRIES_MAX // len(set(tiers[domains].tolist())))
    found: list[int] = []
    for tier in sorted(set(tiers[domains].tolist())):
        found += domains[tiers[domains] == tier][:each_tier].tolist()
    return [*found, ANYWHERE]


@contextlib.contextmanager
def within(group: Group, domain: int, room: Room) -> Iterator[None]:
    """Let the pods of the group use this domain alone, and fill few domains below it; ANYWHERE, any
    one that is allowed.
    """
    if domain == ANYWHERE:
        yield
        return
    group.chosen = domain
    group.to_fill, group.order = _order(group.tree, domain, room)
    try:
        yield
    finally:
        group.chosen, group.to_fill, group.order = None, (), None


class Tries:
    """The domains to try for waiting pods of which so many must start together, the best first.

    Iterates over whether pods may wait for what is being released: those domains come first where
    they can start now. Inside the loop, the pods may use the domain alone.
    """

    def __init__(
        self,
        session: Session,
        group: Group,
        tasks: Sequence[Task],
        needed: int,
        inside: int | None = None,
    ) -> None:
        """Prepare to try domains `inside` this one, if any."""
        self._session, self._group, self._tasks = session, group, tasks
        self._needed, self._inside = needed, inside
        self.room: Room
        """What domains have room for, once one was asked for."""

    def __iter__(self) -> Iterator[bool]:
        session, group = self._session, self._group
        waits = session.cluster.is_releasing and not session.lending
        for later in (False, True) if waits else (False,):
            self.room = room_for(session, group.tree, self._tasks, self._needed, later=later)
            for domain in candidates(group, self.room, inside=self._inside):
                with within(group, domain, self.room):
                    yield later


def _order(tree: Tree, domain: int, room: Room) -> tuple[tuple[int, ...], Floats | None]:
    """Return which smallest domains in this one are filled one after the other, and how early nodes
    (N,) are filled for that; nothing if it has no domains below.

    The largest domains come first, and for the rest the smallest in which it fits.
    """
    if tree.lowest_is(domain):
        return (), None
    leaves: list[int] = []
    _fill(tree, domain, room, room.needed, leaves)
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
    return min(state.missing_tasks, max(1, state.counts[TaskStatus.PENDING]))


def too_small(session: Session, state: JobState, topology: JobTopology, room: Room) -> Reason:
    """Return that no allowed domain has room for as many pods as must start together; or, for a
    job that has no pods in a place, that none had even if it were empty.
    """
    group, tree, needed = topology.whole, topology.tree, room.needed
    tasks, empty = pending(state), False
    placed = state.ready_tasks + state.waiting_tasks
    if not group.is_bounded:  # as for pods that may be anywhere
        placed += min(int(room.pods[tree.root]), needed - 1)
        return replace(reasons.no_room(session, state, tasks[0]), placed=placed)
    domains = _widest(group)
    pods = np.minimum(room.pods, needed - 1)
    if group.anchor is None and group.tier == group.bounds.tier:
        most = _room_on_empty_nodes(session, tree, tasks)
        empty = bool((most[domains] < needed).all())
        pods = most if empty else pods
    best = domains[np.lexsort((tree.tiers[domains], -pods[domains]))][:SHOWN_MAX]
    refused = _refusals(session, tree, tasks[0], best, empty=empty)
    return Reason(
        code=ReasonCode.NEVER_FITS if empty and best.size else ReasonCode.NO_DOMAIN,
        queue=state.job.queue,
        tasks=state.valid_tasks - state.counts[TaskStatus.GATED],
        minimum=state.minimum,
        placed=placed,
        lacking=needed,
        domains=tuple(
            tree.domain_room(int(at), int(pods[at]), each, exact=room.exact)
            for at, each in zip(best, refused, strict=True)
        ),
        elsewhere=_elsewhere(session, state, topology),
        wider_at=None if group.tier == group.bounds.tier else network.until_patient(state.job),
    )


def too_small_for_part(state: JobState, topology: JobTopology, room: Room, key: Key) -> Reason:
    """Return that no domain has room for a sub-group, of those that it may use in the domain that
    is tried for the job.
    """
    place, values = key
    policy, whole, tree = state.job.sub_groups[place], topology.whole, topology.tree
    domains = _widest(topology.parts[key])
    if whole.chosen is not None:
        domains = domains[tree.inside(whole.chosen)[domains]]
    pods = np.minimum(room.pods, room.needed - 1)
    best = domains[np.argsort(-pods[domains], kind="stable")][:SHOWN_MAX]
    return Reason(
        code=ReasonCode.NO_DOMAIN,
        queue=state.job.queue,
        tasks=state.valid_tasks - state.counts[TaskStatus.GATED],
        minimum=state.minimum,
        lacking=room.needed,
        subject=policy.name,
        sub_group=dict(zip(policy.keys, values, strict=True)),
        domains=tuple(tree.domain_room(int(at), int(pods[at]), exact=room.exact) for at in best),
    )


def _widest(group: Group) -> Ints:
    """Return the largest domains that the group may start in, or grow in."""
    within, anchor = group.tree.within(group.tier), group.anchor
    if anchor is None:
        return np.flatnonzero(within == np.arange(within.size))
    return np.array([] if anchor == SCATTERED else [anchor], dtype=np.int64)


def _room_on_empty_nodes(session: Session, tree: Tree, tasks: Sequence[Task]) -> Ints:
    """Return for how many of these pods domains (D,) would have room without any other pods."""
    counts = _Counts(session, tree)
    for pod_class in dict.fromkeys(task.pod_class for task in tasks):
        alike = [task for task in tasks if task.pod_class is pod_class]
        usable = session.placement.reachable(alike[0])
        counts.add(alike[0], len(alike), session.cluster.allocatable, usable)
    return counts.pods


def _refusals(
    session: Session, tree: Tree, task: Task, domains: Ints, *, empty: bool
) -> list[RefusalCounts]:
    """Return for each domain why nodes of it refuse this task; or would, if they were `empty`."""
    session.spend("domains", DOMAINS_COST + session.layout.size // NODES_PER_UNIT)
    free, request = nominated_pods.room(session, task), session.request(task)
    results = list(session.placement.verdicts(task, session.cluster.view()))
    if empty:
        free = session.cluster.allocatable
        results = [each for each in results if not (each.curable or each.temporary)]
    found = []
    for domain in domains:
        inside = FilterResult(network.ELSEWHERE, tree.mask(int(domain)))
        counts, _ = RefusedNodes(session, [inside, *results], free).counts(request)
        found.append(tuple(each for each in counts if each[0] != network.ELSEWHERE))
    return found


def _elsewhere(session: Session, state: JobState, topology: JobTopology) -> DomainRoom | None:
    """Return the domain in which all pods of a job would have room that lacks it where some run;
    for equal pods that may use any of the nodes together.
    """
    group, tree = topology.whole, topology.tree
    tasks = [task for task in state.job.tasks if state.status(task) in MEMBERS]
    if group.anchor is None or topology.parts or len({task.pod_class for task in tasks}) > 1:
        return None
    task, number = pending(state)[0], state.ready_tasks + state.waiting_tasks + needed_of(state)
    usable = np.ones(session.layout.size, dtype=np.bool_)
    for each in session.placement.verdicts(task, session.cluster.view()):
        if each.refusal != network.ELSEWHERE:
            usable &= each.passes
    counts = _Counts(session, tree)
    counts.add(task, number, nominated_pods.room(session, task), usable)
    room = counts.copies
    others = np.flatnonzero((room >= number) & (tree.tiers <= group.tier))
    if not others.size:
        return None
    best = others[np.lexsort((room[others], tree.tiers[others]))[0]]
    return tree.domain_room(int(best), number)
