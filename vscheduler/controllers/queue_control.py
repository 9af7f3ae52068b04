"""The Queue controller put together: Kopf's ears, the keeper's hands."""

import asyncio

from vscheduler.controllers import handlers, operator, ports, queue_keeping


def start(
    group: asyncio.TaskGroup,
    api: ports.Api,
    entry: handlers.Entry,
    keeper: queue_keeping.QueueKeeper,
    pulse: ports.Pulse,
) -> list[asyncio.Task[None]]:
    """Start its tasks; each ends when it is cancelled.

    entry is how Kopf reaches the API server, and its event loop answers to pulse while it runs.
    """
    kopf = operator.Operator(api, entry, keeper.feed, operator.Pace(), pulse)
    return [
        group.create_task(keeper.run(), name="keep queues"),
        group.create_task(kopf.run(), name="kopf"),
    ]
