"""Nodegroup: which groups of nodes a queue uses, and how much of each.

Volcano: plugins/nodegroup. A node is in the group that its label names; a queue names groups in
spec.affinity, and may have limits in them by annotation.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts
from vscheduler.core.model import jobs, queues, resources
from vscheduler.core.model import nodes as tables

LABEL = "volcano.sh/nodegroup-name"
REQUIRED_SCORE = 100.0
PREFERRED_SCORE = 50.0
AVOIDED_SCORE = -1.0

UNREADABLE = "node(s) were refused, since the limits of queue {queue} can't be read ({problem})"
UNGROUPED = "node(s) were in no node group"
FOREIGN = "node(s) were in a node group that isn't for queue {queue}"
USED_UP = "node(s) were in a node group of which queue {queue} has all that it may have"

NOTHING = queues.NodeGroups()
"""An affinity that names no group is none."""


class Nodegroup(contracts.Plugin):
    """Hard and soft affinity of queues to groups of nodes, and limits in them."""

    name = "nodegroup"
    nodes_last = True
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "strict": contracts.Argument(bool, default=True),
        "enablePreferredOrder": contracts.Argument(bool, default=False),
    }

    def open(self, session: contracts.Session) -> None:
        """Count what queues with limits have in each group."""
        self._session = session
        self._strict = bool(self.argument("strict"))
        self._ordered = bool(self.argument("enablePreferredOrder"))
        layout = session.snapshot.nodes.layout
        self._column, groups = layout.label(LABEL)
        self._groups = tuple(groups)
        self._affinity: dict[str, queues.NodeGroups] = {}
        self._used: dict[str, dict[str, dict[str, int]]] = {}
        """By queue, group and resource: what is limited."""
        for name, queue in session.queues.items():
            affinity = self._affinity_of(queue)
            if affinity is not None and affinity != NOTHING:
                self._affinity[name] = affinity
            if queue.group_limits is not None and queue.group_limits.by_group:
                self._used[name] = {
                    group: dict.fromkeys(limit, 0)
                    for group, limit in queue.group_limits.by_group.items()
                }
        for gang in session.gangs.values():
            if gang.job.queue in self._used:
                for task in gang.job.tasks:
                    if task.status in jobs.HOLDING:
                        self._count(task, 1)

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> Sequence[contracts.FilterResult]:
        """Groups that the queue names are its own, as far as its limits go; who names none may use
        nodes without a group, unless `strict`.
        """
        queue = self._session.gangs[task.job].job.queue
        limits = self._session.queues[queue].group_limits
        if limits is not None and limits.problem:
            text = UNREADABLE.format(queue=queue, problem=limits.problem)
            return [contracts.FilterResult(text, np.zeros(nodes.size, dtype=np.bool_))]
        affinity = self._affinity.get(queue)
        open_to_all = not self._strict and affinity is None
        own = [affinity is not None and _names(affinity, group) for group in self._groups]
        grouped = nodes.of(self._column) >= 0
        verdicts = [
            contracts.FilterResult(UNGROUPED, grouped | open_to_all),
            contracts.FilterResult(FOREIGN.format(queue=queue), self._spread(nodes, own)),
        ]
        if queue in self._used:
            free = [self._has_left(task, queue, group) for group in self._groups]
            passes = self._spread(nodes, free)
            text = USED_UP.format(queue=queue)
            verdicts.append(contracts.FilterResult(text, passes, curable=True))
        return verdicts

    def queue_nodes(self, queue: queues.Queue, layout: tables.NodeLayout) -> tables.Mask:
        """Nodes of its own groups, however much it may have of them."""
        if queue.group_limits is not None and queue.group_limits.problem:
            return np.zeros(layout.size, dtype=np.bool_)
        affinity = self._affinity.get(queue.name)
        column, codes = layout.label(LABEL)
        own = [affinity is not None and _names(affinity, group) for group in codes]
        open_to_all = not self._strict and affinity is None
        answers = np.array([*own, open_to_all], dtype=np.bool_)
        mask: tables.Mask = answers[column]  # a node in no group has code -1
        return mask

    def outlook(self, task: jobs.Task) -> Hashable:
        """Which limits the task would break: pods on other nodes of a group count as well."""
        queue = self._session.gangs[task.job].job.queue
        used = self._used.get(queue)
        if used is None:
            return None
        return tuple(self._has_left(task, queue, group) for group in used)

    def row_outlook(self, task: jobs.Task, rows: NDArray[np.int64]) -> None:
        """Nothing: limits are a group's, and `outlook` says all of them."""

    def score_nodes(self, task: jobs.Task, nodes: contracts.NodeView) -> NDArray[np.float64] | None:
        """100 for a required group, 50 for a preferred one; -1 for one to be avoided."""
        affinity = self._affinity.get(self._session.gangs[task.job].job.queue)
        if affinity is None:
            return None
        scores = [self._score(affinity, group) for group in self._groups]
        return np.array([*scores, 0.0])[nodes.of(self._column)]

    def on_allocate(self, task: jobs.Task) -> None:
        """Room that is only promised counts as well, as in Volcano."""
        self._count(task, 1)

    def on_deallocate(self, task: jobs.Task) -> None:
        """The opposite."""
        self._count(task, -1)

    def _affinity_of(self, queue: queues.Queue) -> queues.NodeGroups | None:
        """The queue's own, or with enableHierarchy that of the nearest one above it."""
        if "enableHierarchy" not in self.flags:
            return queue.node_groups
        seen = set()
        while queue.node_groups is None and queue.name != queues.ROOT and queue.name not in seen:
            seen.add(queue.name)
            above = self._session.queues.get(queue.parent or queues.ROOT)
            if above is None:
                return None
            queue = above
        return queue.node_groups

    def _spread(self, nodes: contracts.NodeView, by_group: Sequence[bool]) -> tables.Mask:
        """An answer per group as one per node; nodes without a group pass."""
        answers = np.array([*by_group, True], dtype=np.bool_)
        spread: tables.Mask = answers[nodes.of(self._column)]
        return spread

    def _score(self, affinity: queues.NodeGroups, group: str) -> float:
        if group in affinity.anti_preferred:
            return AVOIDED_SCORE
        score = REQUIRED_SCORE * (group in affinity.required)
        if group in affinity.preferred:
            place = affinity.preferred.index(group) if self._ordered else 0
            count = len(affinity.preferred)
            score += PREFERRED_SCORE * (count - place) / count
        return score

    def _has_left(self, task: jobs.Task, queue: str, group: str) -> bool:
        """Whether the queue may have this task in the group as well."""
        limits = self._session.queues[queue].group_limits
        if limits is None or group not in limits.by_group:
            return True
        used, request = self._used[queue][group], task.pod_class.request
        return all(
            used[name] + request.get(name, 0) <= limit
            for name, limit in limits.by_group[group].items()
            if self._counts(request, name)
        )

    def _counts(self, request: resources.ResourceMap, resource: str) -> bool:
        """Whether a limit of the resource counts for a pod with this request."""
        return bool(request.get(resource))

    def _count(self, task: jobs.Task, sign: int) -> None:
        """The task came to its node, or leaves it."""
        gang = self._session.gangs[task.job]
        limited = self._used.get(gang.job.queue)
        row = self._session.snapshot.nodes.layout.rows.get(gang.node(task) or "")
        if limited is None or row is None or self._column[row] < 0:
            return
        used = limited.get(self._groups[int(self._column[row])])
        if used is not None:
            for name in used:
                used[name] += sign * task.pod_class.request.get(name, 0)


def _names(affinity: queues.NodeGroups, group: str) -> bool:
    """Whether the queue may use the group (Volcano: queueGroupAffinity.predicate).

    One to be avoided is one that may be used, whatever else is said of it.
    """
    if group in affinity.anti_preferred:
        return True
    named = group in affinity.required or group in affinity.preferred
    return named and group not in affinity.anti_required
