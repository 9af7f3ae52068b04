"""Which victims free enough on a node, and as little more as possible."""

import itertools
import random

import numpy as np

from vscheduler.core.eviction import joint_search


def amounts(*values: tuple[int, ...]) -> list[np.ndarray]:
    """Return one vector for each victim."""
    return [np.array(each, dtype=np.int64) for each in values]


def test_one_small_victim_instead_of_the_preferred_large_one() -> None:
    """The first one is preferred, but larger than necessary."""
    assert joint_search.smallest_first(amounts((3,), (1,), (2,)), np.array([2])) == [2]


def test_few_victims_if_they_free_the_same() -> None:
    """Two pods of 1 free no less than one pod of 2."""
    assert joint_search.smallest_first(amounts((1,), (1,), (2,)), np.array([2])) == [2]


def test_small_victims_come_first() -> None:
    """A queue may lose the last one as long as it has more than its share."""
    assert joint_search.smallest_first(amounts((3,), (1,), (3,)), np.array([4])) == [1, 0]


def test_resources_that_are_not_lacking_do_not_count() -> None:
    """Pods may have as much memory as they like if only cpu is lacking."""
    assert joint_search.smallest_first(amounts((3, 1), (2, 9)), np.array([2, 0])) == [1]


def test_nothing_to_choose() -> None:
    """Nothing is lacking, or all victims together don't suffice."""
    assert joint_search.smallest_first(amounts((3,)), np.array([0])) is None
    assert joint_search.smallest_first(amounts((3,)), np.array([4])) is None
    assert joint_search.smallest_first([], np.array([4])) is None


def test_no_other_choice_frees_less() -> None:
    """Of random victims, by trying all choices."""
    for number in range(200):
        chance = random.Random(f"smallest/{number}")
        pods = [(chance.randint(0, 4), chance.randint(0, 4)) for _ in range(chance.randint(1, 7))]
        lacking = (chance.randint(0, 6), chance.randint(0, 6))
        enough = {}
        for count in range(1, len(pods) + 1):
            for some in itertools.combinations(range(len(pods)), count):
                sums = [sum(pods[each][resource] for each in some) for resource in range(2)]
                if all(sums[resource] >= lacking[resource] for resource in range(2)):
                    parts = [sums[each] / lacking[each] for each in range(2) if lacking[each]]
                    enough[some] = sum(parts)
        found = joint_search.smallest_first(amounts(*pods), np.array(lacking))
        if found is None:
            assert not enough or not any(lacking)
        else:
            assert enough[tuple(sorted(found))] <= min(enough.values()) + 1e-9


def test_the_least_loss_counts_resources_that_are_not_lacking() -> None:
    """By their weights; nothing is lost where nothing is lacking."""
    weights = np.array([1.0, 0.5])
    freed = amounts((3, 0), (2, 4), (1, 0))
    assert joint_search.least_freed(freed, np.array([2, 0]), weights) == 3.0
    assert joint_search.least_freed(freed, np.array([1, 0]), weights) == 1.0
    assert joint_search.least_freed(freed, np.array([0, 3]), weights) == 4.0
    assert joint_search.least_freed(freed, np.array([0, 0]), weights) == 0.0
    assert joint_search.least_freed(freed, np.array([7, 0]), weights) == np.inf
    assert joint_search.least_freed([], np.array([1, 0]), weights) == np.inf
