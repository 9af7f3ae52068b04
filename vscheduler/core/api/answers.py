"""Answers: what plugins may say about nodes. Each check raises ValueError for what isn't right.

Dispatch.each takes these checks, and has whoever fails one counted as a plugin that failed.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts


def verdicts(
    answer: Sequence[contracts.Verdict] | None, view: contracts.NodeView
) -> list[contracts.Verdict]:
    """Of filter_nodes: masks as long as the view."""
    found = list(answer or ())
    for verdict in found:
        for passes in (verdict.passes, verdict.later):
            if passes is not None and (passes.shape != (view.size,) or passes.dtype != np.bool_):
                what = f"{passes.dtype} of shape {passes.shape}"
                raise ValueError(f"{verdict.refusal!r}: {what} where bool of ({view.size},) is due")
    return found


def one_each(
    answer: Sequence[Hashable] | None, rows: NDArray[np.int64]
) -> Sequence[Hashable] | None:
    """Of row_outlook: as many as there are rows."""
    if answer is not None and len(answer) != rows.size:
        raise ValueError(f"{len(answer)} answers about {rows.size} rows")
    return answer


def scores(answer: object, view: contracts.NodeView) -> NDArray[np.float64] | None:
    """Of score_nodes and score_node_set: a finite number for each row of the view."""
    if answer is None:
        return None
    found = np.asarray(answer, dtype=np.float64)
    if found.shape != (view.size,):
        raise ValueError(f"scores of shape {found.shape} where ({view.size},) is due")
    if not np.isfinite(found).all():
        raise ValueError("a score that is no finite number")
    return found
