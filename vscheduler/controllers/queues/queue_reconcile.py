"""Plans of the Queue controller: the status, annotation and finalizer that a Queue should have.

A Queue is closed when its owner wants the queue closed, when an ancestor is closed, or while the
queue is being deleted. Such a queue is Closing while PodGroups are left in it, and Closed
afterwards. The owner's wish is in an annotation. Without the annotation the stored state counts, so
queues closed by Volcano stay closed. Volcano: queue controller, state package.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_objects import Action
from vscheduler.mirror import queue_status
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.translate import translation
from vscheduler.mirror.wording import phrases, sentences
from vscheduler.model import queues
from vscheduler.model.queues import QueueState
from vscheduler.model.resources import ResourceMap

OPEN, CLOSED, CLOSING = (
    str(state) for state in (QueueState.OPEN, QueueState.CLOSED, QueueState.CLOSING)
)
NAMED = 3
"""How many child queues a message names; a longer list is cut, with the total number."""

DEPTH_MAX = 5
"""Maximal depth of queues below root (Volcano: --max-queue-depth)."""

TREE = "vscheduler.io/Tree"
IN_USE = "vscheduler.io/InUse"
WANTED_STATE = "vscheduler.io/WantedState"
SETTINGS = "vscheduler.io/Settings"
"""Condition types; each condition exists only while it has something to report."""

Body: TypeAlias = dict[str, Any]
Counts: TypeAlias = Mapping[str, int]
"""PodGroups of a queue, and pods without one, by status field."""

NONE: Mapping[str, int] = {}


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The tree of Queues."""

    paths: Mapping[str, Sequence[str]]
    """The ancestors of each queue, from root down."""
    problems: Mapping[str, Body]
    """By queue, the condition that describes a defect of the tree."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The desired status and metadata of a Queue."""

    status: Body
    """State, counts and conditions, sorted by type and without times."""
    closed_by_parent: bool
    """Whether the queue carries the annotation of queues closed only because an ancestor is
    closed.
    """
    held: bool
    """Whether the queue has PodGroups or child queues, and carries the finalizer."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Change annotations and finalizers of exactly the known version."""

    patch: Body


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    """Write this status."""

    status: Body


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """As far as known, the queue is empty: check live lists, then remove the finalizer."""


Step: TypeAlias = Mark | Tell | Release


def plans(
    queues: Mapping[str, queue_objects.Queue],
    counts: Mapping[str, Counts],
    alone: Mapping[str, int] = NONE,
) -> dict[str, Plan]:
    """Return the plan for each Queue, by name; `alone`: how many of those counted are pods without
    a PodGroup.
    """
    tree = tree_of(queues.values())
    below = children(queues.values())
    by_name = {}
    for name, queue in queues.items():
        held, kids = counts.get(name, {}), below.get(name, ())
        above = _closed_above(queues, tree.paths[name])
        closed = wants_closed(queue) or bool(above) or queue.deleting
        jobs = sum(held.values())
        status: Body = {"state": (CLOSING if jobs else CLOSED) if closed else OPEN}
        status |= {counter: held.get(counter, 0) for counter in queue_objects.COUNTERS}
        conditions = [
            each
            for each in (
                _in_use(jobs, alone.get(name, 0), kids) if queue.deleting else None,
                _settings(queue),
                tree.problems.get(name),
                _wanted_state(queue, above),
            )
            if each is not None
        ]
        if conditions:
            status["conditions"] = conditions
        by_name[name] = Plan(
            status=status,
            closed_by_parent=bool(above) and not wants_closed(queue),
            held=bool(jobs or kids),
        )
    return by_name


def next_step(
    queue: queue_objects.Queue, plan: Plan, sent: Mapping[str, Any], now: float
) -> Step | None:
    """Return the next step towards the plan, or None when nothing is left to do.

    `sent` is the status last written to the Queue, `now` is in seconds since the epoch. Steps are
    ordered so that a crash in between is harmless: the annotation for queues closed by an ancestor
    is set before the state, and removed after the state. A queue closed by its ancestor is never
    mistaken for a queue closed by its owner.
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
    """Whether two statuses differ in nothing but counts."""
    return all(status.get(name) == sent.get(name) for name in ("state", "conditions"))


def is_held(queue: queue_objects.Queue) -> bool:
    """Whether the Queue is being deleted and still has our finalizer."""
    return queue.deleting and _holds(queue)


def release(queue: queue_objects.Queue) -> Body:
    """Return the patch that removes our finalizer from exactly the known version."""
    return _patch(queue, {"finalizers": _finalizers(queue, held=False)})


def wanted(queue: queue_objects.Queue, action: Action) -> Body:
    """Return the patch that records the wish of a Command on exactly the known Queue, by UID."""
    state = CLOSED if action is Action.CLOSE else OPEN
    annotations = {queue_objects.WANTED_STATE: state}
    return {"metadata": {"uid": queue.uid, "annotations": annotations}}


def wants_closed(queue: queue_objects.Queue) -> bool:
    """Whether the Queue is closed at its owner's wish.

    Without a recorded wish the stored state decides, unless the state results from an ancestor or
    from the queue's deletion.
    """
    if queue.name == queues.ROOT or queue.wanted == OPEN:
        return False
    if queue.wanted == CLOSED:
        return True
    inherited = queue.closed_by_parent or queue.deleting
    return queue.state in {CLOSED, CLOSING} and not inherited


def tree_of(known: Iterable[queue_objects.Queue]) -> Tree:
    """Return the tree of these queues, and its defects.

    Volcano's webhook refuses defective queues. Concurrent edits, or a webhook outage, can create
    them all the same, and in Volcano a single defective queue then stops the scheduler. Here the
    defect is reported on the queue itself, and all remaining queues work.
    """
    nodes = {
        queue.name: queues.Queue(
            name=queue.name,
            uid=queue.uid,
            created=0,
            parent=queue.parent,
            deserved=queue.deserved,
            guarantee=queue.guarantee,
        )
        for queue in known
    }
    tree = queues.tree(nodes, occupied={})
    bodies: dict[str, Body] = {}
    for name, node in nodes.items():
        problem = tree.problems.get(name)
        if problem is not None:
            bodies[name] = _tree_condition(str(problem.code), sentences.queue_problem(problem))
        elif len(tree.paths[name]) > DEPTH_MAX:
            bodies[name] = _tree_condition("TooDeep", _too_deep(tree.paths[name]))
        elif name in tree.children and name != queues.ROOT:
            over = _overcommitted(node, [nodes[each] for each in tree.children[name]])
            if over is not None:
                bodies[name] = over
    return Tree(paths=tree.paths, problems=bodies)


def children(known: Iterable[queue_objects.Queue]) -> Mapping[str, Sequence[str]]:
    """Return the names of child queues by the name of their parent, which need not exist."""
    below: defaultdict[str, list[str]] = defaultdict(list)
    for queue in known:
        if queue.name != queues.ROOT:
            below[queue.parent or queues.ROOT].append(queue.name)
    return {name: sorted(names) for name, names in below.items()}


def _closed_above(queues: Mapping[str, queue_objects.Queue], path: Sequence[str]) -> str:
    """Return the nearest ancestor on this path that is closed by its owner; empty if none is."""
    shut = [name for name in path if name in queues and wants_closed(queues[name])]
    return shut[-1] if shut else ""


def _in_use(jobs: int, alone: int, kids: Sequence[str]) -> Body | None:
    """Return the condition of a queue whose deletion waits for its contents, or None; `alone`: how
    many of its jobs are pods without a PodGroup.
    """
    parts = []
    groups = jobs - alone
    if groups:
        parts.append("1 PodGroup" if groups == 1 else f"{groups} PodGroups")
    if alone:
        parts.append(f"{phrases.pods(alone)} without a PodGroup")
    if len(kids) == 1:
        parts.append(f"child queue {kids[0]}")
    elif len(kids) <= NAMED and kids:
        parts.append(f"child queues {', '.join(kids[:-1])} and {kids[-1]}")
    elif kids:
        parts.append(f"{len(kids)} child queues ({', '.join(kids[:NAMED])}, ...)")
    if not parts:
        return None
    message = f"the deletion waits for {' and '.join(parts)}"
    reason = "ChildQueues"
    if jobs:
        reason = "PodGroups" if groups else "Pods"
    return _condition(IN_USE, "True", reason, message)


def _settings(queue: queue_objects.Queue) -> Body | None:
    """Return the condition of a queue with a setting that can't be read, or None."""
    if not queue.problem:
        return None
    return _condition(SETTINGS, "False", "Unreadable", queue.problem)


def _wanted_state(queue: queue_objects.Queue, above: str) -> Body | None:
    """Return the condition of a queue whose state differs from its owner's wish, or None."""
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


def _overcommitted(parent: queues.Queue, kids: Sequence[queues.Queue]) -> Body | None:
    """Return the condition of a parent whose children have larger amounts in sum, or None.

    A resource that the parent doesn't name counts as zero.
    """
    for reason, verb, own, theirs in (
        ("ChildrenOverGuarantee", "are guaranteed", parent.guarantee, [k.guarantee for k in kids]),
        ("ChildrenOverDeserved", "deserve", parent.deserved, [k.deserved for k in kids]),
    ):
        for name, amount in sorted(_sum(theirs).items()):
            if amount > own.get(name, 0):
                total, has = (
                    quantities.readable(name, each) for each in (amount, own.get(name, 0))
                )
                message = (
                    f"its child queues together {verb} {total} of {name}, more than its own {has}; "
                    f"lower theirs, or raise its own"
                )
                return _tree_condition(reason, message)
    return None


def _sum(several: Iterable[ResourceMap]) -> Mapping[str, int]:
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
    """Return the step that sets or clears annotation and finalizer; None if both are as desired."""
    metadata: Body = {}
    if marked != queue.closed_by_parent:
        value = "true" if marked else None
        metadata["annotations"] = {translation.CLOSED_BY_PARENT: value}
    if held != _holds(queue):
        metadata["finalizers"] = _finalizers(queue, held=held)
    return Mark(patch=_patch(queue, metadata)) if metadata else None


def _finalizers(queue: queue_objects.Queue, *, held: bool) -> list[str]:
    foreign = [finalizer for finalizer in queue.finalizers if finalizer != queue_objects.IN_USE]
    return [*foreign, queue_objects.IN_USE] if held else foreign


def _patch(queue: queue_objects.Queue, metadata: Body) -> Body:
    """Return a merge patch that the API server refuses after a concurrent change of the Queue."""
    return {"metadata": {"uid": queue.uid, "resourceVersion": queue.version, **metadata}}
