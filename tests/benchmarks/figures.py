"""The arithmetic of the benchmarks: values in, values out."""

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
READS = ("GET", "LIST", "WATCH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One figure of several runs."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread | None:
    """The median and the extremes; None where there are no values."""
    if not values:
        return None
    return Spread(median=statistics.median(values), low=min(values), high=max(values))


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so large a part of all values doesn't exceed (nearest rank).

    NaN where there are no values.
    """
    if not values:
        return math.nan
    rank = math.ceil(part * len(values))
    return sorted(values)[max(rank, 1) - 1]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float | None:
    """How costs grow with sizes: 1 is linear, 0 not at all. The slope of a line through logarithms.

    None where fewer than two sizes differ, or something cost nothing.
    """
    if len(set(sizes)) < 2 or min(costs) <= 0:
        return None
    fitted = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    )
    return fitted.slope


def quantile(buckets: Mapping[float, float], part: float) -> float:
    """The upper bound of the bucket that holds this part of all observations.

    buckets are those of a Prometheus histogram: how many observations are up to each bound. Of
    two bounds the larger is told, so what is said to be below a limit is. NaN without observations.
    """
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] <= 0:
        return math.nan
    wanted = part * buckets[bounds[-1]]
    return next(bound for bound in bounds if buckets[bound] >= wanted)


def samples(exposition: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each series of this name in Prometheus' text format."""
    for line in exposition.splitlines():
        if line.startswith(name) and line[len(name) :][:1] in ("{", " "):
            labels, _, value = line[len(name) :].rpartition(" ")
            yield dict(LABEL.findall(labels)), float(value)


def histogram(exposition: str, name: str) -> dict[float, float]:
    """The buckets of a histogram; those of several series are added up."""
    buckets: defaultdict[float, float] = defaultdict(float)
    for labels, value in samples(exposition, f"{name}_bucket"):
        buckets[float(labels["le"])] += value
    return dict(buckets)


def means(exposition: str, name: str, label: str) -> dict[str, float]:
    """The mean of a histogram's observations, by the value of a label."""
    sums = _by_label(exposition, f"{name}_sum", label)
    counts = _by_label(exposition, f"{name}_count", label)
    return {value: sums[value] / count for value, count in counts.items() if count}


def _by_label(exposition: str, name: str, label: str) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for labels, value in samples(exposition, name):
        found[labels[label]] += value
    return found


def calls(exposition: str) -> Counter[tuple[str, str]]:
    """What an API server was asked, by `POST pods/binding` and HTTP status."""
    found: Counter[tuple[str, str]] = Counter()
    for labels, value in samples(exposition, "apiserver_request_total"):
        thing = "/".join(filter(None, (labels["resource"], labels["subresource"])))
        if labels["resource"]:
            found[f"{labels['verb']} {thing}", labels["code"]] += int(value)
    return found


def since(
    after: Counter[tuple[str, str]], before: Counter[tuple[str, str]]
) -> Counter[tuple[str, str]]:
    """What was asked between two looks. A counter that went back is a mistake in measuring."""
    lost = {key for key, value in before.items() if after[key] < value}
    assert not lost, f"counters went back: {sorted(lost)}"
    return after - before


def is_write(call: str) -> bool:
    """Whether such a call changes something."""
    return call.partition(" ")[0] not in READS


def answered(found: Counter[tuple[str, str]]) -> Counter[str]:
    """The number of calls by kind, however they were answered."""
    totals: Counter[str] = Counter()
    for (call, _), number in found.items():
        totals[call] += number
    return totals


def refused(found: Counter[tuple[str, str]]) -> dict[str, int]:
    """Calls that were answered by 4xx or 5xx, by `POST pods/binding 409`; sorted."""
    return {
        f"{call} {code}": number
        for (call, code), number in sorted(found.items())
        if code[:1] in ("4", "5")
    }
