"""How long jobs run, from those of the past that are like them.

The part of jobs that still run after some time is estimated as Kaplan and Meier do (Journal of the
American Statistical Association 53, 1958): jobs that haven't ended yet count for as long as they
have run. So a queue of services, hardly any of which ever ends, isn't taken for one of short jobs.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.model.jobs import Job

FEWEST = 10
"""So many jobs must have ended, so that others are expected to run as long as these."""

ROUNDING = 1e-9

_NUMBER = re.compile(r"\d.*", re.DOTALL)

Likeness = tuple[str, ...]
"""What jobs have in common: their queue, then their namespace, then the name of their workload up
to its first digit. Of the last it may lack one or two."""


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has run, or still runs."""

    queue: str
    namespace: str
    name: str
    """Of its workload, such as `job/train-7`, or of its PodGroup."""
    seconds: float
    """How long it has run."""
    ended: bool = True


class PastRuns:
    """Run times of the past."""

    def __init__(self, runs: Iterable[PastRun] = ()) -> None:
        self._seconds: defaultdict[Likeness, list[float]] = defaultdict(list)
        self._ended: defaultdict[Likeness, list[bool]] = defaultdict(list)
        self._curves: dict[Likeness, _Curve | None] = {}
        for run in runs:
            self.add(run)

    def __bool__(self) -> bool:
        return bool(self._seconds)

    def add(self, run: PastRun) -> None:
        """Take one more run."""
        kind = _kind(run.queue, run.namespace, run.name)
        for likeness in (kind, kind[:2], kind[:1]):
            self._seconds[likeness].append(run.seconds)
            self._ended[likeness].append(run.ended)
            self._curves.pop(likeness, None)

    def left(self, kind: Likeness, ran: float, part: float) -> float | None:
        """Return how many seconds a job of this kind that has run for so long still runs; None if
        too few like it have ended. This part, above 0 and below 1, of such jobs runs no longer than
        that; it is infinite if so many haven't ended yet.
        """
        for likeness in (kind, kind[:2], kind[:1]):
            curve = self._curve(likeness)
            if curve is not None:
                return curve.left(ran, part)
        return None

    def _curve(self, likeness: Likeness) -> "_Curve | None":
        if likeness not in self._curves:
            ended = np.array(self._ended.get(likeness, ()), dtype=np.bool_)
            enough = int(ended.sum()) >= FEWEST
            self._curves[likeness] = (
                _Curve(np.array(self._seconds[likeness]), ended) if enough else None
            )
        return self._curves[likeness]


NO_PAST = PastRuns()


class _Curve:
    """Which part of jobs run longer than a time."""

    def __init__(self, seconds: NDArray[np.float64], ended: NDArray[np.bool_]) -> None:
        """`seconds` and `ended` have the shape (R,), one for each run."""
        self._times, ends = np.unique(seconds[ended], return_counts=True)
        at_risk = len(seconds) - np.searchsorted(np.sort(seconds), self._times)
        self._ended = 1.0 - np.cumprod(1.0 - ends / at_risk)
        """The part that runs no longer than each of the times, rising."""

    def left(self, ran: float, part: float) -> float:
        """Return after how many seconds this part of the jobs that have run so long has ended."""
        passed = int(np.searchsorted(self._times, ran, side="right"))
        before = float(self._ended[passed - 1]) if passed else 0.0
        wanted = before + (1.0 - before) * part
        at = int(np.searchsorted(self._ended, wanted - ROUNDING))
        return float(self._times[at]) - ran if passed <= at < len(self._times) else math.inf


def kind_of(job: Job) -> Likeness:
    """Return what a job has in common with those that are most like it."""
    return _kind(job.queue, job.namespace, job.owner or job.name)


def _kind(queue: str, namespace: str, name: str) -> Likeness:
    return queue, namespace, _NUMBER.sub("", name)
