"""What a Queue's status, marks and finalizer should be: all of it from what is known now.

A Queue is closed when its owner wants it closed, when one above it is closed, or while it is being
deleted: a Closing one still holds PodGroups, a Closed one doesn't. What its owner wants stands in
an annotation; where there is none, the state that is stored goes on, so that what Volcano has
closed stays closed. Volcano: queue controller, state package.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from vscheduler.controllers.queues import queue_objects
from vscheduler.core.model import queues, resources
from vscheduler.mirror import queue_status, wording
from vscheduler.mirror.decode import quantities

OPEN, CLOSED, CLOSING = (
    str(state)
    for state in (queues.QueueState.OPEN, queues.QueueState.CLOSED, queues.QueueState.CLOSING)
)
NAMED = 3
"""So many child queues are named in a message; of more, their number is told."""

DEPTH_MAX = 5
"""So many queues below each other, root not counted (Volcano: --max-queue-depth)."""

TREE = "vscheduler.io/Tree"
IN_USE = "vscheduler.io/InUse"
WANTED_STATE = "vscheduler.io/WantedState"
"""Types of the conditions; each is there only while there is something to say."""

Body: TypeAlias = dict[str, Any]
Counts: TypeAlias = Mapping[str, int]
"""PodGroups of a queue by the status field in which they count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Queues by their parents, as they are."""

    paths: Mapping[str, Sequence[str]]
    """Of each queue the ones above it, from root down."""
    problems: Mapping[str, Body]
    """By queue, the condition that says what is to be put right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a Queue should be."""

    status: Body
    """State, counts and conditions, in the order of their types and without their times."""
    closed_by_parent: bool
    """Whether it carries the mark that it is closed only because one above it is."""
    held: bool
    """Whether it holds PodGroups or child queues, and carries the finalizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Change annotations and finalizers of that very version."""

    patch: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Write this status."""

    status: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Nothing holds it any more, as far as is known: look again, then let it be deleted."""


Step: TypeAlias = Mark | Tell | Release


def plans(
    known: Mapping[str, queue_objects.Queue], counts: Mapping[str, Counts]
) -> dict[str, Plan]:
    """The plan for each Queue by name."""
    tree = tree_of(known.values())
    below = children(known.values())
    found = {}
    for name, queue in known.items():
        held, kids = counts.get(name, {}), below.get(name, ())
        above = _closed_above(known, tree.paths[name])
        closed = wants_closed(queue) or bool(above) or queue.deleting
        jobs = sum(held.values())
        status: Body = {"state": (CLOSING if jobs else CLOSED) if closed else OPEN}
        status |= {counter: held.get(counter, 0) for counter in queue_objects.COUNTERS}
        told = [
            each
            for each in (
                _in_use(jobs, kids) if queue.deleting else None,
                tree.problems.get(name),
                _wanted_state(queue, above),
            )
            if each is not None
        ]
        if told:
            status["conditions"] = told
        found[name] = Plan(
            status=status,
            closed_by_parent=bool(above) and not wants_closed(queue),
            held=bool(jobs or kids),
        )
    return found


def next_step(
    queue: queue_objects.Queue, plan: Plan, sent: Mapping[str, Any], now: float
) -> Step | None:
    """What is to be done first so that the Queue becomes what the plan says; None: nothing.

    sent is the status that was last written to it, now is in seconds since the epoch. One step at a
    time, in an order that a crash in between can't harm: the mark that a queue is closed by its
    parent comes before its state, and goes after it, so that it is never taken for one that its
    owner has closed.
    """
    early = _mark(
        queue,
        marked=queue.closed_by_parent or plan.closed_by_parent,
        held=_holds(queue) or (plan.held and not queue.deleting),
    )
    if early is not None:
        return early
    status = queue_status.since(plan.status, dict(sent), now)
    if status != sent or status["state"] != queue.state:
        return Tell(status=status)
    if is_held(queue) and not plan.held:
        return Release()
    return _mark(queue, marked=plan.closed_by_parent, held=_holds(queue) and plan.held)


def only_counts(status: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Whether of these two nothing but the counts differ."""
    return all(status.get(name) == sent.get(name) for name in ("state", "conditions"))


def is_held(queue: queue_objects.Queue) -> bool:
    """Whether the Queue is being deleted, and our finalizer keeps it."""
    return queue.deleting and _holds(queue)


def release(queue: queue_objects.Queue) -> Body:
    """The patch that lets this very version of a Queue be deleted."""
    return _patch(queue, {"finalizers": _finalizers(queue, held=False)})


def wanted(queue: queue_objects.Queue, action: queue_objects.Action) -> Body:
    """The patch that writes down, on that very Queue, what a Command asks for."""
    state = CLOSED if action is queue_objects.Action.CLOSE else OPEN
    annotations = {queue_objects.WANTED_STATE: state}
    return {"metadata": {"uid": queue.uid, "annotations": annotations}}


def wants_closed(queue: queue_objects.Queue) -> bool:
    """Whether the Queue is closed by its owner's wish.

    Without one, by its stored state, unless that comes from a queue above or from its deletion.
    """
    if queue.name == queues.ROOT or queue.wanted == OPEN:
        return False
    if queue.wanted == CLOSED:
        return True
    inherited = queue.closed_by_parent or queue.deleting
    return queue.state in {CLOSED, CLOSING} and not inherited


def tree_of(known: Iterable[queue_objects.Queue]) -> Tree:
    """The tree that these queues make up, and what is wrong in it.

    Volcano's webhook refuses such queues; two edits at once, or a webhook that was down, bring them
    about all the same, and then one bad queue stops its scheduler. Here it is told where it is, and
    no other queue is harmed.
    """
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
            found[name] = _tree_condition(str(problem.code), wording.queue_problem(problem))
        elif len(tree.paths[name]) > DEPTH_MAX:
            found[name] = _tree_condition("TooDeep", _too_deep(tree.paths[name]))
        elif name in tree.children and name != queues.ROOT:
            over = _over(node, [nodes[each] for each in tree.children[name]])
            if over is not None:
                found[name] = over
    return Tree(paths=tree.paths, problems=found)


def children(known: Iterable[queue_objects.Queue]) -> Mapping[str, Sequence[str]]:
    """Names of child queues by that of their parent, which need not exist."""
    below: defaultdict[str, list[str]] = defaultdict(list)
    for queue in known:
        if queue.name != queues.ROOT:
            below[queue.parent or queues.ROOT].append(queue.name)
    return {name: sorted(names) for name, names in below.items()}


def _closed_above(known: Mapping[str, queue_objects.Queue], path: Sequence[str]) -> str:
    """The nearest queue on this path that its owner has closed; empty where there is none."""
    shut = [name for name in path if name in known and wants_closed(known[name])]
    return shut[-1] if shut else ""


def _in_use(jobs: int, kids: Sequence[str]) -> Body | None:
    """What the deletion of a queue waits for."""
    parts = []
    if jobs:
        parts.append("1 PodGroup" if jobs == 1 else f"{jobs} PodGroups")
    if len(kids) == 1:
        parts.append(f"child queue {kids[0]}")
    elif len(kids) <= NAMED and kids:
        parts.append(f"child queues {', '.join(kids[:-1])} and {kids[-1]}")
    elif kids:
        parts.append(f"{len(kids)} child queues ({', '.join(kids[:NAMED])}, ...)")
    if not parts:
        return None
    message = f"the deletion waits for {' and '.join(parts)}"
    return _condition(IN_USE, "True", "PodGroups" if jobs else "ChildQueues", message)


def _wanted_state(queue: queue_objects.Queue, above: str) -> Body | None:
    """Why the queue isn't what its owner wants it to be."""
    annotation = queue_objects.WANTED_STATE
    if queue.wanted not in {"", OPEN, CLOSED}:
        message = f"annotation {annotation} is {queue.wanted[:64]!r}; write Open or Closed"
        return _condition(WANTED_STATE, "False", "Unreadable", message)
    if queue.name == queues.ROOT and queue.wanted == CLOSED:
        message = f"root can't be closed; close queues below it, and remove annotation {annotation}"
        return _condition(WANTED_STATE, "False", "RootStaysOpen", message)
    if above and not wants_closed(queue):
        message = f"queue {above}, which is above this one, is closed; this one opens with it"
        return _condition(WANTED_STATE, "False", "ParentClosed", message)
    return None


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
                return _tree_condition(reason, message)
    return None


def _sum(several: Iterable[resources.ResourceMap]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for each in several:
        total.update(each)
    return total


def _too_deep(path: Sequence[str]) -> str:
    return (
        f"the queue is {len(path)} levels below root ({' > '.join(path)}); "
        f"{DEPTH_MAX} are the most that are allowed; correct spec.parent"
    )


def _tree_condition(reason: str, message: str) -> Body:
    return _condition(TREE, "False", reason, message)


def _condition(kind: str, status: str, reason: str, message: str) -> Body:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _holds(queue: queue_objects.Queue) -> bool:
    return queue_objects.IN_USE in queue.finalizers


def _mark(queue: queue_objects.Queue, *, marked: bool, held: bool) -> Mark | None:
    """The patch that makes mark and finalizer so; None where they are."""
    metadata: Body = {}
    if marked != queue.closed_by_parent:
        value = "true" if marked else None
        metadata["annotations"] = {queue_objects.CLOSED_BY_PARENT: value}
    if held != _holds(queue):
        metadata["finalizers"] = _finalizers(queue, held=held)
    return Mark(patch=_patch(queue, metadata)) if metadata else None


def _finalizers(queue: queue_objects.Queue, *, held: bool) -> list[str]:
    others = [each for each in queue.finalizers if each != queue_objects.IN_USE]
    return [*others, queue_objects.IN_USE] if held else others


def _patch(queue: queue_objects.Queue, metadata: Body) -> Body:
    """A merge patch that is refused where the Queue is another version by now."""
    return {"metadata": {"uid": queue.uid, "resourceVersion": queue.version, **metadata}}
