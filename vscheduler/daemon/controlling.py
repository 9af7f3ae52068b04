"""The controllers put together: automatic PodGroups, and Queues."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from vscheduler.cluster import connection, lanes, objects, watching
from vscheduler.controllers import grouping, owners, ports, queue_control
from vscheduler.daemon import api, metrics, pauses, settings
from vscheduler.mirror import state

log = structlog.get_logger(__name__)

PAUSES = pauses.Growth(first_seconds=1.0, longest_seconds=60.0)
"""For groups that can't be made, joined or deleted."""

QUEUE_RETRY_SECONDS = 5.0

FORBIDDEN_SECONDS = 300.0
"""How long after a refusal it is tried again to follow a kind."""


class Controllers:
    """What they share, and their start."""

    def __init__(
        self,
        given: settings.Settings,
        link: connection.Connection,
        calls: lanes.Lanes,
        mirror: state.Mirror,
        observed: metrics.Metrics,
        *,
        may_commit: Callable[[], bool],
    ) -> None:
        self._given = given
        self._link = link
        self._api: ports.Api = api.Api(link, calls, may_commit)
        self._observed = observed
        self._grouping = grouping.Grouping(
            mirror,
            self._api,
            pauses.Pauses[str](PAUSES),
            grouping.Options(
                schedulers=given.scheduler_names,
                grace_seconds=given.podgroup_grace_seconds,
                inherit_owner_annotations=given.inherit_owner_annotations,
            ),
            observe=observed.observe_group_call,
            pace=grouping.Pace(),
        )

    def changed(self) -> None:
        """The Mirror has changed."""
        self._grouping.changed()

    def start(
        self, group: asyncio.TaskGroup, ready: Callable[[], Awaitable[None]]
    ) -> list[asyncio.Task[None]]:
        """Start their tasks, which wait for `ready`: the first lists are in."""
        tasks = [group.create_task(self._grouping.run(ready), name="look after podgroups")]
        chance = random.Random()  # noqa: S311 - spreads retries; no secret
        for kind, path in owners.WATCHED.items():
            watch = watching.Watch(
                self._link,
                path,
                owners.Codec(kind),
                self._grouping.feed,
                pace=watching.Pace(),
                chance=chance,
            )
            tasks.append(group.create_task(self._follow(watch), name=f"watch {kind}"))
        tasks += queue_control.start(
            group,
            self._api,
            self._link,
            default_queue=self._given.default_queue,
            observe=self._observed.observe_write,
        )
        return tasks

    async def _follow(self, watch: watching.Watch[owners.Event]) -> None:
        """Follow a kind of owners; where we may not, say so once, and go on without."""
        told = False
        while True:
            try:
                await self._link.call("GET", f"{watch.path}?limit=1")
            except connection.Forbidden as error:
                if not told:
                    log.warning("owners.forbidden", path=watch.path, message=str(error))
                told = True
                await asyncio.sleep(FORBIDDEN_SECONDS)
                continue
            except connection.ApiError:  # the watch waits that out
                pass
            await watch.run()


async def ensure_queue(link: connection.Connection, name: str) -> None:
    """See to it that the default queue is there, where no controller of ours does.

    A missing CRD may come any moment.
    """
    while True:
        try:
            if await objects.ensure_queue(link, name):
                log.info("queue.created", queue=name)
        except connection.Forbidden as error:
            log.warning("queue.not_created", message=str(error))
        except connection.ApiError as error:
            log.info("queue.not_created", message=str(error), retry=True)
            await asyncio.sleep(QUEUE_RETRY_SECONDS)
            continue
        return
