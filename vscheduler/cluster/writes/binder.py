"""Decisions → calls: every bind that a cycle decided is sent, and its outcome comes back.

Whatever the API server says is a value here, never an exception. A bind carries the pod's UID, so
that a pod of the same name that was made since isn't bound in its place (409). Where there is an
election a bind says who is elected, so that the API server can refuse a former leader's
(docs/fencing.md).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import msgspec

from vscheduler.cluster.http import connection, send_guard
from vscheduler.cluster.writes import retries, write_queue
from vscheduler.core.model import decisions
from vscheduler.mirror import paths, statuses

HOLDER = "vscheduler.io/lease-holder"
"""A bind's annotation, which the API server copies onto the pod: the identity of who bound it."""

FENCED = "denied request: fenced: "
"""What a refusal by the policies of manifests/fencing has in it, and no other refusal."""


class BindResult(StrEnum):
    """What came of a bind; the values are for metrics."""

    BOUND = "bound"
    CONFLICT = "conflict"
    """The pod has a node already, is another pod of that name, or is being deleted."""
    MISSING = "missing"
    """There is no such pod."""
    REFUSED = "refused"
    """Admission or RBAC refuses it, or the body: 403, 422 and the like."""
    FENCED = "fenced"
    """Refused because the Lease isn't ours any more."""
    THROTTLED = "throttled"
    """The API server was too busy, several times over."""
    FAILED = "failed"
    """An error, and the pod was seen without a node afterwards."""
    UNKNOWN = "unknown"
    """No answer, and the pod couldn't be read afterwards: it may be bound."""
    WITHHELD = "withheld"
    """Not sent: we may not commit any more."""
    OVERTAKEN = "overtaken"
    """Not sent: by now the node has no room for the pod, or takes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one bind."""

    bind: decisions.Bind
    verdict: BindResult
    message: str = ""
    """The server's, where it refused."""


Report = Callable[[Outcome], None]
Still = Callable[[decisions.Bind], bool]
"""Whether a bind is still right, as far as the watches have shown by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Who commits, where there is an election."""

    holder: str
    """Our identity, as the Lease has it."""
    doubt: Callable[[str], None]
    """Called with the server's message when it says that somebody else holds the Lease; from then
    on we may not commit before that is cleared up."""


class Binder:
    """Sends binds."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        may_commit: Callable[[], bool],
        *,
        stamp: Stamp | None = None,
    ) -> None:
        self._link = link
        self._lanes = queue
        self._may_commit = may_commit
        self._stamp = stamp

    def bind(self, binds: Iterable[decisions.Bind], report: Report, still: Still) -> None:
        """Send these as soon as there is a free connection, in this order.

        Each outcome is reported as it comes in; whether we may commit, and whether the bind is
        still right, is asked just before each call, and when it is written to its connection.
        """
        for bind in binds:
            self._lanes.put(
                write_queue.WritePriority.BIND, partial(self._bind, bind, report, still)
            )

    async def wait_for_room(self, most: int) -> None:
        """Until no more than so many binds wait to be sent."""
        await self._lanes.wait_for_room(write_queue.WritePriority.BIND, most)

    async def _bind(self, bind: decisions.Bind, report: Report, still: Still) -> None:
        outcome = Outcome(
            bind=bind, verdict=BindResult.UNKNOWN, message="the scheduler failed at it"
        )
        with self._lanes.failures.contained("bind", bind.task.key, _subject(bind)):
            outcome = await self._outcome(bind, still)
        report(outcome)

    async def _outcome(self, bind: decisions.Bind, still: Still) -> Outcome:
        overtaken = False

        def may_send() -> bool:
            nonlocal overtaken
            overtaken = not still(bind)
            return not overtaken and self._may_commit()

        body = binding_body(bind, self._stamp.holder if self._stamp else "")
        try:
            await retries.post(self._link, binding_path(bind), body, may_send)
        except send_guard.NotSentError:
            verdict = BindResult.OVERTAKEN if overtaken else BindResult.WITHHELD
            return Outcome(bind=bind, verdict=verdict)
        except connection.Unavailable as error:
            return await self._look_after(bind, str(error))
        except connection.ApiError as error:
            verdict = _verdict(error)
            if verdict is BindResult.FENCED and self._stamp is not None:
                self._stamp.doubt(str(error))
            return Outcome(bind=bind, verdict=verdict, message=str(error))
        return Outcome(bind=bind, verdict=BindResult.BOUND)

    async def _look_after(self, bind: decisions.Bind, message: str) -> Outcome:
        """What became of a bind that got no clear answer: it may have been done."""
        task = bind.task
        path = paths.PODS.at(task.name, task.namespace)
        try:
            pod = await retries.get(self._link, path)
        except connection.NotFound as error:
            return Outcome(bind=bind, verdict=BindResult.MISSING, message=str(error))
        except connection.ApiError:
            return Outcome(bind=bind, verdict=BindResult.UNKNOWN, message=message)
        verdict = BindResult.FAILED
        if pod["metadata"]["uid"] != task.uid:
            verdict = BindResult.MISSING
        elif node := pod.get("spec", {}).get("nodeName"):
            verdict = BindResult.BOUND if node == bind.node else BindResult.CONFLICT
        return Outcome(bind=bind, verdict=verdict, message=message)


def _subject(bind: decisions.Bind) -> statuses.ObjectReference:
    task = bind.task
    return statuses.ObjectReference(
        kind="Pod", namespace=task.namespace, name=task.name, uid=task.uid
    )


def binding_path(bind: decisions.Bind) -> paths.Path:
    """Where the binding of a pod is made."""
    return paths.PODS.part(bind.task.name, bind.task.namespace, "binding")


def binding_body(bind: decisions.Bind, holder: str = "") -> bytes:
    """The core/v1 Binding; with a holder it says who binds."""
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


def _verdict(error: connection.ApiError) -> BindResult:
    match error:
        case connection.Conflict() | connection.Gone():
            return BindResult.CONFLICT
        case connection.NotFound():
            return BindResult.MISSING
        case connection.Throttled():
            return BindResult.THROTTLED
        case connection.Invalid() if error.status == 422 and FENCED in str(error):
            return BindResult.FENCED
        case _:
            return BindResult.REFUSED
