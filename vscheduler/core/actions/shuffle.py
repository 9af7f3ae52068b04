"""Shuffle: let pods go that a plugin wants gone for reasons of its own, such as time.

Volcano: actions/shuffle.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from vscheduler.core.api import contracts
from vscheduler.core.model import decisions, jobs
from vscheduler.core.preemption import victims
from vscheduler.core.session import job_state
from vscheduler.core.session import session as working


class Shuffle(contracts.Action[working.Session]):
    """Ask the plugins which running pods should go, and evict them as far as they may."""

    name = "shuffle"

    def execute(self, session: working.Session) -> None:
        """Evict job after job. Budgets hold, and no gang is left with a part of its minimum. The
        last pod that a pod was placed near in this cycle stays, too.
        """
        victims: defaultdict[jobs.JobId, list[jobs.Task]] = defaultdict(list)
        for task in session.dispatch.shuffle_victims(self._candidates(session)):
            victims[task.job].append(task)
        with session.statement() as trial:
            for job, named in victims.items():
                for unit in self._units(session, session.gangs[job], named):
                    if session.neighbours.would_miss(unit.tasks):
                        continue
                    before = trial.checkpoint()
                    for task in unit.tasks:
                        trial.evict(_evict(session, task, whole=unit.whole))
                    if self._must_stay(session, unit.gang):
                        trial.rollback(before)
            if trial.evicts:
                session.shuffled_at = session.snapshot.now
            trial.commit()

    def _candidates(self, session: working.Session) -> list[jobs.Task]:
        """Return the running pods that plugins may name, by job and UID."""
        return [task for task in running(session) if task.preemptable]

    def _units(
        self, session: working.Session, gang: job_state.JobState, named: Sequence[jobs.Task]
    ) -> Iterator[victims.VictimGroup]:
        """Yield what is evicted together: the whole gang where all of its pods are named, else
        surplus pods.

        Each unit is evicted before the next one is worked out.
        """
        everything = victims.whole(gang)
        wanted = {task.uid for task in named}
        together = everything is not None and all(task.uid in wanted for task in everything.tasks)
        if everything is not None and together and session.budgets.spare(everything.tasks):
            yield everything
            return
        for task in named:
            unit = victims.surplus(gang, task)
            if unit is not None and session.budgets.spare(unit.tasks):
                yield unit

    def _must_stay(self, session: working.Session, gang: job_state.JobState) -> bool:
        """Whether the last eviction from the gang is undone. Units leave no gang below its minimum:
        none is.
        """
        del session, gang
        return False


def running(session: working.Session) -> Iterator[jobs.Task]:
    """Yield the running pods on nodes of the snapshot, by job and UID, without those that the API
    server wouldn't evict.
    """
    refused = session.snapshot.carried.eviction_refused_pods
    for gang in session.gangs.values():
        if gang.counts[jobs.TaskStatus.RUNNING]:
            for task in gang.tasks(jobs.TaskStatus.RUNNING):
                if task.node in session.layout.rows and task.uid not in refused:
                    yield task


def _evict(session: working.Session, task: jobs.Task, *, whole: bool) -> decisions.Evict:
    node = session.gang_of(task).node(task)
    assert node is not None, f"{task.key} runs nowhere"
    return decisions.Evict(task=task, node=node, action=Shuffle.name, beneficiary=None, whole=whole)
