"""The arithmetic of the benchmarks."""

import math
from collections import Counter

import pytest

from tests.benchmarks import figures
from tests.benchmarks.figures import Spread

EXPOSITION = """\
# HELP apiserver_request_total Requests.
apiserver_request_total{code="201",group="",resource="pods",subresource="binding",verb="POST"} 20
apiserver_request_total{code="409",group="",resource="pods",subresource="binding",verb="POST"} 1
apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="LIST"} 3
apiserver_request_total{code="200",group="",resource="",subresource="/metrics",verb="GET"} 9
apiserver_request_total{code="200",group="",resource="",subresource="",verb="GET"} 9
apiserver_request_total_other{code="200"} 9
lag_bucket{part="a",le="1.0"} 90
lag_bucket{part="a",le="10.0"} 98
lag_bucket{part="a",le="+Inf"} 98
lag_bucket{part="b",le="1.0"} 0
lag_bucket{part="b",le="10.0"} 2
lag_bucket{part="b",le="+Inf"} 2
lag_sum{part="a"} 196
lag_count{part="a"} 98
lag_sum{part="b"} 8
lag_count{part="b"} 2
lag_count{part="c"} 0
lag_sum{part="c"} 0
"""


def test_a_percentile_is_one_of_the_values() -> None:
    """Nearest rank, so that nothing is told that was never measured."""
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [figures.percentile(values, part) for part in (0.0, 0.2, 0.5, 0.9, 1.0)] == [
        1.0,
        1.0,
        3.0,
        5.0,
        5.0,
    ]
    assert math.isnan(figures.percentile([], 0.5))


def test_a_spread_is_the_median_between_the_extremes() -> None:
    """Of an even number of runs the median is the mean of the two in the middle."""
    assert figures.spread([4.0, 1.0, 3.0, 2.0]) == Spread(median=2.5, low=1.0, high=4.0)
    assert figures.spread([]) is None


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_is_that_of_a_power_law(power: float) -> None:
    """Whatever the factor is."""
    sizes = [500, 1000, 2000, 5000]
    assert figures.exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


def test_no_exponent_comes_from_one_size_or_from_nothing() -> None:
    """Such rows are shown without one."""
    assert figures.exponent([500, 500], [1.0, 2.0]) is None
    assert figures.exponent([500, 1000], [0.0, 2.0]) is None


def test_a_quantile_of_buckets_is_never_told_too_small() -> None:
    """The bound of the bucket, over all series of the histogram."""
    buckets = figures.histogram(EXPOSITION, "lag")
    assert buckets == {1.0: 90, 10.0: 100, math.inf: 100}
    assert figures.quantile(buckets, 0.9) == 1.0
    assert figures.quantile(buckets, 0.901) == 10.0
    assert math.isnan(figures.quantile({}, 0.5))
    assert math.isnan(figures.quantile({1.0: 0, math.inf: 0}, 0.5))


def test_means_are_told_by_label() -> None:
    """What was never observed has none."""
    assert figures.means(EXPOSITION, "lag", "part") == {"a": 2.0, "b": 4.0}


def test_calls_are_told_by_verb_and_resource() -> None:
    """Without those that are about no resource, such as our own look at the metrics."""
    assert figures.calls(EXPOSITION) == {
        ("POST pods/binding", "201"): 20,
        ("POST pods/binding", "409"): 1,
        ("LIST pods", "200"): 3,
    }


def test_the_audit_of_counters_sees_one_that_went_back() -> None:
    """An API server that started anew in between makes a run worthless."""
    before = Counter({("POST pods", "201"): 5, ("LIST pods", "200"): 1})
    after = Counter({("POST pods", "201"): 7, ("POST pods", "409"): 2, ("LIST pods", "200"): 1})
    found = figures.since(after, before)
    assert found == {("POST pods", "201"): 2, ("POST pods", "409"): 2}
    assert figures.answered(found) == {"POST pods": 4}
    assert figures.refused(found) == {"POST pods 409": 2}
    with pytest.raises(AssertionError, match="POST pods"):
        figures.since(before, after)


def test_reads_are_no_writes() -> None:
    """What counts at rest is what changes something."""
    calls = ("GET pods", "LIST pods", "WATCH pods", "POST pods/binding", "PATCH pods/status")
    assert [figures.is_write(call) for call in calls] == [False, False, False, True, True]
