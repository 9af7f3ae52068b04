"""Whether queues stand well in their tree, and the condition of each that doesn't.

Volcano's webhook refuses such queues; two edits at once, or a webhook that was down, bring them
about all the same, and then one bad queue stops its scheduler. Here it is told where it is, and no
other queue is harmed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from vscheduler.controllers.queues import queue_objects
from vscheduler.core.model import queues, resources
from vscheduler.mirror import wording
from vscheduler.mirror.decode import quantities

TREE = "vscheduler.io/Tree"
"""The condition's type."""

DEPTH_MAX = 5
"""So many queues below each other, root not counted (Volcano: --max-queue-depth)."""

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The tree as it is."""

    paths: Mapping[str, Sequence[str]]
    """Of each queue the ones above it, from root down."""
    problems: Mapping[str, Body]
    """By queue, the condition that says what is to be put right."""


def look(known: Iterable[queue_objects.Queue]) -> Look:
    """The tree that these queues make up."""
    nodes = {
        each.name: queues.Queue(
            name=each.name,
            uid=each.uid,
            created=0,
            parent=each.parent,
            deserved=each.deserved,
            guarantee=each.guarantee,
        )
        for each in known
    }
    tree = queues.tree(nodes, occupied={})
    found: dict[str, Body] = {}
    for name, node in nodes.items():
        problem = tree.problems.get(name)
        if problem is not None:
            found[name] = _condition(str(problem.code), wording.queue_problem(problem))
        elif len(tree.paths[name]) > DEPTH_MAX:
            found[name] = _condition("TooDeep", _too_deep(tree.paths[name]))
        elif name in tree.children and name != queues.ROOT:
            over = _over(node, [nodes[each] for each in tree.children[name]])
            if over is not None:
                found[name] = over
    return Look(paths=tree.paths, problems=found)


def _over(parent: queues.Queue, kids: Sequence[queues.Queue]) -> Body | None:
    """A parent whose children are promised more than it has; what it doesn't name is nothing."""
    for reason, verb, own, theirs in (
        ("ChildrenOverGuarantee", "are guaranteed", parent.guarantee, [k.guarantee for k in kids]),
        ("ChildrenOverDeserved", "deserve", parent.deserved, [k.deserved for k in kids]),
    ):
        for name, amount in sorted(_sum(theirs).items()):
            if amount > own.get(name, 0):
                told, has = (
                    quantities.format_quantity(name, each) for each in (amount, own.get(name, 0))
                )
                message = (
                    f"its child queues together {verb} {told} of {name}, more than its own {has}; "
                    f"lower theirs, or raise its own"
                )
                return _condition(reason, message)
    return None


def _sum(several: Iterable[resources.Amounts]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for each in several:
        total.update(each)
    return total


def _too_deep(path: Sequence[str]) -> str:
    return (
        f"the queue is {len(path)} levels below root ({' > '.join(path)}); "
        f"{DEPTH_MAX} are the most that are allowed; correct spec.parent"
    )


def _condition(reason: str, message: str) -> Body:
    return {"type": TREE, "status": "False", "reason": reason, "message": message}
