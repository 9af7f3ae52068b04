"""The state of a search: which pods are placed where, and what that leaves."""

import functools
import hashlib
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.gangs.solver import problem, volume_matching
from vscheduler.core.gangs.solver.problem import Flags, Ints, Near, Problem, Spread
from vscheduler.core.gangs.solver.volume_matching import (
    AttachedVolumes,
    VolumeMatching,
)

DIGEST_BYTES = 12
DIGITS = 9
"""Sums of fractions that differ by less are equal."""
Amounts = NDArray[np.float64]
PLENTY = problem.PLENTY


class State:
    """Pods are placed and taken back in the manner of a stack."""

    def __init__(self, problem: Problem, places: Ints | None = None) -> None:
        """`places` is what nodes take in the beginning, where that is known."""
        kinds = problem.kinds
        self.problem = problem
        self.left = np.array([kind.count for kind in kinds], dtype=np.int64)
        """By kind, pods that may still be placed; those given up don't count."""
        self.placed = np.zeros(len(kinds), dtype=np.int64)
        self.order: list[tuple[int, int]] = []
        """Kind and row of each pod placed so far."""
        self.requests = np.array([kind.request for kind in kinds], dtype=np.int64)
        self.free = np.maximum(problem.free, 0)
        self.usable = np.array([kind.usable for kind in kinds])
        self._reserved = _reserved(problem)
        self._asks = self.requests > 0
        self._divisor = np.maximum(self.requests, 1)
        self._whole = np.maximum((self.requests.T * self.left).sum(axis=1), 1)
        """(R,), what all pods together ask for."""
        self._barred = np.zeros(self.usable.shape, dtype=np.int64)
        """(K, N), by how many placed pods the rules of Apart bar a kind from a node."""
        self._alone = np.zeros(self.usable.shape, dtype=np.bool_)
        for rule in problem.apart:
            self._alone |= rule.pairs.diagonal()[:, np.newaxis] & (rule.codes >= 0)
        self._domains: dict[tuple[int, int], Ints] = {}
        self._pools = [pool.room.copy() for pool in problem.pools]
        self._near = [[domains.copy() for domains in rule.present] for rule in problem.near]
        self._near_any = [int(not rule.first_anywhere) for rule in problem.near]
        self._spread = [rule.present.copy() for rule in problem.spread]
        self._volumes = None if problem.volumes is None else VolumeMatching(problem.volumes)
        self._attached = [AttachedVolumes(rule) for rule in problem.attached]
        self.places = np.zeros_like(self._barred) if places is None else places.copy()
        """(K, N), how many pods of one kind the node takes, if it takes no others. Rules about the
        order of pods aside, this can only become less."""
        if places is None:
            self._refresh(np.arange(problem.free.shape[0]))
        self._places_in_all: Ints = self.places.sum(axis=1)
        self._seats: Ints | None = None
        """The answer of `seats` for `places`, if that has been asked for."""
        self._alone_by_domain = [
            (rule.codes, rule.pairs.diagonal().nonzero()[0].tolist())
            for rule in problem.apart
            if _has_larger_domains(rule.codes)  # of one node, `places` takes one pod in any case
        ]
        """Domains of several nodes, and the kinds of which each takes one pod."""
        self._spread_alone = [
            (number, rule)
            for number, rule in enumerate(problem.spread)
            if rule.eligible.all() and rule.counted.sum() == rule.counted[rule.kind] == 1
        ]
        """Spread constraints over pods of one kind, on all nodes."""
        self.changes: list[Ints] = []
        """Rows that have changed, in order; the same rows again when that is taken back."""
        self.on: defaultdict[int, list[int]] = defaultdict(list)
        """The kinds of the pods that are placed, by row."""
        self._touched: dict[tuple[int, ...], int] = {}
        self._undo: list[tuple[int, int, Ints, Ints, int]] = []

    # Whoever is refused before the first step doesn't need to know which nodes are alike.
    @functools.cached_property
    def alike(self) -> list[int]:
        """By node, a number that is equal for nodes that could take each other's place."""
        return _alike(self.problem)

    @functools.cached_property
    def _class_key(self) -> Ints:
        """By node, a number that is equal for nodes alike with equal pods of the gang."""
        return np.array(self.alike, dtype=np.int64)

    @functools.cached_property
    def _unlike(self) -> bool:
        return len(set(self.alike)) == len(self.alike)

    def place(self, kind: int, row: int) -> None:
        """Place one pod."""
        self._seats = None
        self.left[kind] -= 1
        self.placed[kind] += 1
        self.order.append((kind, row))
        self.free[row] -= self.requests[kind]
        self.on[row].append(kind)
        self._liken(row)
        rows = self._bar(kind, row, 1)
        before = self.places[:, rows]
        self._undo.append((kind, row, rows, before, 0))
        self._count(kind, row, 1)
        self._refresh(rows)
        self._places_in_all += self.places[:, rows].sum(axis=1) - before.sum(axis=1)
        self.changes.append(rows)

    def give_up(self, kind: int) -> None:
        """Place no more pods of this kind."""
        self._seats = None
        self._undo.append((kind, -1, _NOTHING, _NOTHING, int(self.left[kind])))
        self.left[kind] = 0

    def take_back(self) -> None:
        """Undo the last call of `place` or `give_up`."""
        kind, row, rows, places, given_up = self._undo.pop()
        self._seats = None
        if row < 0:
            self.left[kind] = given_up
            return
        self.left[kind] += 1
        self.placed[kind] -= 1
        self.order.pop()
        self.free[row] += self.requests[kind]
        on = self.on[row]
        on.pop()
        if not on:
            del self.on[row]
        self._liken(row)
        self._bar(kind, row, -1)
        self._count(kind, row, -1)
        self._places_in_all += places.sum(axis=1) - self.places[:, rows].sum(axis=1)
        self.places[:, rows] = places
        self.changes.append(rows)

    def rewind(self) -> None:
        """Undo everything."""
        while self._undo:
            self.take_back()

    def anywhere(self) -> list[bool]:
        """Return for each rule of required affinity whether its pods may still go anywhere."""
        return [not placed for placed in self._near_any]

    def key(self) -> bytes:
        """Return a digest of what the search depends on; equal if only nodes alike differ."""
        touched = sorted((self.alike[row], sorted(on)) for row, on in self.on.items())
        whole = repr((self.left.tolist(), touched)).encode()
        return hashlib.blake2b(whole, digest_size=DIGEST_BYTES).digest()

    def evicted(self, kind: int, rows: Ints) -> Amounts:
        """Return what has to be evicted on these nodes (n,) for one more pod of this kind.

        It is a part of what the gang asks for, summed over resources.
        """
        given = self.problem
        assert given.idle is not None
        # What placed pods ask for is no longer free.
        idle = given.idle[rows] - (np.maximum(given.free[rows], 0) - self.free[rows])
        more = np.maximum(self.requests[kind] - np.maximum(idle, 0), 0) * self._asks[kind]
        amounts: Amounts = (more / self._whole).sum(axis=1)
        return np.round(amounts, DIGITS)

    def candidates(self, kind: int) -> Ints:
        """Return the rows that take one more pod now, one of each set of nodes that are alike.

        Of nodes alike it is the one with the best score.
        """
        rows = self._passing(kind)
        if self._unlike:
            return rows
        # Of equal nodes, the best one is written last, and of equal scores the first row.
        scores = self.problem.kinds[kind].scores
        order = rows[::-1]
        if scores is not None:
            order = order[np.argsort(scores[order], kind="stable")]
        first = np.full(len(self.alike) + len(self._touched), -1)
        first[self._class_key[order]] = order
        kept: Ints = np.sort(first[first >= 0])
        return kept

    def _passing(self, kind: int) -> Ints:
        """Return the rows that take one more pod now."""
        rows: Ints = (self.places[kind] > 0).nonzero()[0]
        for pool, room in zip(self.problem.pools, self._pools, strict=True):
            if (self.requests[kind] > room)[self._asks[kind]].any():
                rows = rows[~pool.rows[rows]]
        for number, near in enumerate(self.problem.near):
            if near.kind == kind:
                rows = rows[self._is_near(number, near, rows)]
        for number, spread in enumerate(self.problem.spread):
            if spread.kind == kind:
                rows = rows[self._is_spread(number, spread, rows)]
        for attached in self._attached:
            rows = rows[attached.takes(kind, rows)]
        if self._volumes is not None:
            rows = rows[self._volumes.takes(kind, rows)]
        return rows

    def prospects(self) -> Ints:
        """Return `places` without nodes that required affinity keeps closed for good, (K, N)."""
        if not self.problem.near:
            return self.places
        prospects = self.places.copy()
        for number, near in enumerate(self.problem.near):
            if not self._near_any[number]:
                continue
            helpers = near.counted & (self.left > 0)
            coming = (self.places[helpers] > 0).any(axis=0)
            for codes, present in zip(near.codes, self._near[number], strict=True):
                may = present > 0
                may[codes[coming]] = True
                may[-1] = False
                prospects[near.kind, ~may[codes]] = 0
        return prospects

    def seats(self, places: Ints) -> Ints:
        """Return how many pods of each kind could be placed at most, if no others were, (K,).

        `places` is that of this state, or the prospects. For kinds without pods left, it may be
        more.
        """
        if places is not self.places:
            return self._seats_in(places, places.sum(axis=1))
        if self._seats is None:
            self._seats = self._seats_in(places, self._places_in_all)
        return self._seats

    def _seats_in(self, places: Ints, in_all: Ints) -> Ints:
        seats = in_all.copy()
        for pool, room in zip(self.problem.pools, self._pools, strict=True):
            inside = places[:, pool.rows].sum(axis=1)
            least = np.where(self._asks, np.maximum(room, 0) // self._divisor, PLENTY).min(axis=1)
            seats = np.minimum(seats, in_all - np.maximum(inside - least, 0))
        for codes, kinds in self._alone_by_domain:
            for kind in kinds:
                if self.left[kind]:
                    row = places[kind]
                    domains = len(set(codes[row > 0].tolist()) - {-1})
                    seats[kind] = min(int(seats[kind]), domains + int(row[codes < 0].sum()))
        for number, spread in self._spread_alone:
            if self.left[spread.kind]:
                most = self._spread_seats(number, spread, places[spread.kind])
                seats[spread.kind] = min(int(seats[spread.kind]), most)
        return seats

    def _spread_seats(self, number: int, spread: Spread, places: Ints) -> int:
        """Return how many pods the spread lets in, if every domain is filled as far as it goes."""
        counts = self._spread[number]
        room = np.zeros_like(counts)
        np.add.at(room, spread.codes, places)
        room[-1] = 0
        least = 0 if spread.few else int((counts + room)[spread.domains].min())
        full = np.minimum(counts + room, least + spread.max_skew)
        return int(np.maximum(full - counts, 0).sum())

    def _liken(self, row: int) -> None:
        """Keep the class key of a node whose pods have changed."""
        class_key = self.alike[row]
        if row in self.on:
            pods = (class_key, *sorted(self.on[row]))
            class_key = self._touched.setdefault(pods, len(self.alike) + len(self._touched))
        self._class_key[row] = class_key

    def _refresh(self, rows: Ints) -> None:
        free = self.free[rows][:, np.newaxis]
        if self._reserved is not None:
            free = np.maximum(free - self._reserved[rows], 0)
        each = np.where(self._asks, free // self._divisor, PLENTY).min(axis=2)
        each[~self.usable.T[rows] | (self._barred.T[rows] > 0)] = 0
        each[self._alone.T[rows] & (each > 0)] = 1
        self.places[:, rows] = each.T

    def _bar(self, kind: int, row: int, step: int) -> Ints:
        """Bar other pods from the domains of a pod, or no longer; return the rows concerned."""
        rows = [np.array([row])]
        for number, rule in enumerate(self.problem.apart):
            code = int(rule.codes[row])
            others = rule.pairs[kind]
            if code < 0 or not others.any():
                continue
            domain = self._domains.get((number, code))
            if domain is None:
                domain = self._domains[number, code] = np.flatnonzero(rule.codes == code)
            self._barred[np.ix_(others, domain)] += step
            rows.append(domain)
        return rows[0] if len(rows) == 1 else np.unique(np.concatenate(rows))

    def _count(self, kind: int, row: int, step: int) -> None:
        """Let a pod count for the rules (step 1), or the last one that does so no longer (-1)."""
        self._count_volumes(kind, row, step)
        for number, pool in enumerate(self.problem.pools):
            if pool.rows[row]:
                self._pools[number] -= step * self.requests[kind]
        for number, near in enumerate(self.problem.near):
            if near.counted[kind]:
                self._near_any[number] += step
                for codes, present in zip(near.codes, self._near[number], strict=True):
                    if codes[row] >= 0:
                        present[codes[row]] += step
        for number, spread in enumerate(self.problem.spread):
            if spread.counted[kind] and spread.codes[row] >= 0 and spread.eligible[row]:
                self._spread[number][spread.codes[row]] += step

    def _count_volumes(self, kind: int, row: int, step: int) -> None:
        if self._volumes is not None and step > 0:
            self._volumes.place(kind, row)
        elif self._volumes is not None:
            self._volumes.take_back()
        for attached in self._attached:
            attached.count(kind, row, step)

    def _is_near(self, number: int, near: Near, rows: Ints) -> Flags:
        passes = np.ones(rows.size, dtype=np.bool_)
        anywhere = not self._near_any[number]
        for codes, present in zip(near.codes, self._near[number], strict=True):
            passes &= codes[rows] >= 0 if anywhere else present[codes[rows]] > 0
        return passes

    def _is_spread(self, number: int, spread: Spread, rows: Ints) -> Flags:
        counts, codes = self._spread[number], spread.codes[rows]
        least = 0 if spread.few else int(counts[spread.domains].min())
        skew = counts[codes] + int(spread.counts_itself) - least
        passes: Flags = (codes >= 0) & (skew <= spread.max_skew)
        return passes


_NOTHING = np.empty(0, dtype=np.int64)


def _has_larger_domains(codes: Ints) -> bool:
    """Whether any topology domain has more than one node."""
    inside = codes[codes >= 0]
    return bool(inside.size > np.unique(inside).size)


def _reserved(problem: Problem) -> Ints | None:
    """Return what is reserved against pods of each kind, (N, K, R); None if nothing is."""
    if all(kind.reserved is None for kind in problem.kinds):
        return None
    nothing = np.zeros_like(problem.free)
    every = [nothing if kind.reserved is None else kind.reserved for kind in problem.kinds]
    return np.stack(every, axis=1)


def _alike(problem: Problem) -> list[int]:
    """Return a number for each node, equal for nodes that could take each other's place."""
    size = problem.free.shape[0]
    usable = np.packbits([kind.usable for kind in problem.kinds], axis=0).T
    columns = [problem.free, usable]
    columns += [] if problem.idle is None else [problem.idle]
    columns += [kind.reserved for kind in problem.kinds if kind.reserved is not None]
    columns += [pool.rows for pool in problem.pools]
    columns += [_by_domain(rule.codes, None) for rule in problem.apart]
    for near in problem.near:
        columns += map(_by_domain, near.codes, near.present)
    for spread in problem.spread:
        columns.append(_by_domain(spread.codes, spread.present))
        columns.append(np.stack([spread.eligible, np.isin(spread.codes, spread.domains)], axis=1))
    for attached in problem.attached:
        columns += [attached.room, attached.there.T]
    if problem.volumes is not None:
        columns.append(volume_matching.class_key(problem.volumes))
    table = np.concatenate(
        [np.asarray(column, dtype=np.int64).reshape(size, -1) for column in columns], axis=1
    )
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(row.tobytes(), len(numbers)) for row in table]


def _by_domain(codes: Ints, present: Ints | None) -> Ints:
    """Return (N, 2): the domain of each node, and how many pods it has.

    A domain of one node has no number of its own, so that such nodes may be alike.
    """
    sizes = np.bincount(codes[codes >= 0], minlength=int(codes.max(initial=-1)) + 1)
    single = (codes >= 0) & (sizes[codes] == 1) if sizes.size else codes < -1
    counts = np.zeros_like(codes) if present is None else present[codes]
    return np.stack([np.where(single, -2, codes), counts], axis=1)
