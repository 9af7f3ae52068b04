"""The line of queues in a tree keeps its order; here the first is sought among all, each time."""

import random

import numpy as np
import pytest

from tests.properties.test_queue_tree_memo import Plain
from vscheduler.core.session.ordering import SortKey, TreeLine
from vscheduler.model.queues import Queue

TURNS = 60


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_the_first_in_line_has_the_smallest_key(seed: int, flat: bool) -> None:
    """Whatever a queue was given in its turn, until a resource is used up, or given back."""
    chance = random.Random(seed)
    plain = Plain(chance, flat=flat)
    tree = plain.planted()
    every = {
        name: Queue(name=name, uid=name, created=chance.choice((1.0, 2.0))) for name in plain.places
    }

    def key(queue: Queue) -> SortKey:
        return (tree.key(queue.name), queue.created, queue.name)

    def plain_key(name: str) -> SortKey:
        return (plain.key(name), every[name].created, name)

    line = TreeLine(key, lambda queue: tree.path(queue.name))
    for queue in every.values():
        line.join(key(queue), queue)
    left = set(every)
    for _ in range(TURNS):
        assert len(line) == len(left)
        if not left:
            break
        queue = line.next()
        assert queue.name == min(left, key=plain_key)
        left.remove(queue.name)
        if chance.random() < 0.1:  # leaves for good, and gets nothing
            continue
        for job in plain.requests[queue.name]:
            amounts = [chance.randint(-min(has, 2), 2) for has in plain.held[job]]
            pairs = zip(plain.held[job], amounts, strict=True)
            plain.held[job] = [has + more for has, more in pairs]
            tree.shift(queue.name, job, np.array(amounts, dtype=np.int64))
        left.add(queue.name)
        line.join(key(queue), queue)
