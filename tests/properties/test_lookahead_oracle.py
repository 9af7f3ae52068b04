import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters
from vscheduler.core.placement import lookahead
from vscheduler.core.placement.lookahead import Lookahead
from vscheduler.core.placement.placement import Placement
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

EVERYTHING = {"actions": "allocate, backfill, preempt, reclaim", "tiers": running.TREE["tiers"]}

PACKING = "gang | predicates proportion nodeorder binpack:binpack.weight=10"

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


@contextmanager
def keeping_nothing() -> Iterator[None]:
    """No answer about a row is used again once the row has changed."""
    kept = Lookahead.get
    Lookahead.get = lambda *_: None  # type: ignore[method-assign]  # only for a while
    try:
        yield
    finally:
        Lookahead.get = kept  # type: ignore[method-assign]  # as it was


def decided(documents: list[Document], tree: Mapping[str, Any]) -> str:
    """What a cycle decides, whatever it cost."""
    result = running.run(documents, tree)
    return running.digest(msgspec.structs.replace(result, work={}, costs={}, spent=0))


@clusters.bounded(100)
@given(clusters.pictures(clusters.LARGE))
def test_what_was_foreseen_decides_as_what_is_asked_anew(picture: str) -> None:
    """With evictions and promises of room between the placements, too."""
    documents = pictures.documents(picture)
    foreseen = decided(documents, EVERYTHING)
    with foreseeing_nothing():
        assert foreseen == decided(documents, EVERYTHING)


@clusters.bounded(80)
@given(strategies.integers(0, 2**32))
def test_pods_that_look_at_each_other_find_nodes_as_they_are(seed: int) -> None:
    """Affinity, anti-affinity, spread and host ports in gangs that packing draws together."""
    chance = random.Random(seed)
    documents = pictures.documents(neighbours_that_pack(chance))
    tree = {"actions": EVERYTHING["actions"], "tiers": running.tiers(PACKING)}
    foreseen = decided(documents, tree)
    with foreseeing_nothing(), keeping_nothing():
        assert foreseen == decided(documents, tree)


def neighbours_that_pack(chance: random.Random) -> str:
    """Half a dozen gangs of up to 12 pods on up to 16 nodes, each with a bond of some kind."""
    lines = ["queue q weight=1", "queue r weight=1"]
    for number in range(chance.randint(2, 16)):
        cpu = chance.choice((2, 4, 4, 8))
        zone, pods = chance.choice("abc"), chance.choice((3, 110))
        labels = f"label=kubernetes.io/hostname=n{number:02} label=zone={zone}"
        lines.append(f"node n{number:02} {labels} cpu={cpu} memory=16Gi pods={pods}")
    for number in range(chance.randint(1, 6)):
        own, other = f"app=a{number % 3}", f"app=a{chance.randrange(3)}"
        bonds = {
            f"apart={own}@host": 3,
            f"apart={other}@host": 2,
            f"apart={own}@zone": 1,
            f"near={own}@host": 1,
            f"near={other}@zone": 1,
            f"spread={own}@host:1": 1,
            f"spread={own}@zone:{chance.randint(1, 2)}": 1,
            "port=8080": 1,
            "": 2,
        }
        (bond,) = chance.choices(list(bonds), list(bonds.values()))
        size = chance.randint(1, 12)
        shape = f"min={chance.randint(1, size)} cpu={chance.choice((1, 1, 2))} memory=1Gi"
        lines.append(f"job {chance.choice('qr')}/j{number} label={own} {bond} {shape} -*{size}")
    return "\n".join(lines)


def test_a_gang_of_equal_pods_finds_each_node_as_it_was_foreseen() -> None:
    """After every pod, each node's score is what one who knows nothing yet works out."""
    opened = running.open_session(pictures.documents(ALIKE), running.TREE)
    (state,) = opened.job_states.values()
    places = []
    with opened.statement() as trial:
        for task in state.job.tasks:
            choice = opened.placement.choose(task)
            assert choice == Placement(opened).choose(task)
            assert choice is not None
            places.append(choice.row)
            trial.allocate(task, choice.row)
    assert len(set(places)) > 3
    asked = opened.work["rows"] + opened.work["ahead"]
    assert asked < len(places) / 2


def test_a_node_is_not_known_by_another_pod_of_the_same_size() -> None:
    """Where one was tried and undone, one is placed that the next must not meet."""
    nodes = "\n".join(
        f"node n{each} cpu=4 label=kubernetes.io/hostname=n{each}" for each in range(9)
    )
    jobs = "job q/shy min=2 cpu=1 apart=app=web@host - - job q/web cpu=1 label=app=web -"
    opened = running.open_session(pictures.documents(f"{nodes} queue q {jobs}"), running.TREE)
    first, second, web = (task for state in opened.job_states.values() for task in state.job.tasks)
    assert web.labels == {"app": "web"}
    assert opened.placement.feasible(first, 3)
    with opened.statement() as trial:
        before = trial.checkpoint()
        trial.allocate(first, 3)
        assert opened.placement.feasible(second, 3)
        trial.rollback(before)
        assert opened.placement.feasible(second, 3)
        trial.allocate(web, 3)
        assert not opened.placement.feasible(second, 3)


def test_the_best_rows_are_those_that_would_be_chosen_next() -> None:
    """The highest scores, and of equal ones the first; never a node that takes no pod."""
    scores = np.array([1.0, 3.0, -np.inf, 2.0, 2.0, 3.0])
    assert sorted(lookahead.best(scores).tolist()) == [0, 1, 3, 4, 5]
    many = np.zeros(3 * lookahead.NODES)
    many[-1] = 1.0
    found = lookahead.best(many).tolist()
    assert sorted(found) == [*range(lookahead.NODES - 1), many.size - 1]
    assert lookahead.best(np.full(4, -np.inf)).size == 0
