"""Gangs in English: what they lack, and what a search for nodes for all pods has shown."""

from collections.abc import Sequence

from vscheduler.core.model.decisions import Reason, Shortage
from vscheduler.core.model.gang_proof import GangProof, PodsOfKind
from vscheduler.core.model.queues import ROOT
from vscheduler.mirror import phrases

KINDS_MAX = 3
"""So many kinds of pods are told apart in a sentence."""

QUEUES_MAX = 3
"""So many queues are named."""


def shown(proof: GangProof) -> list[str]:
    """Return which pods stand in each other's way, or that the search isn't through."""
    if not proof.proved:
        tried = f" in {proof.steps} attempts to place a pod" if proof.steps else ""
        return [f"no place was found for all at once{tried}"]
    if proof.limited:
        return ["no choice of pods that the queue may have finds room at once"]
    if not proof.blocking:
        return ["no choice of nodes has room for all at once"]
    if len(proof.blocking) == 1:
        return [_of_one_kind(proof.blocking[0])]
    words = [_kind(each) for each in proof.blocking[:KINDS_MAX]]
    more = sum(each.count for each in proof.blocking[KINDS_MAX:])
    words += [f"{more} more"] if more else []
    parts = [f"{phrases.listed(words)} don't fit at the same time, however they are placed"]
    return [*parts, "with any one fewer they would"] if proof.irreducible else parts


def over_share(reason: Reason) -> str:
    """Return what the gang lacks, and what its queue may have of it."""
    needs = phrases.listed(
        [phrases.quantity(shortage.resource, shortage.requested) for shortage in reason.shortages]
    )
    more = "more " if reason.lacking < reason.minimum or reason.placed >= reason.minimum else ""
    pods = f"{reason.lacking} {more}pods"
    text = f"needs {needs} for {pods}; {queue_has(reason)}"
    rest = [
        (shortage.resource, max(0.0, shortage.limit - shortage.allocated))
        for shortage in reason.shortages
    ]
    if not any(value for _, value in rest):
        return text
    if len(rest) == 1:  # the sentence has just named the resource
        return f"{text}, which leaves {phrases.amount(*rest[0])}"
    return f"{text}, which leaves {phrases.listed([some(*each) for each in rest])}"


def shortages(reason: Reason, limit: str) -> str:
    """Return `24 cpu of the 25 it deserves and 3 nvidia.com/gpu of the 4`, given `it deserves`.

    If the cluster is the limit, it is what there is to share.
    """
    if all(shortage.whole for shortage in reason.shortages):
        limit = "there are to share"
    has = [
        f"{phrases.quantity(shortage.resource, shortage.allocated)} "
        f"of the {phrases.amount(shortage.resource, shortage.limit)}"
        for shortage in reason.shortages
    ]
    text = f"{phrases.listed([f'{has[0]} {limit}', *has[1:]])}{beside(reason.shortages)}"
    more = [
        phrases.quantity(shortage.resource, shortage.elastic)
        for shortage in reason.shortages
        if shortage.elastic
    ]
    if not more:
        return text
    return f"{text}, besides {phrases.listed(more)} that jobs have beyond their minResources"


def queue_has(reason: Reason) -> str:
    """Return `queue q has 24 cpu of the 25 it may have`."""
    owner = reason.shortages[0].owner
    if owner == ROOT and any(shortage.kept for shortage in reason.shortages):
        return f"all queues together have {shortages(reason, 'they may have')}"
    limit = "it may have" if owner else "it deserves"
    return f"queue {owner or reason.queue} has {shortages(reason, limit)}"


def beside(shortages: Sequence[Shortage]) -> str:
    """Return ` beside the 12 cpu kept for queue a by its guarantee`, or nothing."""
    kept = [
        phrases.quantity(shortage.resource, shortage.kept)
        for shortage in shortages
        if shortage.keepers
    ]
    if not kept:
        return ""
    names = sorted({name for shortage in shortages for name in shortage.keepers})
    more = len(names) - QUEUES_MAX
    shown = [*names[:QUEUES_MAX], *([f"{more} more"] if more > 0 else [])]
    whose = "queue {} by its guarantee" if len(names) == 1 else "queues {} by their guarantees"
    return f" beside the {phrases.listed(kept)} kept for {whose.format(phrases.listed(shown))}"


def some(resource: str, value: float) -> str:
    """Return `8 cpu`, or `no cpu`."""
    return phrases.quantity(resource, value) if value else f"no {resource}"


def _of_one_kind(pods: PodsOfKind) -> str:
    """Return that one pod is too many."""
    which = f"{_role(pods)} with {phrases.request(pods.request)}"
    if not pods.nodes:
        return f"no node takes a pod{which}"
    where = f"{pods.nodes} node{'' if pods.nodes == 1 else 's'}"
    fits = "doesn't fit" if pods.count == 1 else "don't fit"
    return f"{phrases.pods(pods.count)}{which} {fits} on the {where} with room for one"


def _kind(pods: PodsOfKind) -> str:
    """Return `2 pods of role ps with 1 cpu (3 nodes have room for one)`."""
    where = f"{pods.nodes} {'node has' if pods.nodes == 1 else 'nodes have'} room for one"
    return (
        f"{phrases.pods(pods.count)}{_role(pods)} with {phrases.request(pods.request)} "
        f"({where if pods.nodes else 'no node takes one'})"
    )


def _role(pods: PodsOfKind) -> str:
    return f" of role {pods.role}" if pods.role else ""
