"""What fails where nobody waits for it: objects that can't be read, and callbacks."""

import asyncio
from typing import Any

from vscheduler import containment
from vscheduler.mirror import statuses
from vscheduler.mirror.decode import events

OBJECTS = (events.Kind.POD, events.Kind.POD_GROUP, events.Kind.QUEUE)
"""Kinds that events are written about."""


def tell_of_object(
    failures: containment.Failures, refused: events.Reject, error: Exception
) -> None:
    """An object that reading fails at is told so, where events can be about its kind."""
    subject = None
    if refused.kind in OBJECTS:
        subject = statuses.Subject(
            kind=refused.kind, namespace=refused.namespace, name=refused.name, uid=refused.uid
        )
    key = f"{refused.kind} {refused.namespace}/{refused.name}"
    failures.failed("object", key, error, subject)


def tell_of_callback(
    failures: containment.Failures, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """What a callback of the event loop raises, or a task that nobody waits for."""
    error = context.get("exception")
    if isinstance(error, Exception):
        failures.failed("event loop", context.get("message", ""), error)
    else:
        loop.default_exception_handler(context)
