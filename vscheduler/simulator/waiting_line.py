"""The waiting line: in which order jobs that lack their minimum would have their turns.

The order is the core's own: a session is opened as for a cycle, and queues and jobs are sorted by
the keys with which `allocate` and `enqueue` give turns. Nothing is placed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from vscheduler.core import cycle
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config.policy import Policy
from vscheduler.core.session import ordering
from vscheduler.core.session.dispatch import PluginFailedError
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import FRESH, Snapshot
from vscheduler.simulator import run
from vscheduler.simulator.manifests import Manifest
from vscheduler.simulator.run import Options


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A job's place in line, counted from 1."""

    queue: str
    in_queue: int
    """The place among the waiting jobs of the queue."""
    of_queue: int
    """How many jobs of the queue wait."""
    first: str = ""
    """The job of the queue that is first in line; empty for itself, and for whom may not see it."""
    overall: int
    """The place among all waiting jobs of the scheduler."""
    of_all: int

    @property
    def sentence(self) -> str:
        """`2 of 5 in queue lab (first: lab/big), 3 of 7 overall`."""
        inside = f"{self.in_queue} of {self.of_queue} in queue {self.queue}"
        if self.first:
            inside = f"{inside} (first: {self.first})"
        return f"{inside}, {self.overall} of {self.of_all} overall"


def places(
    documents: Iterable[Manifest | Mapping[str, object]],
    policy: Policy,
    options: Options,
) -> Mapping[JobId, Place]:
    """Return the places of all waiting jobs, as things stand in these manifests.

    If no job gets any resources, jobs have their turns in this order. A placed job raises its
    queue's share, and may thus move the other jobs of its queue behind those of other queues.
    """
    given = run.read(documents, policy, options)
    return places_in(given.mirror.snapshot(given.now, FRESH), policy)


def places_in(snapshot: Snapshot, policy: Policy) -> Mapping[JobId, Place]:
    """Return the places of all waiting jobs of a snapshot, which may come from a daemon, in the
    order of the line.
    """
    opened = _open(snapshot, policy)
    return numbered([(state.job.id, state.job.queue) for state in _sorted(opened)])


def numbered(line: Collection[tuple[JobId, str]]) -> Mapping[JobId, Place]:
    """Return the places of jobs that stand in this order; each comes with its queue."""
    lengths = Counter(queue for _, queue in line)
    found: dict[JobId, Place] = {}
    passed: Counter[str] = Counter()
    first: dict[str, JobId] = {}
    for overall, (job, queue) in enumerate(line, 1):
        passed[queue] += 1
        found[job] = Place(
            queue=queue,
            in_queue=passed[queue],
            of_queue=lengths[queue],
            first=first.get(queue, ""),
            overall=overall,
            of_all=len(line),
        )
        first.setdefault(queue, job)
    return found


def _open(snapshot: Snapshot, policy: Policy) -> Session:
    """Return the session; plugins that fail are guarded, as in a cycle."""
    guarded: frozenset[str] = frozenset()
    while True:
        try:
            return cycle.open_session(snapshot, policy, guarded=guarded)
        except PluginFailedError as failure:
            if failure.fault.plugin in guarded:
                raise
            guarded |= {failure.fault.plugin}


def _sorted(session: Session) -> list[JobState]:
    """Return the waiting jobs in order: jobs of overused queues get no turn, and come last."""
    waiting = [
        state
        for state in session.unfinished_jobs()
        if state.job.queue in session.queues and not state.has_minimum
    ]
    keys = {
        name: (
            session.dispatch.any_says(AllHooks.overused, session.queues[name]),
            *ordering.queue_key(session.dispatch, session.queues[name]),
        )
        for name in {state.job.queue for state in waiting}
    }
    return sorted(
        waiting,
        key=lambda state: (keys[state.job.queue], ordering.job_key(session.dispatch, state)),
    )
