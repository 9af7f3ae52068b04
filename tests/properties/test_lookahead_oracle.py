import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from hypothesis import given

from tests import pictures, running
from tests.properties import clusters
from vscheduler.core.framework import lookahead, placement

EVERYTHING = {"actions": "allocate, backfill, preempt, reclaim", "tiers": running.TREE["tiers"]}

ALIKE = """
    node n0 cpu=8  memory=16Gi pods=110
    node n1 cpu=8  memory=32Gi pods=110
    node n2 cpu=4  memory=64Gi pods=3
    node n3 cpu=8  memory=16Gi pods=110
    node n4 cpu=2  memory=16Gi pods=110
    node n5 cpu=16 memory=16Gi pods=110
    queue q weight=1
    job q/j min=20 cpu=1 memory=1Gi -*20
"""


@contextmanager
def foreseeing_nothing() -> Iterator[None]:
    """Every row is asked about when it has changed, and not before."""
    kept = lookahead.DEPTH
    lookahead.DEPTH = 0
    try:
        yield
    finally:
        lookahead.DEPTH = kept


def decided(documents: list[pictures.Document], tree: Mapping[str, Any]) -> str:
    """What a cycle decides, whatever it cost."""
    result = running.run(documents, tree)
    return running.digest(dataclasses.replace(result, work={}))


@clusters.bounded(100)
@given(clusters.pictures(clusters.LARGE))
def test_what_was_foreseen_decides_as_what_is_asked_anew(picture: str) -> None:
    """With evictions and promises of room between the placements, too."""
    documents = pictures.documents(picture)
    foreseen = decided(documents, EVERYTHING)
    with foreseeing_nothing():
        assert foreseen == decided(documents, EVERYTHING)


def test_a_gang_of_equal_pods_finds_each_node_as_it_was_foreseen() -> None:
    """After every pod, each node's score is what one who knows nothing yet works out."""
    opened = running.open_session(pictures.documents(ALIKE), running.TREE)
    (gang,) = opened.gangs.values()
    places = []
    with opened.statement() as trial:
        for task in gang.job.tasks:
            choice = opened.placement.choose(task)
            assert choice == placement.Placement(opened).choose(task)
            assert choice is not None
            places.append(choice.row)
            trial.allocate(task, choice.row)
    assert len(set(places)) > 3
    asked = opened.work["rows"] + opened.work["ahead"]
    assert asked < len(places) / 2


def test_the_best_rows_are_those_that_would_be_chosen_next() -> None:
    """The highest scores, and of equal ones the first; never a node that takes no pod."""
    scores = np.array([1.0, 3.0, -np.inf, 2.0, 2.0, 3.0])
    assert sorted(lookahead.best(scores).tolist()) == [0, 1, 3, 4, 5]
    many = np.zeros(3 * lookahead.NODES)
    many[-1] = 1.0
    found = lookahead.best(many).tolist()
    assert sorted(found) == [*range(lookahead.NODES - 1), many.size - 1]
    assert lookahead.best(np.full(4, -np.inf)).size == 0
