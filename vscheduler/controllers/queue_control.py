"""Startup of the Queue controller: connects Kopf's events to the QueueController."""

import asyncio
import dataclasses

from vscheduler.controllers import handlers, operator, ports
from vscheduler.controllers.queues import queue_controller


def start(
    group: asyncio.TaskGroup,
    api: ports.Api,
    entry: handlers.Entry,
    controller: queue_controller.QueueController,
    outlets: operator.Outlets,
) -> list[asyncio.Task[None]]:
    """Start the tasks of the Queue controller; each task ends when cancelled.

    `entry` is Kopf's connection to the API server. The QueueController is notified of missing
    kinds.
    """
    outlets = dataclasses.replace(outlets, absent=controller.miss)
    kopf = operator.Operator(api, entry, controller.feed, operator.Pace(), outlets)
    return [
        group.create_task(controller.run(), name="keep queues"),
        group.create_task(kopf.run(), name="kopf"),
    ]
