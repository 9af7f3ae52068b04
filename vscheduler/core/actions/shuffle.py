"""Shuffle: evict pods selected by plugins, for example at the end of a time slot.

Volcano: actions/shuffle.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from vscheduler.core.api.contracts import Action
from vscheduler.core.eviction import rules, standing_plans
from vscheduler.core.eviction.rules import VictimGroup
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import JobId, Task, TaskStatus


class Shuffle(Action[Session]):
    """Evict running pods selected by plugins, if the pods may be evicted."""

    name = "shuffle"

    def execute(self, session: Session) -> None:
        """Evict job by job.

        PodDisruptionBudgets are respected, and no gang keeps only a part of its minimum. A pod is
        left alone if a pod placed in this cycle has required affinity to it and no other pod
        matches.
        """
        victims: defaultdict[JobId, list[Task]] = defaultdict(list)
        for task in session.dispatch.shuffle_victims(self._candidates(session)):
            victims[task.job].append(task)
        with session.statement() as trial:
            for job, named in victims.items():
                for unit in self._units(session, session.job_states[job], named):
                    before = trial.checkpoint()
                    for task in unit.tasks:
                        trial.evict(_evict(session, task, whole=unit.whole))
                    hold = standing_plans.hold(session, trial, unit.state, unit.tasks)
                    if not hold or self._must_stay(session, unit.state):
                        trial.rollback(before)
            if trial.evicts:
                session.eviction_history.shuffle(session.snapshot.now)
            trial.commit()

    def _candidates(self, session: Session) -> list[Task]:
        """Return the running pods that plugins may select, by job and UID."""
        return [task for task in running(session) if task.preemptable]

    def _units(
        self, session: Session, state: JobState, named: Sequence[Task]
    ) -> Iterator[VictimGroup]:
        """Yield the groups to evict: the whole gang if all pods were selected, else surplus pods.

        Each group is evicted before the next is computed.
        """
        everything = rules.whole(state)
        wanted = {task.uid for task in named}
        together = everything is not None and all(task.uid in wanted for task in everything.tasks)
        if everything is not None and together and session.cluster.budgets.spare(everything.tasks):
            yield everything
            return
        for task in named:
            unit = rules.surplus_pod(state, task)
            if unit is not None and session.cluster.budgets.spare(unit.tasks):
                yield unit

    def _must_stay(self, session: Session, state: JobState) -> bool:
        """Whether to undo the last eviction from the gang. Never the case by default, since
        `_units` keeps each gang at its minimum.
        """
        del session, state
        return False


def running(session: Session) -> Iterator[Task]:
    """Yield the running pods on nodes of the snapshot, by job and UID, except pods that the API
    server has refused to evict.
    """
    refused = session.snapshot.carried.reported.eviction_refused_pods
    for state in session.job_states.values():
        if state.counts[TaskStatus.RUNNING]:
            for task in state.tasks(TaskStatus.RUNNING):
                if task.node in session.layout.rows and task.uid not in refused:
                    yield task


def _evict(session: Session, task: Task, *, whole: bool) -> Evict:
    node = session.job_state_of(task).node(task)
    assert node is not None, f"{task.key} runs nowhere"
    return Evict(task=task, node=node, action=Shuffle.name, beneficiary=None, whole=whole)
