"""The hook table: Volcano's name, the flag and the combination of answers, for each hook.

The functions below validate answers about nodes, and raise ValueError for invalid answers.
Dispatch.each calls these functions, and treats a ValueError like any failure of the plugin.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from types import NoneType

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.model.decisions import AdmissionFailure, Reason, ShareAfter


class Combine(StrEnum):
    """How the answers of several plugins are combined."""

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


class Hook(msgspec.Struct, frozen=True):
    """One row of the hook table."""

    volcano: str
    flag: str | None
    """The configuration key that disables the hook; None if the hook can't be disabled."""
    combine: Combine
    closed: bool = False
    """Whether a failing plugin keeps the job from being placed; otherwise the plugin abstains."""


HOOKS: Mapping[str, Hook] = {
    "start": Hook("", None, Combine.EVERY),
    "class_nodes": Hook("", "enablePredicate", Combine.ALL),
    "queue_nodes": Hook("", "enablePredicate", Combine.ALL),
    "queue_key": Hook("QueueOrder", "enableQueueOrder", Combine.FIRST_DIFFERENCE),
    "queue_path": Hook("", "enableQueueOrder", Combine.FIRST),
    "job_key": Hook("JobOrder", "enableJobOrder", Combine.FIRST_DIFFERENCE),
    "task_key": Hook("TaskOrder", "enableTaskOrder", Combine.FIRST_DIFFERENCE),
    "job_valid": Hook("JobValid", None, Combine.FIRST, closed=True),
    "job_ready": Hook("JobReady", "enableJobReady", Combine.ALL, closed=True),
    "start_timeout": Hook("", None, Combine.FIRST),
    "recovery_timeout": Hook("", None, Combine.FIRST),
    "job_pipelined": Hook("JobPipelined", "enableJobPipelined", Combine.VOTE),
    "job_starving": Hook("JobStarving", "enableJobStarving", Combine.FIRST_TIER),
    "job_enqueueable": Hook("JobEnqueueable", "enableJobEnqueued", Combine.VOTE),
    "job_enqueued": Hook("JobEnqueued", "enableJobEnqueued", Combine.EVERY),
    "overused": Hook("Overused", "enabledOverused", Combine.ANY, closed=True),
    "allocatable": Hook("Allocatable", "enabledAllocatable", Combine.ALL, closed=True),
    "share_with": Hook("", "enabledAllocatable", Combine.FIRST),
    "queue_limits": Hook("", "enabledAllocatable", Combine.EVERY),
    "preemptive": Hook("Preemptive", "enablePreemptive", Combine.ALL, closed=True),
    "preemptable": Hook("Preemptable", "enablePreemptable", Combine.VICTIMS, closed=True),
    "reclaimable": Hook("Reclaimable", "enableReclaimable", Combine.VICTIMS, closed=True),
    "share_after": Hook("", "enableReclaimable", Combine.FIRST, closed=True),
    "victim_queue_key": Hook("VictimQueueOrder", None, Combine.FIRST_DIFFERENCE),
    "shuffle_victims": Hook("VictimTasks", "enabledVictim", Combine.FIRST_TIER, closed=True),
    "shortages": Hook("", None, Combine.EVERY),
    "filter_nodes": Hook("Predicate", "enablePredicate", Combine.ALL, closed=True),
    "score_nodes": Hook("NodeOrder", "enableNodeOrder", Combine.SUM),
    "score_node_set": Hook("BatchNodeOrder", "enableNodeOrder", Combine.SUM),
    "on_allocate": Hook("AllocateFunc", None, Combine.EVERY),
    "on_deallocate": Hook("DeallocateFunc", None, Combine.EVERY),
    "on_ended": Hook("", None, Combine.EVERY),
    "entitlements": Hook("", None, Combine.LAST),
    "usages": Hook("", None, Combine.LAST),
}
"""All hooks."""

ANSWER_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("job_ready", "job_pipelined", "job_starving", "preemptive"), (bool, np.bool_, NoneType)
    ),
    **dict.fromkeys(("overused", "allocatable"), (bool, np.bool_, str, NoneType)),
    **dict.fromkeys(("preemptable", "reclaimable", "shuffle_victims"), (tuple, list, NoneType)),
    "share_after": (ShareAfter, NoneType),
    "job_enqueueable": (bool, np.bool_, str, AdmissionFailure, NoneType),
    "job_valid": (Reason, str, NoneType),
    "shortages": (tuple, list),
    "queue_limits": (tuple, list, NoneType),
    "share_with": (float, np.floating, int, NoneType),
    "entitlements": (Mapping, NoneType),
    "usages": (Mapping, NoneType),
}
"""The types of valid answers, for hooks whose wrong answers nothing else would notice."""

PERMITS: Mapping[str, tuple[object, ...]] = {
    "job_valid": (None,),
    "overused": (None, False),
    "allocatable": (None, True),
}
"""The answers that refuse nothing, of hooks that keep a job or its pods from starting."""

ANYTHING = (object,)
"""What any other hook may answer."""


def verdicts(answer: Sequence[FilterResult] | None, view: NodeView) -> list[FilterResult]:
    """Validate an answer to filter_nodes: masks must have the size of the view."""
    found = list(answer or ())
    for result in found:
        if not isinstance(result, FilterResult):
            raise TypeError(f"{type(result).__name__} in its list, where a FilterResult is needed")
        for passes in (result.passes, result.later):
            if passes is not None and (passes.shape != (view.size,) or passes.dtype != np.bool_):
                what = f"{passes.dtype} of shape {passes.shape}"
                raise ValueError(f"{result.refusal!r}: {what}, not bool of shape ({view.size},)")
    return found


def one_each(
    answer: Sequence[Hashable] | None, rows: NDArray[np.int64]
) -> Sequence[Hashable] | None:
    """Validate the fingerprints of rows: one value is required for each row."""
    if answer is not None and len(answer) != rows.size:
        raise ValueError(f"{len(answer)} values for {rows.size} rows")
    return answer


def scores(answer: object, view: NodeView) -> NDArray[np.float64] | None:
    """Validate an answer to score_nodes or score_node_set: one finite number for each row."""
    if answer is None:
        return None
    found = np.asarray(answer, dtype=np.float64)
    if found.shape != (view.size,):
        raise ValueError(f"scores of shape {found.shape}, not ({view.size},)")
    if not np.logical_and.reduce(np.isfinite(found)):
        raise ValueError("a score that isn't finite")
    return found
