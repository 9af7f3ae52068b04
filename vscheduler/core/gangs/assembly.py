"""Assembly: the problem of one gang in the present state of the session."""

import dataclasses
import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from vscheduler.core.api.contracts import NodeView
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.api.views import DomainCounts, TopologyCount
from vscheduler.core.gangs import claim_constraints
from vscheduler.core.gangs.claim_constraints import Choice, VolumeRules
from vscheduler.core.gangs.solver.bounds import QueueRoom
from vscheduler.core.gangs.solver.problem import (
    PLENTY,
    Apart,
    EqualPods,
    Flags,
    Ints,
    Near,
    Pool,
    Problem,
    Requirement,
    Spread,
    SubGroups,
)
from vscheduler.core.placement import nominated_pods
from vscheduler.core.placement.pod_affinity import filters
from vscheduler.core.session.job_state import JobState, Key
from vscheduler.core.session.session import Session
from vscheduler.model import pod_affinity, refusals, resources
from vscheduler.model.decisions import QueueLimit, Shortage
from vscheduler.model.gang_proof import PodsOfKind
from vscheduler.model.jobs import READY, Task, TaskId
from vscheduler.model.refusals import RefusalCode
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import FREE_NOW, SearchRoom

ROUNDING = 1e-6
"""Limits are sums of fractions, and amounts are whole."""


class Limits:
    """What plugins say of the queue of a gang; `pods` is one of each kind."""

    def __init__(self, session: Session, pods: Iterable[Task]) -> None:
        self._session = session
        self._known: list[QueueLimit] = []
        """Limits that hold wherever pods are; those that are about the last of the pods."""
        self._by_nodes: dict[bytes, list[QueueLimit]] = {}
        rooms = []
        for pod in pods:
            queue = session.queues[session.job_states[pod.job].job.queue]
            answers = session.dispatch.every(AllHooks.queue_limits, queue, pod)
            known = [
                each
                for each in itertools.chain.from_iterable(answer or () for answer in answers)
                if each.resource in session.space.columns
            ]
            self._known = [each for each in known if each.nodes is None]
            rooms.append(self._room(self._known))
            self._by_nodes.clear()
            for each in known:
                if each.nodes is not None:
                    self._by_nodes.setdefault(each.nodes.tobytes(), []).append(each)
        # Limits are wider for pods that have nominations. What a queue refuses to others, it also
        # refuses when they are placed.
        self._widest: Ints = np.max(rooms, axis=0)

    def room_for(self, kinds: Sequence[EqualPods]) -> Ints | None:
        """Return what pods may ask for in all, (R,), or None if all of these may be placed."""
        asked = sum((kind.request * kind.count for kind in kinds), self._session.space.zeros())
        within = (asked <= self._widest) | (asked == 0)
        return None if within.all() else self._widest

    def pools(self, rows: Ints) -> tuple[Pool, ...]:
        """Return the limits on some of these nodes."""
        return tuple(
            Pool(rows=limits[0].nodes[rows], room=self._room(limits))
            for limits in self._by_nodes.values()
            if limits[0].nodes is not None and limits[0].nodes[rows].any()
        )

    def shortages(self, problem: Problem) -> tuple[Shortage, ...]:
        """Return the limits that the smallest pods which the gang needs exceed.

        There may be none, if one limit suits some pods, and another limit others.
        """
        counts = np.array([kind.count for kind in problem.kinds], dtype=np.int64)
        least = QueueRoom(problem).least(np.zeros_like(counts), counts)
        columns = self._session.space.columns
        exceeded = [each for each in self._known if 0 < least[columns[each.resource]] > each.room]
        # Of several queues, the topmost: queues below can't have more in any case.
        found = {
            each.resource: Shortage(
                resource=each.resource,
                requested=int(least[columns[each.resource]]),
                allocated=each.allocated,
                limit=each.limit,
                owner=each.owner,
                kept=each.kept,
                keepers=each.keepers,
                whole=each.whole,
            )
            for each in exceeded
            if each.owner == exceeded[-1].owner
        }
        return tuple(found[name] for name in sorted(found))

    def _room(self, limits: Iterable[QueueLimit]) -> Ints:
        room = np.full(self._session.space.size, np.inf)
        for limit in limits:
            column = self._session.space.columns[limit.resource]
            room[column] = min(room[column], limit.room)
        bounded = np.clip(room, -PLENTY, PLENTY)
        whole: Ints = np.floor(bounded + ROUNDING).astype(np.int64)
        return whole


PodPresence = pod_affinity.PodPresence


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what its numbers stand for."""

    given: Problem
    tasks: Sequence[Sequence[Task]]
    """The pods of each kind, in the order of their turns."""
    rows: Ints
    """The node of each row of the problem."""
    limits: Limits | None
    """What the queue lets the pods ask for; None if evictions may change that."""
    samples: Sequence["_Sample"]
    """One pod of each kind."""
    volumes: Choice | None = None
    """The claims for which volumes are still to be chosen; None if there are none."""

    def scored(self) -> Problem:
        """Return the problem with the order of preference, which is only needed for a search.

        Where pods have to be evicted, nodes are preferred where these are few.
        """
        if self.given.idle is not None:
            return self.given
        kinds = tuple(
            replace(kind, scores=sample.scores()[self.rows])
            for kind, sample in zip(self.given.kinds, self.samples, strict=True)
        )
        return replace(self.given, kinds=kinds)

    def pods_of(self, counts: Sequence[int]) -> Iterator[PodsOfKind]:
        """Yield what pods these are, so many of each kind."""
        for kind, count in enumerate(counts):
            if count:
                task = self.tasks[kind][0]
                yield PodsOfKind(
                    count=count,
                    role=task.role,
                    request=task.pod_class.request,
                    nodes=int(self.samples[kind].open_now.sum()),
                )

    def on_nodes(self, places: Sequence[tuple[int, int]]) -> list[tuple[Task, int]]:
        """Return pods and rows for kinds and rows of the problem, in the same order, but for pods
        that others have to come before.
        """
        found = [(task, int(self.rows[row])) for task, _, row in self._named(places)]
        return sorted(found, key=claim_constraints.follows)

    def volumes_of(self, places: Sequence[tuple[int, int]]) -> dict[str, str | None]:
        """Return which volumes claims have to get for all of these pods to fit, by claim."""
        return {} if self.volumes is None else self.volumes.of(self._named(places))

    def _named(self, places: Sequence[tuple[int, int]]) -> list[tuple[Task, int, int]]:
        left = [iter(tasks) for tasks in self.tasks]
        return [(next(left[kind]), kind, row) for kind, row in places]


def assemble(
    session: Session,
    state: JobState,
    tasks: Sequence[Task],
    room: SearchRoom,
    most: Vector | None = None,
) -> Assembled:
    """Return the problem of starting the job with these pending tasks.

    `most` (N, R) is what evictions could free. Filters that evictions could satisfy don't count
    then, and neither do the pods that could be evicted: what is found may not be possible.
    """
    later = room not in FREE_NOW
    borne = (
        claim_constraints.bearers(session.devices.demands, tasks)
        if session.devices.allocates
        else {}
    )
    of_volumes = VolumeRules(session.volumes.demands, tasks, later=later)
    kinds = [list(kind) for kind in _kinds(session, state, tasks, borne, of_volumes).values()]
    requirements, sub_groups = _requirements(state, kinds)
    devices = np.max(
        [session.counted(kind[0]) - session.request(kind[0]) for kind in kinds], axis=0
    )
    unlimited = np.where(devices > 0, resources.ALLOCATABLE_MAX, 0)  # only queues have limits
    samples = [
        _Sample(session, kind[0], later=later, most=most, unlimited=unlimited) for kind in kinds
    ]
    usable = np.array([sample.usable for sample in samples])
    free: Ints = np.max([sample.free for sample in samples], axis=0)
    rows = np.flatnonzero(usable.any(axis=0))
    found = tuple(
        EqualPods(
            count=len(each),
            request=session.counted(each[0]),
            usable=usable[kind, rows],
            reserved=_reserved(free[rows], samples[kind].free[rows]),
        )
        for kind, each in enumerate(kinds)
    )
    # Evictions may also give the queue more room.
    of_queue = Limits(session, (kind[0] for kind in kinds)) if most is None else None
    whole = Problem(
        kinds=found,
        free=free[rows],
        requirements=requirements,
        sub_groups=sub_groups,
        queue_room=None if of_queue is None else of_queue.room_for(found),
        idle=None if most is None else np.maximum(free - most, 0)[rows],
        pools=() if of_queue is None else of_queue.pools(rows),
        # Reservations for nominated pods depend on the priority of whoever asks, and the answers of
        # a plugin that doesn't declare what they depend on may depend on anything. Nodes that are
        # avoided for a while prove nothing.
        exact=(
            _may_prove(session)
            and not session.nominated.anybody
            and most is None
            and all(sample.is_lasting for sample in samples)
        ),
    )
    whole = _Rules(session, samples, rows, later=later).add_to(whole)
    whole = _with_devices(session, [kind[0] for kind in kinds], borne, whole, rows, later=later)
    whole, choice = of_volumes.add_to(whole, kinds, rows, evicting=most is not None)
    return Assembled(
        given=whole, tasks=kinds, rows=rows, limits=of_queue, samples=samples, volumes=choice
    )


def _may_prove(session: Session) -> bool:
    """Whether plugins declare enough for a proof that a gang fits nowhere."""
    return session.dispatch.declares_nodes


def _with_devices(
    session: Session,
    samples: Sequence[Task],
    borne: Mapping[TaskId, frozenset[str]],
    problem: Problem,
    rows: Ints,
    *,
    later: bool,
) -> Problem:
    """Return the problem with the devices that pods ask for; one pod of each kind is given."""
    if not session.devices.allocates or not rows.size:
        return problem
    near = tuple(claim_constraints.together(session.devices.demands, samples, rows))
    found = claim_constraints.columns_of(
        session.devices.demands, samples, borne, later=later, evicting=problem.idle is not None
    )
    if near:
        problem = replace(problem, near=(*problem.near, *near))
    return problem if found is None else found.on(rows).add_to(problem)


def _kinds(
    session: Session,
    state: JobState,
    tasks: Sequence[Task],
    borne: Mapping[TaskId, frozenset[str]],
    of_volumes: VolumeRules,
) -> dict[Hashable, list[Task]]:
    """Return equal pods together."""
    kinds: dict[Hashable, list[Task]] = {}
    for task in tasks:
        like: Hashable = task.pod_class
        if task.pod_class.constraints.resource_claims:
            like = session.devices.demands.class_key(task.pod_class), borne.get(task.uid)
        elif task.volumes and not of_volumes.shares(task.pod_class):
            like = session.volumes.demands.class_key(task.pod_class)
        key = (
            like,
            nominated_pods.class_key(session, task),
            task.role if state.job.roles_count else "",
            None if state.sub_groups is None else state.sub_groups.of(task),
        )
        kinds.setdefault(key, []).append(task)
    return kinds


def _requirements(
    state: JobState, kinds: Sequence[Sequence[Task]]
) -> tuple[tuple[Requirement, ...], tuple[SubGroups, ...]]:
    job, every = state.job, range(len(kinds))
    found = [Requirement(kinds=tuple(every), least=max(1, state.minimum - state.ready_tasks))]
    for role, least in sorted(state.minimum_of.items()) if job.roles_count else ():
        missing = least - state.role_tasks(role, READY)
        if missing > 0:
            of_role = tuple(kind for kind in every if kinds[kind][0].role == role)
            found.append(Requirement(kinds=of_role, least=missing))
    groups, by_key = state.sub_groups, dict[Key, list[int]]()
    for kind in every if groups is not None else ():
        key = groups.of(kinds[kind][0]) if groups is not None else None
        if key is not None:
            by_key.setdefault(key, []).append(kind)
    policies = (
        []
        if groups is None
        else [
            SubGroups(
                groups=tuple(
                    Requirement(kinds=tuple(members), least=groups.missing(key))
                    for key, members in by_key.items()
                    if key[0] == place and groups.missing(key) > 0
                ),
                whole=max(0, lacking),
            )
            for place, lacking in groups.missing_groups().items()
        ]
    )
    return tuple(found), tuple(policy for policy in policies if policy.groups)


def _reserved(free: Ints, for_kind: Ints) -> Ints | None:
    """Return what other pods of the gang may use, and pods of this kind may not."""
    reserved: Ints = free - for_kind
    return reserved if reserved.any() else None


class _Sample:
    """One pod of a kind, and what the session's filters say of it."""

    def __init__(
        self,
        session: Session,
        task: Task,
        *,
        later: bool,
        most: Vector | None,
        unlimited: Vector,
    ) -> None:
        """`unlimited` (R,) is there of resources that no node lacks."""
        self._session, self.task = session, task
        self.affinity = session.affinity_counts.state_of(task)
        self.free: Ints = nominated_pods.room(session, task)
        """What is free for the pod on each node, (N, R)."""
        if not later:
            now = session.cluster.allocatable - session.cluster.used
            self.free = np.minimum(self.free, now)
        if most is not None:
            self.free = self.free + most
        self.free = self.free + unlimited
        request = session.request(task)
        usable = np.asarray((self.free >= request)[:, request > 0].all(axis=1))
        ruled = np.ones_like(usable)
        self.is_lasting = True
        """Whether no node is closed only for a while."""
        self.asked: set[RefusalCode] = set()
        """What filters look at for such a pod."""
        for result in session.placement.verdicts(task, session.cluster.view()):
            code = refusals.of(result.refusal).code
            self.asked.add(code)
            if code is not RefusalCode.NO_VOLUME:  # what is given away is gone
                self.is_lasting &= not result.temporary or bool(result.passes.all())
            if code in refusals.ABOUT_THE_GANG:  # the problem has rules of its own for them
                ruled &= result.passes
            elif not (most is not None and result.curable):
                usable &= result.passes if result.later is None else result.later
                if not later:
                    usable &= result.passes
        self.usable = usable
        """Nodes (N,) with room for the pod that no filter closes for good."""
        self.open_now = usable & ruled
        """Those that take the pod as long as the gang has no more pods than now."""

    def scores(self) -> NDArray[np.float64]:
        """Return how well nodes (N,) suit the pod; higher is better."""
        return self._session.placement.scores(self.task)


class _Rules:
    """The rules between pods: how kinds of pods matter for each other."""

    def __init__(
        self,
        session: Session,
        samples: Sequence[_Sample],
        rows: Ints,
        *,
        later: bool,
    ) -> None:
        self._session, self._samples, self._rows, self._later = session, samples, rows, later

    def add_to(self, problem: Problem) -> Problem:
        """Return the problem with all rules."""
        if not self._rows.size:
            return problem
        every = range(len(self._samples))
        return replace(
            problem,
            apart=(*self._ports(), *self._apart()),
            near=(*itertools.chain.from_iterable(map(self._near, every)), *self._together()),
            spread=tuple(itertools.chain.from_iterable(map(self._spread, every))),
        )

    def _ports(self) -> Iterator[Apart]:
        """Yield the rule for pods that can't share a node because of their host ports."""
        asking = [sample.task.pod_class.constraints.ports for sample in self._samples]
        if not any(asking):
            return
        row = self._rows[:1]
        name = self._session.layout.names[int(row[0])]
        view = dataclasses.replace(self._session.cluster.view(row), ports={}, leaving_ports={})
        pairs = self._nobody()
        for other, taken in enumerate(asking):
            for kind in range(len(self._samples)) if taken else ():
                pairs[kind, other] = self._collides(
                    kind, dataclasses.replace(view, ports={name: taken})
                )
        yield Apart(codes=np.arange(self._rows.size), pairs=pairs | pairs.T)

    def _collides(self, kind: int, view: NodeView) -> bool:
        """Whether this one node refuses a pod because of the host ports that are taken there."""
        return not all(
            bool(result.passes[0])
            for result in self._session.placement.verdicts(self._samples[kind].task, view)
            if refusals.of(result.refusal).code is RefusalCode.PORTS
        )

    def _apart(self) -> Iterator[Apart]:
        """Yield the rules of required anti-affinity, by node label."""
        by_key: dict[str, Flags] = {}
        for kind, each in enumerate(self._samples):
            found: list[TopologyCount] = []
            if each.affinity and RefusalCode.POD_ANTI_AFFINITY in each.asked:
                found += each.affinity.avoided
            if each.affinity and RefusalCode.EXISTING_ANTI_AFFINITY in each.asked:
                found += each.affinity.repelling
            for near in found:
                pairs = by_key.setdefault(near.topology_key, self._nobody())
                pairs[kind] |= self._counted(near.pods)
        for key, pairs in sorted(by_key.items()):
            if pairs.any():
                codes = self._session.layout.label(key)[0][self._rows]
                yield Apart(codes=codes, pairs=pairs | pairs.T)

    def _near(self, kind: int) -> Iterator[Near]:
        """Yield the rule of required affinity."""
        each = self._samples[kind]
        if each.affinity is None or RefusalCode.POD_AFFINITY not in each.asked:
            return
        required = each.affinity.required_affinity
        # A pod that leaves helps nobody who is to stay, and one that comes nobody who starts now.
        helping = [*pod_affinity.LASTING] if self._later else [PodPresence.STAYING]
        counting = helping if self._later else [*pod_affinity.EXISTING]
        domains = [near.pods.by_label(near.topology_key) for near in required]
        nobody = not any(found.counts[counting].any() for found in domains)
        yield Near(
            kind=kind,
            codes=tuple(found.codes[self._rows] for found in domains),
            present=tuple(found.counts[helping].sum(axis=0) for found in domains),
            counted=self._counted(required[0].pods),
            first_anywhere=each.affinity.matches_itself and nobody,
        )

    def _together(self) -> Iterator[Near]:
        """Yield the rules for pods that have to be in one domain of the network."""
        found = self._session.topology.of(self._samples[0].task.job)
        if found is None:
            return
        of_kinds = [list(found.of(sample.task)) for sample in self._samples]
        for group in dict.fromkeys(itertools.chain.from_iterable(of_kinds)):
            if group.chosen is not None or group.anchor is not None or not group.is_bounded:
                continue  # the filter says where they may go
            codes = group.tree.within(group.tier)[group.tree.lowest]
            counted = np.array([group in of for of in of_kinds])
            for kind in np.flatnonzero(counted).tolist():
                yield Near(
                    kind=kind,
                    codes=(codes[self._rows],),
                    present=(np.zeros(len(group.tree.domains) + 1, dtype=np.int64),),
                    counted=counted,
                    first_anywhere=True,
                )

    def _spread(self, kind: int) -> Iterator[Spread]:
        """Yield the rules of hard topology spread."""
        each = self._samples[kind]
        if each.affinity is None or RefusalCode.TOPOLOGY_SPREAD not in each.asked:
            return
        spreads = [count for count in each.affinity.spreading if count.spread.hard]
        limits = each.task.pod_class.constraints
        found = filters.spread_domains(spreads, limits, self._session.layout)
        for count, (domains, eligible) in zip(spreads, found, strict=True):
            yield Spread(
                kind=kind,
                codes=domains.codes[self._rows],
                eligible=eligible[self._rows],
                present=domains.expected,
                domains=domains.present,
                few=domains.present.size < max(count.spread.min_domains, 1),
                counted=self._counted(count.pods),
                counts_itself=count.counts_itself,
                max_skew=count.spread.max_skew,
            )

    def _counted(self, pods: DomainCounts) -> Flags:
        """Return the kinds (K,) whose pods are counted, found by counting one of them."""
        counted = np.zeros(len(self._samples), dtype=np.bool_)
        row, counts = int(self._rows[0]), self._session.affinity_counts
        for kind, each in enumerate(self._samples):
            before = pods.version
            counts.move(each.task, row, PodPresence.COMING, 1)
            counted[kind] = pods.version != before
            counts.move(each.task, row, PodPresence.COMING, -1)
        return counted

    def _nobody(self) -> Flags:
        size = len(self._samples)
        return np.zeros((size, size), dtype=np.bool_)
