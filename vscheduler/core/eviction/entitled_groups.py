"""EntitledGroups: which pods a queue may take for pods that request certain resources.

Plugins are asked once about each group of pods, before any attempt of a plan changes the session.
Attempts only take from the queues that lose pods, so whatever a queue may not take before, it may
not take during an attempt, either. The answers hold until the next plan succeeds.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from vscheduler.core.eviction.victim_columns import Flags, Likeness, VictimColumns
from vscheduler.core.eviction.victims import Scope
from vscheduler.core.model.jobs import Task
from vscheduler.core.model.queues import Queue
from vscheduler.core.session.session import Session

ASK_COST = 10
"""Approximate microseconds for one question about a group."""


class Entitled(msgspec.Struct, frozen=True, eq=False):
    """The answers for equal claimants."""

    groups: Flags
    """Whether the queue may take any pod of the group, (T,): False is certain."""
    owners: Flags
    """Whether the queue may take any pod of the job, (J,): False is certain."""


class EntitledGroups:
    """The answers of one action, by the claimant's queue and the requested resources."""

    def __init__(self, session: Session, columns: VictimColumns, hook: str) -> None:
        """`hook` is asked; answers about `preemptable` depend on more than queue and resources."""
        self._session, self._columns, self._hook = session, columns, hook
        self._known: dict[tuple[str, bytes], Entitled] = {}

    def ask(self, queue: Queue, scope: Scope, tasks: Iterable[Task]) -> None:
        """Ask on behalf of these tasks; no attempt may be under way."""
        if self._hook != "reclaimable":
            return
        for task in tasks:
            key = self._key(queue, task)
            if key not in self._known:
                self._known[key] = self._asked(scope, task)

    def of(self, queue: Queue, task: Task) -> Entitled:
        """Return the answers for a task; anything might be taken if nobody has asked."""
        return self._known.get(self._key(queue, task)) or self._anything()

    def forget(self) -> None:
        """Forget all answers: a plan has changed the session."""
        self._known.clear()

    def _key(self, queue: Queue, task: Task) -> tuple[str, bytes]:
        return queue.name, (self._session.request(task) > 0).tobytes()

    def _anything(self) -> Entitled:
        columns = self._columns
        groups = np.ones(len(columns.representatives), dtype=np.bool_)
        return Entitled(groups, np.ones(len(columns.pods.owner_jobs), dtype=np.bool_))

    def _asked(self, scope: Scope, task: Task) -> Entitled:
        columns, likeness = self._columns, Likeness
        if columns.likeness is likeness.QUEUE:
            return self._anything()
        columns.refresh()
        found = np.zeros(len(columns.representatives), dtype=np.bool_)
        candidates = np.flatnonzero(columns.candidates(scope, np.arange(len(columns.groups))))
        groups, first = np.unique(columns.groups[candidates], return_index=True)
        self._session.spend("entitled", ASK_COST * len(groups))
        is_coarse = columns.likeness is likeness.RESOURCES
        alike = "alike_resources" if is_coarse else "alike_victims"
        for group, place in zip(groups.tolist(), candidates[first].tolist(), strict=True):
            found[group] = self._session.dispatch.may_be_entitled(
                self._hook, task, columns.pods.task(place), alike, "alike_claimants"
            )
        owners = np.zeros(len(columns.pods.owner_jobs), dtype=np.bool_)
        owners[columns.pods.owners[found[columns.groups]]] = True
        return Entitled(found, owners)
