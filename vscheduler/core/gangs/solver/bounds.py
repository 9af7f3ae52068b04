"""Bounds: what pods ask for in all, against what nodes, topology domains and the queue can give.

Each is a relaxation: who asks for more can't be placed, and the converse doesn't hold. Amounts: a
surrogate of the capacity of all nodes. Domains: the pigeonhole principle for sets of kinds of which
any two keep apart.
"""

import numpy as np

from vscheduler.core.gangs.solver.problem import Flags, Ints, Problem


def too_much(left: Ints, requests: Ints, places: Ints, free: Ints) -> bool:
    """Whether some of the kinds ask for more than nodes can give them.

    `left` (K,) pods must be placed, `requests` is (K, R), `places` (K, N) says how many pods of one
    kind a node takes if it takes no others, and `free` is (N, R).
    """
    kinds = left.nonzero()[0]
    if not kinds.size:
        return False
    places, requests, left = (
        np.minimum(places[kinds], left[kinds, np.newaxis]),
        requests[kinds],
        left[kinds],
    )
    # The scarcest kind, the scarcest two, the scarcest three, and so on.
    order = (places.sum(axis=1) - left).argsort(kind="stable")
    places, requests, left = places[order], requests[order], left[order]
    # What one node gives: no more than it has, and no more than the pods it takes ask for.
    most = (places[:, :, np.newaxis] * requests[:, np.newaxis, :]).cumsum(axis=0)
    wanted = (left[:, np.newaxis] * requests).cumsum(axis=0)
    given = np.minimum(most, free).sum(axis=1)
    return bool((given < wanted).any())


class Crowds:
    """Kinds of pods that keep each other out of a topology domain, and so need one each."""

    def __init__(self, problem: Problem) -> None:
        self._cliques = [
            (rule.codes, members, rule.pairs.diagonal()[members])
            for rule in problem.apart
            for members in _cliques(rule.pairs)
        ]
        """Domains of nodes, kinds of which any two keep apart, and whether equal pods do, too."""

    def fit(self, needed: Ints, left: Ints, lacking: int, places: Ints) -> bool:
        """Whether there may be domains enough.

        `needed` (K,) pods of each kind must be placed, and `lacking` of those `left` (K,) in all;
        `places` is as in `too_much`.
        """
        for codes, members, alone in self._cliques:
            takes = np.minimum(places[members], left[members, np.newaxis])
            there = codes >= 0
            by_domain = np.zeros((members.size, int(codes.max(initial=-1)) + 1), dtype=np.int64)
            for number, row in enumerate(takes):
                np.add.at(by_domain[number], codes[there], row[there])
            by_domain[alone] = np.minimum(by_domain[alone], 1)
            # Nodes without the label take pods of any kind.
            anywhere = takes[:, ~there].sum(axis=1)
            order = np.argsort(by_domain.sum(axis=1) + anywhere - needed[members], kind="stable")
            most = np.maximum.accumulate(by_domain[order], axis=0).sum(axis=1)
            most += np.cumsum(anywhere[order])
            others = left.sum() - np.cumsum(left[members[order]])
            least = np.maximum(np.cumsum(needed[members[order]]), lacking - others)
            if (least > most).any():
                return False
        return True


def _cliques(pairs: Flags) -> list[Ints]:
    """Return sets of two and more kinds, any two of which keep apart: for each kind, one set."""
    found: dict[tuple[int, ...], None] = {}
    for first in np.flatnonzero(pairs.any(axis=1)).tolist():
        clique = [first]
        for other in np.flatnonzero(pairs[first]).tolist():
            if other != first and pairs[clique, other].all():
                clique.append(other)
        if len(clique) > 1:
            found[tuple(sorted(clique))] = None
    return [np.array(each, dtype=np.int64) for each in found]


class QueueRoom:
    """What the pods of a gang may ask for in all."""

    def __init__(self, problem: Problem) -> None:
        self._room = problem.queue_room
        self._requests = np.array([kind.request for kind in problem.kinds], dtype=np.int64)
        # Roles first: the pods of a role also count for the minimum of the whole gang.
        wanted = sorted(problem.requirements, key=lambda each: len(each.kinds))
        kinds = [np.array(each.kinds, dtype=np.int64) for each in wanted]
        self._needs = [
            (members, np.argsort(self._requests[members], axis=0, kind="stable"), each.least)
            for members, each in zip(kinds, wanted, strict=True)
        ]
        """Kinds (k,), their order by each resource (k, R), and how many pods are needed."""

    def takes(self, placed: Ints, left: Ints) -> bool:
        """Whether some choice of the pods left (K,) may come to those placed (K,)."""
        if self._room is None:
            return True
        least = self.least(placed, left)
        return bool(((least <= self._room) | (least == 0)).all())

    def takes_one_more(self, kind: int, placed: Ints, left: Ints) -> bool:
        """Whether a pod of this kind may come, and enough others after it."""
        if self._room is None:
            return True
        one = np.zeros_like(left)
        one[kind] = 1
        return self.takes(placed + one, left - one)

    def least(self, placed: Ints, left: Ints) -> Ints:
        """Return what the pods placed and the smallest of those still needed ask for, (R,)."""
        taken = np.repeat(placed[:, np.newaxis], self._requests.shape[1], axis=1)
        most = taken + left[:, np.newaxis]
        for kinds, order, least in self._needs:
            spare = np.take_along_axis(most[kinds] - taken[kinds], order, axis=0)
            missing = np.maximum(least - taken[kinds].sum(axis=0), 0)
            chosen = np.clip(missing - (np.cumsum(spare, axis=0) - spare), 0, spare)
            added = np.zeros_like(spare)
            np.put_along_axis(added, order, chosen, axis=0)
            taken[kinds] += added
        amounts: Ints = (taken * self._requests).sum(axis=0)
        return amounts
