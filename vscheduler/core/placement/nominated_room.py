"""Room that is nominated to pods of other schedulers, as those see it who look for room."""

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from vscheduler.core.api import contracts, views
from vscheduler.core.model import jobs, nodes, resources

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

SHORT = "node(s) had {resource} that is nominated to pods of other schedulers"
SHORT_OF_SLOTS = "node(s) had pod slots that are nominated to pods of other schedulers"
PORTS = "node(s) had host ports that are nominated to pods of other schedulers"
TOO_NEAR = "node(s) didn't match anti-affinity rules with pods nominated by other schedulers"


def likeness(session: "working.Session", task: jobs.Task) -> Hashable:
    """None, or what tells the task from others of its class: what it is to the pods on nodes, and
    what is kept from it.
    """
    if session.neighbours.nobody and not session.nominated.anybody:
        return None
    standing, kept = session.neighbours.standing(task), session.nominated.of(task)
    known = None if standing is None else standing.key
    return known if kept is None else (known, kept.number)


def alike(session: "working.Session", task: jobs.Task) -> Hashable:
    """Equal for tasks for which the same pods may go, and which start on the same nodes."""
    return task.kind, task.priority, likeness(session, task)


def rest(session: "working.Session", task: jobs.Task, view: contracts.NodeView) -> resources.Vector:
    """What these nodes have, but for what is kept from the task: (n, R)."""
    kept = session.nominated.of(task)
    return view.allocatable if kept is None else view.allocatable - view.of(kept.amounts)


def room(session: "working.Session", task: jobs.Task) -> resources.Vector:
    """What is left for the task on each node once what is being freed is free, (N, R); below 0
    where there is less than is promised.
    """
    return rest(session, task, session.view()) - session.future_used


def verdicts(session: "working.Session", task: jobs.Task) -> Iterator[contracts.Verdict]:
    """Nodes (N,) that have room for the task but for what is kept from it, by what is short."""
    kept = session.nominated.of(task)
    if kept is None:
        return
    request = session.request(task)
    free = session.allocatable - session.future_used
    for column in np.flatnonzero(request).tolist():
        wanted, name = request[column], session.space.names[column]
        short = (free[:, column] >= wanted) & (free[:, column] - kept.amounts[:, column] < wanted)
        if short.any():
            refusal = SHORT_OF_SLOTS if name == resources.PODS else SHORT.format(resource=name)
            yield contracts.Verdict(refusal, ~short, passing=True)


def filtered(
    kept: views.Kept | None,
    task: jobs.Task,
    view: contracts.NodeView,
    *,
    ports: bool,
    distance: bool,
) -> Iterator[contracts.Verdict]:
    """What filters say for the sake of nominated pods; ports, distance: which of them ask."""
    if kept is None:
        return
    wanted = task.kind.constraints.ports
    if ports and wanted and kept.ports:
        free = nodes.free_ports(view.layout, view.rows, wanted, kept.ports)
        yield contracts.Verdict(PORTS, free, passing=True)
    if distance and not kept.apart.all():
        yield contracts.Verdict(TOO_NEAR, view.of(kept.apart), passing=True)
