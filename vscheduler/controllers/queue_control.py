"""The Queue controller put together: Kopf's ears, the keeper's hands."""

import asyncio
from collections.abc import Callable

from vscheduler.controllers import handlers, operator, ports, queue_keeping


def start(
    group: asyncio.TaskGroup,
    api: ports.Api,
    entry: handlers.Entry,
    *,
    default_queue: str,
    observe: Callable[[str, str], None],
    outlook: queue_keeping.Outlook,
    pulse: ports.Pulse,
) -> list[asyncio.Task[None]]:
    """Start its tasks; each ends when it is cancelled.

    entry is how Kopf reaches the API server, observe is told of each write and what came of it,
    outlook is what is known of pods, and Kopf's event loop answers to pulse while it runs.
    """
    keeper = queue_keeping.QueueKeeper(
        api,
        default_queue=default_queue,
        observe=observe,
        pace=queue_keeping.Pace(),
        outlook=outlook,
    )
    kopf = operator.Operator(api, entry, keeper.feed, operator.Pace(), pulse)
    return [
        group.create_task(keeper.run(), name="keep queues"),
        group.create_task(kopf.run(), name="kopf"),
    ]
