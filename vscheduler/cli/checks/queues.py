"""Checks of queues that are valid but ineffective: in their tree, in sums, and under the configured
plugins.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from vscheduler.cli.checks import findings, misspellings, policies
from vscheduler.cli.checks.findings import FindingText
from vscheduler.controllers.queues import queue_objects, queue_reconcile
from vscheduler.core.config.policy import Policy
from vscheduler.core.plugins import drf, gang
from vscheduler.mirror.translate import translation
from vscheduler.mirror.wording import phrases
from vscheduler.model import queues
from vscheduler.model.queues import ProblemCode
from vscheduler.model.resources import ResourceMap, ResourceSpace

Level = findings.Level

WRONG = frozenset({str(ProblemCode.CYCLE)})
"""Defects of a tree whatever further queues the cluster has."""

FIELDS: Mapping[str, str] = {
    "ChildrenOverDeserved": "spec.deserved",
    "ChildrenOverGuarantee": "spec.guarantee.resource",
}
"""The field to correct for a condition about the tree; spec.parent for all remaining conditions."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The given queues, and the configuration they are checked under."""

    known: Mapping[str, queues.Queue]
    named: frozenset[str]
    """Queues in the input; the remaining queues exist in every cluster."""
    configured: Policy
    room: ResourceMap
    """Total resources of the given nodes; empty without any node."""
    autoscaler: bool

    @property
    def tree(self) -> bool:
        """Whether shares follow spec.parent."""
        return policies.has(self.configured, "capacity", "enableHierarchy")

    @property
    def own(self) -> list[queues.Queue]:
        """The queues in the input."""
        return [each for name, each in self.known.items() if name in self.named]


def of_tree(objects: Iterable[queue_objects.Queue]) -> Iterator[FindingText]:
    """Iterate over defects of the tree, as the Queue controller reports them."""
    for name, condition in queue_reconcile.tree_of(objects).problems.items():
        reason = condition["reason"]
        field = FIELDS.get(reason, "spec.parent")
        yield FindingText(
            name,
            field,
            condition["message"],
            level=Level.ERROR if reason in WRONG else Level.WARNING,
        )


def remarks(scene: Scene) -> list[FindingText]:
    """Return all findings about queues except defects of the tree."""
    found = [each for queue in scene.own for each in _unused(scene, queue)]
    found += [amount for queue in scene.own for amount in _amounts(scene, queue)]
    found += [each for queue in scene.own for each in _unknown(scene, queue)]
    found += [each for queue in scene.own for each in _of_inner(scene, queue)]
    found += _root(scene)
    found += _guarantees(scene)
    return found


def _unused(scene: Scene, queue: queues.Queue) -> Iterator[FindingText]:
    """Iterate over fields and annotations that no configured plugin reads."""
    configured = scene.configured
    hierarchy = policies.has(configured, "drf", "enableHierarchy")
    shares = ("proportion", "fairshare")
    if queue.weight != 1 and not (
        hierarchy or any(policies.has(configured, share) for share in shares)
    ):
        message = "has no effect: neither proportion nor fairshare is configured"
        if policies.has(configured, "capacity"):
            message += "; with capacity a queue has what spec.deserved says"
        yield FindingText(queue.name, "spec.weight", message)
    if queue.deserved and not policies.has(configured, "capacity"):
        message = "has no effect: plugin capacity isn't configured"
        yield FindingText(queue.name, "spec.deserved", message)
    if queue.parent not in ("", queues.ROOT) and not scene.tree:
        message = "has no effect on shares: plugin capacity isn't there with enableHierarchy: true"
        yield FindingText(queue.name, "spec.parent", message)
    if queue.node_groups is not None and not policies.has(configured, "nodegroup"):
        message = "has no effect: plugin nodegroup isn't configured"
        yield FindingText(queue.name, "spec.affinity", message)
    for annotation, plugin, there in (
        (drf.HIERARCHY, "drf with enableHierarchy: true", hierarchy),
        (drf.WEIGHTS, "drf with enableHierarchy: true", hierarchy),
        (translation.GROUP_LIMITS, "nodegroup", policies.has(configured, "nodegroup")),
        (gang.RECOVERY, "gang", policies.has(configured, "gang")),
    ):
        if annotation in queue.annotations and not there:
            message = f"annotation {annotation} has no effect: {plugin} isn't configured"
            yield FindingText(queue.name, "metadata.annotations", message)
    problem = translation.eviction_setting_problem(queue.annotations)
    if problem:
        yield FindingText(queue.name, "metadata.annotations", problem, level=Level.ERROR)
    try:
        gang.recovery(queue.annotations)
    except ValueError as error:
        message = f"annotation {gang.RECOVERY}: {error}"
        yield FindingText(queue.name, "metadata.annotations", message, level=Level.ERROR)


def _of_inner(scene: Scene, queue: queues.Queue) -> Iterator[FindingText]:
    """Iterate over settings of queues with child queues that count for queues with jobs only."""
    below = sorted(name for name, each in scene.known.items() if each.parent == queue.name)
    if below and not queue.reclaimable:
        message = (
            "has no effect: only pods are reclaimed, and jobs go to leaf queues; set it for "
            f"{phrases.listed(below)}"
        )
        yield FindingText(queue.name, "spec.reclaimable", message)


def _unknown(scene: Scene, queue: queues.Queue) -> Iterator[FindingText]:
    """Iterate over amounts of resources that no node has."""
    fields = {"spec.capability": queue.capability, "spec.deserved": queue.deserved}
    if not scene.room:  # otherwise _guarantees compares them with the nodes
        fields["spec.guarantee.resource"] = queue.guarantee
    for field, asked in fields.items():
        for name, message in misspellings.unknown_resources(sorted(asked), scene.room):
            yield FindingText(queue.name, f"{field}.{name}", message)


def _amounts(scene: Scene, queue: queues.Queue) -> Iterator[FindingText]:
    """Iterate over misleading amounts."""
    space = ResourceSpace.of(queue.capability)
    unlimited = queue.ceiling(space)
    for column, name in enumerate(space.names):
        if queue.capability.get(name) == 0 and unlimited[column]:
            message = "0 is no limit, but as if it weren't there (as in Volcano); close the queue"
            yield FindingText(queue.name, f"spec.capability.{name}", message)
    lending = policies.has(scene.configured, "capacity") and scene.configured.runs("reclaim")
    others = any(each.deserved for each in scene.known.values())
    if lending and others and not queue.deserved and queue.name != queues.ROOT:
        message = "is missing: all that its pods hold is borrowed, and queues that have one take it"
        yield FindingText(queue.name, "spec.deserved", message)
    if queue.name != queues.ROOT and not _grouped(scene, queue):
        message = "is missing: with plugin nodegroup (strict) the queue uses no node"
        yield FindingText(queue.name, "spec.affinity", message)
    parent = scene.known.get(queue.parent)
    if scene.tree and parent is not None:
        for name, amount in sorted(queue.capability.items()):
            if amount > parent.capability.get(name, amount):
                most = phrases.amount(name, parent.capability[name])
                message = (
                    f"{phrases.amount(name, amount)} can't be reached: its parent {parent.name} "
                    f"has at most {most}"
                )
                yield FindingText(queue.name, f"spec.capability.{name}", message)


def _grouped(scene: Scene, queue: queues.Queue) -> bool:
    """Whether the queue, or an ancestor with a hierarchy, names its node groups, or no queue needs
    to.
    """
    setting = policies.setting_of(scene.configured, "nodegroup")
    if setting is None or not setting.arguments.get("strict", True):
        return True
    above: tuple[str, ...] = ()
    if "enableHierarchy" in setting.flags:
        above = queues.tree(scene.known, occupied={}).paths[queue.name]
    known = (scene.known.get(name) for name in (*above, queue.name))
    return any(each is not None and each.node_groups is not None for each in known)


def _root(scene: Scene) -> Iterator[FindingText]:
    root = scene.known.get(queues.ROOT)
    if root is None or root.name not in scene.named:
        return
    if root.parent:
        message = "root is above all queues and has no parent; leave it out"
        yield FindingText(root.name, "spec.parent", message, level=Level.ERROR)
    if scene.autoscaler and root.capability:
        message = (
            "limits all queues together, however many nodes an autoscaler adds; leave it out "
            "unless that is meant"
        )
        yield FindingText(root.name, "spec.capability", message)


def _guarantees(scene: Scene) -> Iterator[FindingText]:
    """Iterate over guarantees of sibling queues that exceed the available resources in sum."""
    beside = [
        each
        for name, each in scene.known.items()
        if name != queues.ROOT and not (scene.tree and each.parent not in ("", queues.ROOT))
    ]
    guaranteed: Counter[str] = Counter()
    for each in beside:
        guaranteed.update(each.guarantee)
    root = scene.known.get(queues.ROOT)
    bounds: Sequence[tuple[str, ResourceMap]] = (
        ("the capability of root", root.capability if root is not None else {}),
        ("what the nodes given have", scene.room),
    )
    for what, bound in bounds:
        for name, amount in sorted(guaranteed.items()):
            if bound and amount > bound.get(name, 0 if bound is scene.room else amount):
                own = [each.name for each in beside if each.guarantee.get(name)]
                message = (
                    f"guarantees of {phrases.listed(own)} add up to {phrases.amount(name, amount)} "
                    f"{name}, more than {what}, {phrases.amount(name, bound.get(name, 0))}"
                )
                yield FindingText(own[0], f"spec.guarantee.resource.{name}", message)
