"""Keeps Queues as they should be: hears of changes, plans from all that is known, writes the rest.

It lives in the daemon's event loop. Kopf merges events and tells nobody what was deleted while it
was not listening, so events only change what is known; what is known is compared with live lists
at the start, after each new list of Kopf's, and from time to time.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from vscheduler import backoff, containment
from vscheduler.controllers import ports
from vscheduler.controllers.queues import queue_cache, queue_objects, queue_reconcile, queue_writer
from vscheduler.core.model import queues as model
from vscheduler.mirror import paths, statuses

log = structlog.get_logger(__name__)

TOLD_MAX = 1000
"""Refusals that are remembered, so that each is told once."""

PASSING = frozenset({ports.Trouble.CONFLICT, ports.Trouble.MISSING, ports.Trouble.WITHHELD})
"""What is nothing to tell of: news of the object are on their way, or all ends."""

KINDS = "kinds"
"""What stands for the question whether Queues and PodGroups are there to stay."""

LISTS = "lists"
"""What stands for the live lists where objects have their UIDs, and queues that lack, names."""

Steps = list[tuple[queue_objects.Queue, queue_reconcile.Step]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How quick and how patient it is. Seconds."""

    together_seconds: float = 0.05
    """What changes within this time is looked at once."""
    spacing_seconds: float = 0.2
    """Between two looks."""
    counts_seconds: float = 1.0
    """Between two writes to a queue of which nothing but the counts have changed."""
    audit_seconds: float = 300.0
    """Between two comparisons with live lists."""
    audit_held_seconds: float = 30.0
    """The same, while a deletion waits for what a queue holds."""
    settle_seconds: float = 1.0
    """How long Kopf says nothing more of a list until the live lists are taken."""
    kinds_seconds: float = 2.0
    """Between two questions whether kinds are being taken away, while it may be so."""
    retry_seconds: float = 0.5
    """First pause after a failure; each is twice the one before. After a conflict it stays this, as
    news are on their way."""
    retry_max_seconds: float = 30.0
    """The longest pause, and at once that after a refusal that won't go away by itself."""
    absent_max_seconds: float = 5.0
    """The longest while something is missing: its CRD may be installed any moment."""

    def growth(self, trouble: ports.Trouble) -> backoff.Growth:
        """The pauses after such trouble."""
        first, longest = self.retry_seconds, self.retry_max_seconds
        if trouble is ports.Trouble.CONFLICT:
            longest = first
        elif trouble is ports.Trouble.MISSING:
            longest = self.absent_max_seconds
        elif trouble in ports.LASTING:
            first = longest
        # No bound on keys: whatever doesn't fail in a look is forgotten at its end.
        return backoff.Growth(first_seconds=first, longest_seconds=longest, most=sys.maxsize)


class QueueController:
    """The Queue controller's ears and hands; what is to be done is decided in `queues`."""

    def __init__(
        self,
        api: ports.Api,
        *,
        default_queue: str,
        observe: Callable[[str, str], None],
        pace: Pace,
        witness: queue_cache.Witness = queue_cache.as_written,
        failures: containment.Failures | None = None,
    ) -> None:
        """`witness` says where a PodGroup counts; `moved` is told when it may say otherwise."""
        self._failures = failures or containment.Failures()
        self._api = api
        self._default = default_queue
        self._observe = observe
        self._pace = pace
        self._writer = queue_writer.QueueWriter(api, observe)
        self._known = queue_cache.QueueCache(default_queue, witness)
        self._served = queue_cache.ServedKinds(api)
        self._missed = False
        """Whether somebody has missed a kind since that was last asked."""
        self._ask_at = 0.0
        self._commands: dict[str, queue_objects.Command] = {}
        self._changed = asyncio.Event()
        self._audit_at = 0.0
        """Like all instants here, as time.monotonic() tells it."""
        self._due = float("inf")
        """When to look although nothing changes."""
        self._backoff = backoff.Backoff[str](pace.growth(ports.Trouble.UNANSWERED))
        self._looked_at = 0.0
        """When the last look began: pauses that were over by then are over for all of it."""
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
                    self._audit_at = time.monotonic() + self._pace.settle_seconds
            case queue_objects.Gone():
                self._commands.pop(event.uid, None)
                self._known.forget(event.uid)
        self._changed.set()

    def moved(self, key: str) -> None:
        """Learn that pods of a PodGroup (`namespace/name`) came, changed or went."""
        if self._known.doubt(key):
            self._changed.set()

    def miss(self) -> None:
        """Learn that a kind isn't there, so that nothing is heard of what becomes of objects."""
        self._missed = True
        self._changed.set()

    async def run(self) -> None:
        """Look whenever something has changed, and write what differs, for ever."""
        while True:
            self._changed.clear()
            with self._failures.contained("queues", "all of them"):
                await self._look()
            await asyncio.sleep(self._pace.spacing_seconds)
            await self._wait()

    async def _wait(self) -> None:
        """Until something changes or is due."""
        seconds = min(self._due, self._audit_at) - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._pace.together_seconds)

    async def _look(self) -> None:
        """One look: a step with each queue that isn't as it should be."""
        self._due = float("inf")
        self._looked_at = time.monotonic()
        if self._may_go():
            if time.monotonic() >= self._ask_at and self._may_try(KINDS):
                await self._try(KINDS, self._ask())
            self._due = min(self._due, self._ask_at)
        if time.monotonic() >= self._audit_at:
            await self._try(LISTS, self._audit())
        if self._served.goes:
            await self._let_go()
        elif self._known.complete:
            await self._ensure()
            for command in sorted(self._commands.values(), key=_age):
                if self._may_try(command.uid):
                    await self._try(command.uid, self._obey(command))
            await self._keep()
        # What might have been tried in this look and hasn't failed is forgotten.
        for key in self._backoff.ended(self._looked_at):
            self._backoff.succeeded(key)
        self._due = min(self._due, self._backoff.next_end)

    def _may_try(self, key: str) -> bool:
        """Whether the pause of a key was over when this look began."""
        return self._backoff.until(key) <= self._looked_at

    def _failed(self, key: str, trouble: ports.Trouble) -> None:
        """The next attempt has to wait."""
        self._backoff.failed(key, time.monotonic(), self._pace.growth(trouble))
        if key == LISTS:
            self._audit_at = self._backoff.until(LISTS)

    def _may_go(self) -> bool:
        """Whether it may be that a kind is being taken away: somebody has missed it, or a queue
        that is being deleted is held.
        """
        if self._missed or not self._served.whole:
            return True
        return any(map(queue_reconcile.is_held, self._known.queues.values()))

    async def _ask(self) -> None:
        """Learn whether kinds are there to stay; while they aren't, look at lists each time."""
        was_whole = self._served.whole
        self._missed = False
        self._ask_at = time.monotonic() + self._pace.kinds_seconds
        await self._served.ask()
        if not (was_whole and self._served.whole):
            self._audit_at = 0.0
        if was_whole and not self._served.whole:
            log.warning(
                "queue.kinds_leave",
                absent=sorted(self._served.absent),
                leaving=sorted(self._served.leaving),
            )

    async def _let_go(self) -> None:
        """Queues go with their kind: whatever they hold, nothing waits for it."""
        held = [each for each in self._known.queues.values() if queue_reconcile.is_held(each)]
        steps: Steps = [
            (each, queue_reconcile.Release()) for each in held if self._may_try(each.uid)
        ]
        await asyncio.gather(
            *(self._try(queue.uid, self._take(queue, step)) for queue, step in steps)
        )

    async def _keep(self) -> None:
        """Take the next step with each queue that needs one."""
        steps = self._steps()
        if any(isinstance(step, queue_reconcile.Release) for _, step in steps):
            listed = self._may_try(LISTS) and await self._try(LISTS, self._audit())
            steps = [
                each
                for each in self._steps()
                if listed
                or not isinstance(each[1], queue_reconcile.Release)  # nothing is let go unseen
            ]
        self._writer.forget_but({each.uid for each in self._known.queues.values()})
        await asyncio.gather(
            *(self._try(queue.uid, self._take(queue, step)) for queue, step in steps)
        )

    def _steps(self) -> Steps:
        """What is to be done now, from all that is known."""
        known, now = self._known.queues, time.time()
        steps = []
        for name, plan in queue_reconcile.plans(known, self._known.counts).items():
            queue = known[name]
            if not self._may_try(queue.uid):
                continue
            sent, step = self._writer.sent(queue), None
            with self._failures.contained("queue", name, _subject(queue)) as piece:
                step = queue_reconcile.next_step(queue, plan, sent, now)
            if piece.failed:
                self._failed(queue.uid, ports.Trouble.UNANSWERED)
            if isinstance(step, queue_reconcile.Tell) and queue_reconcile.only_counts(
                step.status, sent
            ):
                until = self._written_at.get(queue.uid, 0.0) + self._pace.counts_seconds
                if time.monotonic() < until:
                    self._due = min(self._due, until)
                    continue
            if step is not None:
                steps.append((queue, step))
        return steps

    async def _take(self, queue: queue_objects.Queue, step: queue_reconcile.Step) -> None:
        """Take one step, and learn how the queue looks then."""
        stored: ports.Object | None
        match step:
            case queue_reconcile.Mark():
                stored = await self._writer.mark(queue, step.patch)
            case queue_reconcile.Tell():
                self._written_at[queue.uid] = time.monotonic()
                stored = await self._writer.tell(queue, step.status)
                if step.status["state"] != queue.state:
                    log.info("queue.state", queue=queue.name, state=step.status["state"])
            case queue_reconcile.Release():
                stored = await self._writer.mark(queue, queue_reconcile.release(queue))
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
        listed = await self._served.list(queue_objects.Kind.QUEUE)
        groups = await self._served.list(queue_objects.Kind.POD_GROUP)
        self._known.replace([*map(queue_objects.queue, listed), *map(queue_objects.group, groups)])
        left = self._known.queues.values()
        held = any(each.deleting for each in left)
        self._audit_at = time.monotonic() + (
            self._pace.audit_held_seconds if held else self._pace.audit_seconds
        )
        uids = {each.uid for each in left}
        self._written_at = {uid: at for uid, at in self._written_at.items() if uid in uids}

    async def _ensure(self) -> None:
        """See to it that root and the default queue exist; one that does is left as it is."""
        known = self._known.queues
        for name in dict.fromkeys((model.ROOT, self._default)):
            if name not in known and self._may_try(name):
                await self._try(name, self._create(name))

    async def _create(self, name: str) -> None:
        """Volcano: the scheduler's cache makes both at its start; root's pods aren't reclaimed."""
        body: ports.Object = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": name != model.ROOT},
        }
        try:
            stored = await self._api.create(paths.QUEUES.everywhere, body)
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.EXISTS:
                raise
            stored = await self._api.get(paths.QUEUES.at(name))
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
            stored = await self._writer.mark(queue, queue_reconcile.wanted(queue, command.action))
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
            return queue_objects.queue(await self._api.get(paths.QUEUES.at(name)))
        except paths.UnusableNameError:
            return None
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.MISSING:
                raise
            return None

    async def _try(self, key: str, call: Coroutine[Any, Any, None]) -> bool:
        """Make calls about something; whether they came to something. Trouble that lasts is told
        once.
        """
        try:
            await call
        except ports.RefusedError as error:
            self._observe("queue", str(error.trouble))
            self._failed(key, error.trouble)
            if key != LISTS and error.trouble is ports.Trouble.MISSING:
                self._audit_at = min(self._audit_at, time.monotonic() + self._pace.settle_seconds)
            if key == LISTS or error.trouble not in PASSING:
                self._complain(error)
            return False
        except Exception as error:  # noqa: BLE001 - one queue stops no other
            self._failures.failed("queue", key, error)
            self._failed(key, ports.Trouble.UNANSWERED)
            return False
        return True

    def _complain(self, error: ports.RefusedError) -> None:
        """Tell what goes on being so once."""
        message = str(error)
        if message not in self._told:
            log.warning("queue.not_kept", message=message)
        goes_on = error.trouble in {*ports.LASTING, ports.Trouble.MISSING}
        if goes_on and len(self._told) < TOLD_MAX:
            self._told.add(message)


def _subject(queue: queue_objects.Queue) -> statuses.ObjectReference:
    return statuses.ObjectReference(kind="Queue", namespace="", name=queue.name, uid=queue.uid)


def _age(command: queue_objects.Command) -> tuple[int, str]:
    """In which order Commands were made, which nobody changes any more."""
    return (int(command.version) if command.version.isdecimal() else 0, command.uid)
