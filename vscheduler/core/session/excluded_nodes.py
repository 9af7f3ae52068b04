"""Excluded nodes: nodes whose resources aren't shared out, with the reason for each."""

from vscheduler.core.session.session import Session
from vscheduler.model import refusals
from vscheduler.model.decisions import Exclusion
from vscheduler.model.jobs import Task
from vscheduler.model.refusals import Refusal, RefusalCode

TOO_SMALL = Refusal(RefusalCode.TOO_SMALL)


def exclusions(session: Session) -> tuple[Exclusion, ...]:
    """Return the nodes that no pod could use, by the first filter that refuses a sample pod.

    The largest group comes first. Nodes that only the sample pod's claims keep it off are left out:
    nothing is wrong with them.
    """
    left = session.policy.rules.unused_nodes(session)
    if not left.size:
        return ()
    by_refusal: dict[Refusal, list[str]] = {}
    task = _some_task(session)
    verdicts = () if task is None else session.placement.verdicts(task, session.cluster.view())
    for verdict in (verdict for verdict in verdicts if not verdict.temporary):
        refused = left[~verdict.passes[left]].tolist()
        refusal = refusals.of(verdict.refusal)
        if refused and refusal.code not in refusals.ABOUT_THE_POD:
            names = by_refusal.setdefault(refusal, [])
            names += [session.layout.names[row] for row in refused]
        left = left[verdict.passes[left]]
    if left.size and task is not None:
        by_refusal[TOO_SMALL] = [session.layout.names[row] for row in left.tolist()]
    found = [
        Exclusion(refusal=refusal, nodes=tuple(names)) for refusal, names in by_refusal.items()
    ]
    return tuple(sorted(found, key=lambda each: (-len(each.nodes), each.refusal)))


def _some_task(session: Session) -> Task | None:
    """Return a pod that has or wants a node; as far as possible the same pod in every cycle."""
    for job in session.snapshot.jobs:
        if job.queue in session.queues:
            for task in job.tasks:
                if task.pod_class in job.classes:
                    return task
    return None
