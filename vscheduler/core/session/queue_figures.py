"""Figures of queues at the end of a cycle: what they hold, request and deserve."""

from collections.abc import Mapping

import numpy as np

from vscheduler.core.model import decisions, queues
from vscheduler.core.session import session as working


def of(
    session: working.Session, used: Mapping[str, queues.Usage]
) -> tuple[decisions.QueueFigures, ...]:
    """Return the figures of all queues, by name; `used` is what they used over time."""
    holds = {name: session.space.zeros() for name in session.queues}
    request = dict(holds)
    for name in session.demands.queues:
        holds[name] = np.array(session.demands.held[name], dtype=np.int64)
        request[name] = holds[name] + session.demands.pending[name]
    for bind in session.decided.binds:
        holds[session.job_state_of(bind.task).job.queue] += session.counted(bind.task)
    entitlements = session.dispatch.last("entitlements")
    return tuple(
        decisions.QueueFigures(
            name=name,
            state=queue.state,
            weight=queue.weight,
            allocated=session.space.amounts(holds[name]),
            request=session.space.amounts(request[name]),
            used_by_other_schedulers=session.snapshot.used_by_other_schedulers.get(name, {}),
            capability=queue.capability,
            usage=used.get(name),
            entitlement=entitlements.get(name),
        )
        for name, queue in sorted(session.queues.items())
    )
