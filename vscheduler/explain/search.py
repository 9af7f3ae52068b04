"""Search: the smallest change of a kind that starts the job, on a grid of sizes 1, 2, 3, ….

A small cluster is searched with full trials alone, size by size. On a larger one forecasts find the
size, and full trials prove it; on a large one an estimate says where to begin. Either way the size
below is tried, too: `minimal` says that it doesn't suffice. Kinds whose larger sizes help at least
as much get the smallest size of all; where that isn't so, a smaller size far below may work as
well.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from vscheduler.explain import trials
from vscheduler.explain.changes import Change, Remedy, Victims
from vscheduler.explain.estimates import Estimates
from vscheduler.explain.trials import Start, Trials
from vscheduler.model.decisions import Evict, Reason

ONE_BY_ONE = 8
"""So many sizes are tried one after the other, before the steps double."""

EXACT_SHARE = 150
"""Full trials alone are made where so many of them fit into the budget."""

CAREFUL_SHARE = 40
"""Sizes are tried one by one where so many full trials fit into the budget; with fewer, the search
begins at an estimate.
"""

Works: TypeAlias = Callable[[int], bool]


def least(works: Works, first: int, last: int) -> int | None:
    """Return the smallest size between first and last that works, or None.

    The sizes after the first ONE_BY_ONE are assumed to work whenever a smaller one does.
    """
    end = min(last, first + ONE_BY_ONE - 1)
    for size in range(first, end + 1):
        if works(size):
            return size
    below, step = end, 1
    while below < last:
        above = min(last, below + step)
        if works(above):
            return _between(works, below, above)
        below, step = above, step * 2
    return None


def nearest(works: Works, first: int, last: int, guess: int | None) -> int | None:
    """Return the smallest size between first and last that works, or None; few are tried if the
    guess is near it.

    All sizes are assumed to work whenever a smaller one does.
    """
    if guess is None and not works(last):
        return None
    guess, step = min(max(guess or first, first), last), 1
    if works(guess):
        above = guess
        while above > first:
            below = max(first, above - step)
            if not works(below):
                return _between(works, below, above)
            above, step = below, step * 2
        return above
    if not works(last):
        return None
    below, above = guess, min(last, guess + 1)
    while not works(above):
        below, step = above, step * 2
        above = min(last, below + step)
    return _between(works, below, above)


def _between(works: Works, below: int, above: int) -> int:
    """Return the smallest size that works, where `below` doesn't and `above` does."""
    while above - below > 1:
        middle = (below + above) // 2
        if works(middle):
            above = middle
        else:
            below = middle
    return above


class Search:
    """The search for remedies, with trials of one kind of job and cluster."""

    def __init__(self, tried: Trials, reason: Reason | None, *, trial: int, budget: int) -> None:
        """`reason` is why the job waits, `trial` the cost of a full trial, `budget` what all may
        cost.
        """
        self.trials = tried
        self.reason = reason
        self._exact = trial * EXACT_SHARE <= budget
        self.quick = trial * CAREFUL_SHARE > budget
        """Whether the cluster is large: few trials can be made."""
        self.estimates = Estimates(tried.snapshot, tried.job)

    def first_that_works(self, *candidates: Change) -> Remedy | None:
        """Return the first of these changes that starts the job."""
        return next(filter(None, map(self.one, candidates)), None)

    def one(self, change: Change) -> Remedy | None:
        """Return a change without a size as a remedy, or None if the job still waits."""
        return self.proved(change) if self.promising(change) else None

    def proved(self, change: Change) -> Remedy | None:
        """Return the same without a forecast."""
        start = self.trials.starts(change)
        return self._remedy(change, start, minimal=None) if start else None

    def promising(self, change: Change) -> bool:
        """Whether a forecast, where forecasts are made, lets the job start."""
        return self._exact or bool(self.trials.may_start(change))

    def smallest(
        self,
        of_size: Callable[[int], Change],
        most: int,
        guess: Callable[[], int] | None = None,
    ) -> Remedy | None:
        """Return the smallest change of sizes 1 to `most` that starts the job, or None.

        `guess` is asked in large clusters only.
        """

        def starts(size: int) -> bool:
            return bool(self.trials.starts(of_size(size)))

        def may_start(size: int) -> bool:
            return bool(self.trials.may_start(of_size(size)))

        if most < 1:
            return None
        if self._exact:
            size = least(starts, 1, most) if starts(most) else None
        elif self.quick:
            size = self._quick(may_start, starts, most, guess and guess())
        else:
            size = self._careful(may_start, starts, most)
        return None if size is None else self._proved(of_size, size)

    def _quick(self, may_start: Works, starts: Works, most: int, guess: int | None) -> int | None:
        """Return the smallest size that few trials find, or None."""
        size = guess and min(max(guess, 1), most)
        if size is None or not self._is_near(may_start, starts, size):
            size = nearest(may_start, 1, most, size)
        return size and nearest(starts, 1, most, size)

    def _is_near(self, may_start: Works, starts: Works, size: int) -> bool:
        """Whether full trials may go on from this size: they cost little more than the forecasts
        that they replace, a forecast confirms the size, and the size below doesn't start the job.
        """
        if not (self.trials.are_alike and may_start(size)):
            return False
        return size == 1 or not (starts(size) and starts(size - 1))

    @staticmethod
    def _careful(may_start: Works, starts: Works, most: int) -> int | None:
        """Return the smallest size that forecasts find and full trials prove, or None."""
        if not may_start(most):
            return None
        first = least(may_start, 1, most) or most
        size = least(starts, first, most)
        if size is not None and size == first and size > 1 and starts(size - 1):
            return _between(starts, 0, size - 1)  # the forecast was too strict
        return size

    def fewest(
        self,
        of_names: Callable[[tuple[str, ...]], Change],
        names: Sequence[str],
        most: int,
        guess: Callable[[], int],
    ) -> Remedy | None:
        """Return the change of some of these objects that starts the job, or None.

        As few as suffice are taken in their order; then each is left out that isn't needed.
        """

        def of_size(size: int) -> Change:
            return of_names(tuple(sorted(names[:size])))

        remedy = self.smallest(of_size, min(most, len(names)), guess)
        if remedy is None:
            return None
        count = next(size for size in range(1, len(names) + 1) if of_size(size) == remedy.change)
        kept, minimal = sorted(names[:count]), True
        for name in names[:count]:
            others = tuple(each for each in kept if each != name)
            start = self.trials.starts(of_names(others)) if others else trials.NEVER
            if start:
                kept, remedy = list(others), self._remedy(of_names(others), start, minimal=True)
            minimal = minimal and start.known
        return replace(remedy, minimal=minimal)

    def smallest_row(
        self, of_sizes: Callable[[Sequence[int]], Change], most: Sequence[int]
    ) -> Remedy | None:
        """Return a change of several sizes, up to `most` each, that starts the job, or None.

        None of the sizes can be less by one: each in turn is lowered as far as the others, as large
        as they are then, allow. `most` together with sizes of 0 is no change.
        """
        lowest = [0] * len(most)
        for works in self._judges:
            sizes = list(most)
            if not works(of_sizes(sizes)):
                return None
            for place, least_size in enumerate(lowest):

                def alone(size: int, place: int = place) -> bool:
                    changed = [*sizes[:place], size, *sizes[place + 1 :]]  # noqa: B023 - used at once
                    return works(of_sizes(changed))  # noqa: B023 - used at once

                sizes[place] = least(alone, least_size, sizes[place]) or 0
            lowest = sizes
        if not any(lowest):
            return None
        start = self.trials.starts(of_sizes(lowest))
        below = [
            self.trials.starts(of_sizes([*lowest[:at], size - 1, *lowest[at + 1 :]]))
            for at, size in enumerate(lowest)
            if size
        ]
        minimal = all(each.known and not each for each in below)
        return self._remedy(of_sizes(lowest), start, minimal=minimal) if start else None

    @property
    def _judges(self) -> list[Callable[[Change], bool]]:
        """What is asked whether a change suffices: a forecast first, unless trials are cheap."""
        proof = lambda change: bool(self.trials.starts(change))  # noqa: E731
        forecast = lambda change: bool(self.trials.may_start(change))  # noqa: E731
        return [proof] if self._exact else [forecast, proof]

    def _proved(self, of_size: Callable[[int], Change], size: int) -> Remedy:
        below = self.trials.starts(of_size(size - 1)) if size > 1 else None
        minimal = below is None or (below.known and not below)
        return self._remedy(of_size(size), self.trials.starts(of_size(size)), minimal=minimal)

    def _remedy(self, change: Change, start: Start, *, minimal: bool | None) -> Remedy:
        victims = self._victims(start.evicts)
        return Remedy(change=change, cycle=start.cycle, victims=victims, minimal=minimal)

    def _victims(self, evicts: Sequence[Evict]) -> tuple[Victims, ...]:
        """Return whose pods these are, the jobs that lose the most first."""
        counts = Counter(evict.task.job for evict in evicts)
        queues = {job.id: job.queue for job in self.trials.snapshot.jobs}
        found = [Victims(job=job, queue=queues[job], pods=count) for job, count in counts.items()]
        return tuple(sorted(found, key=lambda each: (-each.pods, each.job)))
