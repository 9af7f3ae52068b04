"""Volume matching: which volume each claim of the placed pods gets, and what nodes can attach.

Each existing volume is for one claim, so claims and volumes are matched: if no volume is left for
another claim, claims before it may get other ones, along an augmenting path. Pods are placed and
taken back in the manner of a stack.
"""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence

import msgspec
import numpy as np

from vscheduler.core.gangs.solver.problem import Attached, Flags, Ints, Volumes

NONE = -1
"""In place of a volume: the claim needs none of them where its pods are."""


class Claim(msgspec.Struct, frozen=True):
    """A claim of a placed pod."""

    demand: int
    rows: tuple[int, ...]
    """The nodes of its pods."""


class Matching(msgspec.Struct, frozen=True):
    """What the claims of the placed pods get. Values, so that steps are taken back at no cost."""

    claims: tuple[Claim, ...] = ()
    volumes: tuple[int, ...] = ()
    """The volume of each claim, or NONE."""
    shared: tuple[tuple[int, int], ...] = ()
    """Shared claims, each with its place among the claims."""


class VolumeMatching:
    """Matches volumes with the claims of a gang, pod by pod."""

    def __init__(self, volumes: Volumes) -> None:
        self._given = volumes
        self._starts, self._positions = by_row(volumes)
        self._states = [Matching()]
        self._options: dict[Claim, list[int]] = {}
        self._numbers: dict[int, Hashable] = {}

    @property
    def matching(self) -> Matching:
        """What the claims of the pods placed so far get."""
        return self._states[-1]

    def place(self, kind: int, row: int) -> None:
        """Place one pod, on one of the rows that take it."""
        found = self._with(kind, row)
        assert found is not None, "the row takes the pod"
        self._states.append(found)

    def take_back(self) -> None:
        """Undo the last call of `place`."""
        self._states.pop()

    def takes(self, kind: int, rows: Ints) -> Flags:
        """Return the rows (n,) that take one more pod of this kind, as far as volumes matter.

        Each row must take such a pod if no others are placed.
        """
        given, now = self._given, self.matching
        passes = np.ones(rows.size, dtype=np.bool_)
        if not given.own[kind] and not given.shared[kind]:
            return passes
        due = passes
        if not given.shared[kind]:  # nodes whose volumes are all left take the pod
            held = np.zeros(given.provided.shape[1], dtype=np.bool_)
            for volume in now.volumes:
                if volume != NONE:
                    held[given.reach[volume]] = True
            due = held[rows]
        known: dict[Hashable, bool] = {}
        for at in np.flatnonzero(due).tolist():
            row = int(rows[at])
            number = self._number(row, now, kind)
            if number not in known:
                known[number] = self._with(kind, row) is not None
            passes[at] = known[number]
        return passes

    def _number(self, row: int, now: Matching, kind: int) -> Hashable:
        """Return what stands for a row: rows with the same volumes take the same pods."""
        shared = set(self._given.shared[kind])
        if any(claim in shared for claim, _ in now.shared):
            return row
        if row not in self._numbers:
            provided = self._given.provided[:, row].tobytes()
            self._numbers[row] = self._at(row).tobytes(), provided
        return self._numbers[row]

    def _at(self, row: int) -> Ints:
        """Return the volumes that can be used on a row."""
        return self._positions[self._starts[row] : self._starts[row + 1]]

    def _with(self, kind: int, row: int) -> Matching | None:
        """Return the matching with one more pod; None if there is none."""
        given, now = self._given, self.matching
        claims, volumes = list(now.claims), list(now.volumes)
        shared, due = dict(now.shared), list[int]()
        for demand in given.own[kind]:
            due.append(len(claims))
            claims.append(Claim(demand, (row,)))
        for number in given.shared[kind]:
            demand = given.shared_demands[number]
            at = shared.setdefault(number, len(claims))
            if at == len(claims):
                due.append(at)
                claims.append(Claim(demand, (row,)))
            elif row not in claims[at].rows:
                claims[at] = Claim(demand, (*claims[at].rows, row))
                if volumes[at] == NONE or volumes[at] not in self._of(claims[at]):
                    volumes[at] = NONE
                    due.append(at)
        volumes += [NONE] * (len(claims) - len(volumes))
        holders = {volume: at for at, volume in enumerate(volumes) if volume != NONE}
        for at in due:
            if not self._is_provided(claims[at]) and not self._augment(at, claims, holders):
                return None
        for at in range(len(volumes)):
            volumes[at] = NONE
        for volume, at in holders.items():
            volumes[at] = volume
        return Matching(tuple(claims), tuple(volumes), tuple(shared.items()))

    def _augment(self, first: int, claims: Sequence[Claim], holders: dict[int, int]) -> bool:
        """Give a claim a volume, along the shortest path of claims that get other ones."""
        came: dict[int, int] = {}
        """By volume, the claim that asks for it."""
        line = deque([first])
        while line:
            claim = line.popleft()
            for volume in self._of(claims[claim]):
                if volume in came:
                    continue
                came[volume] = claim
                if volume in holders:
                    line.append(holders[volume])
                    continue
                _pass_on(volume, came, holders, first)
                return True
        return False

    def _of(self, claim: Claim) -> list[int]:
        """Return the volumes that a claim could get."""
        found = self._options.get(claim)
        if found is None:
            volumes = self._at(claim.rows[0])
            for row in claim.rows[1:]:
                volumes = np.intersect1d(volumes, self._at(row))
            volumes = volumes[self._given.fits[claim.demand, volumes]]
            found = self._options[claim] = volumes.tolist()
        return found

    def _is_provided(self, claim: Claim) -> bool:
        return bool(self._given.provided[claim.demand, list(claim.rows)].all())


class AttachedVolumes:
    """Counts the volumes of one driver that placed pods bring to nodes."""

    def __init__(self, given: Attached) -> None:
        self._given = given
        self._brought = np.zeros(given.room.size, dtype=np.int64)
        self._users = np.zeros(given.there.shape, dtype=np.int64)
        """(H, N), pods on each node that use a shared volume."""

    def takes(self, kind: int, rows: Ints) -> Flags:
        """Return the rows (n,) that can attach the volumes of one more pod of this kind."""
        given = self._given
        shared = given.shared[kind]
        new = ~given.there[shared][:, rows] & (self._users[shared][:, rows] == 0)
        more = given.own[kind] + new.sum(axis=0)
        passes: Flags = (self._brought[rows] + more <= given.room[rows]) | (more == 0)
        return passes

    def count(self, kind: int, row: int, step: int) -> None:
        """Count a pod on its node (step 1), or no longer (step -1)."""
        given = self._given
        shared = np.flatnonzero(given.shared[kind] & ~given.there[:, row])
        before = self._users[shared, row] > 0
        self._users[shared, row] += step
        changed = before != (self._users[shared, row] > 0)
        self._brought[row] += step * (int(given.own[kind]) + int(changed.sum()))


def _pass_on(last: int, came: Mapping[int, int], holders: dict[int, int], first: int) -> None:
    """Give each claim on the path from the `first` the volume that it asks for."""
    before = {claim: volume for volume, claim in holders.items()}
    volume = last
    while (claim := came[volume]) != first:
        holders[volume] = claim
        volume = before[claim]
    holders[volume] = first


def by_row(given: Volumes) -> tuple[Ints, Ints]:
    """Return the volumes sorted by row, and where each row starts, (N + 1,)."""
    empty = np.empty(0, dtype=np.int64)
    rows = np.concatenate([empty, *given.reach])
    volumes = np.repeat(np.arange(len(given.reach)), [each.size for each in given.reach])
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(given.provided.shape[1] + 1))
    return starts, volumes[order]


def class_key(given: Volumes) -> Ints:
    """Return a number for each row (N,), equal for rows that could take each other's place.

    A volume of one row matters by the demands that it satisfies; any other volume for itself.
    """
    starts, volumes = by_row(given)
    kinds = np.packbits(given.fits, axis=0).T
    names = [
        (kinds[at].tobytes(), NONE if reach.size == 1 else at)
        for at, reach in enumerate(given.reach)
    ]
    numbers: dict[Hashable, int] = {}
    found = []
    for row in range(given.provided.shape[1]):
        there = sorted(names[at] for at in volumes[starts[row] : starts[row + 1]].tolist())
        key = tuple(there), given.provided[:, row].tobytes()
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, dtype=np.int64)
