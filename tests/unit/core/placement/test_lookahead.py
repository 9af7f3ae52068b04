"""The rows that are evaluated ahead."""

import numpy as np
import pytest

from vscheduler.core.placement import lookahead


@pytest.mark.parametrize("seed", range(40))
def test_the_best_rows_are_the_first_of_a_stable_sort(seed: int) -> None:
    """Whether few nodes have room or all, and whether scores are equal or not."""
    chance = np.random.default_rng(seed)
    size = int(chance.integers(1, 300))
    scores = chance.integers(0, int(chance.choice([1, 5, 1000])), size).astype(float)
    scores[chance.random(size) < chance.choice([0.0, 0.5, 0.95])] = -np.inf
    order = [row for row in np.argsort(-scores, kind="stable").tolist() if scores[row] > -np.inf]
    assert sorted(lookahead.best(scores).tolist()) == sorted(order[: lookahead.NODES])
