import random

from hypothesis import given, strategies

from tests import running
from tests.properties import clusters
from vscheduler.testing import pictures


@clusters.bounded(50)
@given(clusters.pictures(clusters.LARGE), strategies.randoms(use_true_random=False))
def test_the_order_of_arrival_decides_nothing(picture: str, chance: random.Random) -> None:
    """Shuffled manifests give the same decisions, reasons, statuses and figures."""
    documents = pictures.documents(picture)
    shuffled = list(documents)
    chance.shuffle(shuffled)
    first, second = (running.run(each, running.TREE) for each in (documents, shuffled))
    assert running.digest(first) == running.digest(second)


@clusters.bounded(50)
@given(clusters.pictures(clusters.LARGE))
def test_the_same_snapshot_gives_the_same_result(picture: str) -> None:
    """A cycle leaves no trace in its input, and what layouts remember changes nothing."""
    taken = running.snapshot_of(pictures.documents(picture))
    first = running.digest(running.decide(taken, running.TREE))
    assert first == running.digest(running.decide(taken, running.TREE))
    fresh = running.snapshot_of(pictures.documents(picture))
    assert first == running.digest(running.decide(fresh, running.TREE))
