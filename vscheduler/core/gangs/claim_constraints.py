"""Claim constraints: how the volumes and devices that pods claim matter for the pods of a gang.

Existing volumes are for one claim each, nodes attach a limited number of volumes, and some volumes
keep pods apart. Numbers of volumes and devices are columns like resources, by which a lack is seen
at once. Of a device with alternatives any one counts, and the smallest number; constraints between
devices aren't part of the problem: what is found is checked by the filters.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from vscheduler.core.claims.devices.demands import DeviceDemands
from vscheduler.core.claims.volumes.demands import Exclusion, VolumeDemands
from vscheduler.core.gangs.solver import volume_matching
from vscheduler.core.gangs.solver.problem import (
    Apart,
    Attached,
    Columns,
    Flags,
    Ints,
    Near,
    Pool,
    Problem,
    Volumes,
    demand_sets,
)
from vscheduler.core.gangs.solver.volume_matching import VolumeMatching
from vscheduler.model.jobs import PodClass, Task, TaskId

PLENTY = 2**40
"""More volumes than any pods ask for: where new ones can be made."""

Handle = tuple[str, str]
"""A driver, and a volume."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What the numbers in a problem's rule for volumes stand for."""

    rule: Volumes
    names: Sequence[str]
    """The existing volumes."""
    own: Mapping[TaskId, Sequence[str]]
    """The claims that a pod has for itself, in the order of the rule."""
    shared: Sequence[str]

    def of(self, places: Sequence[tuple[Task, int, int]]) -> dict[str, str | None]:
        """Return the volumes that claims get with these pods of kinds on rows; None for a volume
        to be made. Claims that can get one of their own, and for which any will do, are left out.
        """
        matched = VolumeMatching(self.rule)
        owners: list[str] = []
        for task, kind, row in places:
            matched.place(kind, row)
            new = len(matched.matching.claims) - len(owners) - len(self.rule.own[kind])
            owners += self.own.get(task.uid, ())
            owners += [self.shared[number] for number, _ in matched.matching.shared[-new:] if new]
        together = {self.shared[number] for number, _ in matched.matching.shared}
        found = zip(owners, matched.matching.volumes, strict=True)
        return {
            key: None if volume == volume_matching.NONE else self.names[volume]
            for key, volume in found
            if volume != volume_matching.NONE or key in together
        }


class VolumeRules:
    """Adds rules about volumes to the problem of a gang."""

    def __init__(self, demands: VolumeDemands, tasks: Sequence[Task], *, later: bool) -> None:
        """`tasks` are all pods of the gang that are to be placed."""
        self._demands, self._later = demands, later
        self._chosen = Counter(
            key for task in tasks if task.volumes for key in demands.choosing(task.pod_class)
        )
        """The claims to choose volumes for, with how many pods use each."""
        self._handles = Counter(
            handle for task in tasks if task.volumes for handle in demands.attached(task.pod_class)
        )

    def shares(self, pod_class: PodClass) -> bool:
        """Whether other pods of the gang use a claim of these pods that has no volume yet."""
        return any(self._chosen[key] > 1 for key in self._demands.choosing(pod_class))

    def add_to(
        self,
        problem: Problem,
        kinds: Sequence[Sequence[Task]],
        rows: Ints,
        *,
        evicting: bool,
    ) -> tuple[Problem, Choice | None]:
        """Return the problem with these rules. With `evicting`, other pods' volumes don't count."""
        samples = [kind[0] for kind in kinds]
        if not rows.size or not any(sample.volumes for sample in samples):
            return problem, None
        choice = self._choice(kinds, rows) if self._chosen else None
        if choice is not None:
            problem = _counted(choice.rule).add_to(replace(problem, volumes=choice.rule))
        attached = () if evicting else tuple(self._attached(samples, rows))
        for rule in attached:
            if rule.own.any():
                free = rule.room[:, np.newaxis]
                asked = Columns(requests=rule.own[:, np.newaxis], free=free, idle=free)
                problem = asked.add_to(problem)
        apart = (*problem.apart, *self._apart(kinds, rows))
        return replace(problem, attached=attached, apart=apart), choice

    def _choice(self, kinds: Sequence[Sequence[Task]], rows: Ints) -> Choice:
        """Return the claims that need a volume, and the volumes that there are for them."""
        demands = self._demands
        shared = sorted(key for key, pods in self._chosen.items() if pods > 1)
        wanted: dict[object, str] = {}
        for key in self._chosen:
            wanted.setdefault(demands.demand(key), key)
        number = {demand: at for at, demand in enumerate(wanted)}
        supply = demands.supply(tuple(wanted.values()), len(self._chosen))
        own = {
            task.uid: [key for key in demands.choosing(task.pod_class) if self._chosen[key] == 1]
            for tasks in kinds
            for task in tasks
            if task.volumes
        }
        place = np.full(supply.provided.shape[1], -1, dtype=np.int64)
        place[rows] = np.arange(rows.size)
        reach = [place[each] for each in supply.reach]
        rule = Volumes(
            own=tuple(
                tuple(number[demands.demand(key)] for key in own.get(tasks[0].uid, ()))
                for tasks in kinds
            ),
            shared=tuple(
                tuple(
                    shared.index(key)
                    for key in demands.choosing(tasks[0].pod_class)
                    if self._chosen[key] > 1
                )
                for tasks in kinds
            ),
            shared_demands=tuple(number[demands.demand(key)] for key in shared),
            fits=supply.fits,
            reach=tuple(each[each >= 0] for each in reach),
            provided=supply.provided[:, rows],
        )
        return Choice(rule=rule, names=supply.names, own=own, shared=shared)

    def _attached(self, samples: Sequence[Task], rows: Ints) -> Iterator[Attached]:
        """Yield the attach limits that the pods may reach."""
        fresh = self._fresh()
        pods = [self._demands.attached(task.pod_class) for task in samples]
        for driver in sorted({driver for driver, _ in self._handles}):
            every = [handle for handle in self._handles if handle[0] == driver]
            shared = sorted(each for each in every if each not in fresh)
            room, there = self._demands.attachable(driver, len(every), shared, later=self._later)
            room = np.clip(room[rows], 0, PLENTY)
            if (room >= len(every)).all():
                continue
            yield Attached(
                room=room,
                own=np.array(
                    [sum(each[0] == driver and each in fresh for each in of) for of in pods]
                ),
                shared=np.array([[each in of for each in shared] for of in pods], dtype=np.bool_),
                there=there[:, rows],
            )

    def _fresh(self) -> frozenset[Handle]:
        """Return the volumes that one pod alone uses and that no node can have yet."""
        names = {key for key, pods in self._chosen.items() if pods == 1}
        return frozenset(
            each for each, pods in self._handles.items() if pods == 1 and each[1] in names
        )

    def _apart(self, kinds: Sequence[Sequence[Task]], rows: Ints) -> Iterator[Apart]:
        """Yield the rules for pods whose volumes keep each other out."""
        pairs = {
            Exclusion.ON_A_NODE: np.zeros((len(kinds), len(kinds)), dtype=np.bool_),
            Exclusion.EVERYWHERE: np.zeros((len(kinds), len(kinds)), dtype=np.bool_),
        }
        using = [at for at, tasks in enumerate(kinds) if tasks[0].volumes]
        for one in using:
            for other in using:
                if one == other and len(kinds[one]) == 1:
                    continue
                first, second = kinds[one][0], kinds[other][-1]
                found = self._demands.exclude(first.pod_class, second.pod_class)
                if found is not Exclusion.NOWHERE:
                    pairs[found][one, other] = True
        codes = {
            Exclusion.ON_A_NODE: np.arange(rows.size),
            Exclusion.EVERYWHERE: np.zeros(rows.size, dtype=np.int64),
        }
        for where, both in pairs.items():
            if both.any():
                yield Apart(codes=codes[where], pairs=both | both.T)


def _counted(rule: Volumes) -> Columns:
    """Return the numbers of volumes as columns, for sets of demands."""
    every = list(demand_sets(len(rule.fits)))
    starts, volumes = volume_matching.by_row(rule)
    rows = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    requests = np.array(
        [[sum(each in chosen for each in own) for chosen in every] for own in rule.own],
        dtype=np.int64,
    )
    free = np.zeros((starts.size - 1, len(every)), dtype=np.int64)
    fitting: list[Flags] = [np.asarray(rule.fits[list(chosen)].any(axis=0)) for chosen in every]
    for at, chosen in enumerate(every):
        np.add.at(free[:, at], rows[fitting[at][volumes]], 1)
        provided: Flags = np.logical_or.reduce(rule.provided[list(chosen)])
        free[provided, at] = PLENTY
    pools: tuple[Pool, ...] = ()
    if any(each.size > 1 for each in rule.reach):
        needy: Flags = ~np.logical_or.reduce(rule.provided)
        there = np.array([bool(needy[each].any()) for each in rule.reach], dtype=np.bool_)
        room = np.array([int((each & there).sum()) for each in fitting], dtype=np.int64)
        pools = (Pool(rows=needy, room=room),)
    return Columns(requests=requests, free=free, idle=free, shared=pools)


def bearers(state: DeviceDemands, tasks: Sequence[Task]) -> Mapping[TaskId, frozenset[str]]:
    """Return the pods that stand for shared claims, with these claims: the first of each."""
    found: dict[TaskId, frozenset[str]] = {}
    known: set[str] = set()
    for task in tasks:
        new = state.shared_claims(task.pod_class) - known
        if new:
            found[task.uid] = new
            known |= new
    return found


def follows(place: tuple[Task, int]) -> bool:
    """Whether claims that the task shares with other pods count for one of those, which has to be
    placed first.
    """
    limits = place[0].pod_class.constraints
    return not place[0].pod_class.devices and any(not use.owner for use in limits.resource_claims)


def columns_of(
    state: DeviceDemands,
    samples: Sequence[Task],
    borne: Mapping[TaskId, frozenset[str]],
    *,
    later: bool,
    evicting: bool,
) -> Columns | None:
    """Return the columns for these pods, one of each kind; None if numbers don't decide.

    `borne` are the shared claims that some of the pods stand for.

    With `evicting`, devices count that any pods have.
    """
    wanted = [state.counted(task.pod_class, borne.get(task.uid, frozenset())) for task in samples]
    kinds = list(dict.fromkeys(demand for each in wanted for demand, _ in each))
    if not kinds:
        return None
    sets = list(demand_sets(len(kinds)))
    requests = np.array(
        [
            [sum(n for demand, n in each if kinds.index(demand) in chosen) for chosen in sets]
            for each in wanted
        ],
        dtype=np.int64,
    )
    free, idle, shared = [], [], []
    for chosen in sets:
        demands = [kinds[at] for at in chosen]
        idle.append(state.counts(demands, later=later, in_use=False))
        free.append(state.counts(demands, later=later, in_use=True) if evicting else idle[-1])
    for mask in state.sharing_nodes():
        rooms = [
            state.total([kinds[at] for at in chosen], mask, later=later, in_use=evicting)
            for chosen in sets
        ]
        shared.append(Pool(rows=mask, room=np.array(rooms, dtype=np.int64)))
    return Columns(
        requests=requests,
        free=np.stack(free, axis=1),
        idle=np.stack(idle, axis=1),
        shared=tuple(shared),
    )


def together(state: DeviceDemands, samples: Sequence[Task], rows: Ints) -> Iterator[Near]:
    """Yield the rules of claims that several kinds of pods share, or several pods of a kind.

    The devices of a claim that isn't allocated are on one node, and so are its pods.
    """
    claims = [state.shared_claims(task.pod_class) for task in samples]
    for kind, mine in enumerate(claims):
        for claim in sorted(mine):
            yield Near(
                kind=kind,
                codes=(np.arange(rows.size),),
                present=(np.zeros(rows.size + 1, dtype=np.int64),),
                counted=np.array([claim in each for each in claims]),
                first_anywhere=True,
            )
