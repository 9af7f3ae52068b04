"""Nodegroup: which groups of nodes a queue may use, and how much of each.

Volcano: plugins/nodegroup. A label assigns a node to a group. A queue names groups in
spec.affinity, and may limit its usage of each group by annotation.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Argument, FilterResult, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.model.decisions import QueueLimit
from vscheduler.model.jobs import HOLDING, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import ROOT, NodeGroups, Queue
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.resources import ResourceMap

LABEL = "volcano.sh/nodegroup-name"
REQUIRED_SCORE = 100.0
PREFERRED_SCORE = 50.0
AVOIDED_SCORE = -1.0

UNGROUPED = Refusal(RefusalCode.NODE_GROUP_MISSING)

NOTHING = NodeGroups()
"""An affinity without any group counts as no affinity."""


class Nodegroup(Plugin):
    """Required and preferred affinity of queues to node groups, with limits."""

    name = "nodegroup"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "strict": Argument(bool, default=True),
        "enablePreferredOrder": Argument(bool, default=False),
    }

    limits_curable: ClassVar[bool] = True
    """Whether evictions may make room within the limits of a group."""

    def open(self, session: Session) -> None:
        """Count what queues with limits hold in each group."""
        self._session = session
        self._strict = bool(self.argument("strict"))
        self._ordered = bool(self.argument("enablePreferredOrder"))
        layout = session.snapshot.nodes.layout
        self._column, self._codes = layout.label(LABEL)
        self._groups = tuple(self._codes)
        self._affinity: dict[str, NodeGroups] = {}
        self._used: dict[str, dict[str, dict[str, int]]] = {}
        """Usage of limited resources by queue, group and resource."""
        for name, queue in session.queues.items():
            affinity = self._affinity_of(queue)
            if affinity is not None and affinity != NOTHING:
                self._affinity[name] = affinity
            if queue.group_limits is not None and queue.group_limits.by_group:
                self._used[name] = {
                    group: dict.fromkeys(limit, 0)
                    for group, limit in queue.group_limits.by_group.items()
                }
        for state in session.job_states.values():
            if state.job.queue in self._used:
                for task in state.job.tasks:
                    if task.status in HOLDING:
                        self._count(task, 1)

    def _limits_left(self, task: Task) -> Hashable:
        """Return which limits leave room for the task.

        Pods on other nodes of a group count as well.
        """
        queue = self._session.job_states[task.job].job.queue
        used = self._used.get(queue)
        if used is None:
            return None
        return tuple(self._has_left(task, queue, group) for group in used)

    @depends_on(On.CLASS | On.NODE | On.QUEUE, fingerprint=_limits_left)
    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Return filter results: a queue may use the groups in its affinity, up to the limits.

        A queue without affinity may use ungrouped nodes, unless `strict`.
        """
        queue = self._session.job_states[task.job].job.queue
        limits = self._session.queues[queue].group_limits
        if limits is not None and limits.problem:
            code = RefusalCode.NODE_GROUP_UNREADABLE
            refusal = Refusal(code, queue, limits.problem)
            return [FilterResult(refusal, np.zeros(nodes.size, dtype=np.bool_))]
        affinity = self._affinity.get(queue)
        open_to_all = not self._strict and affinity is None
        own = self._own(affinity, ungrouped=True)
        grouped = nodes.of(self._column) >= 0
        foreign = Refusal(RefusalCode.NODE_GROUP_FOREIGN, queue)
        results = [
            FilterResult(UNGROUPED, grouped | open_to_all),
            FilterResult(foreign, own[nodes.of(self._column)]),
        ]
        if queue in self._used:
            free = np.ones(len(self._codes) + 1, dtype=np.bool_)  # an ungrouped node has code -1
            for group in self._codes.keys() & self._used[queue].keys():
                free[self._codes[group]] = self._has_left(task, queue, group)
            passes = free[nodes.of(self._column)]
            used_up = Refusal(RefusalCode.NODE_GROUP_USED_UP, queue)
            results.append(FilterResult(used_up, passes, curable=self.limits_curable))
        return results

    def queue_limits(self, queue: Queue, task: Task) -> Sequence[QueueLimit]:
        """Return what is left of the limits in each group; none if they filter no nodes."""
        del task
        if "enablePredicate" not in self.flags:
            return []
        return [
            QueueLimit(
                resource=name,
                room=limit - self._used[queue.name][group][name],
                allocated=self._used[queue.name][group][name],
                limit=limit,
                nodes=self._column == self._groups.index(group),
            )
            for group, limits in self._limits(queue).items()
            if group in self._groups
            for name, limit in limits.items()
            if name in self._session.space.columns
        ]

    @depends_on(On.QUEUE | On.NODE)
    def queue_nodes(self, queue: Queue, layout: NodeLayout) -> Mask:
        """Return the nodes of the queue's groups, regardless of limits."""
        if queue.group_limits is not None and queue.group_limits.problem:
            return np.zeros(layout.size, dtype=np.bool_)
        affinity = self._affinity.get(queue.name)
        open_to_all = not self._strict and affinity is None
        answers = self._own(affinity, ungrouped=open_to_all)
        mask: Mask = answers[layout.label(LABEL)[0]]
        return mask

    @depends_on(On.CLASS | On.NODE | On.QUEUE)
    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64] | None:
        """Return 100 for required groups, up to 50 for preferred ones, -1 for groups to avoid."""
        affinity = self._affinity.get(self._session.job_states[task.job].job.queue)
        if affinity is None:
            return None
        scores = np.zeros(len(self._codes) + 1)  # an ungrouped node has code -1
        for group in _mentioned(affinity) & self._codes.keys():
            scores[self._codes[group]] = self._score(affinity, group)
        scored: NDArray[np.float64] = scores[nodes.of(self._column)]
        return scored

    def on_allocate(self, task: Task) -> None:
        """Count the task. Resources only reserved so far count as well, as in Volcano."""
        self._count(task, 1)

    def on_deallocate(self, task: Task) -> None:
        """Stop counting the task."""
        self._count(task, -1)

    def _affinity_of(self, queue: Queue) -> NodeGroups | None:
        """Return the queue's affinity; with enableHierarchy, the nearest ancestor's if missing."""
        if "enableHierarchy" not in self.flags:
            return queue.node_groups
        seen = set()
        while queue.node_groups is None and queue.name != ROOT and queue.name not in seen:
            seen.add(queue.name)
            above = self._session.queues.get(queue.parent or ROOT)
            if above is None:
                return None
            queue = above
        return queue.node_groups

    def _own(self, affinity: NodeGroups | None, *, ungrouped: bool) -> Mask:
        """Return which groups (G,) the queue may use, and the answer for ungrouped nodes.

        Only groups that the queue names are looked at: there may be a group for each queue.
        """
        own = np.zeros(len(self._codes) + 1, dtype=np.bool_)
        for group in self._codes.keys() & (_mentioned(affinity) if affinity else frozenset()):
            own[self._codes[group]] = affinity is not None and _names(affinity, group)
        own[-1] = ungrouped
        return own

    def _score(self, affinity: NodeGroups, group: str) -> float:
        """Return the score of nodes in this group."""
        if group in affinity.anti_preferred:
            return AVOIDED_SCORE
        score = REQUIRED_SCORE * (group in affinity.required)
        if group in affinity.preferred:
            place = affinity.preferred.index(group) if self._ordered else 0
            count = len(affinity.preferred)
            score += PREFERRED_SCORE * (count - place) / count
        return score

    def _has_left(self, task: Task, queue: str, group: str) -> bool:
        """Whether the limits of the group leave room for the task."""
        limits = self._limits(self._session.queues[queue])
        if group not in limits:
            return True
        used, request = self._used[queue][group], task.pod_class.request
        return all(
            used[name] + request.get(name, 0) <= limit
            for name, limit in limits[group].items()
            if self._counts(request, name)
        )

    @staticmethod
    def _limits(queue: Queue) -> Mapping[str, ResourceMap]:
        """Return the limits of the queue by group."""
        return {} if queue.group_limits is None else queue.group_limits.by_group

    def _counts(self, request: ResourceMap, resource: str) -> bool:
        """Whether a limit of the resource applies to a pod with this request."""
        return bool(request.get(resource))

    def _count(self, task: Task, sign: int) -> None:
        """Count a task that comes to its node (1) or leaves the node (-1)."""
        state = self._session.job_states[task.job]
        limited = self._used.get(state.job.queue)
        row = self._session.snapshot.nodes.layout.rows.get(state.node(task) or "")
        if limited is None or row is None or self._column[row] < 0:
            return
        used = limited.get(self._groups[int(self._column[row])])
        if used is not None:
            for name in used:
                used[name] += sign * task.pod_class.request.get(name, 0)


def _mentioned(affinity: NodeGroups) -> frozenset[str]:
    """Return the groups that the queue may use or that have a score other than 0."""
    return frozenset((*affinity.required, *affinity.preferred, *affinity.anti_preferred))


def _names(affinity: NodeGroups, group: str) -> bool:
    """Whether the queue may use the group (Volcano: queueGroupAffinity.predicate).

    A group under anti-affinity preferences may be used, whatever other terms say.
    """
    if group in affinity.anti_preferred:
        return True
    named = group in affinity.required or group in affinity.preferred
    return named and group not in affinity.anti_required
