from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests import running
from vscheduler.daemon.observability import share_gauges
from vscheduler.daemon.observability.share_gauges import Waiting
from vscheduler.model.decisions import (
    Entitlement,
    GroupStatus,
    Pipeline,
    QueueFigures,
    Reason,
    ReasonCode,
)
from vscheduler.model.jobs import PodClass
from vscheduler.model.queues import QueueState
from vscheduler.testing import pictures


def queue(*, allocated: Mapping[str, float], deserved: Mapping[str, float] | None) -> QueueFigures:
    """A queue's figures; without an entitlement where nothing says what it deserves."""
    return QueueFigures(
        name="lab",
        state=QueueState.OPEN,
        weight=1,
        allocated=allocated,
        request={},
        entitlement=None if deserved is None else Entitlement(deserved=deserved),
    )


def pod(**request: int) -> PodClass:
    """Pods that ask for this, and a slot."""
    return PodClass(request={**request, "pods": 1})


def test_a_queue_lacks_pods_that_its_share_has_room_for() -> None:
    """As many of them as it deserves; what it has counts towards its demand."""
    lab = queue(allocated={"cpu": 1000}, deserved={"cpu": 4000.0})
    lacks = share_gauges.missing(lab, {pod(cpu=1000): 8})
    assert lacks == {"cpu": 3000}
    assert share_gauges.demand_in_share(lab, lacks) == {"cpu": 4000}


def test_a_queue_that_asks_for_little_has_no_more_demand() -> None:
    """The rest of its share is lent."""
    lab = queue(allocated={"cpu": 1000}, deserved={"cpu": 4000.0})
    assert share_gauges.missing(lab, {pod(cpu=1000): 1}) == {"cpu": 1000}
    assert share_gauges.missing(lab, {}) == {}
    assert share_gauges.demand_in_share(lab, {}) == {"cpu": 1000}


def test_a_queue_that_has_its_scarce_resource_lacks_no_other() -> None:
    """All want CPU, and nobody shares out memory: each deserves all that it asks for of it."""
    lab = queue(allocated={"cpu": 4000, "memory": 4}, deserved={"cpu": 4000.0, "memory": 9.0})
    assert share_gauges.missing(lab, {pod(cpu=1000, memory=1): 5}) == {}
    other = {pod(cpu=1000, memory=1): 5, pod(memory=2): 5}
    assert share_gauges.missing(lab, other) == {"memory": 4}


@pytest.mark.parametrize(("deserved", "lacks"), [(4999.9995, 1000), (4999, 0), (4500, 0)])
def test_no_part_of_a_pod_is_lacking(deserved: float, lacks: float) -> None:
    """A share that ends within a pod is met; one that is a fraction short of it has room."""
    lab = queue(allocated={"cpu": 4000}, deserved={"cpu": deserved})
    assert share_gauges.missing(lab, {pod(cpu=1000): 5}).get("cpu", 0) == lacks


def test_what_is_not_deserved_at_all_is_not_looked_at() -> None:
    """A queue may deserve GPUs only; pods that hold none of what it deserves are no demand."""
    lab = queue(allocated={"cpu": 9000}, deserved={"gpu": 2.0})
    assert share_gauges.missing(lab, {pod(cpu=1000, gpu=1): 5}) == {"gpu": 2}
    assert share_gauges.missing(lab, {pod(cpu=1000): 5}) == {}
    assert share_gauges.missing(queue(allocated={}, deserved=None), {pod(cpu=1000): 5}) == {}


def test_a_queue_above_its_share_lacks_nothing() -> None:
    """What it has beyond its share is no part of its demand within it."""
    lab = queue(allocated={"cpu": 9000}, deserved={"cpu": 4000.0, "pods": 0.0})
    assert share_gauges.missing(lab, {pod(cpu=1000): 5}) == {}
    assert share_gauges.demand_in_share(lab, {}) == {"cpu": 4000}


def test_pods_that_wait_for_others_to_go_are_waiting() -> None:
    """They have no node yet; those of a job that are done or failed aren't."""
    (job,) = running.snapshot_of(
        pictures.documents("node n1 cpu=1\nqueue lab\njob lab/waits min=1 -")
    ).jobs
    group = GroupStatus(
        job=job.id,
        uid=job.uid,
        queue="lab",
        phase=job.phase,
        running=0,
        succeeded=1,
        failed=2,
        ready=False,
        reason=Reason(code=ReasonCode.WAITS_FOR_RELEASE, queue="lab", tasks=4, placed=2),
    )
    (task,) = job.tasks
    waits = Pipeline(task=task, node="n1")
    result = replace(running.EMPTY, changeable=(group,), pipelined=(waits,))
    assert share_gauges.waiting(result) == {
        "lab": Waiting(groups=1, pods=1, classes={task.pod_class: 1})  # type: ignore[arg-type]  # equal to a Counter
    }


def test_nothing_waits_in_a_queue_whose_jobs_have_no_reason_to() -> None:
    """Such a queue isn't in it."""
    assert share_gauges.waiting(running.EMPTY) == {}
