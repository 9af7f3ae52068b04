"""What a NodeLayout remembers."""

from functools import partial

import numpy as np
import pytest

from vscheduler.model import nodes
from vscheduler.model.nodes import Mask, NodeLayout, NodeSpec


def test_a_layout_remembers_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever new keys push out the oldest answers, and an answer that is kept isn't worked out."""
    monkeypatch.setattr(nodes, "MEMO_CELLS_MAX", 0)
    layout = NodeLayout([NodeSpec(name="n1")])
    asked: list[int] = []

    def answer(key: int) -> Mask:
        asked.append(key)
        return np.ones(1, dtype=np.bool_)

    for key in (*range(65), 64, 0):
        layout.memo(key, partial(answer, key))
    assert asked == [*range(65), 0]
