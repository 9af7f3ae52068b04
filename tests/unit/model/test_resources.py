"""What nodes hold, by amounts."""

import numpy as np

from vscheduler.model import resources


def test_copies_are_counted_by_what_is_scarcest() -> None:
    """Other resources than those requested don't matter, and a node below zero holds none."""
    room = np.array([[7, 9, 0], [2, 9, 5], [-4, 9, 5]], dtype=np.int64)
    assert resources.copies(np.array([2, 3, 0], dtype=np.int64), room).tolist() == [3, 1, 0]
