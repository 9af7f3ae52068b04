"""Shuffle: let pods go that a plugin wants gone for reasons of its own, such as time.

Volcano: actions/shuffle.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from vscheduler.core.api import contracts
from vscheduler.core.compat import node_by_node
from vscheduler.core.model import decisions, jobs
from vscheduler.core.preemption import victims
from vscheduler.core.session import job_state
from vscheduler.core.session import session as working


class Shuffle(contracts.Action[working.Session]):
    """Ask the plugins which running pods should go, and evict them as far as they may."""

    name = "shuffle"

    def execute(self, session: working.Session) -> None:
        """Job after job. Budgets hold, and no gang is left with a part of its minimum; in
        Volcano's way whoever is named goes, unless a gang was bound in this cycle and needs him.
        Nor does anybody go who is the last that a pod was placed near in this cycle.
        """
        victims: defaultdict[jobs.JobId, list[jobs.Task]] = defaultdict(list)
        for task in session.dispatch.shuffle_victims(_candidates(session)):
            victims[task.job].append(task)
        with session.statement() as trial:
            for job, named in victims.items():
                for unit in _units(session, session.gangs[job], named):
                    if session.neighbours.would_miss(unit.tasks):
                        continue
                    before = trial.checkpoint()
                    for task in unit.tasks:
                        trial.evict(_evict(session, task, whole=unit.whole))
                    if session.as_volcano and node_by_node.is_torn(session, unit.gang):
                        trial.rollback(before)
            if trial.evicts:
                session.shuffled_at = session.snapshot.now
            trial.commit()


def _candidates(session: working.Session) -> list[jobs.Task]:
    """Running pods, by job and UID; those that no one may evict only in Volcano's way."""
    spared = session.snapshot.carried.eviction_refused_pods
    return [
        task
        for gang in session.gangs.values()
        if gang.counts[jobs.TaskStatus.RUNNING]
        for task in gang.tasks(jobs.TaskStatus.RUNNING)
        if task.node in session.layout.rows
        and task.uid not in spared
        and (task.preemptable or session.as_volcano)
    ]


def _units(
    session: working.Session, gang: job_state.JobState, named: Sequence[jobs.Task]
) -> Iterator[victims.VictimGroup]:
    """What goes together: the whole gang where all of it is named, else surplus pods.

    Each is evicted before the next one is worked out.
    """
    if session.as_volcano:
        yield from (victims.VictimGroup(gang=gang, tasks=(task,), whole=False) for task in named)
        return
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


def _evict(session: working.Session, task: jobs.Task, *, whole: bool) -> decisions.Evict:
    node = session.gang_of(task).node(task)
    assert node is not None, f"{task.key} runs nowhere"
    return decisions.Evict(task=task, node=node, action=Shuffle.name, beneficiary=None, whole=whole)
