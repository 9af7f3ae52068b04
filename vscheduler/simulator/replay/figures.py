"""Figures of a replay: waits, utilisation, shares and lost work."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.mirror.decode import quantities
from vscheduler.model.resources import CPU
from vscheduler.model.snapshot import Snapshot
from vscheduler.simulator.replay.traces import CORE, Trace
from vscheduler.simulator.replay.virtual_time import History, Run

Floats: TypeAlias = NDArray[np.float64]

INSTANTS = 2000
"""At so many instants, equally far apart, shares and utilisation are looked at over time."""

SHORTEST_SECONDS = 10.0
"""Shorter jobs count as of this length in slowdowns, as is the custom (bounded slowdown)."""

LATE_SECONDS = 0.001
"""Later than promised by no more than this is rounding."""

HOUR = 3600.0
DIGITS = 6


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long jobs waited from their submission to the start of the run that they ended in."""

    jobs: int
    mean: float
    p50: float
    p90: float
    p99: float
    most: float


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """How starts compare with those that jobs were promised."""

    jobs: int
    """How many were promised one."""
    missed: int
    """How many started later than they were told at any time."""
    early_p50: float
    """How many seconds before the start that they were told first."""
    early_p90: float


class Forecasts(msgspec.Struct, frozen=True, kw_only=True):
    """How starts compare with the times between which they were likely."""

    jobs: int
    """For how many jobs both times were known."""
    unknown: int
    """For how many they weren't."""
    within: int
    before: int
    after: int
    error_p50: float
    """How many seconds before or after these times jobs started; 0 between them."""
    error_p90: float


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What was the case at instants that are equally far apart."""

    times: Sequence[float]
    """In seconds, on the clock of the trace."""
    used: Sequence[float]
    """The part of the cluster that ran jobs."""
    asked: Sequence[float]
    """What running and waiting jobs asked for, in clusters."""
    share_error: Sequence[float]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy made of a trace. Amounts are of one resource: GPUs, or else CPUs."""

    resource: str
    capacity: float
    """Of all nodes together, in CPUs or GPUs."""
    waits: Waits
    by_size: Mapping[str, Waits]
    by_queue: Mapping[str, Waits]
    slowdown: float
    """Mean of (wait + duration) / duration."""
    utilisation: float
    """The part of the cluster that ran jobs, from the first submission to the last."""
    useful: float
    """The same without runs that ended by an eviction and were lost."""
    share_error: float
    """The part of the cluster that queues lacked of their fair shares, in the same time."""
    share_error_p90: float
    evictions: int
    """How often jobs were evicted."""
    evicted_pods: int
    lost_hours: float
    """Lost with evictions, in CPU or GPU hours."""
    makespan: float
    """Seconds from the first submission to the last end."""
    unstarted: Mapping[str, str]
    """Jobs that never started, with the reason."""
    cycles: int
    promises: Promises
    forecasts: Forecasts
    series: Series


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A replay, and its figures."""

    name: str
    """Of the policy."""
    trace: Trace
    history: History
    figures: Figures


def replayed(
    name: str, trace: Trace, history: History, cluster: Snapshot, *, resume: bool
) -> Replayed:
    """Return a replay with its figures. `cluster` is as it was without the jobs of the trace; with
    `resume`, evicted jobs went on where they were.
    """
    column = cluster.space.columns.get(trace.resource)
    free = cluster.nodes.allocatable - cluster.nodes.used
    capacity = 0 if column is None else int(free[:, column].clip(0).sum())
    weights = {name: queue.weight for name, queue in cluster.queues.items()}
    figures = _figures(trace, history, (capacity, weights), resume=resume)
    return Replayed(name=name, trace=trace, history=history, figures=figures)


def comparison(replays: Sequence[Replayed]) -> dict[str, Any]:
    """Return the JSON tree of a replay, or of two with their differences: the second less the
    first.
    """
    trees = [{"name": each.name, **tree(each)} for each in replays]
    if len(trees) == 1:
        return trees[0]
    first, second = trees
    keys = ("waits", "slowdown", "utilisation", "usefulUtilisation", "shareError", "evictions")
    return {
        "replays": trees,
        "differences": {key: _less(second[key], first[key]) for key in (*keys, "makespan")},
    }


def _less(this: Any, that: Any) -> Any:
    """Return the difference of numbers, and of all that both mappings have."""
    if isinstance(this, dict):
        return {key: _less(this[key], that[key]) for key in this if key in that}
    return _round(this - that)


def _figures(
    trace: Trace, history: History, given: tuple[int, Mapping[str, int]], *, resume: bool
) -> Figures:
    capacity, weights = given
    jobs, resource = trace.jobs, trace.resource
    unit = CORE if resource == CPU else 1
    sizes = np.array([job.total(resource) for job in jobs], dtype=np.float64)
    last = {run.job: run for run in history.runs if not run.evicted}
    done = sorted(last)
    waits = np.array([last[at].start - jobs[at].submit for at in done])
    durations = np.array([max(last[at].end - last[at].start, SHORTEST_SECONDS) for at in done])
    first, final = jobs[0].submit, jobs[-1].submit
    whole = max(final - first, 1e-9) * max(capacity, 1)
    lost = [run for run in history.runs if run.evicted and not resume]
    busy, wasted = (_work(runs, sizes, first, final) for runs in (history.runs, lost))
    series = _series(trace, history, sizes / max(capacity, 1), weights)
    errors = np.array(series.share_error)[np.array(series.times) <= final]
    ends = [run.end for run in history.runs]
    return Figures(
        resource=resource,
        capacity=capacity / unit,
        waits=_waits(waits),
        by_size=_grouped(waits, [_size_class(sizes[at] / unit) for at in done], _low),
        by_queue=_grouped(waits, [jobs[at].queue for at in done], str),
        slowdown=float(np.mean((waits + durations) / durations)) if done else 0.0,
        utilisation=busy / whole,
        useful=(busy - wasted) / whole,
        share_error=float(errors.mean()),
        share_error_p90=_nearest(np.sort(errors), 0.9),
        evictions=sum(run.evicted for run in history.runs),
        evicted_pods=history.evicted_pods,
        lost_hours=sum((run.end - run.start) * sizes[run.job] for run in lost) / unit / HOUR,
        makespan=max(ends, default=first) - first,
        unstarted={jobs[at].id: reason for at, reason in history.unstarted.items()},
        cycles=history.cycles,
        promises=_promises(history),
        forecasts=_forecasts(history),
        series=series,
    )


def tree(replay: Replayed) -> dict[str, Any]:
    """Return the JSON tree of a replay: each job with its times, and all figures."""
    trace, figures = replay.trace, replay.figures
    return {
        "jobs": list(_jobs(trace, replay.history)),
        "resource": figures.resource,
        "capacity": figures.capacity,
        "waits": {
            "all": _rounded(figures.waits),
            "bySize": {name: _rounded(each) for name, each in figures.by_size.items()},
            "byQueue": {name: _rounded(each) for name, each in figures.by_queue.items()},
        },
        "slowdown": _round(figures.slowdown),
        "utilisation": _round(figures.utilisation),
        "usefulUtilisation": _round(figures.useful),
        "shareError": {
            "mean": _round(figures.share_error),
            "p90": _round(figures.share_error_p90),
        },
        "evictions": {
            "jobs": figures.evictions,
            "pods": figures.evicted_pods,
            "lostHours": _round(figures.lost_hours),
        },
        "promises": {
            "jobs": figures.promises.jobs,
            "missed": figures.promises.missed,
            "earlyP50": _round(figures.promises.early_p50),
            "earlyP90": _round(figures.promises.early_p90),
        },
        "forecasts": {
            "jobs": figures.forecasts.jobs,
            "unknown": figures.forecasts.unknown,
            "within": figures.forecasts.within,
            "before": figures.forecasts.before,
            "after": figures.forecasts.after,
            "errorP50": _round(figures.forecasts.error_p50),
            "errorP90": _round(figures.forecasts.error_p90),
        },
        "makespan": _round(figures.makespan),
        "unstarted": [{"id": name, "reason": why} for name, why in figures.unstarted.items()],
        "leftOut": dict(trace.left_out),
        "problems": [str(problem) for problem in trace.problems],
        "cycles": figures.cycles,
        "series": {
            "times": list(map(_round, figures.series.times)),
            "used": list(map(_round, figures.series.used)),
            "asked": list(map(_round, figures.series.asked)),
            "shareError": list(map(_round, figures.series.share_error)),
        },
    }


def _jobs(trace: Trace, history: History) -> Iterable[dict[str, Any]]:
    last = {run.job: run for run in history.runs if not run.evicted}
    evictions = np.zeros(len(trace.jobs), dtype=np.int64)
    for run in history.runs:
        evictions[run.job] += run.evicted
    for at, job in enumerate(trace.jobs):
        final = last.get(at)
        yield {
            "id": job.id,
            "submit": _round(job.submit),
            "start": None if final is None else _round(final.start),
            "end": None if final is None else _round(final.end),
            "queue": job.queue,
            "user": job.user,
            "pods": job.pods,
            "request": quantities.format_amounts(job.request),
            "evictions": int(evictions[at]),
        }


def _waits(waits: Floats) -> Waits:
    if not len(waits):
        return Waits(jobs=0, mean=0.0, p50=0.0, p90=0.0, p99=0.0, most=0.0)
    ordered = np.sort(waits)
    return Waits(
        jobs=len(ordered),
        mean=float(ordered.mean()),
        p50=_nearest(ordered, 0.5),
        p90=_nearest(ordered, 0.9),
        p99=_nearest(ordered, 0.99),
        most=float(ordered[-1]),
    )


def _first_starts(history: History) -> dict[int, float]:
    started: dict[int, float] = {}
    for run in history.runs:
        started[run.job] = min(run.start, started.get(run.job, run.start))
    return started


def _forecasts(history: History) -> Forecasts:
    started = _first_starts(history)
    known = {at: each for at, each in history.expected.items() if each.latest < np.inf}
    starts = np.array([started.get(at, np.inf) for at in known])
    early = np.array([each.earliest for each in known.values()]) - starts
    late = starts - np.array([each.latest for each in known.values()])
    errors = np.sort(np.maximum(0.0, np.maximum(early, late)))
    before, after = int((early > LATE_SECONDS).sum()), int((late > LATE_SECONDS).sum())
    return Forecasts(
        jobs=len(known),
        unknown=len(history.expected) - len(known),
        within=len(known) - before - after,
        before=before,
        after=after,
        error_p50=_nearest(errors, 0.5) if len(errors) else 0.0,
        error_p90=_nearest(errors, 0.9) if len(errors) else 0.0,
    )


def _promises(history: History) -> Promises:
    started = _first_starts(history)
    pairs = [(each, started.get(at, np.inf)) for at, each in history.promised.items()]
    early = np.sort([each.first - start for each, start in pairs if start < np.inf])
    return Promises(
        jobs=len(pairs),
        missed=sum(start > each.least + LATE_SECONDS for each, start in pairs),
        early_p50=_nearest(early, 0.5) if len(early) else 0.0,
        early_p90=_nearest(early, 0.9) if len(early) else 0.0,
    )


def _nearest(ordered: Floats, part: float) -> float:
    """Return a percentile of sorted values: the least value that so many don't exceed."""
    return float(ordered[max(0, int(np.ceil(part * len(ordered))) - 1)])


def _grouped(waits: Floats, names: Sequence[str], key: Any) -> Mapping[str, Waits]:
    named = np.array(names)
    return {name: _waits(waits[named == name]) for name in sorted(set(names), key=key)}


def _size_class(size: float) -> str:
    """Return the sizes up to the next power of two, as `8-15`."""
    if size < 1:
        return "below 1"
    low = 2 ** int(np.log2(size))
    return "1" if low == 1 else f"{low}-{2 * low - 1}"


def _low(name: str) -> int:
    return 0 if name == "below 1" else int(name.partition("-")[0])


def _work(runs: Sequence[Run], sizes: Floats, first: float, final: float) -> float:
    """Return amount times seconds of these runs between two instants."""
    parts = (max(0.0, min(run.end, final) - max(run.start, first)) for run in runs)
    return float(sum(part * sizes[run.job] for part, run in zip(parts, runs, strict=True)))


def _series(trace: Trace, history: History, sizes: Floats, weights: Mapping[str, int]) -> Series:
    """Return the series; `sizes` are in clusters."""
    names = sorted({job.queue for job in trace.jobs})
    columns = {name: at for at, name in enumerate(names)}
    of_job = np.array([columns[job.queue] for job in trace.jobs])
    first = trace.jobs[0].submit
    latest = max([run.end for run in history.runs] + [trace.jobs[-1].submit])
    times = np.linspace(first, latest, INSTANTS)
    steps = _Steps(times, len(names))
    ended = {run.job: run.end for run in history.runs if not run.evicted}
    every = range(len(trace.jobs))
    submitted = np.array([job.submit for job in trace.jobs])
    over = np.array([ended.get(at, np.inf) for at in every])
    asked = steps.between(submitted, over, of_job, sizes)
    runs = np.array([run.job for run in history.runs], dtype=np.int64)
    starts = np.array([run.start for run in history.runs])
    stops = np.array([run.end for run in history.runs])
    used = steps.between(starts, stops, of_job[runs], sizes[runs])
    fair = fair_shares(asked, np.array([float(weights.get(name, 1)) for name in names]))
    lacking = np.maximum(fair - used, 0.0).sum(axis=1)
    return Series(
        times=times.tolist(),
        used=used.sum(axis=1).tolist(),
        asked=asked.sum(axis=1).tolist(),
        share_error=np.where(lacking > 1e-9, lacking, 0.0).tolist(),
    )


class _Steps:
    """Amounts by instant and queue, (T, Q)."""

    def __init__(self, times: Floats, queues: int) -> None:
        self._times, self._queues = times, queues

    def between(
        self, begin: Floats, end: Floats, queue: NDArray[np.int64], amount: Floats
    ) -> Floats:
        """Return the sum of the amounts that have begun, and not ended, at each instant."""
        changes = np.zeros((len(self._times) + 1, self._queues))
        np.add.at(changes, (np.searchsorted(self._times, begin), queue), amount)
        np.add.at(changes, (np.searchsorted(self._times, end), queue), -amount)
        return changes.cumsum(axis=0)[:-1]


def fair_shares(asked: Floats, weights: Floats) -> Floats:
    """Return the weighted max-min fair shares of one cluster for what queues ask for, (T, Q)."""
    weights = np.maximum(weights, 1e-9)
    levels = asked / weights
    order = np.argsort(levels, axis=1, kind="stable")
    sorted_asked = np.take_along_axis(asked, order, axis=1)
    sorted_weights = weights[order]
    given = np.cumsum(sorted_asked, axis=1) - sorted_asked
    rest = sorted_weights[:, ::-1].cumsum(axis=1)[:, ::-1]
    # The level if this queue and all that ask for more per weight share what is left.
    level = (1.0 - given) / rest
    is_limited = sorted_asked / sorted_weights > level
    first = np.where(is_limited.any(axis=1), is_limited.argmax(axis=1), len(weights))
    water = np.where(
        first < len(weights),
        np.take_along_axis(level, np.minimum(first, len(weights) - 1)[:, None], axis=1)[:, 0],
        np.inf,
    )
    return np.minimum(asked, np.maximum(water, 0.0)[:, None] * weights)


def _rounded(waits: Waits) -> dict[str, Any]:
    return {
        "jobs": waits.jobs,
        "mean": _round(waits.mean),
        "p50": _round(waits.p50),
        "p90": _round(waits.p90),
        "p99": _round(waits.p99),
        "max": _round(waits.most),
    }


def _round(number: float) -> float:
    return round(float(number), DIGITS)
