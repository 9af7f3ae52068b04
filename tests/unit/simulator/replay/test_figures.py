import math

import numpy as np
import pytest

from vscheduler.model import pod_texts
from vscheduler.simulator.replay import clusters, figures, traces
from vscheduler.simulator.replay.clusters import NodeShape
from vscheduler.simulator.replay.figures import Forecasts, Promises, Replayed
from vscheduler.simulator.replay.virtual_time import Expected, History, Promised, Run

NO_READS = pod_texts.NOTHING


def replayed(rows: str, *runs: tuple[int, float, float, bool], resume: bool = False) -> Replayed:
    """The figures of runs of jobs on four CPUs, in queues of weight 1."""
    trace = traces.read(rows, table=True)
    mirror = clusters.of_shape(NodeShape(nodes=2, cores=4), NO_READS)
    clusters.add_queues(mirror, {job.queue for job in trace.jobs})
    history = History(
        runs=tuple(
            Run(job=job, start=start, end=end, evicted=evicted) for job, start, end, evicted in runs
        ),
        unstarted={},
        cycles=7,
        evicted_pods=0,
    )
    return figures.replayed("a", trace, history, mirror.snapshot(0.0), resume=resume)


ROWS = "id,submit,duration,pods,queue\na,0,100,2,x\nb,0,50,4,y\nc,200,10,1,x"


def test_waits_are_until_the_run_that_ended() -> None:
    """By size and by queue; percentiles are waits of jobs."""
    found = replayed(ROWS, (0, 0, 100, False), (1, 100, 150, False), (2, 203, 213, False)).figures
    assert (found.waits.jobs, found.waits.p50, found.waits.p90, found.waits.most) == (
        3,
        3,
        100,
        100,
    )
    assert found.waits.mean == pytest.approx(103 / 3)
    assert {name: each.most for name, each in found.by_size.items()} == {
        "1": 3,
        "2-3": 0,
        "4-7": 100,
    }
    assert {name: each.jobs for name, each in found.by_queue.items()} == {"x": 2, "y": 1}
    assert found.slowdown == pytest.approx((1 + 3 + 1.3) / 3)


def test_use_counts_while_jobs_come() -> None:
    """From the first submission to the last: 2 CPUs for 100 s and 4 for 50 s, of 4 for 200 s."""
    found = replayed(ROWS, (0, 0, 100, False), (1, 100, 150, False), (2, 203, 213, False)).figures
    assert found.capacity == 4
    assert found.utilisation == pytest.approx(400 / 800)
    assert found.makespan == 213


@pytest.mark.parametrize(("resume", "hours"), [(False, 4 * 30 / 3600), (True, 0)])
def test_runs_before_an_eviction_are_lost_unless_they_go_on(resume: bool, hours: float) -> None:
    """They count as use all the same."""
    runs = ((1, 0, 30, True), (0, 30, 130, False), (1, 130, 180, False), (2, 200, 210, False))
    found = replayed(ROWS, *runs, resume=resume).figures
    assert found.lost_hours == pytest.approx(hours)
    assert found.utilisation == pytest.approx((120 + 200 + 200) / 800)
    assert found.useful == pytest.approx(found.utilisation - hours * 3600 / 800)
    assert found.evictions == 1
    assert found.by_queue["y"].most == 130


def test_share_error_is_what_queues_lack_of_their_fair_shares() -> None:
    """Here y asks for all 4 CPUs and has a right to 2 of them while x uses 2; then to all 4."""
    found = replayed(ROWS, (0, 0, 100, False), (1, 150, 200, False), (2, 200, 210, False)).figures
    errors = dict(zip(found.series.times, found.series.share_error, strict=True))
    near = [error for time, error in errors.items() if 1 < time < 99]
    later = [error for time, error in errors.items() if 101 < time < 149]
    assert near == pytest.approx([0.5] * len(near))
    assert later == pytest.approx([1.0] * len(later))
    assert found.share_error == pytest.approx((0.5 * 100 + 1.0 * 50) / 200, abs=0.01)


def by_hand(asked: list[float], weights: list[float]) -> list[float]:
    """Fair shares of one cluster, poured drop by drop."""
    given = [0.0] * len(asked)
    for _ in range(20_000):
        thirsty = [at for at, has in enumerate(given) if has < asked[at]]
        if not thirsty:
            break
        at = min(thirsty, key=lambda at: given[at] / weights[at])
        given[at] += 1 / 20_000
    return given


def test_fair_shares_are_those_poured_by_hand() -> None:
    """With what queues ask for, and their weights, at random."""
    chance = np.random.default_rng(5)
    weights = np.array([1.0, 3.0, 2.0, 1.0])
    asked = chance.random((20, 4)) * chance.choice([0, 0.2, 1, 2], size=(20, 4))
    found = figures.fair_shares(asked, weights)
    for row, each in zip(asked, found, strict=True):
        poured = by_hand(row.tolist(), weights.tolist())
        assert each.tolist() == pytest.approx(poured, abs=1e-3)


def test_two_replays_are_told_with_their_differences() -> None:
    """The second less the first, of all that both have."""
    first = replayed(ROWS, (0, 0, 100, False), (1, 100, 150, False), (2, 203, 213, False))
    second = replayed(ROWS, (0, 50, 150, False), (1, 0, 50, False), (2, 200, 210, False))
    tree = figures.comparison([first, second])
    assert tree["differences"]["waits"]["byQueue"]["x"]["max"] == 47
    assert tree["differences"]["waits"]["all"]["p50"] == -3
    assert tree["differences"]["makespan"] == -3
    assert [each["jobs"][0]["start"] for each in tree["replays"]] == [0, 50]


def test_jobs_have_their_times_in_the_tree() -> None:
    """Of their last run; null without one."""
    tree = figures.comparison([replayed(ROWS, (0, 0, 10, True), (0, 20.5, 120.5, False))])
    assert tree["jobs"][0] == {
        "id": "a",
        "submit": 0,
        "start": 20.5,
        "end": 120.5,
        "queue": "x",
        "user": "default",
        "pods": 2,
        "request": {"cpu": "1"},
        "evictions": 1,
    }
    assert tree["jobs"][1]["start"] is None
    assert tree["evictions"] == {"jobs": 1, "pods": 0, "lostHours": round(2 * 10 / 3600, 6)}


def test_promised_starts_are_compared_with_starts() -> None:
    """With the earliest that a job was told, and how far off the first one was."""
    runs = tuple(
        Run(job=at, start=start, end=99, evicted=False) for at, start in enumerate((5, 9, 12))
    )
    promised = {
        0: Promised(first=25, least=25),
        1: Promised(first=19, least=8),
        2: Promised(first=30, least=12),
    }
    history = History(runs=runs, unstarted={}, cycles=1, evicted_pods=0, promised=promised)
    found = figures._promises(history)
    assert found == Promises(jobs=3, missed=1, early_p50=18, early_p90=20)


def test_starts_are_compared_with_the_times_that_were_forecast() -> None:
    """Within, 3 seconds before, 40 after, and two of which nothing was known or became."""
    starts = (5, 9, 90, 7)
    runs = tuple(Run(job=at, start=start, end=99, evicted=False) for at, start in enumerate(starts))
    expected = {
        0: Expected(earliest=5, latest=5),
        1: Expected(earliest=12, latest=20),
        2: Expected(earliest=10, latest=50),
        3: Expected(earliest=5, latest=math.inf),
    }
    history = History(runs=runs, unstarted={}, cycles=1, evicted_pods=0, expected=expected)
    found = figures._forecasts(history)
    assert found == Forecasts(
        jobs=3, unknown=1, within=1, before=1, after=1, error_p50=3, error_p90=40
    )
    nothing = History(runs=runs, unstarted={}, cycles=1, evicted_pods=0)
    assert figures._forecasts(nothing).jobs == 0


def test_gpus_count_where_there_are_any() -> None:
    """Sizes and capacity are in GPUs then."""
    trace = traces.read("submit,duration,pods,gpu,cpu\n0,10,2,8,4\n0,10,1,,4", table=True)
    mirror = clusters.of_shape(NodeShape(nodes=2, cores=4, gpus=8), NO_READS)
    runs = (Run(job=0, start=0, end=10, evicted=False), Run(job=1, start=0, end=10, evicted=False))
    history = History(runs=runs, unstarted={}, cycles=1, evicted_pods=0)
    clusters.add_queues(mirror, ["default"])
    found = figures.replayed("a", trace, history, mirror.snapshot(0.0), resume=False).figures
    assert found.capacity == 16
    assert list(found.by_size) == ["below 1", "16-31"]
