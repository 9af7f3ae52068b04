from typing import Any

import pytest

from tests.scenarios import deciding
from tests.scenarios.deciding import Decision
from vscheduler.model.decisions import Bind, CycleResult, Evict
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

JOB = JobId("default/needy")


def task(name: str, job: str = JOB) -> Task:
    """A task of this name."""
    return Task(
        uid=TaskId(name),
        namespace="default",
        name=name,
        job=JobId(job),
        pod_class=PodClass(request={}),
        status=TaskStatus.RUNNING,
        created=0.0,
    )


def cycle(**decided: Any) -> CycleResult:
    """What a cycle decided, nothing unless it is given."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("binds", "pipelined", "evicts", "changeable", "queues"), ()
    )
    return CycleResult(**{**nothing, "total": {}, "carried": FRESH, **decided})


BIND = cycle(binds=(Bind(task=task("needy-0"), node="n1"),))
EVICT = cycle(
    evicts=(
        Evict(
            task=task("greedy-3", "default/greedy"), node="n1", action="reclaim", beneficiary=JOB
        ),
    )
)
NOTHING = cycle()


@pytest.mark.parametrize(
    ("expected", "equal"),
    [
        (deciding.evict("greedy-3"), True),
        (deciding.evict("greedy-3", for_="needy"), True),
        (deciding.evict("greedy-3", "n1", for_="needy"), True),
        (deciding.evict("greedy-3", "n2"), False),
        (deciding.evict("greedy-3", for_="other"), False),
        (deciding.evict("greedy-2"), False),
        (deciding.bind("greedy-3", "n1"), False),
    ],
)
def test_an_eviction_is_compared_by_what_is_said_of_it(expected: Decision, equal: bool) -> None:
    """Its node and whom it is for may be left out."""
    assert (deciding.written(EVICT) == [expected]) is equal


@pytest.mark.parametrize(
    ("leaving", "results", "unchanged"),
    [
        ("n1", [NOTHING, NOTHING, NOTHING, NOTHING], True),
        ("n1", [BIND, NOTHING, NOTHING, NOTHING], True),
        ("n1", [NOTHING, BIND, NOTHING, NOTHING], False),
        ("~n1", [NOTHING, BIND, NOTHING, NOTHING], True),
        ("~n1", [NOTHING, NOTHING, BIND, NOTHING], False),
        ("n1", [EVICT, NOTHING, BIND, NOTHING], True),
        ("n1", [EVICT, NOTHING, NOTHING, BIND], False),
        ("n1", [EVICT, NOTHING, NOTHING, NOTHING], False),
        ("n1", [EVICT, EVICT, BIND, NOTHING], False),
        ("n1", [NOTHING, EVICT, BIND, NOTHING], False),
    ],
)
def test_a_cluster_settles_when_those_who_leave_are_gone(
    leaving: str, results: list[CycleResult], unchanged: bool
) -> None:
    """Evictions come in the first cycle only, and somebody starts for each of them."""
    documents = pictures.documents(f"node n1 cpu=1 queue q job q/j {leaving}")
    if unchanged:
        deciding.settle(documents, results)
    else:
        with pytest.raises(AssertionError):
            deciding.settle(documents, results)
