"""Jobs that are passed over as they have all they need, against cycles that look at all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters, lives
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import Evict
from vscheduler.model.resources import ResourceMap, ResourceSpace
from vscheduler.testing import pictures

EVERYTHING = "enqueue, reclaim, allocate, backfill, preempt"
"""Evictions before placement, too, so that unchanged jobs lose pods while others look on."""

CYCLES = 6


@contextmanager
def looked_at() -> Iterator[None]:
    """Every job is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "waiting_jobs", lambda self: list(self.job_states.values()))
        yield


def history(picture: str, compatibility: str) -> list[str]:
    """Some cycles of a cluster that half of the jobs had for themselves, whatever they cost."""
    life, later = lives.lived_in(picture)
    life.add(later)
    tree = {**lives.TREE, "actions": EVERYTHING}
    if compatibility:
        tree["compatibility"] = compatibility
    results = [life.cycle(tree) for _ in range(CYCLES)]
    return [
        running.digest(msgspec.structs.replace(result, work={}, costs={}, spent=0))
        for result in results
    ]


@clusters.bounded(25)
@given(lives.contested(), strategies.sampled_from(("", "volcano")))
def test_unchanged_jobs_have_nothing_to_ask_for(picture: str, compatibility: str) -> None:
    """Nothing is another in any cycle."""
    passed_over = history(picture, compatibility)
    with looked_at():
        assert passed_over == history(picture, compatibility)


@clusters.bounded(15)
@given(lives.contested())
def test_what_queues_have_and_ask_for_is_that_of_their_jobs(picture: str) -> None:
    """Class by class, or job by job."""
    life, later = lives.lived_in(picture)
    opened = running.open_session([*life.documents, *later], lives.TREE)
    demands, space = opened.demands, opened.space
    assert set(demands.queues) == {state.job.queue for state in opened.job_states.values()}
    for queue in demands.queues:
        theirs = [state.job for state in opened.job_states.values() if state.job.queue == queue]
        for sums, amounts in (
            (demands.held, [job.allocated for job in theirs]),
            (demands.pending, [job.pending for job in theirs]),
            (demands.elastic, [job.elastic for job in theirs]),
        ):
            assert sums[queue] == summed(space, amounts)


def summed(space: ResourceSpace, amounts: list[ResourceMap]) -> list[int]:
    """The slow way."""
    found: list[int] = np.sum([space.vector(amount) for amount in amounts], axis=0).tolist()
    return found


def test_what_is_within_a_groups_minimum_is_not_elastic() -> None:
    """Only of what it names, and no more of it than it has."""
    picture = """
        node n1 cpu=16 memory=64Gi
        queue q
        job q/above min=1 phase=Running cpu=2 minresources=cpu:3 n1 n1
        job q/below min=1 phase=Running cpu=1 minresources=cpu:5 n1
        job q/free min=1 phase=Running cpu=4 n1
    """
    opened = running.open_session(pictures.documents(picture), running.TREE)
    (queue,) = opened.demands.queues
    found = dict(zip(opened.space.names, opened.demands.elastic[queue], strict=True))
    assert found == {"cpu": 1000 + 0 + 4000, "memory": 0, "pods": 2 + 1 + 1}


def test_most_of_a_busy_cluster_is_settled() -> None:
    """Those that run; not those of which a pod waits or is missing, nor one that loses a pod."""
    picture = """
        node n1 cpu=8
        queue q
        job q/runs min=2 phase=Running n1 n1
        job q/grows min=1 phase=Running n1 -
        job q/lacks min=2 phase=Running n1
        job q/half min=3 phase=Inqueue n1 n1
    """
    opened = running.open_session(pictures.documents(picture), running.TREE)
    unchanged = {state.job.name for state in opened.job_states.values() if state.fully_scheduled}
    assert unchanged == {"runs"}
    assert {state.job.name for state in opened.unfinished_jobs()} == {"grows", "lacks", "half"}
    (runs,) = (state for state in opened.job_states.values() if state.fully_scheduled)
    with opened.statement() as trial:
        victim = runs.job.tasks[0]
        trial.evict(Evict(task=victim, node="n1", action="test", beneficiary=None, whole=False))
        assert not runs.fully_scheduled
