"""Status of a Queue: the figures computed by a single scheduler, and a sentence that explains them.

Server-side apply leaves unnamed fields to their owners. `state` and the pod group counts belong to
the Queue controller. Each scheduler has a condition type of its own.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from vscheduler.mirror import statuses
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.wording import phrases, refusal_sentences, sentences
from vscheduler.model import resources
from vscheduler.model.decisions import (
    Basis,
    Entitlement,
    Exclusion,
    LimitedBy,
    QueueFigures,
    ReasonCode,
)
from vscheduler.model.queues import Tree
from vscheduler.model.resources import ResourceSpace

API_VERSION = "scheduling.volcano.sh/v1beta1"
FAIR_SHARE = "FairShare"
"""The suffix of the condition's type, after the scheduler's name."""

OURS = ("deserved", "request", "realCapability", "share", "schedulers", "conditions")
"""Fields of our CRD that Volcano's CRD lacks."""

NARROW_SECONDS = 600.0
"""How long a CRD with missing fields is assumed to stay like that, in seconds."""

MANAGER_MAX = 128
"""Characters of a field manager's name that the API server allows."""

UNDECLARED = "field not declared in schema"
"""The API server's message, with status 500, when an applied field is missing in the CRD."""

SHARE_DIGITS = 6

LENGTH_MAX = 300
EXCLUSIONS_MAX = 2
NODES_MAX = 2

NO_REQUEST = "NoRequest"
ALL_ASKED = "all that it asks for"
UNCOUNTED_LEAST = 0.5
"""From how much on, in units of resources.ResourceMap, a queue requests more than it deserves."""
SET_ASIDE = str(ReasonCode.SET_ASIDE)

RATIO_DIGITS = 6
"""Fractions of two resources are equal when rounded to this many digits."""

Body = dict[str, Any]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a queue deserves its present amounts."""

    reason: str
    """A single CamelCase word: a decisions.LimitedBy, NO_REQUEST or SET_ASIDE."""
    message: str


def field_manager(scheduler: str) -> str:
    """Return the field manager in whose name a scheduler writes."""
    return scheduler[:MANAGER_MAX]


def condition_type(scheduler: str) -> str:
    """Return the type of this scheduler's condition."""
    return f"{scheduler}/{FAIR_SHARE}"


def schedulers(status: Mapping[str, Any]) -> set[str]:
    """Return the schedulers that have a condition or an entry of their own in a Queue's status."""
    suffix = condition_type("")
    kinds = [str(each.get("type")) for each in status.get("conditions") or ()]
    entries = {str(each.get("name")) for each in status.get("schedulers") or ()}
    return entries | {kind.removesuffix(suffix) for kind in kinds if kind.endswith(suffix)}


def with_subtrees(figures: Sequence[QueueFigures], tree: Tree) -> list[QueueFigures]:
    """Return the figures of all queues, of inner queues with what the queues below them have.

    An inner queue deserves what its children deserve together, unless it deserves something itself.
    """
    allocated = tree.sums({queue.name: queue.allocated for queue in figures})
    requests = tree.sums({queue.name: queue.request for queue in figures})
    others = tree.sums({queue.name: queue.used_by_other_schedulers for queue in figures})
    deserved = tree.sums({queue.name: queue.deserved for queue in figures}, unless_own=True)
    return [
        queue
        if tree.leaf(queue.name)
        else msgspec.structs.replace(
            queue,
            allocated=allocated[queue.name],
            request=requests[queue.name],
            used_by_other_schedulers=others[queue.name],
            entitlement=_of_subtree(queue, allocated[queue.name], deserved[queue.name]),
        )
        for queue in figures
    ]


def _of_subtree(
    queue: QueueFigures, allocated: Mapping[str, float], deserved: Mapping[str, float]
) -> Entitlement | None:
    """Return the entitlement of an inner queue, without bases if it is only its children's sum."""
    own = queue.entitlement
    if own is None or own.deserved == deserved:
        return own
    share = resources.dominant_share(allocated, deserved)
    return msgspec.structs.replace(own, deserved=deserved, share=share, bases={})


def status(queue: QueueFigures, excluded: Sequence[Exclusion], scheduler: str) -> Body:
    """Return the `status` fields that this scheduler owns; the condition has no time yet.

    Figures that no plugin computes are absent. `allocated` counts pods of all schedulers, so every
    scheduler writes the same value. `allocated` is never empty: when an applied map becomes empty,
    the API server removes all earlier keys and then refuses the remaining null.
    """
    allocated = {resources.CPU: 0.0, resources.MEMORY: 0.0, **queue.allocated}
    for name, amount in queue.used_by_other_schedulers.items():
        allocated[name] = allocated.get(name, 0) + amount
    body: Body = {
        "allocated": quantities.format_readable(allocated, whole_bytes=True),
        "request": quantities.format_readable(queue.request, whole_bytes=True),
    }
    entitlement = queue.entitlement
    if entitlement is not None:
        body["deserved"] = quantities.format_readable(entitlement.deserved)
        if math.isfinite(entitlement.share):
            body["share"] = round(entitlement.share, SHARE_DIGITS)
        if entitlement.real_capability is not None:
            body["realCapability"] = quantities.format_readable(entitlement.real_capability)
        body["schedulers"] = [_own(queue, body, scheduler)]
    explained = explanation(queue, excluded)
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


def _own(queue: QueueFigures, body: Body, scheduler: str) -> Body:
    """Return this scheduler's own entry: what its pods use of what it divides."""
    shared: Body = {name: body[name] for name in ("deserved", "share") if name in body}
    held = {resources.CPU: 0.0, **queue.allocated}
    allocated = quantities.format_readable(held, whole_bytes=True)
    return {"name": scheduler, "allocated": allocated, **shared}


def since(status: Body, before: Body | None, now: float) -> Body:
    """Return the status with lastTransitionTime in its condition.

    A condition with unchanged status and reason keeps the time from the status before; a changed
    condition gets `now`, in seconds since the epoch.
    """
    if "conditions" not in status:
        return status
    before_by_type = {each["type"]: each for each in (before or {}).get("conditions") or ()}
    timed = [
        each | {"lastTransitionTime": _since(each, before_by_type.get(each["type"]), now)}
        for each in status["conditions"]
    ]
    return status | {"conditions": timed}


def narrowed(status: Body) -> Body:
    """Return the status without the fields that Volcano's CRD lacks."""
    return {name: value for name, value in status.items() if name not in OURS}


def applied(queue: str, status: Body) -> Body:
    """Return the object for a server-side apply. The API server removes fields applied earlier and
    now absent. An API server would make `null` of an empty status, and refuse that.
    """
    body: Body = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": queue}}
    return {**body, "status": status} if status else body


def explanation(queue: QueueFigures, excluded: Sequence[Exclusion] = ()) -> Explanation | None:
    """Explain the deserved amounts of a queue, in at most LENGTH_MAX characters, and in as many
    why reclaim gives it nothing; None where no plugin computes shares.

    The sentence starts with the resource of which the queue deserves the largest fraction. Further
    resources follow where something other than the request limits them, and finally nodes that no
    pod can use.
    """
    entitlement = queue.entitlement
    if entitlement is None:
        return None
    if entitlement.problem is not None:
        message = sentences.queue_problem(entitlement.problem)
        return Explanation(reason=SET_ASIDE, message=_cut(message))
    bases = {name: each for name, each in entitlement.bases.items() if name != resources.PODS}
    if not _some(queue.request) and all(map(_kept, bases.values())):
        return _idle(queue, entitlement)
    if not bases:
        return None
    first, *others = _by_part(bases)
    lead = bases[first]
    # Pods count in a share only if their queue is open and a node could take them.
    partly = queue.request.get(first, 0) > lead.deserved + UNCOUNTED_LEAST
    parts = [_first(first, lead, partly=partly), *(_also(name, bases[name]) for name in others)]
    parts += [*_unkept(bases), *exclusions(excluded)]
    message = _cut("; ".join(filter(None, parts)))
    if queue.reclaim is not None:
        message = f"{message}; {_cut(sentences.reclaim_outlook(queue.name, queue.reclaim))}"
    return Explanation(reason=str(lead.bound), message=message)


def exclusions(excluded: Sequence[Exclusion]) -> list[str]:
    """Return phrases such as `control-plane not usable: taint gpu` for the first causes, and the
    number of remaining nodes.
    """
    phrases = [
        f"{nodes(each.nodes)} not usable: {refusal_sentences.cause(each.refusal)}"
        for each in excluded[:EXCLUSIONS_MAX]
    ]
    if more := sum(len(each.nodes) for each in excluded[EXCLUSIONS_MAX:]):
        phrases.append(f"{more} more node{'' if more == 1 else 's'} not usable")
    return phrases


def left_out(excluded: Sequence[Exclusion]) -> list[str]:
    """Return a phrase such as `taint gpu: 12 nodes, e.g. n1, n2` for every cause."""
    return [
        f"{refusal_sentences.cause(each.refusal)}: {_examples(each.nodes)}" for each in excluded
    ]


def _examples(names: Sequence[str]) -> str:
    """Return `12 nodes, e.g. n1, n2`."""
    count = f"{len(names)} node{'' if len(names) == 1 else 's'}"
    return f"{count}, e.g. {', '.join(names[:NODES_MAX])}"


def nodes(names: Sequence[str]) -> str:
    """Return `a`, `a and b`, or `a, b and 3 more`."""
    more = len(names) - NODES_MAX
    shown = [*islice(names, NODES_MAX), *([f"{more} more"] if more > 0 else [])]
    return phrases.listed(shown)


def _since(condition: Body, earlier: Body | None, now: float) -> str:
    same = earlier is not None and all(
        earlier.get(name) == condition[name] for name in ("status", "reason")
    )
    then = earlier.get("lastTransitionTime") if earlier is not None and same else None
    return str(then) if then else statuses.timestamp(now)


def _idle(queue: QueueFigures, entitlement: Entitlement) -> Explanation | None:
    """Explain the share of a queue whose pods request nothing: only guarantees are kept for the
    queue.
    """
    deserved = {name: basis.deserved for name, basis in entitlement.bases.items() if basis.deserved}
    if _some(deserved):
        named = [
            f"{phrases.amount(name, deserved[name])} {_name(name)}"
            for name in ResourceSpace.of(deserved).names
            if name in deserved and name != resources.PODS
        ]
        verb = "is" if len(named) == 1 and named[0].startswith("1 ") else "are"
        message = f"{phrases.listed(named)} {verb} kept for it: its guarantee"
    elif _some(entitlement.deserved) or entitlement.share:
        message = ""  # the plugin gives no basis, or the queue only has the sum of its child queues
    else:
        message = "asks for nothing" + (" but places for pods" if queue.request else "")
    message = "; ".join(filter(None, [message, *_unkept(entitlement.bases)]))
    return Explanation(reason=NO_REQUEST, message=_cut(message)) if message else None


def _unkept(bases: Mapping[str, Basis]) -> list[str]:
    """Return phrases such as `its guarantee of 1000 CPU can't be kept, 0 counts: guarantees are
    more than there is`.
    """
    parts = []
    for name in ResourceSpace.of(bases).names:
        basis = bases.get(name)
        if basis is not None and basis.guarantee:
            guarantee, kept = (phrases.amount(name, each) for each in (basis.guarantee, basis.kept))
            parts.append(f"its guarantee of {guarantee} {_name(name)} can't be kept, {kept} counts")
    if parts:
        parts[-1] += ": guarantees are more than there is"
    return parts


def _kept(basis: Basis) -> bool:
    """Whether the whole deserved amount is an unrequested guarantee."""
    return basis.guaranteed or not basis.deserved


def _by_part(bases: Mapping[str, Basis]) -> list[str]:
    """Return the resources by deserved fraction of the usable amount, largest first."""
    names = [name for name in ResourceSpace.of(bases).names if name in bases]

    def part(name: str) -> float:
        basis = bases[name]
        if not basis.usable:
            return float("inf") if basis.deserved else 0.0
        return round(basis.deserved / basis.usable, RATIO_DIGITS)

    return sorted(names, key=lambda name: -part(name))


def _first(name: str, basis: Basis, *, partly: bool) -> str:
    """Return the phrase for the first resource; partly: it requests more than its share counts."""
    if not _there(basis):
        return _nowhere(name)
    deserved, usable = _amounts(name, basis)
    bound = _bound(name, basis)
    if partly and bound.startswith(ALL_ASKED):
        bound = bound.replace(ALL_ASKED, "all that its pods that could start ask for", 1)
    return f"{deserved} of {usable} usable {_name(name)}: {bound}"


def _also(name: str, basis: Basis) -> str:
    """Return the phrase for a resource after the first; empty where the queue gets its whole
    request.
    """
    if not _there(basis):
        return _nowhere(name)
    if basis.bound is LimitedBy.REQUEST:
        return ""
    deserved, usable = _amounts(name, basis)
    return f"{_name(name)} {deserved} of {usable}: {_bound(name, basis)}"


def _amounts(name: str, basis: Basis) -> tuple[str, str]:
    return phrases.amount(name, basis.deserved), phrases.amount(name, basis.usable)


def _bound(name: str, basis: Basis) -> str:
    """Return the limit on the deserved amount, and how much of the amount is on nodes that take no
    more pods.
    """
    phrase = _limit(basis)
    if basis.pinned:
        pinned = phrases.amount(name, basis.pinned)
        phrase += f"; {pinned} of it on nodes that take no more pods"
    return phrase


def _limit(basis: Basis) -> str:
    alone = basis.weights <= basis.weight
    weight = f"weight {basis.weight} of {basis.weights} that want more"
    match basis.bound:
        case LimitedBy.REQUEST:
            guaranteed = "its guarantee, more than it asks for"
            return guaranteed if basis.guaranteed else ALL_ASKED
        case LimitedBy.WEIGHT if alone:
            return "its guarantee" if basis.guaranteed else "all that others leave"
        case LimitedBy.WEIGHT:
            phrase = weight
        case LimitedBy.CAPABILITY:
            phrase = "its capability"
        case LimitedBy.QUOTA:
            return "its guarantee" if basis.guaranteed else "its own; more is borrowed"
        case LimitedBy.ROOT:
            phrase = "root's capability" + ("" if alone else f" is shared by {weight}")
    return f"{phrase}; raised to its guarantee" if basis.guaranteed else phrase


def _there(basis: Basis) -> bool:
    return bool(basis.usable or basis.deserved)


def _nowhere(name: str) -> str:
    return f"no {_name(name)} on any node that its pods could use"


def _name(resource: str) -> str:
    return "CPU" if resource == resources.CPU else resource


def _some(amounts: Mapping[str, float]) -> bool:
    """Whether any resource but pods has a non-zero amount."""
    return any(amount for name, amount in amounts.items() if name != resources.PODS)


def _cut(text: str) -> str:
    return text if len(text) <= LENGTH_MAX else f"{text[: LENGTH_MAX - 1]}…"
