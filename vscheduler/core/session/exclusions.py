"""Which nodes are left out of what is shared, and why."""

from typing import TYPE_CHECKING

from vscheduler.core.model import decisions, jobs

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

TOO_SMALL = "node(s) were too small for any pod"


def exclusions(session: "working.Session") -> tuple[decisions.Exclusion, ...]:
    """Nodes that no pod could use, by the first filter that keeps one of the pods away; most nodes
    first.
    """
    if session.as_volcano or not session.usable.left_out.size:
        return ()
    left = session.usable.left_out
    by_reason: dict[str, list[str]] = {}
    task = _some_task(session)
    verdicts = () if task is None else session.placement.verdicts(task, session.view())
    for verdict in (each for each in verdicts if not each.passing):
        for row in left[~verdict.passes[left]].tolist():
            by_reason.setdefault(verdict.refusal, []).append(session.layout.names[row])
        left = left[verdict.passes[left]]
    if left.size and task is not None:
        by_reason[TOO_SMALL] = [session.layout.names[row] for row in left.tolist()]
    found = [
        decisions.Exclusion(reason=reason, nodes=tuple(names))
        for reason, names in by_reason.items()
    ]
    return tuple(sorted(found, key=lambda each: (-len(each.nodes), each.reason)))


def _some_task(session: "working.Session") -> jobs.Task | None:
    """A pod that has or wants a node, the same one in every cycle as far as possible."""
    for gang in session.gangs.values():
        for task in gang.job.tasks:
            if task.kind in gang.job.classes:
                return task
    return None
