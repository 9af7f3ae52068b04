"""QueueRoom: whether the queue may have enough of the pods, wherever they are placed.

Whatever pods are chosen, the amounts that they ask for in all must stay within what the queue has
left. Which choice asks for the least is simple for one resource, and for several a lower bound.
"""

import numpy as np

from vscheduler.core.placement.gang_search.solver.problem import Ints, Problem


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
