"""Queues that cap run times: pods whose time is up are ended, and no others."""

from typing import Any

import pytest

from tests import running
from vscheduler.core import cycle
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import OVERDUE, CycleResult
from vscheduler.model.snapshot import FRESH, Carried, Reported
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

CAP = "vscheduler.io/run-time-cap"
RUN_TIME = "annotation=vscheduler.io/max-run-time"


def cycled(picture: str, seconds: float = 0.0, carried: Carried = FRESH) -> CycleResult:
    """One cycle, so many seconds later."""
    rules = running.policy_of({**running.TREE, "actions": "enqueue, allocate, backfill, reclaim"})
    given = run.read(pictures.documents(picture), rules, Options())
    return cycle.run_cycle(given.mirror.snapshot(given.now + seconds, carried), rules)


def world(cap: str, job: str = "", pods: str = "n1 n1") -> str:
    """A job that has run for ten minutes, in a queue with this annotation."""
    return f"""
        node  n1 cpu=4
        queue q annotation={cap}
        job   q/old min=2 scheduled=600 {job} {pods}
        """


def ended(result: CycleResult) -> list[str]:
    """The pods that are ended."""
    assert all(evict.action == OVERDUE for evict in result.evicts)
    return [evict.task.name for evict in result.evicts]


@pytest.mark.parametrize(
    ("cap", "job", "after"),
    [
        (f"{CAP}=15m", "", 300.0),
        (f"{CAP}=15m", f"{RUN_TIME}=12m", 120.0),
        (f"{CAP}=15m", f"{RUN_TIME}=1h", 300.0),
        (f"{CAP}=15m", "preemptable=false", 300.0),
        (f"{CAP}=soon", "", None),
        (f"{CAP}=0s", "", None),
        ("vscheduler.io/max-run-time=11m", f"{RUN_TIME}=11m", None),
    ],
)
def test_pods_are_ended_when_their_time_is_up(cap: str, job: str, after: float | None) -> None:
    """The next cycle is at that instant; only a queue with a cap ends pods."""
    picture = world(cap, job)
    first = cycled(picture)
    assert ended(first) == []
    if after is None:
        assert ended(cycled(picture, 86400.0, first.carried)) == []
        return
    assert first.wake_at == pictures.BORN.timestamp() + after
    assert ended(cycled(picture, after - 1, first.carried)) == []
    assert ended(cycled(picture, after, first.carried)) == ["old-0", "old-1"]


def test_no_budget_lets_a_pod_run_on() -> None:
    """And a new process, which remembers nothing, decides the same."""
    picture = world(f"{CAP}=5m", "label=app=db") + "budget calm select=app=db allowed=0"
    assert ended(cycled(picture)) == ["old-0", "old-1"]


def test_a_pod_is_ended_once() -> None:
    """One that is terminating, or that the API server wouldn't delete, is left alone."""
    assert ended(cycled(world(f"{CAP}=5m", pods="~n1 n1"))) == ["old-1"]
    (first, second) = cycled(world(f"{CAP}=5m")).evicts
    reported = Reported(eviction_refused_pods=frozenset({first.task.uid}))
    assert ended(cycled(world(f"{CAP}=5m"), carried=Carried(reported=reported))) == [
        second.task.name
    ]


@pytest.mark.parametrize(("cap", "before", "after"), [("30m", 0, 600), ("16m", -300, -120)])
def test_pods_are_warned_ten_minutes_before(cap: str, before: float, after: float) -> None:
    """Or after half of their time, if that is later; with a cycle at that instant."""
    picture = world(f"{CAP}={cap}")
    early = cycled(picture, before)
    assert early.ends_soon == ()
    assert early.wake_at == pictures.BORN.timestamp() + after
    late = cycled(picture, after, early.carried)
    assert [pod.task.name for pod in late.ends_soon] == ["old-0", "old-1"]
    assert late.wake_at == late.ends_soon[0].at
    assert cycled(picture, 3600.0, late.carried).ends_soon == ()


def test_it_is_told_before_and_after() -> None:
    """In the events of the bind, of the last minutes, and of the end."""
    waiting = world(f"{CAP}=5m").replace("scheduled=600", "").replace("n1 n1", "- -")
    bound = cycled(waiting).binds[0]
    assert statuses.bound_notice(bound).message == (
        f"Successfully assigned default/old-0 to n1; it will be ended if it runs for 5m ({CAP})"
    )
    soon = cycled(world(f"{CAP}=11m")).ends_soon[0]
    assert sentences.ends_soon(soon) == (
        f"will be ended at 2026-01-01 11:01:00 UTC, when it has run for 11m ({CAP})"
    )
    evict = cycled(world(f"{CAP}=5m")).evicts[0]
    (job,) = running.snapshot_of(pictures.documents(world(f"{CAP}=5m"))).jobs
    assert sentences.evicted(evict, job) == f"evicted from n1 by {CAP}, as it ran for 5m"


def test_promised_starts_rest_on_caps() -> None:
    """Pods of unknown run times end by then at the latest."""
    picture = f"""
        node  n1 cpu=2
        queue q annotation={CAP}=20m
        job   q/busy scheduled=600 n1
        job   q/big min=2 age=50 - -
    """
    tree: dict[str, Any] = {
        **running.TREE,
        "actions": "enqueue, allocate",
        "configurations": [{"name": "allocate", "arguments": {"allocate.backfill": "easy"}}],
    }
    rules = running.policy_of(tree)
    given = run.read(pictures.documents(picture), rules, Options())
    result = cycle.run_cycle(given.mirror.snapshot(given.now, FRESH), rules)
    (promise,) = result.carried.reservations
    assert promise.start == pictures.BORN.timestamp() + 600
    assert promise.until == promise.start + 1200
