"""All limits of a queue with owned amounts: its own, its ancestors', and guarantees of others.

`QueueUsageTree.exceeded` asks the same for one pod; here the answer holds for any number of pods.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

from vscheduler.core.shares.queue_usage import QueueUsage, QueueUsageTree
from vscheduler.model.decisions import QueueLimit
from vscheduler.model.queues import ROOT


def of(tree: QueueUsageTree, usage: QueueUsage, names: Sequence[str]) -> Iterator[QueueLimit]:
    """Yield the limits that aren't infinite; the topmost queue's come last."""
    for each in usage.line:
        for column, name in enumerate(names):
            if each.limit[column] < math.inf:
                kept = each.kept_beside(column)
                limit = each.limit[column]
                yield QueueLimit(
                    resource=name,
                    room=limit - each.allocated[column],
                    allocated=each.allocated[column],
                    limit=limit,
                    owner=each.name or ROOT,
                    kept=kept,
                    keepers=tree.guaranteed_beside(each, name) if kept else (),
                    whole=not kept and limit < each.ceiling[column],
                )
    for column, name in enumerate(names):
        yield from _beside_guarantees(tree, usage, column, name)


def _beside_guarantees(
    tree: QueueUsageTree, usage: QueueUsage, column: int, name: str
) -> Iterator[QueueLimit]:
    """Yield the limits that guarantees of other queues set."""
    unfelt = 0.0
    for below, above in itertools.pairwise(usage.line):
        # What is within a guarantee is counted at all ancestors already.
        unfelt += below.held[column] - below.owned[column]
        # The unused guarantees of others, a part of what the queues together own.
        if above.owned[column] - unfelt > above.allocated[column]:
            rest = max(0.0, above.space[column] - above.owned[column])
            kept = above.owned[column] - unfelt - above.allocated[column]
            yield QueueLimit(
                resource=name,
                room=unfelt + rest,
                allocated=above.allocated[column],
                limit=max(0.0, above.space[column] - kept),
                owner=above.name or ROOT,
                kept=kept,
                keepers=tree.unused_below(above, usage, column),
            )
