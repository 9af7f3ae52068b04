"""What a search for nodes for a whole gang has shown, in English."""

from vscheduler.core.model import decisions
from vscheduler.mirror import phrases

KINDS_MAX = 3
"""So many kinds of pods are told apart in a sentence."""


def shown(proof: decisions.GangProof) -> list[str]:
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


def _of_one_kind(pods: decisions.PodsOfKind) -> str:
    """Return that one pod is too many."""
    where = f"{pods.nodes} node{'' if pods.nodes == 1 else 's'}"
    fits = "doesn't fit" if pods.count == 1 else "don't fit"
    return (
        f"{phrases.pods(pods.count)}{_role(pods)} with {phrases.request(pods.request)} {fits} "
        f"on the {where} with room for one"
    )


def _kind(pods: decisions.PodsOfKind) -> str:
    """Return `2 pods of role ps with 1 cpu (3 nodes have room for one)`."""
    has = "node has" if pods.nodes == 1 else "nodes have"
    return (
        f"{phrases.pods(pods.count)}{_role(pods)} with {phrases.request(pods.request)} "
        f"({pods.nodes} {has} room for one)"
    )


def _role(pods: decisions.PodsOfKind) -> str:
    return f" of role {pods.role}" if pods.role else ""
