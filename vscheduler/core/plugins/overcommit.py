"""Overcommit: don't promise much more than the cluster has.

Volcano: plugins/overcommit. The cluster may promise its room times a factor, so that pods are
there when others end. Volcano counts the room of all nodes that are ready, whoever may use them;
here a group is promised room on nodes that its pods could use.
"""

import math
from collections import defaultdict
from typing import ClassVar

import numpy as np

from vscheduler.core.api import contracts, views
from vscheduler.core.fair_share import inqueue_resources
from vscheduler.core.model import decisions, jobs, nodes, resources

FACTOR = "overcommit-factor"

Pool = int
"""A set of nodes: bit n stands for row n."""


class Overcommit(contracts.Plugin):
    """Admits groups as long as promises stay within the factor."""

    name = "overcommit"
    arguments: ClassVar[dict[str, contracts.Argument]] = {
        FACTOR: contracts.Argument(float, 1.2, minimum=1.0),
    }

    def open(self, session: contracts.Session) -> None:
        """Promises are added up when the first group asks, most cycles have none that does."""
        self._session = session
        self._factor = self.number(FACTOR)
        self._counted = False
        self._promised: defaultdict[Pool, list[int]] = defaultdict(self._nothing)
        """What groups were promised that don't have it yet, by the nodes that they may use."""
        self._rooms: dict[Pool, list[float]] = {}
        self._pools: dict[jobs.PodClass, Pool] = {}

    def job_enqueueable(self, gang: views.JobState) -> decisions.AdmissionFailure | bool:
        """Whether its minResources can be promised on top of what others were promised, on the
        nodes that its pods may use and, for all groups together, on all.
        """
        if gang.job.min_resources is None:
            return True
        self._count()
        asked = self._asked(gang)
        pool = self._pool(gang)
        for nodes_of in dict.fromkeys((pool, pool | self._open)):
            shortages = self._shortages(nodes_of, asked)
            if shortages:
                code = decisions.ReasonCode.CLUSTER_FULL
                return decisions.AdmissionFailure(code=code, shortages=shortages)
        return True

    def job_enqueued(self, gang: views.JobState) -> None:
        """Its minResources are promised."""
        if gang.job.min_resources is not None:
            self._count()
            self._promise(gang, self._promised_to(gang))

    def _asked(self, gang: views.JobState) -> resources.ResourceMap:
        """What a group asks for; what it has already it need not be promised."""
        return inqueue_resources.outstanding(gang)

    def _promised_to(self, gang: views.JobState) -> resources.ResourceMap:
        """What a group is promised that is let in now."""
        return inqueue_resources.outstanding(gang)

    def _count(self) -> None:
        """Add up what groups were promised before this cycle."""
        if self._counted:
            return
        self._counted = True
        self._open = _bits(self._counted_nodes(self._session.snapshot.nodes.layout))
        left: dict[str, dict[str, int]] = {}
        for gang in self._session.gangs.values():
            if inqueue_resources.holds(gang):
                self._promise(gang, self._held(gang, left))

    def _counted_nodes(self, layout: nodes.NodeLayout) -> nodes.Mask:
        """The nodes of which something is promised to all groups together: (N,)."""
        return layout.ready & layout.schedulable

    def _held(self, gang: views.JobState, left: dict[str, dict[str, int]]) -> resources.ResourceMap:
        """What the group was promised before this cycle and hasn't got; no more than is left to
        its queue, which `left` keeps by queue and resource.
        """
        amounts = left.setdefault(gang.job.queue, self._limits(gang.job.queue))
        return inqueue_resources.within(inqueue_resources.outstanding(gang), amounts)

    def _limits(self, queue: str) -> dict[str, int]:
        """What a queue may have beyond what it has, of what its capability names: its groups can't
        have been promised more, whatever somebody wrote into their status.
        """
        names = self._session.space.columns
        held = self._session.demands.held[queue]
        capability = self._session.queues[queue].ceiling(self._session.space).tolist()
        return {
            name: max(0, int(capability[column]) - held[column])
            for name, column in names.items()
            if capability[column] < math.inf
        }

    def _promise(self, gang: views.JobState, amounts: resources.ResourceMap) -> None:
        if any(amounts.values()):
            promised = self._promised[self._pool(gang)]
            for name, amount in amounts.items():
                promised[self._session.space.columns[name]] += amount

    def _shortages(
        self, pool: Pool, asked: resources.ResourceMap
    ) -> tuple[decisions.Shortage, ...]:
        """What these nodes can't promise as well; what goes to some of them counts against all.

        Pod slots aren't promised (Volcano: LessEqualWithDimension).
        """
        room = self._rooms.get(pool)
        if room is None:
            room = self._rooms[pool] = self._room(pool)
        inside = [amounts for other, amounts in self._promised.items() if not other & ~pool]
        found = []
        for name, amount in sorted(asked.items()):
            column = self._session.space.columns[name]
            promised = sum(amounts[column] for amounts in inside)
            if amount and name != resources.PODS and promised + amount > room[column]:
                found.append(
                    decisions.Shortage(
                        resource=name,
                        requested=amount,
                        allocated=promised,
                        limit=max(0.0, room[column]),
                    )
                )
        return tuple(found)

    def _room(self, pool: Pool) -> list[float]:
        """What these nodes may promise: all that they have times the factor, less what is used."""
        table = self._session.snapshot.nodes
        rows = _rows(pool, table.layout.size)
        total = table.allocatable[rows].sum(axis=0) * self._factor
        room: list[float] = (total - table.used[rows].sum(axis=0)).tolist()
        return room

    def _pool(self, gang: views.JobState) -> Pool:
        """The nodes that its waiting pods may use, each pod some of them; all open nodes where
        there are no pods yet.
        """
        if not gang.counts[jobs.TaskStatus.PENDING]:
            return self._open
        pool = 0
        for task in {task.pod_class: task for task in gang.tasks(jobs.TaskStatus.PENDING)}.values():
            if task.pod_class not in self._pools:
                self._pools[task.pod_class] = _bits(self._session.reachable(task))
            pool |= self._pools[task.pod_class]
        return pool

    def _nothing(self) -> list[int]:
        return [0] * self._session.space.size


def _bits(mask: nodes.Mask) -> Pool:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _rows(pool: Pool, size: int) -> nodes.Mask:
    packed = np.frombuffer(pool.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=size, bitorder="little").astype(np.bool_)
