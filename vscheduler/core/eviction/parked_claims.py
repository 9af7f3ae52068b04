"""Claims of unschedulable jobs: of jobs made from one template, the first one asks for all of them.

If it finds no victims, none of the others would, as long as no plan comes between; so they stay
unschedulable. Once a plan has changed the cluster, those whose turn would come after it become
active, and ask for themselves.
"""

from collections.abc import Collection, Mapping

from vscheduler.core.eviction import preemptors
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.memo.unschedulable_jobs import UnschedulableGroup
from vscheduler.core.model.jobs import JobId
from vscheduler.core.model.queues import Queue
from vscheduler.core.session import job_likeness, ordering
from vscheduler.core.session.ordering import SortKey
from vscheduler.core.session.session import Session

Line = ordering.Line[Preemptor]


class ParkedClaims:
    """The unschedulable jobs that one action may serve in this cycle."""

    def __init__(self, session: Session, action: str, served: Collection[str]) -> None:
        """`served` are the names of all queues that the action may help."""
        self._session, self._action = session, action
        self._waiting = dict(session.unschedulable.of_queues(served))
        """By queue, the groups that haven't joined its line."""
        self._failed: dict[str, list[UnschedulableGroup]] = {}
        """By queue, the groups that found no victims since the last successful plan."""

    @property
    def names(self) -> Collection[str]:
        """The queues with groups that haven't joined."""
        return self._waiting.keys()

    def join(self, queue: str, line: Line) -> None:
        """Let the queue's groups join its line, if they haven't yet."""
        groups = self._waiting.pop(queue, ())
        apart = [group for group in groups if not self._is_one(group)]
        preemptors.join_unschedulable(self._session, self._action, line, apart)
        for group in groups:
            if self._is_one(group):
                first = min(group.members.values(), key=lambda job: (job.created, job.id))
                state = self._session.job_states[first.id]
                preemptors.join(self._session, self._action, line, state, group)

    def _is_one(self, group: UnschedulableGroup) -> bool:
        """Whether one of the jobs may ask for all: nothing is known of single ones."""
        session, carried = self._session, self._session.snapshot.carried
        if carried.reclaim_failed or not session.policy.alike_by_age:
            return False
        if not carried.reported.eviction_refused_jobs.isdisjoint(group.members):
            return False
        tasks = group.first.tasks
        return len(tasks) == 1 or len(set(map(job_likeness.traits, tasks))) == 1

    def fail(self, preemptor: Preemptor) -> None:
        """Record that the job found no victims, and that those for which it asked don't, either."""
        job, group = preemptor.state.job, preemptor.group
        history = self._session.eviction_history
        if group is None:
            history.fail(self._action, job.id)
            return
        history.fail_all(self._action, group.members)
        self._failed.setdefault(job.queue, []).append(group)

    def succeed(self, preemptor: Preemptor, queue: Queue, lines: Mapping[str, Line]) -> None:
        """Wake the jobs for which this job asked, and those whose turn comes after its plan."""
        session, job, group = self._session, preemptor.state.job, preemptor.group
        if group is not None:
            preemptor.group = None
            session.activate_jobs([group])
            session.reasons.forget(job.id)  # it waits for its victims now
            self._rejoin(group, lines[queue.name], without=job.id)
        failed, self._failed = self._failed, {}
        for name, groups in failed.items():
            line = lines[name]
            if name == queue.name:
                after = preemptor.place
            elif line:
                after = line.first.place
            else:  # all of them have had their turns
                continue
            session.activate_jobs(groups)
            for each in groups:
                self._rejoin(each, line, after=after)

    def _rejoin(
        self,
        group: UnschedulableGroup,
        line: Line,
        *,
        without: JobId | None = None,
        after: SortKey = (),
    ) -> None:
        """Let jobs of the group join the line whose places come after the given one."""
        session = self._session
        for job in group.members:
            state = session.job_states[job]
            if job != without and preemptors.job_place(session, state) > after:
                preemptors.join(session, self._action, line, state)
