"""Binder: sends the binds of a cycle and reports the result of each.

Errors of the API server are returned as results, never raised. A bind carries the pod's UID, so
that a newer pod of the same name is not bound instead (409). With leader election, a bind also
names the leader, so that the API server can refuse binds of a former leader (docs/fencing.md).
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial

import msgspec

from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    Gone,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes import retries
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path
from vscheduler.mirror.statuses import ObjectReference
from vscheduler.model.decisions import Bind

HOLDER = "vscheduler.io/lease-holder"
"""Annotation of a Binding, copied onto the pod by the API server: the identity of the leader that
bound the pod."""

FENCED = "denied request: fenced: "
"""Part of the message when a policy of manifests/fencing refuses a bind, and of no other
message."""


class BindResult(StrEnum):
    """Result of a bind. The values are metric labels."""

    BOUND = "bound"
    CONFLICT = "conflict"
    """The pod already has a node, was replaced by another pod of the same name, or is being
    deleted."""
    MISSING = "missing"
    """The pod does not exist."""
    REFUSED = "refused"
    """Refused by admission, RBAC or validation: 403, 422 and similar."""
    FENCED = "fenced"
    """Refused because another instance holds the Lease now."""
    THROTTLED = "throttled"
    """The API server was too busy, in several attempts."""
    FAILED = "failed"
    """An error, after which the pod was read and had no node."""
    UNKNOWN = "unknown"
    """No answer, and the pod could not be read afterwards. The pod may be bound."""
    WITHHELD = "withheld"
    """Not sent: this instance may no longer write."""
    OVERTAKEN = "overtaken"
    """Not sent: by now the node lacks space for the pod, or accepts no pods."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one bind."""

    bind: Bind
    verdict: BindResult
    message: str = ""
    """The API server's message, if the bind was refused."""


Report = Callable[[Outcome], None]
Still = Callable[[Bind], bool]
"""Whether a bind is still correct, according to the latest watch events."""


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of the leader, where leader election is used."""

    holder: str
    """This instance's identity in the Lease."""
    doubt: Callable[[str], None]
    """Called with the API server's message when the answer says that another instance holds the
    Lease. From then on nothing may be written until the Lease was read again."""


class Binder:
    """Sends binds."""

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        may_commit: Callable[[], bool],
        *,
        stamp: Stamp | None = None,
    ) -> None:
        self._link = connection
        self._queue = queue
        self._may_commit = may_commit
        self._stamp = stamp

    def bind(self, binds: Iterable[Bind], report: Report, still: Still) -> None:
        """Queue binds, in the given order.

        Each outcome is reported as soon as it is known. `still` and `may_commit` are asked right
        before each call, and again when the request is written to the connection.
        """
        for bind in binds:
            self._queue.put(WritePriority.BIND, partial(self._bind, bind, report, still))

    async def wait_for_room(self, most: int) -> None:
        """Wait until at most this many binds are waiting."""
        await self._queue.wait_for_room(WritePriority.BIND, most)

    async def _bind(self, bind: Bind, report: Report, still: Still) -> None:
        outcome = Outcome(
            bind=bind, verdict=BindResult.UNKNOWN, message="the scheduler failed at it"
        )
        with self._queue.failures.contained("bind", bind.task.key, _subject(bind)):
            outcome = await self._outcome(bind, still)
        report(outcome)

    async def _outcome(self, bind: Bind, still: Still) -> Outcome:
        overtaken = False

        def may_send() -> bool:
            nonlocal overtaken
            overtaken = not still(bind)
            return not overtaken and self._may_commit()

        body = binding_body(bind, self._stamp.holder if self._stamp else "")
        try:
            await retries.post(self._link, binding_path(bind), body, may_send)
        except NotSentError:
            verdict = BindResult.OVERTAKEN if overtaken else BindResult.WITHHELD
            return Outcome(bind=bind, verdict=verdict)
        except Unavailable as error:
            return await self._look_after(bind, str(error))
        except ApiError as error:
            verdict = _verdict(error)
            if verdict is BindResult.FENCED and self._stamp is not None:
                self._stamp.doubt(str(error))
            return Outcome(bind=bind, verdict=verdict, message=str(error))
        return Outcome(bind=bind, verdict=BindResult.BOUND)

    async def _look_after(self, bind: Bind, message: str) -> Outcome:
        """Find out the result of a bind without a clear answer by reading the pod."""
        task = bind.task
        path = paths.PODS.at(task.name, task.namespace)
        try:
            pod = await retries.get(self._link, path)
        except NotFound as error:
            return Outcome(bind=bind, verdict=BindResult.MISSING, message=str(error))
        except ApiError:
            return Outcome(bind=bind, verdict=BindResult.UNKNOWN, message=message)
        verdict = BindResult.FAILED
        if pod["metadata"]["uid"] != task.uid:
            verdict = BindResult.MISSING
        elif node := pod.get("spec", {}).get("nodeName"):
            verdict = BindResult.BOUND if node == bind.node else BindResult.CONFLICT
        return Outcome(bind=bind, verdict=verdict, message=message)


def _subject(bind: Bind) -> ObjectReference:
    task = bind.task
    return ObjectReference(kind="Pod", namespace=task.namespace, name=task.name, uid=task.uid)


def binding_path(bind: Bind) -> Path:
    """Where the binding of a pod is made."""
    return paths.PODS.part(bind.task.name, bind.task.namespace, "binding")


def binding_body(bind: Bind, holder: str = "") -> bytes:
    """Return the core/v1 Binding, annotated with the leader's identity if one is given."""
    task = bind.task
    metadata: dict[str, object] = {"name": task.name, "namespace": task.namespace, "uid": task.uid}
    if holder:
        metadata["annotations"] = {HOLDER: holder}
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
    )


def _verdict(error: ApiError) -> BindResult:
    match error:
        case Conflict() | Gone():
            return BindResult.CONFLICT
        case NotFound():
            return BindResult.MISSING
        case Throttled():
            return BindResult.THROTTLED
        case Invalid() if error.status == 422 and FENCED in str(error):
            return BindResult.FENCED
        case _:
            return BindResult.REFUSED
