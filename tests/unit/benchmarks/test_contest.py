"""The plan of a contest, its audit and its tables."""

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as bench
from tests.benchmarks import competitors, contest, loading, processes, shapes, tables
from tests.benchmarks.competitors import Competitor
from tests.benchmarks.contest import Conditions, Cycles, Run
from tests.benchmarks.loading import Customer
from tests.benchmarks.running import FailedError
from tests.benchmarks.shapes import Shape

METRICS = """\
vscheduler_cycle_part_milliseconds_sum{part="decide"} 30.0
vscheduler_cycle_part_milliseconds_count{part="decide"} 3.0
vscheduler_loop_lag_milliseconds_bucket{le="1.0"} 98.0
vscheduler_loop_lag_milliseconds_bucket{le="5.0"} 100.0
vscheduler_loop_lag_milliseconds_bucket{le="+Inf"} 100.0
"""


def a_run(competitor: str, seconds: float, shape: str = "5x2x50") -> Run:
    """100 pods, of which the first was bound after a second."""
    return Run(
        competitor=competitor,
        shape=shape,
        pods=100,
        makespan=seconds,
        first_bind=1.0,
        waits=(1.0, 2.0, 3.0),
        cpu_bound=0.5,
        cpu_settled=1.0,
        server_cpu=2.0,
        settled=seconds + 1,
        peak_mib=100.0,
        calls={"POST pods/binding": 1.0, "POST events": 0.5, "PUT leases": 0.001},
        refused={"POST events 429": 3},
        cycles=contest.cycles(METRICS),
    )


def test_a_shape_is_written_as_it_is_read() -> None:
    """Nodes, gangs, size, and perhaps a rate."""
    for text in ("500x100x20", "100x1000x1@100", "5000x750x4/50"):
        assert str(Shape.read(text)) == text
    assert Shape.read("500x100x20").pods == 2000
    assert len(set(map(str, shapes.ALL))) == len(shapes.ALL)


@pytest.mark.parametrize("text", ["500x100", "500x0x20", "x", "500x100x20@", "500x100x20x3"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    """With a sentence that shows the form."""
    with pytest.raises(ValueError, match="NODESxGANGSxSIZE"):
        Shape.read(text)


def test_runs_are_interleaved_and_everybody_is_first_at_times() -> None:
    """So that what else the machine does meanwhile hits nobody alone."""
    competing = [competitors.limit(), competitors.vscheduler(), competitors.kube_scheduler()]
    shape = Shape.read("5x1x1")
    planned = [each.name for each in bench.plan(competing, shape, 3)]
    rounds = [planned[start : start + 3] for start in (0, 3, 6)]
    assert all(sorted(each) == sorted(planned[:3]) for each in rounds)
    assert len({each[0] for each in rounds}) == 3


def test_the_limit_has_no_part_in_shapes_with_a_rate() -> None:
    """It looks once, and would miss the pods that come later."""
    shape = Shape.read("5x1x1@10")
    planned = bench.plan([competitors.limit(), competitors.vscheduler()], shape, 2)
    assert {each.name for each in planned} == {competitors.VSCHEDULER}


@pytest.mark.parametrize("end", ["the plan", "SIGTERM", "a failure"])
def test_finished_runs_are_printed_and_kept_however_it_ends(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    end: str,
) -> None:
    """Each shape's table comes when the shape is done, or as far as it was when it was ended."""
    path = tmp_path / "kept" / "bench.json"
    printed: list[str] = []

    def run(competitor: Competitor, shape: Shape, _: Conditions) -> Run:
        printed.append(capsys.readouterr().out)
        if str(shape) == "7x1x1":
            if end == "SIGTERM":
                signal.raise_signal(signal.SIGTERM)
            if end == "a failure":
                raise FailedError("why")
        return replace(a_run(competitor.name, 2.0, str(shape)), cycles=None)

    monkeypatch.setattr(contest, "run", run)
    words = ["5x2x50", "7x1x1", "--only=vscheduler", "--runs=1", f"--json={path}"]
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    before = signal.getsignal(signal.SIGTERM)
    try:
        status = bench.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert status == {"the plan": 0, "SIGTERM": bench.INTERRUPTED, "a failure": 1}[end]
    first, second = printed
    assert "### 5x2x50" not in first
    assert "### 5x2x50: 100 pods, 1 runs" in second
    kept = [each["shape"] for each in json.loads(path.read_text())["runs"]]
    assert kept == (["5x2x50", "7x1x1"] if end == "the plan" else ["5x2x50"])


def test_the_audit_wants_one_bind_for_each_pod() -> None:
    """Binds that were refused don't count."""
    found = Counter({("POST pods/binding", "201"): 5, ("POST pods/binding", "409"): 1})
    contest.audit(found, 5)
    with pytest.raises(FailedError, match="4 pods are bound by 5 binds"):
        contest.audit(found, 4)


def test_what_made_the_load_is_no_call_of_the_scheduler() -> None:
    """Where it was made while the scheduler ran; reads are left out anyway."""
    found = Counter({("POST pods", "201"): 4, ("POST events", "201"): 2, ("LIST pods", "200"): 9})
    assert contest.per_pod(found, Shape.read("5x4x1@10")) == {"POST events": 0.5}
    assert contest.per_pod(found, Shape.read("5x4x1")) == {
        "POST events": 0.5,
        "POST pods": 1,
    }


def test_a_gang_in_two_racks_spoils_the_run() -> None:
    """Whoever ignores racks is faster."""
    nodes = [
        {"metadata": {"name": f"node-{rack}", "labels": {loading.RACK: rack}}} for rack in "ab"
    ]
    pods = [
        {"metadata": {"name": f"gang-{gang}-{number}"}, "spec": {"nodeName": f"node-{rack}"}}
        for gang, racks in ((0, "aa"), (1, "bb"), (2, "ab"))
        for number, rack in enumerate(racks)
    ]
    contest.audit_racks(nodes, pods[:4])
    with pytest.raises(FailedError, match="1 gangs are in several racks, such as gang-2"):
        contest.audit_racks(nodes, pods)


def test_kube_scheduler_gets_its_own_pod_groups_for_racks() -> None:
    """The same gangs as those of ours, by a link of the pod instead of an annotation."""
    assert not competitors.single(competitors.vscheduler()).customer.grouped
    ours, theirs = map(competitors.near, (competitors.vscheduler(), competitors.kube_scheduler()))
    assert "schedulingGroup" not in loading.pod(ours.customer, "gang", 0)["spec"]
    assert theirs.name == "kube-scheduler (gangs)"
    pod = loading.pod(theirs.customer, "gang", 0)
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "gang"}
    assert "annotations" not in pod["metadata"]
    group = loading.native_group("gang", 4, near=True)
    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": loading.RACK}]},
    }


def test_cycles_are_told_where_there_are_metrics() -> None:
    """By part, and with the lag of the event loop."""
    assert contest.cycles(METRICS) == Cycles(number=3, parts_ms={"decide": 10.0}, lag_p99_ms=5.0)
    assert contest.cycles("") is None


def test_the_tables_show_medians_and_extremes() -> None:
    """From the first bind to the last, and from the start."""
    runs = [a_run(competitors.LIMIT, 2.0), *(a_run("ours", 1.0 + each) for each in (1.5, 2.0, 3.0))]
    limit, ours = list(tables.results(runs))[4:6]
    assert limit.startswith("| bind-only limit | 99 (99-99) | 100% | 50 | 2.00 | 1.00 / 2.00 /")
    assert ours.startswith("| ours | 50 (33-66) | 50% | 33 | 3.00 | 1.00 / 2.00 / 3.00 |")
    told = "- ours: POST events 0.50, POST pods/binding 1.00; refused: POST events 429: 9"
    assert list(tables.calls(runs))[1] == told


def test_pods_that_are_paced_come_at_their_rate() -> None:
    """Never sooner than that."""
    customer = Customer(scheduler="s")
    pods = [loading.pod(customer, "gang", number) for number in range(3)]
    assert list(loading.paced(pods, 1000)) == pods


@pytest.mark.parametrize("apart", [False, True])
def test_a_process_counts_with_its_children(*, apart: bool) -> None:
    """A wrapper's own figures would say little. Children may have sessions of their own."""
    inner = "sum(range(5_000_000)); input()"
    words = f"[sys.executable, '-c', '{inner}'], start_new_session={apart}"
    nested = f"import subprocess, sys; subprocess.run({words})"
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, start_new_session=True
    ) as outer:
        found = processes.started_by(outer.pid)
        while processes.cpu_seconds(found) <= processes.cpu_seconds([outer.pid]):
            found = processes.started_by(outer.pid)
        assert outer.pid in found
        assert processes.peak_mib(found) > processes.peak_mib([outer.pid]) > 1
        assert outer.stdin is not None
        outer.stdin.close()
    assert processes.cpu_seconds(found) == 0, "what has ended is no mistake"
