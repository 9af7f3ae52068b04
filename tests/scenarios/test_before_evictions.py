"""What stands before an eviction: a Queue's minimum run time and delay, and checkpoints of pods."""

import math

import pytest

from tests import running
from tests.scenarios.deciding import Decision, decide, evict, pipeline, written
from vscheduler.explain import remedies, wording
from vscheduler.mirror.wording import sentences
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

RECLAIM = "enqueue, allocate, reclaim"
MIN_RUN_TIME = "vscheduler.io/min-run-time"
DELAY = "vscheduler.io/eviction-delay"
EVICTED = [evict("busy-3", for_="late"), pipeline("late-0", "n1")]

FULL = """
    node  n1 cpu=4
    queue poor{poor}   queue rich{rich}
    job   rich/busy scheduled=600 n1*4
    job   poor/late age=3600 -
"""
"""The pods on n1 have had their node for ten minutes; `late` has waited for an hour."""


def full(*, poor: str = "", rich: str = "") -> str:
    """Queue `rich` has all, and queue `poor`, with a pod that waits, nothing; with annotations."""
    given = {
        name: f" annotation={text}" if text else ""
        for name, text in (("poor", poor), ("rich", rich))
    }
    return FULL.format(**given)


@pytest.mark.parametrize(
    ("least", "decisions"),
    [("5m", EVICTED), ("10m", EVICTED), ("11m", []), ("soon", [])],
    ids=["over", "just over", "not yet", "can't be read"],
)
def test_pods_of_a_queue_run_for_a_while(least: str, decisions: list[Decision]) -> None:
    """Their Queue says for how long; while that can't be read, they aren't evicted."""
    assert decide(full(rich=f"{MIN_RUN_TIME}={least}"), RECLAIM) == decisions


@pytest.mark.parametrize(
    ("delay", "decisions"),
    [("59m", EVICTED), ("1h", EVICTED), ("61m", []), ("soon", [])],
    ids=["over", "just over", "not yet", "can't be read"],
)
def test_new_nodes_may_come_before_pods_are_evicted(delay: str, decisions: list[Decision]) -> None:
    """The delay counts from when the waiting pod was created."""
    assert decide(full(poor=f"{DELAY}={delay}"), RECLAIM) == decisions


def test_a_queues_settings_are_not_those_of_another_one() -> None:
    """A minimum run time is about pods that would go, a delay about pods that they would go for."""
    assert decide(full(poor=f"{MIN_RUN_TIME}=2h", rich=f"{DELAY}=2h"), RECLAIM) == EVICTED


def test_the_longer_minimum_run_time_counts() -> None:
    """That of the action is for all queues."""
    tree = {
        **running.TREE,
        "actions": RECLAIM,
        "configurations": [{"name": "reclaim", "arguments": {"reclaim.minRuntime": "1h"}}],
    }
    documents = pictures.documents(full(rich=f"{MIN_RUN_TIME}=5m"))
    assert run.simulate(documents, running.policy_of(tree), Options()).evicts == ()


def test_preempt_keeps_to_both() -> None:
    """Within one queue, too, pods run for a while, and new nodes may come first."""
    picture = """
        node  n1 cpu=1
        queue q annotation={setting}
        job   q/low priority=1 scheduled=600 n1
        job   q/high priority=9 age=3600 -
    """
    found = [evict("low-0", for_="high"), pipeline("high-0", "n1")]
    for setting, decisions in (
        (f"{MIN_RUN_TIME}=5m", found),
        (f"{MIN_RUN_TIME}=1h", []),
        (f"{DELAY}=5m", found),
        (f"{DELAY}=2h", []),
    ):
        assert decide(picture.format(setting=setting), "allocate, preempt") == decisions, setting


@pytest.mark.parametrize(
    ("setting", "at"),
    [
        ({"rich": f"{MIN_RUN_TIME}=15m"}, 300.0),
        ({"poor": f"{DELAY}=90m"}, 1800.0),
        ({"rich": f"{MIN_RUN_TIME}=soon"}, None),
        ({"poor": f"{DELAY}=soon"}, None),
    ],
    ids=["minimum run time", "delay", "unreadable run time", "unreadable delay"],
)
def test_a_cycle_is_due_when_pods_may_go(setting: dict[str, str], at: float | None) -> None:
    """Nothing else may happen until then, and at that instant they go."""
    documents = pictures.documents(full(**setting))
    policy = running.policy_of({**running.TREE, "actions": RECLAIM})
    now = pictures.BORN.timestamp()
    wake_at = run.simulate(documents, policy, Options()).last.wake_at
    assert wake_at == (None if at is None else now + at)
    if at is not None:
        at_last = run.simulate(documents, policy, Options(now=now + at)).last
        assert written(at_last) == EVICTED


def test_a_gang_waits_for_the_newest_pod_that_it_lacks() -> None:
    """What its first pod waited for counts as little as what is left to come for a started job."""
    picture = f"""
        node  n1 cpu=4
        queue poor annotation={DELAY}=90m   queue rich
        job   rich/busy n1*4
        job   poor/late min=2 age=3600 - -
    """
    documents = pictures.documents(picture)
    first = next(each for each in documents if each["metadata"]["name"] == "late-0")
    first["metadata"]["creationTimestamp"] = "2026-01-01T08:00:00Z"
    policy = running.policy_of({**running.TREE, "actions": RECLAIM})
    assert run.simulate(documents, policy, Options()).evicts == ()
    group = next(each for each in documents if each["kind"] == "PodGroup" and "late" in str(each))
    group["spec"]["minMember"] = 1
    assert [each.task.name for each in run.simulate(documents, policy, Options()).evicts]


def test_equal_jobs_wait_each_for_its_own_time() -> None:
    """Of jobs made from one template, one whose pod was made anew doesn't hold up the other."""
    picture = f"""
        node  n1 cpu=4
        queue poor annotation={DELAY}=90m   queue rich
        job   rich/busy n1*4
        job   poor/a age=3600 -
        job   poor/b age=3600 -
    """
    documents = pictures.documents(picture)
    pod = next(each for each in documents if each["metadata"]["name"] == "b-0")
    pod["metadata"]["creationTimestamp"] = "2026-01-01T09:30:02Z"
    policy = running.policy_of({**running.TREE, "actions": RECLAIM})
    outcome = run.simulate(documents, policy, Options(cycles=5))
    assert {each.beneficiary for each in outcome.evicts} == {"default/b"}


@pytest.mark.parametrize(
    ("delay", "why"),
    [
        ("90m", "new nodes have until 11:30:00 to come first (vscheduler.io/eviction-delay)"),
        ("soon", "annotation vscheduler.io/eviction-delay of the Queue can't be read"),
    ],
)
def test_the_queue_says_until_when_nodes_may_come(delay: str, why: str) -> None:
    """Its share alone would let it reclaim."""
    documents = pictures.documents(full(poor=f"{DELAY}={delay}"))
    policy = running.policy_of({**running.TREE, "actions": RECLAIM})
    last = run.simulate(documents, policy, Options()).last
    found = next(queue.reclaim for queue in last.queues if queue.name == "poor")
    assert found is not None
    assert (found.waits_until or 0) == math.inf if delay == "soon" else found.waits_until
    assert sentences.reclaim_outlook("poor", found) == (
        "reclaim makes no room, though queue poor has 0 of the 1 cpu it deserves: queue rich has 1 "
        f"cpu more than deserved, but {why}"
    )


@pytest.mark.parametrize(
    ("saved", "victim"),
    [
        ({"busy-1": "2026-01-01T10:55:00Z"}, "busy-1"),
        ({"busy-1": "2026-01-01T10:55:00Z", "busy-2": "2026-01-01T11:56:00+01:00"}, "busy-2"),
        ({"busy-1": "2026-01-01T09:30:00Z"}, "busy-3"),
        ({"busy-1": "this morning", "busy-2": "2026-01-01T10:55:00"}, "busy-3"),
    ],
    ids=["the only one", "the latest", "from before its start", "no times with a zone"],
)
def test_of_equal_pods_the_one_that_loses_least_work_goes(
    saved: dict[str, str], victim: str
) -> None:
    """What has been saved in a checkpoint isn't lost."""
    documents = pictures.documents(full())
    for each in documents:
        if each["metadata"]["name"] in saved:
            annotations = each["metadata"].setdefault("annotations", {})
            annotations["vscheduler.io/checkpointed-at"] = saved[each["metadata"]["name"]]
    policy = running.policy_of({**running.TREE, "actions": RECLAIM})
    assert [each.task.name for each in run.simulate(documents, policy, Options()).evicts] == [
        victim
    ]


def test_of_equal_gangs_the_one_that_loses_least_work_goes() -> None:
    """Work of a gang is saved as far as that of each of its pods."""
    picture = """
        node  n1 cpu=2   node n2 cpu=2
        queue poor   queue rich
        job   rich/first min=2 age=7200 n1 n1
        job   rich/second min=2 age=7200 n2 n2
        job   poor/late min=2 - -
    """
    policy = running.policy_of({**running.TREE, "actions": RECLAIM})
    for saved, victims in (({"first-0", "first-1"}, "first"), ({"first-0", "second-0"}, "second")):
        documents = pictures.documents(picture)
        for each in documents:
            if each["metadata"]["name"] in saved | {"second-1"}:
                annotations = each["metadata"].setdefault("annotations", {})
                at = (
                    "2026-01-01T10:30:00Z"
                    if each["metadata"]["name"] in saved
                    else "2026-01-01T10:10:00Z"
                )
                annotations["vscheduler.io/checkpointed-at"] = at
        evicts = run.simulate(documents, policy, Options()).evicts
        assert {each.task.job for each in evicts} == {f"default/{victims}"}


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ({"rich": f"{MIN_RUN_TIME}=2h"}, f"remove {MIN_RUN_TIME}: 2h from queue rich"),
        ({"poor": f"{DELAY}=2h"}, f"remove {DELAY}: 2h from queue poor"),
        ({"rich": f"{DELAY}=2h", "poor": f"{MIN_RUN_TIME}=2h"}, ""),
    ],
    ids=["minimum run time", "delay", "of the other queue"],
)
def test_what_would_start_the_job_names_the_annotation(
    setting: dict[str, str], remedy: str
) -> None:
    """It would start at once, unless it does so anyway."""
    policy = running.policy_of({**running.TREE, "actions": RECLAIM})
    found = remedies.explain(
        run.read(pictures.documents(full(**setting)), policy, Options()), policy, "default/late"
    )
    told = [line for line in wording.lines(found) if "  - remove" in line]
    assert [line.startswith(f"  - {remedy}; 1 pod") for line in told] == ([True] if remedy else [])
