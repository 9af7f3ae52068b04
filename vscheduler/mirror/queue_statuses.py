"""What is written to a Queue's status: the figures that one scheduler works out, and why.

Server-side apply leaves what it doesn't name to others: `state` and the counts are a controller's,
and each scheduler has a condition of its own.
"""

import math
from collections.abc import Sequence
from typing import Any

from vscheduler.core.model import decisions, resources
from vscheduler.mirror import queue_status, statuses
from vscheduler.mirror.decode import quantities

API_VERSION = "scheduling.volcano.sh/v1beta1"
FAIR_SHARE = "FairShare"
"""What the condition's type ends in, after the scheduler's name."""

OURS = ("deserved", "request", "realCapability", "share", "conditions")
"""Fields that Volcano's own CRD doesn't have."""

NARROW_SECONDS = 600.0
"""How long a CRD that lacks fields is taken to lack them."""

UNDECLARED = "field not declared in schema"
"""What the API server says, with status 500, of an apply with a field that the CRD doesn't have."""

SHARE_DIGITS = 6

Body = dict[str, Any]


def condition_type(scheduler: str) -> str:
    """The type of this scheduler's condition."""
    return f"{scheduler}/{FAIR_SHARE}"


def status(
    queue: decisions.QueueFigures, excluded: Sequence[decisions.Exclusion], scheduler: str
) -> Body:
    """The fields of `status` that are this scheduler's, its condition without its time.

    What no plugin works out isn't there. `allocated` counts pods of all schedulers, so that each
    of them writes the same. It is never empty: a server that is told of no amounts any more takes
    away those that it was told of before, and refuses the null that is left.
    """
    held = {resources.CPU: 0.0, resources.MEMORY: 0.0, **queue.allocated}
    for name, amount in queue.elsewhere.items():
        held[name] = held.get(name, 0) + amount
    body: Body = {
        "allocated": quantities.format_amounts(held),
        "request": quantities.format_amounts(queue.request),
    }
    entitlement = queue.entitlement
    if entitlement is not None:
        body["deserved"] = quantities.format_amounts(entitlement.deserved)
        if math.isfinite(entitlement.share):
            body["share"] = round(entitlement.share, SHARE_DIGITS)
        if entitlement.real_capability is not None:
            body["realCapability"] = quantities.format_amounts(entitlement.real_capability)
    explained = queue_status.explanation(queue, excluded)
    if explained is not None:
        body["conditions"] = [
            {
                "type": condition_type(scheduler),
                "status": "True",
                "reason": explained.reason,
                "message": explained.message,
            }
        ]
    return body


def since(status: Body, before: Body | None, now: float) -> Body:
    """The same with the condition's lastTransitionTime: that of the status before, where the
    condition had the same status and reason then, else now, in seconds since the epoch.
    """
    if "conditions" not in status:
        return status
    known = {each["type"]: each for each in (before or {}).get("conditions") or ()}
    timed = [
        each | {"lastTransitionTime": _since(each, known.get(each["type"]), now)}
        for each in status["conditions"]
    ]
    return status | {"conditions": timed}


def narrowed(status: Body) -> Body:
    """What a CRD that lacks our fields has a place for."""
    return {name: value for name, value in status.items() if name not in OURS}


def applied(queue: str, status: Body) -> Body:
    """The object to apply. What was applied before and isn't in it any more is removed."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {"name": queue},
        "status": status,
    }


def _since(condition: Body, known: Body | None, now: float) -> str:
    same = known is not None and all(
        known.get(name) == condition[name] for name in ("status", "reason")
    )
    then = known.get("lastTransitionTime") if known is not None and same else None
    return str(then) if then else statuses.timestamp(now)
