"""Keeps Queues as they should be: hears of changes, plans from all that is known, writes the rest.

It lives in the daemon's event loop. Kopf merges events and tells nobody what was deleted while it
was not listening, so events only change what is known; what is known is compared with live lists
at the start, after each new list of Kopf's, and from time to time.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from vscheduler.controllers import (
    ports,
    queue_knowledge,
    queue_objects,
    queue_writing,
    queues,
)
from vscheduler.core.model import queues as model

log = structlog.get_logger(__name__)

TOGETHER_SECONDS = 0.05
"""What changes within this time is looked at once."""

SPACING_SECONDS = 0.2
"""Between two looks."""

COUNTS_SECONDS = 1.0
"""Between two writes to a queue of which nothing but the counts have changed."""

AUDIT_SECONDS = 300.0
AUDIT_HELD_SECONDS = 30.0
"""The same, while a deletion waits for what a queue holds."""

SETTLE_SECONDS = 1.0
"""How long Kopf says nothing more of a list until the live lists are taken."""

RETRY_SECONDS = 0.5
RETRY_MAX_SECONDS = 30.0
ABSENT_MAX_SECONDS = 5.0
"""Longest pause while the API itself is missing: its CRD may be installed any moment."""

TOLD_MAX = 1000
"""Refusals that are remembered, so that each is told once."""

LASTING = frozenset({ports.Trouble.FORBIDDEN, ports.Trouble.INVALID})
"""What the next attempt won't mend."""

PASSING = frozenset({ports.Trouble.CONFLICT, ports.Trouble.WITHHELD})
"""What is nothing to tell of: news of the object are on their way, or all ends."""

Steps = list[tuple[queue_objects.Queue, queues.Step]]


class QueueKeeper:
    """The Queue controller's ears and hands; what is to be done is decided in `queues`."""

    def __init__(
        self,
        api: ports.Api,
        *,
        default_queue: str,
        observe: Callable[[str, str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._default = default_queue
        self._observe = observe
        self._clock = clock
        self._writer = queue_writing.Writer(api, observe)
        self._known = queue_knowledge.Known(default_queue)
        self._commands: dict[str, queue_objects.Command] = {}
        self._changed = asyncio.Event()
        self._audit_at = 0.0
        """Like all instants here but the clock's, as time.monotonic() tells it."""
        self._due = float("inf")
        """When to look although nothing changes."""
        self._failures = 0
        self._written_at: dict[str, float] = {}
        self._told: set[str] = set()

    def feed(self, event: queue_objects.Event) -> None:
        """Learn of a change."""
        match event:
            case queue_objects.Seen(item=queue_objects.Command() as command):
                self._commands[command.uid] = command
            case queue_objects.Seen(item=queue_objects.Queue() | queue_objects.Group() as item):
                self._known.see(item)
                if event.listed and self._known.complete:
                    self._audit_at = time.monotonic() + SETTLE_SECONDS
            case queue_objects.Gone():
                self._commands.pop(event.uid, None)
                self._known.forget(event.uid)
        self._changed.set()

    async def run(self) -> None:
        """Look whenever something has changed, and write what differs, for ever."""
        while True:
            self._changed.clear()
            await self._look()
            await asyncio.sleep(SPACING_SECONDS)
            await self._wait()

    async def _wait(self) -> None:
        """Until something changes or is due."""
        seconds = min(self._due, self._audit_at) - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(TOGETHER_SECONDS)

    async def _look(self) -> None:
        """One look: a step with each queue that isn't as it should be."""
        self._due = float("inf")
        troubles = []
        if time.monotonic() >= self._audit_at:
            troubles.append(await self._try(self._audit()))
        if self._known.complete:
            troubles += await self._ensure()
            for command in sorted(
                self._commands.values(), key=lambda each: (each.created, each.name, each.uid)
            ):
                troubles.append(await self._try(self._obey(command)))
            troubles += await self._keep()
        self._plan_retry({each for each in troubles if each is not None})

    def _plan_retry(self, troubles: set[ports.Trouble]) -> None:
        """Look again soon, or later each time in a row."""
        if not troubles:
            self._failures = 0
            return
        pause = min(RETRY_MAX_SECONDS, RETRY_SECONDS * 2.0 ** min(self._failures, 16))
        if troubles <= LASTING:
            pause = RETRY_MAX_SECONDS
        elif troubles <= {ports.Trouble.MISSING}:
            pause = min(pause, ABSENT_MAX_SECONDS)
        self._failures += 1
        now = time.monotonic()
        self._due = min(self._due, now + pause)
        if self._audit_at <= now:
            self._audit_at = self._due

    async def _keep(self) -> Sequence[ports.Trouble | None]:
        """Take the next step with each queue that needs one."""
        troubles: list[ports.Trouble | None] = []
        steps = self._steps()
        if any(isinstance(step, queues.Release) for _, step in steps):
            troubles.append(await self._try(self._audit()))
            steps = self._steps()
            if troubles[0] is not None:  # nothing is let go unseen
                steps = [each for each in steps if not isinstance(each[1], queues.Release)]
        self._writer.forget_but({each.uid for each in self._known.queues.values()})
        done = await asyncio.gather(*(self._try(self._take(*each)) for each in steps))
        return [*troubles, *done]

    def _steps(self) -> Steps:
        """What is to be done now, from all that is known."""
        known, now = self._known.queues, self._clock()
        steps = []
        for name, plan in queues.plans(known, self._known.counts).items():
            queue = known[name]
            sent = self._writer.sent(queue)
            step = queues.next_step(queue, plan, sent, now)
            if isinstance(step, queues.Tell) and queues.only_counts(step.status, sent):
                until = self._written_at.get(queue.uid, 0.0) + COUNTS_SECONDS
                if time.monotonic() < until:
                    self._due = min(self._due, until)
                    continue
            if step is not None:
                steps.append((queue, step))
        return steps

    async def _take(self, queue: queue_objects.Queue, step: queues.Step) -> None:
        """Take one step, and learn how the queue looks then."""
        stored: ports.Object | None
        match step:
            case queues.Mark():
                stored = await self._writer.mark(queue, step.patch)
            case queues.Tell():
                self._written_at[queue.uid] = time.monotonic()
                stored = await self._writer.tell(queue, step.status)
                if step.status["state"] != queue.state:
                    log.info("queue.state", queue=queue.name, state=step.status["state"])
            case queues.Release():
                stored = await self._writer.mark(queue, queues.release(queue))
                log.info("queue.released", queue=queue.name, uid=queue.uid)
        if stored is not None:
            left = queue_objects.queue(stored)
            if left.deleting and not left.finalizers:
                self._known.forget(left.uid)
            else:
                self._known.refresh(left)
        self._changed.set()

    async def _audit(self) -> None:
        """Take the live lists for what there is."""
        self._known.begin()
        listed = await self._api.list(queue_objects.QUEUES)
        groups = await self._api.list(queue_objects.POD_GROUPS)
        self._known.replace([*map(queue_objects.queue, listed), *map(queue_objects.group, groups)])
        left = self._known.queues.values()
        held = any(each.deleting for each in left)
        self._audit_at = time.monotonic() + (AUDIT_HELD_SECONDS if held else AUDIT_SECONDS)
        uids = {each.uid for each in left}
        self._written_at = {uid: at for uid, at in self._written_at.items() if uid in uids}

    async def _ensure(self) -> list[ports.Trouble | None]:
        """See to it that root and the default queue exist; one that does is left as it is."""
        missing = dict.fromkeys(
            name for name in (model.ROOT, self._default) if name not in self._known.queues
        )
        return [await self._try(self._create(name)) for name in missing]

    async def _create(self, name: str) -> None:
        """Volcano: the scheduler's cache makes both at its start; root's pods aren't reclaimed."""
        body: ports.Object = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": name != model.ROOT},
        }
        try:
            stored = await self._api.create(queue_objects.QUEUES, body)
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.EXISTS:
                raise
            stored = await self._api.get(f"{queue_objects.QUEUES}/{name}")
        else:
            log.info("queue.created", queue=name)
        self._known.see(queue_objects.queue(stored))

    async def _obey(self, command: queue_objects.Command) -> None:
        """Write down what a Command asks for, then delete it: what a crash repeats does no harm."""
        queue = await self._live(command.queue)
        why = ""
        if queue is None:
            why = "there is no such queue"
        elif command.queue_uid not in {"", queue.uid}:
            why = "it is meant for an earlier queue of this name"
        elif (queue.name, command.action) == (model.ROOT, queue_objects.Action.CLOSE):
            why = "root can't be closed"
        else:
            stored = await self._writer.mark(queue, queues.wanted(queue, command.action))
            self._known.see(queue_objects.queue(stored))
        try:
            await self._api.delete(command.path, ports.Preconditions(uid=command.uid))
        except ports.RefusedError as error:
            if error.trouble not in {ports.Trouble.MISSING, ports.Trouble.CONFLICT}:
                raise
        self._commands.pop(command.uid, None)
        self._observe("command", "refused" if why else "done")
        told = {"command": command.name, "queue": command.queue, "action": str(command.action)}
        if why:
            log.warning("command.refused", message=why, **told)
        else:
            log.info("command.done", **told)

    async def _live(self, name: str) -> queue_objects.Queue | None:
        """The Queue of this name as it is stored now: news of it may be later than a Command."""
        try:
            return queue_objects.queue(await self._api.get(f"{queue_objects.QUEUES}/{name}"))
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.MISSING:
                raise
            return None

    async def _try(self, call: Coroutine[Any, Any, None]) -> ports.Trouble | None:
        """Make calls; what they came to nothing for. Lasting trouble is told once."""
        try:
            await call
        except ports.RefusedError as error:
            self._observe("queue", str(error.trouble))
            if error.trouble is ports.Trouble.MISSING and self._known.complete:
                self._audit_at = min(self._audit_at, time.monotonic() + SETTLE_SECONDS)
            lasting, message = error.trouble in LASTING, str(error)
            passing = error.trouble in PASSING or (
                error.trouble is ports.Trouble.MISSING and self._known.complete
            )
            if not passing and not (lasting and message in self._told):
                log.warning("queue.not_kept", message=message, retry=not lasting)
            if lasting and len(self._told) < TOLD_MAX:
                self._told.add(message)
            return error.trouble
        return None
