"""The Queue controller put together: Kopf's ears, the keeper's hands."""

import asyncio
import dataclasses

from vscheduler.controllers import handlers, operator, ports
from vscheduler.controllers.queues import queue_controller


def start(
    group: asyncio.TaskGroup,
    api: ports.Api,
    entry: handlers.Entry,
    keeper: queue_controller.QueueController,
    outlets: operator.Outlets,
) -> list[asyncio.Task[None]]:
    """Start its tasks; each ends when it is cancelled.

    entry is how Kopf reaches the API server; the keeper is told of kinds that are missing.
    """
    outlets = dataclasses.replace(outlets, absent=keeper.miss)
    kopf = operator.Operator(api, entry, keeper.feed, operator.Pace(), outlets)
    return [
        group.create_task(keeper.run(), name="keep queues"),
        group.create_task(kopf.run(), name="kopf"),
    ]
