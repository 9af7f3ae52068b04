"""Explanations: why nodes refuse a task, counted and with the room that is left."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vscheduler.core.api import contracts
from vscheduler.core.model import decisions, jobs, nodes, resources
from vscheduler.core.session import interfaces

if TYPE_CHECKING:
    from vscheduler.core.session import session as working


def explain(
    session: "working.Session",
    task: jobs.Task,
    verdicts: Sequence[contracts.FilterResult],
    free: resources.Vector,
) -> tuple[interfaces.Refusals, interfaces.Holes]:
    """Why nodes refuse this task, by what filters say and by what nodes have free, (N, R).

    A node counts once for the first filter that refuses it, else once for each resource that it
    lacks, as kube-scheduler does.
    """
    request = session.request(task)
    alive = np.ones(session.layout.size, dtype=np.bool_)
    counts: dict[str, int] = {}
    for verdict in verdicts:
        passes = verdict.passes if verdict.later is None else verdict.later
        refused = int((alive & ~passes).sum())
        if refused:
            counts[verdict.refusal] = counts.get(verdict.refusal, 0) + refused
        alive &= passes
    holes = []
    for column in np.flatnonzero(request).tolist():
        name = session.space.names[column]
        short = int((alive & (free[:, column] < request[column])).sum())
        if short:
            what = "Too many pods" if name == resources.PODS else f"Insufficient {name}"
            counts[what] = short
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


def outsized(
    session: "working.Session", task: jobs.Task, reachable: nodes.Mask
) -> interfaces.Holes:
    """Where the task is larger than any node that it may use (N,), empty or not: the most that one
    of these has of each resource of which none has enough, or of all that it asks for.
    """
    request = session.request(task)
    rows = np.flatnonzero(reachable)
    allocatable = session.allocatable[rows]
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
