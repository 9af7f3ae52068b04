import pytest

from tests import running
from vscheduler.model.jobs import JobId, TaskId
from vscheduler.model.snapshot import FRESH, Carried, Reported
from vscheduler.testing import pictures

WAYS = {"actions": "allocate, reclaim", "tiers": running.tiers(running.STANDARD)}
BORROWED = """
    node  n1 cpu=2           node n2 cpu=2
    queue gold weight=1      queue lead weight=1
    job   lead/greedy min=1  n1 n1 n2 n2
    job   gold/needy  min=2 phase=Inqueue  - -
"""
GANGS = """
    node  n1 cpu=2           node n2 cpu=2
    queue gold weight=1      queue lead weight=1
    job   lead/one min=2 cpu=1  n1 n1
    job   lead/two min=2 cpu=1  n2 n2
    job   gold/needy min=2 phase=Inqueue  - -
"""


def victims(picture: str, carried: Carried) -> list[str]:
    """Who goes, by name."""
    result = running.run(pictures.documents(picture), WAYS, carried=carried)
    return [evict.task.name for evict in result.evicts]


def uid(picture: str, name: str) -> TaskId:
    """The UID of a pod of the picture."""
    (found,) = (
        task.uid
        for job in running.snapshot_of(pictures.documents(picture)).jobs
        for task in job.tasks
        if task.name == name
    )
    return found


@pytest.mark.parametrize("picture", [BORROWED, GANGS])
def test_a_pod_that_the_server_keeps_is_left_out(picture: str) -> None:
    """Others go in its place; of a gang that would go whole, none does."""
    first = victims(picture, FRESH)
    assert len(first) == 2
    spared = Carried(reported=Reported(eviction_refused_pods=frozenset({uid(picture, first[0])})))
    second = victims(picture, spared)
    assert len(second) == 2
    assert first[0] not in second
    if picture == GANGS:
        assert not set(first) & set(second)


def test_a_job_whose_plans_are_refused_time_and_again_asks_nobody() -> None:
    """For now: who sends evictions says when that is over."""
    denied = Carried(reported=Reported(eviction_refused_jobs=frozenset({JobId("default/needy")})))
    assert victims(BORROWED, denied) == []
