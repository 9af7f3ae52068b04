"""Descent: places a large gang pod by pod, in the order of the search, and never goes back."""

from collections.abc import Sequence

from vscheduler.core.placement.gang_search import depth_first
from vscheduler.core.placement.gang_search.depth_first import Search, Step
from vscheduler.core.placement.gang_search.problem import Answer, CutShort, Found, Problem

BEGUN_A_STEP = 4
"""So many pods that an earlier attempt has placed cost a step."""


class Descent(Search):
    """One attempt to place a gang. A step is a pod that is placed."""

    def __init__(
        self,
        problem: Problem,
        steps_max: int | None,
        begun: Sequence[Step],
    ) -> None:
        """`begun` are pods that an earlier attempt at the same problem has placed."""
        super().__init__(problem, steps_max)
        for kind, row in begun:
            self._state.place(kind, row)
        self.steps = len(begun) // BEGUN_A_STEP
        if steps_max is not None:  # in any case, half of the steps are for other pods
            self.steps = min(self.steps, steps_max // 2)

    def run(self) -> Answer:
        """Place pods until there are enough, no more can be placed, or the steps are used up."""
        now = self._state
        if not now.order and not self._promises(at_root=True):
            return self._nothing()
        while not self._is_done():
            if self._steps_max is not None and self.steps >= self._steps_max:
                return CutShort(tuple(now.order))
            self.steps += 1
            step = next(self._next_steps(), None)
            if step is None:
                return CutShort()
            if step[1] == depth_first.GIVE_UP:
                now.give_up(step[0])
            else:
                now.place(*step)
        return Found(tuple(now.order))
