"""Explanations: why nodes refuse a task, with node counts and the largest free amounts."""

from collections.abc import Sequence

import numpy as np

from vscheduler.core.api import contracts
from vscheduler.core.model import decisions, jobs, nodes, refusals, resources
from vscheduler.core.session import interfaces
from vscheduler.core.session import session as working


def explain(
    session: working.Session,
    task: jobs.Task,
    results: Sequence[contracts.FilterResult],
    free: resources.Vector,
) -> tuple[decisions.RefusalCounts, interfaces.Holes]:
    """Return why nodes refuse this task, by filter results and by free resources, (N, R).

    As in kube-scheduler, a node counts once for the first filter refusing the task; a node passing
    all filters counts once for each resource in short supply.
    """
    request = session.request(task)
    alive = np.ones(session.layout.size, dtype=np.bool_)
    counts: dict[refusals.Refusal, int] = {}
    for result in results:
        passes = result.passes if result.later is None else result.later
        refused = int((alive & ~passes).sum())
        if refused:
            refusal = refusals.of(result.refusal)
            counts[refusal] = counts.get(refusal, 0) + refused
        alive &= passes
    holes = []
    for column in np.flatnonzero(request).tolist():
        name = session.space.names[column]
        short = int((alive & (free[:, column] < request[column])).sum())
        if short:
            counts[refusals.Refusal(refusals.RefusalCode.INSUFFICIENT, name)] = short
        if name != resources.PODS and alive.any():
            room = np.where(alive, free[:, column], -1)
            row = int(room.argmax())
            amount = max(0, int(room[row]))
            holes.append(
                decisions.MissingResource(
                    resource=name, free=amount, node=session.layout.names[row]
                )
            )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ordered), tuple(sorted(holes, key=lambda hole: hole.resource))


def outsized(session: working.Session, task: jobs.Task, reachable: nodes.Mask) -> interfaces.Holes:
    """Return amounts of the largest nodes, if the task is larger than any usable node (N,).

    The result covers resources of which no usable node, even empty, has enough, or all requested
    resources if each one alone would fit on some node.
    """
    request = session.request(task)
    rows = np.flatnonzero(reachable)
    allocatable = session.cluster.allocatable[rows]
    if not rows.size or resources.fits(request, allocatable).any():
        return ()
    most = allocatable.max(axis=0)
    wanted = np.flatnonzero(request)
    short = wanted[most[wanted] < request[wanted]]
    return tuple(
        decisions.MissingResource(
            resource=session.space.names[column],
            free=int(most[column]),
            node=session.layout.names[rows[int(allocatable[:, column].argmax())]],
        )
        for column in (short if short.size else wanted).tolist()
        if session.space.names[column] != resources.PODS
    )
