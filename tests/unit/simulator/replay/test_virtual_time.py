import math
import random
from collections.abc import Callable, Mapping

import pytest

from tests.unit.simulator.replay import by_hand
from vscheduler.core import actions, compat, plugins
from vscheduler.core.config import policy as policies
from vscheduler.core.config.policy import Policy
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.state import Options as MirrorOptions
from vscheduler.model.jobs import Job
from vscheduler.simulator import forecast, past_runs
from vscheduler.simulator.replay import clusters, traces, virtual_time
from vscheduler.simulator.replay.clusters import NodeShape
from vscheduler.simulator.replay.traces import Trace
from vscheduler.simulator.replay.virtual_time import Expected, History, Options

FIFO = "gang, predicates"
SHARES = "gang, predicates, proportion"


def policy(names: str, actions_: str = "enqueue, allocate") -> Policy:
    """A configuration with these plugins."""
    tree = {
        "actions": actions_,
        "tiers": [{"plugins": [{"name": name} for name in names.split(", ")]}],
    }
    parsed = policies.parse(tree, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None, parsed.problems
    return parsed.policy


def table(*rows: str, columns: str = "id,submit,duration,pods") -> Trace:
    """A table of jobs."""
    return traces.read("\n".join((columns, *rows)), table=True)


def played(trace: Trace, cores: int, rules: Policy, options: Options | None = None) -> History:
    """What becomes of the jobs on nodes of one CPU."""
    mirror = clusters.of_shape(NodeShape(nodes=cores, cores=cores), rules.reads)
    clusters.add_queues(mirror, {job.queue for job in trace.jobs})
    return virtual_time.replay(trace, mirror, rules, options or Options())


def spans(trace: Trace, found: History) -> Mapping[str, tuple[float, float]]:
    """By job, the start and the end of its last run."""
    return {trace.jobs[run.job].id: (run.start, run.end) for run in found.runs}


def test_jobs_start_when_there_is_room_and_end_after_their_time() -> None:
    """A gang starts whole."""
    trace = table("a,0,10,2", "b,1,5,1", "c,2,7,3")
    found = played(trace, 3, policy(FIFO))
    assert spans(trace, found) == {"a": (0, 10), "b": (1, 6), "c": (10, 17)}
    assert found.unstarted == {}
    assert all(not run.evicted for run in found.runs)


def test_promises_are_kept_with_what_jobs_are_told_first() -> None:
    """The first job ends long before its limit, so that others start earlier than promised."""
    trace = table("a,0,10,2,50", "b,1,5,2,5", "c,2,7,2,7", columns="id,submit,duration,pods,limit")
    rules = policy(FIFO).with_argument("allocate", "allocate.backfill", "conservative")
    found = played(trace, 2, rules)
    assert spans(trace, found) == {"a": (0, 10), "b": (10, 15), "c": (15, 22)}
    assert {at: each.first for at, each in found.promised.items()} == {1: 50, 2: 55}
    assert {at: each.least for at, each in found.promised.items()} == {1: 50, 2: 15}


def test_time_is_that_of_the_trace() -> None:
    """Fractions of seconds and the epoch change nothing."""
    line = "{} {} 0 {} 2 -1 -1 2 -1 -1 1 1 1 1 1 -1 -1 -1"
    text = "; UnixStartTime: 1400000000\n" + "\n".join(
        (line.format(1, 0, 10.25), line.format(2, 0.5, 3))
    )
    trace = traces.read(text, table=False)
    found = played(trace, 2, policy(FIFO))
    assert spans(trace, found) == {"1": (0, 10.25), "2": (10.25, 13.25)}


def test_a_job_of_no_length_ends_at_once() -> None:
    """And what waits for it starts at the same instant."""
    trace = table("a,3,0,1", "b,3,4,1")
    assert spans(trace, played(trace, 1, policy(FIFO))) == {"a": (3, 3), "b": (3, 7)}


def test_limits_end_jobs_if_asked_to() -> None:
    """Otherwise they run as long as they did."""
    trace = table("a,0,10,4", columns="id,submit,duration,limit")
    assert spans(trace, played(trace, 1, policy(FIFO))) == {"a": (0, 10)}
    kept = played(trace, 1, policy(FIFO), Options(keep_limits=True))
    assert spans(trace, kept) == {"a": (0, 4)}


def test_jobs_that_never_fit_are_told_with_the_reason() -> None:
    """The others go on."""
    trace = table("a,0,10,4", "b,1,2,1")
    found = played(trace, 3, policy(FIFO))
    assert spans(trace, found) == {"b": (1, 3)}
    assert list(found.unstarted) == [0]
    assert "room for at most 3 of 4 pods of 1 cpu, even when empty" in found.unstarted[0]


RECLAIM = policy(SHARES, "enqueue, allocate, reclaim")
TWO_QUEUES = "id,submit,duration,pods,queue"


@pytest.mark.parametrize(("resume", "end"), [(False, 70 + 100), (True, 70 + 60)])
def test_an_evicted_job_starts_anew_or_goes_on(resume: bool, end: float) -> None:
    """Its pods take their time to end, and wait again then."""
    trace = table("lent,0,100,1,a", "lent2,0,100,1,a", "own,40,10,1,b", columns=TWO_QUEUES)
    options = Options(termination_seconds=20, resume=resume)
    found = played(trace, 2, RECLAIM, options)
    runs = [(trace.jobs[run.job].id, run.start, run.end, run.evicted) for run in found.runs]
    assert [run for run in runs if run[3]] == [("lent", 0, 40, True)]
    assert [run for run in runs if run[0] == "own"] == [("own", 60, 70, False)]
    assert [run for run in runs if run[0] == "lent"][-1] == ("lent", 70, end, False)
    assert found.evicted_pods == 1


@pytest.mark.parametrize("seed", range(8))
def test_first_come_first_served_is_as_by_hand(seed: int) -> None:
    """Every job of a random trace starts when a loop of ten lines says."""
    chance = random.Random(seed)
    rows = [
        f"{at},{chance.randint(0, 300)},{chance.choice((0, 1, 5, 20, 50))},{chance.randint(1, 6)}"
        for at in range(80)
    ]
    trace = table(*rows)
    found = played(trace, 6, policy(FIFO))
    by_job = {run.job: run.start for run in found.runs}
    assert [by_job[at] for at in range(80)] == by_hand.starts(trace.jobs, 6)


def random_trace(chance: random.Random, jobs: int, duration: Callable[[], int]) -> Trace:
    """Jobs that come, most of which have to wait; they run for exactly as long as they may."""
    rows = []
    for at in range(jobs):
        seconds = duration()
        rows.append(f"{at},{chance.randrange(60)},{seconds},{chance.randint(1, 4)},{seconds}")
    return table(*rows, columns="id,submit,duration,pods,limit")


@pytest.mark.parametrize("seed", range(12))
def test_forecasts_change_nothing_and_come_true(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a job after which none comes: with limits that are true, and with cycles at each end."""
    monkeypatch.setattr(forecast, "STEP", 0.0)
    monkeypatch.setattr(forecast, "STEP_SECONDS", 0.0)
    chance = random.Random(seed)
    trace = random_trace(chance, past_runs.FEWEST, lambda: chance.randint(10, 90))
    rules = policy(chance.choice([FIFO, SHARES]))
    if seed % 3 == 0:
        rules = rules.with_argument("allocate", "allocate.backfill", "easy")
    plain = played(trace, 4, rules)
    found = played(trace, 4, rules, Options(forecast_every=1))
    assert (found.runs, found.cycles) == (plain.runs, plain.cycles)
    starts = {run.job: run.start for run in found.runs}
    last = max(found.expected)
    assert found.expected[last] == Expected(earliest=starts[last], latest=starts[last])


@pytest.mark.parametrize("seed", range(4))
def test_what_has_run_tells_how_long_others_run(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without limits: all jobs run for 40 seconds, and the first ones tell nothing."""
    monkeypatch.setattr(forecast, "STEP", 0.0)
    monkeypatch.setattr(forecast, "STEP_SECONDS", 0.0)
    chance = random.Random(seed)
    rows = [f"{at},{chance.randrange(300)},40,{chance.randint(1, 4)}" for at in range(40)]
    found = played(table(*rows), 4, policy(FIFO), Options(forecast_every=1))
    starts = {run.job: run.start for run in found.runs}
    first, last = min(found.expected), max(found.expected)
    assert found.expected[first].latest == math.inf
    assert found.expected[last] == Expected(earliest=starts[last], latest=starts[last])


def test_of_jobs_that_wait_each_nth_start_is_forecast() -> None:
    """Jobs that start at once don't count."""
    rows = [f"{at},{at // 2},50,2,50" for at in range(9)]
    trace = table(*rows, columns="id,submit,duration,pods,limit")
    found = played(trace, 2, policy(FIFO), Options(forecast_every=3))
    assert sorted(found.expected) == [3, 6]


def test_what_the_mirror_is_shown_is_what_manifests_become() -> None:
    """Jobs, pods and use of nodes are those of decoded objects."""
    trace = table(
        "7,0,10,2,3,vision,ann,5", columns="id,submit,duration,pods,cpu,queue,user,priority"
    )
    rules = policy(FIFO)
    mirror = clusters.of_shape(NodeShape(nodes=1, cores=4), rules.reads)
    clusters.add_queues(mirror, ["vision"])
    world = virtual_time._World(trace, mirror, Options())
    world.advance(0.0)
    (ours,) = mirror.snapshot(0.0).jobs
    decoded = Mirror(MirrorOptions(scheduler_names=("vscheduler",)))
    for kind, document in documents():
        decoded.apply(events.convert(kind, document))
    (theirs,) = decoded.snapshot(0.0).jobs
    assert comparable(ours) == comparable(theirs)


def documents() -> list[tuple[events.Kind, dict[str, object]]]:
    """The job of the test above, as manifests."""
    born = "1970-01-01T00:00:00Z"

    def metadata(name: str, uid: str) -> dict[str, object]:
        return {"name": name, "namespace": "ann", "uid": uid, "creationTimestamp": born}

    group: dict[str, object] = {
        "metadata": metadata("job-7", "00000000"),
        "spec": {"minMember": 2, "queue": "vision", "priorityClassName": "high"},
    }
    pods: list[dict[str, object]] = [
        {
            "metadata": {
                **metadata(f"job-7-{index}", f"00000000-{index}"),
                "annotations": {"scheduling.k8s.io/group-name": "job-7"},
            },
            "spec": {
                "schedulerName": "vscheduler",
                "priority": 5,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}],
            },
            "status": {"phase": "Pending"},
        }
        for index in range(2)
    ]
    high: dict[str, object] = {"metadata": {"name": "high"}, "value": 5}
    return [
        (events.Kind.PRIORITY_CLASS, high),
        (events.Kind.POD_GROUP, group),
        *((events.Kind.POD, pod) for pod in pods),
    ]


def comparable(job: Job) -> dict[str, object]:
    """The fields of a job, with the contents of its classes."""
    found = {name: getattr(job, name) for name in Job.__struct_fields__}
    del found["classes"], found["annotations"], found["state"]
    found["tasks"] = [
        {
            name: getattr(task, name)
            for name in type(task).__struct_fields__
            if name not in ("pod_class", "annotations")
        }
        for task in job.tasks
    ]
    found["requests"] = [dict(task.pod_class.request) for task in job.tasks]
    found["counted"] = [(dict(each.request), counts) for each, counts in job.classes.items()]
    return found
