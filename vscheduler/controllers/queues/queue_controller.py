"""The Queue controller: learns of changes, plans from indices, writes the differences.

Events only say that something has changed. The indices are compared with live lists at startup,
after each new list of Kopf's, and from time to time. What was written to a queue is waited for: no
further step for the queue is planned from an index that doesn't show it.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec
import structlog

from vscheduler.backoff import Backoff, Growth
from vscheduler.containment import Failures
from vscheduler.controllers import ports
from vscheduler.controllers.ports import Api, Object, Preconditions, RefusedError, Trouble
from vscheduler.controllers.queues import queue_objects, queue_reconcile
from vscheduler.controllers.queues.queue_index import QueueIndex, ServedKinds
from vscheduler.controllers.queues.queue_objects import Action, Command, FollowedKind, Queue
from vscheduler.controllers.queues.queue_reconcile import Body, Mark, Release, Step, Tell
from vscheduler.mirror import paths, queue_status
from vscheduler.mirror.paths import UnusableNameError
from vscheduler.model import queues as model

log = structlog.get_logger(__name__)

LOGGED_MAX = 1000
"""How many logged refusals are remembered."""

PASSING = frozenset({Trouble.CONFLICT, Trouble.MISSING, Trouble.WITHHELD})
"""Refusals that aren't logged: an update of the object is on its way, or our leadership ends."""

KINDS = "kinds"
"""Backoff key of the question whether Queues and PodGroups are still served."""

LISTS = "lists"
"""Backoff key of the live lists. Objects have their UIDs as keys, missing queues their names."""

Steps = list[tuple[Queue, Step]]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of the controller. Seconds."""

    together_seconds: float = 0.05
    """Changes within this interval are handled together."""
    spacing_seconds: float = 0.2
    """Between two looks, at least."""
    rest_factor: float = 4.0
    """A look is followed by a rest of at least `rest_factor` times its CPU time."""
    counts_seconds: float = 1.0
    """Between two writes to a queue of which only the counts changed."""
    audit_seconds: float = 300.0
    """Between two comparisons with live lists."""
    audit_held_seconds: float = 30.0
    """Like audit_seconds, while a deletion waits for the contents of a queue."""
    settle_seconds: float = 1.0
    """How long after the last event of Kopf's list the live lists are requested."""
    shown_seconds: float = 10.0
    """How long a watch may take to show a write, before the next step doesn't wait any more."""
    kinds_seconds: float = 2.0
    """Between two questions whether kinds are being removed, while a removal is possible."""
    retry_seconds: float = 0.5
    """The first pause after a failure. Pauses double with each failure, except after conflicts."""
    retry_max_seconds: float = 30.0
    """The longest pause, used at once after a lasting refusal."""
    absent_max_seconds: float = 5.0
    """The longest pause while an object or API is missing: a CRD may be installed any moment."""

    def growth(self, trouble: Trouble) -> Growth:
        """Return the growth of pauses after this kind of trouble."""
        first, longest = self.retry_seconds, self.retry_max_seconds
        if trouble is Trouble.CONFLICT:
            longest = first
        elif trouble is Trouble.MISSING:
            longest = self.absent_max_seconds
        elif trouble in ports.LASTING:
            first = longest
        # Keys need no bound: at the end of a look, keys without a failure are forgotten.
        return Growth(first_seconds=first, longest_seconds=longest, most=sys.maxsize)


class QueueController:
    """Keeps Queues as planned by queue_reconcile."""

    def __init__(
        self,
        api: Api,
        *,
        index: QueueIndex,
        observe: Callable[[str, str], None],
        pace: Pace,
        failures: Failures | None = None,
    ) -> None:
        """Call `changed` when the index may have changed."""
        self._failures = failures or Failures()
        self._api = api
        self._index = index
        self._default = index.default_queue
        self._observe = observe
        self._pace = pace
        self._writer = QueueWriter(api, observe)
        self._served = ServedKinds(api)
        self._missed = False
        """Whether a kind couldn't be listed since the last question."""
        self._ask_at = 0.0
        self._done: set[str] = set()
        """UIDs of the Commands that were executed, until the index doesn't have them any more."""
        self._awaited: dict[str, tuple[str, float]] = {}
        """By UID of a queue that was written to, or name of one that was created: the version that
        the index is to show, and until when it is waited for."""
        self._changed = asyncio.Event()
        self._audit_at = 0.0
        """All times of this class are on the clock of time.monotonic."""
        self._due = float("inf")
        """When to look again without any change."""
        self._backoff = Backoff[str](pace.growth(Trouble.UNANSWERED))
        self._looked_at = 0.0
        """Start of the last look. A pause that was over by then is over for the whole look."""
        self._written_at: dict[str, float] = {}
        self._logged: set[str] = set()

    def changed(self, *, listed: bool = False) -> None:
        """Notice that an object, or pods of a PodGroup, came, changed or went.

        `listed`: Kopf has listed the object, and hasn't heard of what went before.
        """
        if listed and self._index.complete:
            self._audit_at = time.monotonic() + self._pace.settle_seconds
        self._changed.set()

    async def run(self) -> None:
        """Run forever: look after every change, and write the differences."""
        while True:
            self._changed.clear()
            began = time.thread_time()
            with self._failures.contained("queues", "all of them"):
                await self._look()
            rest = self._pace.rest_factor * (time.thread_time() - began)
            await asyncio.sleep(max(self._pace.spacing_seconds, rest))
            await self._wait()

    async def _wait(self) -> None:
        """Wait until something changes or is due."""
        seconds = min(self._due, self._audit_at) - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._pace.together_seconds)

    async def _look(self) -> None:
        """Look at all queues, and take a step for each queue that differs from its plan."""
        self._due = float("inf")
        self._looked_at = time.monotonic()
        if self._may_go():
            if time.monotonic() >= self._ask_at and self._may_try(KINDS):
                await self._try(KINDS, self._ask)
            self._due = min(self._due, self._ask_at)
        if time.monotonic() >= self._audit_at:
            await self._try(LISTS, self._audit)
        if self._served.goes:
            await self._release_all()
        elif self._index.complete:
            await self._ensure()
            commands = self._index.commands
            self._done &= {command.uid for command in commands}
            for command in commands:
                if command.uid not in self._done and self._may_try(command.uid):
                    await self._try(command.uid, self._execute, command)
            await self._reconcile()
        # Keys that could have been tried in this look and didn't fail start afresh.
        for key in self._backoff.ended(self._looked_at):
            self._backoff.succeeded(key)
        self._due = min(self._due, self._backoff.next_end)

    def _may_try(self, key: str) -> bool:
        """Whether the pause of a key was over when the look began."""
        return self._backoff.until(key) <= self._looked_at

    def _failed(self, key: str, trouble: Trouble) -> None:
        """Pause a key after a failure."""
        self._backoff.failed(key, time.monotonic(), self._pace.growth(trouble))
        if key == LISTS:
            self._audit_at = self._backoff.until(LISTS)

    def _may_go(self) -> bool:
        """Whether a kind may be in removal: reported missing, or our finalizer holds a queue."""
        if self._missed or self._served.goes or not self._served.settled:
            return True
        return any(map(queue_reconcile.is_held, self._index.queues.values()))

    async def _ask(self) -> None:
        """Ask which kinds are served. In case of doubt the live lists are read each time."""
        was_settled, absent = self._served.settled, self._served.absent
        self._missed = False
        self._ask_at = time.monotonic() + self._pace.kinds_seconds
        await self._served.ask()
        if not (was_settled and self._served.settled) or self._served.absent != absent:
            self._audit_at = 0.0
        if was_settled and not self._served.settled:
            log.warning(
                "queue.kinds_leave",
                absent=sorted(self._served.absent),
                leaving=sorted(self._served.leaving),
            )

    async def _release_all(self) -> None:
        """Release all queues: their kind is being removed, and nothing waits for their contents."""
        held = [queue for queue in self._index.queues.values() if queue_reconcile.is_held(queue)]
        steps: Steps = [
            (each, Release()) for each in held if self._may_try(each.uid) and self._shows(each)
        ]
        await asyncio.gather(
            *(self._try(queue.uid, self._apply_step, queue, step) for queue, step in steps)
        )

    async def _reconcile(self) -> None:
        """Take the next step for each queue that needs a step."""
        steps = self._steps()
        if any(isinstance(step, Release) for _, step in steps):
            listed = self._may_try(LISTS) and await self._try(LISTS, self._audit)
            steps = [
                (queue, step)
                for queue, step in self._steps()
                if not isinstance(step, Release) or (listed and self._may_release(queue))
            ]
        uids = {queue.uid for queue in self._index.queues.values()}
        self._writer.forget_but(uids)
        self._written_at = {uid: at for uid, at in self._written_at.items() if uid in uids}
        names = {model.ROOT, self._default}
        self._awaited = {key: each for key, each in self._awaited.items() if key in uids | names}
        await asyncio.gather(
            *(self._try(queue.uid, self._apply_step, queue, step) for queue, step in steps)
        )

    def _may_release(self, queue: Queue) -> bool:
        """Whether the live lists have nothing in this queue; otherwise wait for the index."""
        if not self._index.may_release(queue):
            self._failed(queue.uid, Trouble.CONFLICT)
            return False
        return True

    def _shows(self, queue: Queue) -> bool:
        """Whether the index shows the last write to a queue, or won't."""
        version, until = self._awaited.get(queue.uid, ("", 0.0))
        if not version or not queue_objects.newer(version, than=queue.version):
            self._awaited.pop(queue.uid, None)
            return True
        return self._waited(queue.uid, until)

    def _waited(self, key: str, until: float) -> bool:
        """Whether the time to wait for the index is over."""
        if time.monotonic() < until:
            self._due = min(self._due, until)
            return False
        self._awaited.pop(key, None)
        return True

    def _await(self, key: str, version: str) -> None:
        self._awaited[key] = version, time.monotonic() + self._pace.shown_seconds

    def _steps(self) -> Steps:
        """Return the next step of each queue, from the indices."""
        queues, now = self._index.queues, time.time()
        steps = []
        for name, plan in queue_reconcile.plans(
            queues, self._index.counts, self._index.alone
        ).items():
            queue = queues[name]
            if not self._may_try(queue.uid) or not self._shows(queue):
                continue
            sent, step = self._writer.sent(queue), None
            with self._failures.contained("queue", name, queue.reference) as piece:
                step = queue_reconcile.next_step(queue, plan, sent, now)
            if piece.failed:
                self._failed(queue.uid, Trouble.UNANSWERED)
            if isinstance(step, Tell) and queue_reconcile.only_counts(step.status, sent):
                until = self._written_at.get(queue.uid, 0.0) + self._pace.counts_seconds
                if time.monotonic() < until:
                    self._due = min(self._due, until)
                    continue
            if step is not None:
                steps.append((queue, step))
        return steps

    async def _apply_step(self, queue: Queue, step: Step) -> None:
        """Take a step, and wait for the index to show it."""
        stored: Object | None
        match step:
            case Mark():
                stored = await self._writer.mark(queue, step.patch)
            case Tell():
                self._written_at[queue.uid] = time.monotonic()
                stored = await self._writer.tell(queue, step.status)
                if step.status["state"] != queue.state:
                    log.info("queue.state", queue=queue.name, state=step.status["state"])
            case Release():
                stored = await self._writer.mark(queue, queue_reconcile.release(queue))
                log.info("queue.released", queue=queue.name, uid=queue.uid)
        if stored is not None:
            self._await(queue.uid, queue_objects.queue(stored).version)
        self._changed.set()

    async def _audit(self) -> None:
        """Compare the indices with live lists."""
        self._audit_at = float("inf")  # unless something asks for the next one meanwhile
        self._index.begin()
        queues = [*map(queue_objects.queue, await self._served.list(FollowedKind.QUEUE))]
        groups = [*map(queue_objects.group, await self._served.list(FollowedKind.POD_GROUP))]
        native = map(
            queue_objects.native_group, await self._served.list(FollowedKind.NATIVE_POD_GROUP)
        )
        self._index.compare(queues, [*groups, *filter(None, native)])
        held = any(each.deleting for each in queues)
        seconds = self._pace.audit_held_seconds if held else self._pace.audit_seconds
        seconds = seconds if self._index.complete else self._pace.settle_seconds
        self._audit_at = min(self._audit_at, time.monotonic() + seconds)

    async def _ensure(self) -> None:
        """Create root and the default queue if missing; existing queues are left alone."""
        queues = self._index.queues
        for name in dict.fromkeys((model.ROOT, self._default)):
            _, until = self._awaited.get(name, ("", 0.0))
            if name not in queues and self._may_try(name) and self._waited(name, until):
                await self._try(name, self._create, name)

    async def _create(self, name: str) -> None:
        """Volcano: the scheduler's cache creates both at startup; pods of root aren't
        reclaimable.
        """
        body: Object = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": name != model.ROOT},
        }
        try:
            await self._api.create(paths.QUEUES.everywhere, body)
        except RefusedError as error:
            if error.trouble is not Trouble.EXISTS:
                raise
        else:
            log.info("queue.created", queue=name)
        self._await(name, "")

    async def _execute(self, command: Command) -> None:
        """Record a Command's wish on its Queue, then delete the Command; repetition is harmless."""
        queue = await self._live(command.queue)
        why = ""
        if queue is None:
            why = "there is no such queue"
        elif command.queue_uid not in {"", queue.uid}:
            why = "it is meant for an earlier queue of this name"
        elif (queue.name, command.action) == (model.ROOT, Action.CLOSE):
            why = "root can't be closed"
        else:
            stored = await self._writer.mark(queue, queue_reconcile.wanted(queue, command.action))
            self._await(queue.uid, queue_objects.queue(stored).version)
        try:
            await self._api.delete(command.path, Preconditions(uid=command.uid))
        except RefusedError as error:
            if error.trouble not in {Trouble.MISSING, Trouble.CONFLICT}:
                raise
        self._done.add(command.uid)
        self._observe("command", "refused" if why else "done")
        described = {"command": command.name, "queue": command.queue, "action": str(command.action)}
        if why:
            log.warning("command.refused", message=why, **described)
        else:
            log.info("command.done", **described)

    async def _live(self, name: str) -> Queue | None:
        """Return the stored Queue of this name: the index may lag behind a Command."""
        try:
            return queue_objects.queue(await self._api.get(paths.QUEUES.at(name)))
        except UnusableNameError:
            return None
        except RefusedError as error:
            if error.trouble is not Trouble.MISSING:
                raise
            return None

    async def _try(self, key: str, make: Callable[..., Awaitable[None]], *about: Any) -> bool:
        """Make calls about a key; return whether they succeeded."""
        try:
            await make(*about)
        except RefusedError as error:
            self._observe("queue", str(error.trouble))
            self._failed(key, error.trouble)
            if key == LISTS:
                self._missed = self._missed or error.trouble is Trouble.MISSING
            elif error.trouble is Trouble.MISSING:
                self._audit_at = min(self._audit_at, time.monotonic() + self._pace.settle_seconds)
            if key == LISTS or error.trouble not in PASSING:
                self._log_refusal(error)
            return False
        except Exception as error:  # noqa: BLE001 - a failure affects a single queue
            self._failures.failed("queue", key, error)
            self._failed(key, Trouble.UNANSWERED)
            return False
        return True

    def _log_refusal(self, error: RefusedError) -> None:
        """Log a refusal, and lasting ones only once."""
        message = str(error)
        if message not in self._logged:
            log.warning("queue.not_kept", message=message)
        goes_on = error.trouble in {*ports.LASTING, Trouble.MISSING}
        if goes_on and len(self._logged) < LOGGED_MAX:
            self._logged.add(message)


MANAGER = {"fieldManager": "vscheduler-controllers", "force": "true"}
REQUIRED = "status.allocated"
NOTHING = {"cpu": "0", "memory": "0"}
"""The value that Volcano's CRD requires of the first writer; figures of a scheduler replace it."""


class QueueWriter:
    """Writes to Queues, and remembers the writes: metadata by merge patch, status by server-side
    apply.

    With server-side apply, schedulers keep their own figures in the same status. A new status is
    compared with the last sent status, not with the stored status, which may have fewer fields:
    Volcano's CRD lacks conditions.
    """

    def __init__(self, api: Api, observe: Callable[[str, str], None]) -> None:
        self._api = api
        self._observe = observe
        self._sent: dict[str, Body] = {}
        self._sent_narrowed: dict[str, Body] = {}
        """The part of the sent status that the CRD has fields for."""
        self._narrow_until = 0.0
        self._narrowed = False

    def sent(self, queue: Queue) -> Mapping[str, Any]:
        """Return the status last sent to the Queue; after a restart, the stored status."""
        return self._sent.get(queue.uid, queue.status)

    def forget_but(self, uids: Collection[str]) -> None:
        """Forget all Queues except these."""
        for uid in self._sent.keys() - uids:
            del self._sent[uid]
            self._sent_narrowed.pop(uid, None)

    async def mark(self, queue: Queue, patch: Body) -> Object:
        """Change a Queue's metadata; return the Queue as stored. Raises ports.RefusedError."""
        stored = await self._api.patch(paths.QUEUES.at(queue.name), patch)
        self._observe("queue", "marked")
        return stored

    async def tell(self, queue: Queue, status: Body) -> Object | None:
        """Write a Queue's status, without fields that the CRD lacks; return the Queue as stored.

        Return None when the remaining fields are stored already. Raises ports.RefusedError; what
        was sent before is forgotten then, because a write without an answer may be executed.
        """
        stored = None
        before = self._sent.pop(queue.uid, {})
        narrowed_before = self._sent_narrowed.pop(queue.uid, None)
        narrowed = queue_status.narrowed(status)
        if time.monotonic() >= self._narrow_until or narrowed == status:
            try:
                stored = await self._apply(queue, status)
            except RefusedError as error:
                if queue_status.UNDECLARED not in str(error):
                    raise
                self._narrow()
            else:
                self._narrowed = self._narrowed and narrowed == status
        if self._narrowed:
            _log_conditions(queue, status, before)
        if stored is None and (narrowed_before != narrowed or narrowed["state"] != queue.state):
            stored = await self._apply(queue, narrowed)
        self._sent[queue.uid], self._sent_narrowed[queue.uid] = status, narrowed
        return stored

    async def _apply(self, queue: Queue, status: Body) -> Object:
        try:
            stored = await self._put_status(queue, status)
        except RefusedError as error:
            if error.trouble is not Trouble.INVALID or REQUIRED not in str(error):
                raise
            stored = await self._put_status(queue, {"allocated": NOTHING, **status})
        self._observe("queue", "written")
        return stored

    async def _put_status(self, queue: Queue, status: Body) -> Object:
        body = queue_status.applied(queue.name, status)
        body["metadata"]["uid"] = queue.uid
        path = paths.QUEUES.status(queue.name)
        return await self._api.patch(path, body, ports.APPLY_PATCH, MANAGER)

    def _narrow(self) -> None:
        """Leave out the fields that the CRD lacks, for a while."""
        self._narrow_until = time.monotonic() + queue_status.NARROW_SECONDS
        if not self._narrowed:
            self._narrowed = True
            log.warning(
                "queue.conditions_missing",
                message=(
                    "the installed CRD of Queue has no place for conditions: why a queue isn't "
                    "as it should be, or can't be deleted, is in this log only"
                ),
            )


def _log_conditions(queue: Queue, status: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Log new conditions that the Queue's CRD has no field for."""
    earlier, reported = _texts(before), _texts(status)
    for kind, (reason, message) in reported.items():
        if earlier.get(kind) != (reason, message):
            log.info("queue.condition", queue=queue.name, type=kind, reason=reason, message=message)
    for kind in earlier.keys() - reported.keys():
        log.info("queue.condition_ended", queue=queue.name, type=kind)


def _texts(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return reason and message of each condition, by type."""
    conditions = status.get("conditions", ())
    return {
        condition["type"]: (condition["reason"], condition["message"]) for condition in conditions
    }
