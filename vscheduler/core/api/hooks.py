"""The hook table: every hook of contracts.Hooks, which flag switches it, how answers combine.

Below are checks of what plugins may say about nodes. Each raises ValueError for what isn't right;
Dispatch.each takes these checks, and has whoever fails one counted as a plugin that failed.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts


class Combine(StrEnum):
    """How the answers of several plugins become one."""

    FIRST_DIFFERENCE = "first difference over tiers"
    FIRST = "first that isn't None"
    FIRST_TIER = "all of the first tier that answers"
    VICTIMS = "vetoes, and the first tier that entitles"
    ALL = "all must agree"
    ANY = "any"
    VOTE = "a reject loses; a tier with a permit decides"
    SUM = "sum"
    EVERY = "all are called"
    LAST = "last that answers"


@dataclass(frozen=True, slots=True)
class Hook:
    """One row of the hook table."""

    volcano: str
    flag: str | None
    """The configuration key that switches it off; None: it can't be."""
    combine: Combine
    closed: bool = False
    """When the plugin fails here, the job in question isn't placed; else it abstains."""


HOOKS: Mapping[str, Hook] = {
    "start": Hook("", None, Combine.EVERY),
    "class_nodes": Hook("", "enablePredicate", Combine.ALL),
    "queue_nodes": Hook("", "enablePredicate", Combine.ALL),
    "queue_key": Hook("QueueOrder", "enableQueueOrder", Combine.FIRST_DIFFERENCE),
    "job_key": Hook("JobOrder", "enableJobOrder", Combine.FIRST_DIFFERENCE),
    "task_key": Hook("TaskOrder", "enableTaskOrder", Combine.FIRST_DIFFERENCE),
    "job_valid": Hook("JobValid", None, Combine.FIRST, closed=True),
    "job_ready": Hook("JobReady", "enableJobReady", Combine.ALL, closed=True),
    "start_timeout": Hook("", None, Combine.FIRST),
    "job_pipelined": Hook("JobPipelined", "enableJobPipelined", Combine.VOTE),
    "job_starving": Hook("JobStarving", "enableJobStarving", Combine.FIRST_TIER),
    "job_enqueueable": Hook("JobEnqueueable", "enableJobEnqueued", Combine.VOTE),
    "job_enqueued": Hook("JobEnqueued", "enableJobEnqueued", Combine.EVERY),
    "overused": Hook("Overused", "enabledOverused", Combine.ANY, closed=True),
    "allocatable": Hook("Allocatable", "enabledAllocatable", Combine.ALL, closed=True),
    "preemptive": Hook("Preemptive", "enablePreemptive", Combine.ALL, closed=True),
    "preemptable": Hook("Preemptable", "enablePreemptable", Combine.VICTIMS, closed=True),
    "reclaimable": Hook("Reclaimable", "enableReclaimable", Combine.VICTIMS, closed=True),
    "share_after": Hook("", "enableReclaimable", Combine.FIRST, closed=True),
    "victim_queue_key": Hook("VictimQueueOrder", None, Combine.FIRST_DIFFERENCE),
    "shuffle_victims": Hook("VictimTasks", "enabledVictim", Combine.FIRST_TIER, closed=True),
    "shortages": Hook("", None, Combine.EVERY),
    "filter_nodes": Hook("Predicate", "enablePredicate", Combine.ALL, closed=True),
    "outlook": Hook("", None, Combine.EVERY),
    "row_outlook": Hook("", None, Combine.EVERY),
    "score_nodes": Hook("NodeOrder", "enableNodeOrder", Combine.SUM),
    "score_node_set": Hook("BatchNodeOrder", "enableNodeOrder", Combine.SUM),
    "on_allocate": Hook("AllocateFunc", None, Combine.EVERY),
    "on_deallocate": Hook("DeallocateFunc", None, Combine.EVERY),
    "entitlements": Hook("", None, Combine.LAST),
    "usages": Hook("", None, Combine.LAST),
}
"""Every hook: its name in Volcano, the flag that switches it, how answers combine."""


def verdicts(
    answer: Sequence[contracts.FilterResult] | None, view: contracts.NodeView
) -> list[contracts.FilterResult]:
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
