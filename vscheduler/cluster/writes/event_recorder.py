"""Event recorder: Kubernetes events about objects, shown by `kubectl describe`.

Events have the lowest priority of all writes. When too many wait, new events are dropped and
counted.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from vscheduler.cluster.http.connection import ApiError, Conflict, Connection
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes.retries import WriteErrors
from vscheduler.cluster.writes.write_queue import WritePriority, WriteQueue
from vscheduler.mirror import paths, statuses
from vscheduler.mirror.statuses import EventNotice
from vscheduler.mirror.translate import pod_owners

NAME_MAX = 230
NOTE_MAX = 1000
"""Length limits of an Event's name and note, a little below the API server's limits."""
INSTANCE_MAX = 128
API_VERSIONS = {
    "Pod": "v1",
    "PodGroup": paths.VOLCANO,
    "Queue": paths.VOLCANO,
    "Lease": "coordination.k8s.io/v1",
}


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The reporter named in events."""

    controller: str
    """The scheduler's name."""
    instance: str
    """The identity of this process."""


class Recorder(Protocol):
    """Records events."""

    def notify(self, notice: EventNotice) -> None:
        """Record an event, with the lowest priority of all writes."""


class EventRecorder:
    """Records each event as given; repeated events are not merged, unless they are to be there
    `once`.
    """

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        identity: Identity,
        *,
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = connection
        self._queue = queue
        self._identity = identity
        self._observe = observe
        self._errors = WriteErrors(observe)
        self._events = 0
        self._started = f"{time.time_ns():x}"

    def under(self, may_send: Callable[[], bool]) -> Recorder:
        """Return a recorder whose events are sent only while `may_send` returns True."""
        return _Permitted(self, may_send)

    def notify(self, notice: EventNotice, may_send: Callable[[], bool]) -> None:
        """Record an event. When too many wait, the event is dropped.

        `may_send` is asked right before the call, and again when the request is written to the
        connection.
        """
        record = partial(self._record, notice, time.time(), may_send)
        taken = self._queue.put(WritePriority.EVENT, record)
        if not taken:
            self._observe("event", "dropped")

    async def _record(self, notice: EventNotice, when: float, may_send: Callable[[], bool]) -> None:
        if not may_send():
            self._observe("event", "withheld")
            return
        self._events += 1
        last = notice.once or f"{self._started}{self._events:x}"
        name = f"{notice.name[:NAME_MAX]}.{last}"
        body = event_body(notice, name, when, self._identity)
        path = paths.EVENTS.within(_namespace(notice))
        try:
            await self._link.call("POST", path, body, may_send=may_send)
        except NotSentError:
            self._observe("event", "withheld")
        except ApiError as error:
            if notice.once and isinstance(error, Conflict):
                return  # it is there already
            self._errors.failed("event", error, f"{notice.namespace}/{notice.name}")
        else:
            self._observe("event", "written")


class _Permitted(msgspec.Struct, frozen=True):
    """A recorder bound to a permission."""

    recorder: EventRecorder
    may_send: Callable[[], bool]

    def notify(self, notice: EventNotice) -> None:
        self.recorder.notify(notice, self.may_send)


def event_body(notice: EventNotice, name: str, when: float, identity: Identity) -> bytes:
    """Return an events.k8s.io/v1 Event; `when` is in seconds since the epoch."""
    return msgspec.json.encode(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(notice)},
            "eventTime": statuses.microtime(when),
            "reportingController": identity.controller,
            "reportingInstance": identity.instance[:INSTANCE_MAX],
            "action": _action(notice),
            "reason": notice.reason,
            "type": notice.type,
            "note": notice.message[:NOTE_MAX],
            "regarding": {
                "apiVersion": notice.api_version or API_VERSIONS[notice.kind],
                "kind": notice.kind,
                "namespace": notice.namespace,
                "name": notice.name,
                "uid": notice.uid,
            },
        }
    )


def _namespace(notice: EventNotice) -> str:
    """Return the namespace of the event.

    The API server requires `default` for cluster-scoped objects.
    """
    return notice.namespace or "default"


def _action(notice: EventNotice) -> str:
    by_reason = {
        statuses.EVICT: "Evicting",
        statuses.ENDS_SOON: "Evicting",
        statuses.GROUP_REFUSED: "Grouping",
        statuses.GROUP_INVALID: "Grouping",
        pod_owners.UNREADABLE: "Grouping",
        statuses.RELOADED: "Configuring",
        statuses.RELOAD_FAILED: "Configuring",
        statuses.LEADER_ELECTION: "Electing",
        statuses.CONFIGURATION_CHANGED: "Electing",
    }
    return by_reason.get(notice.reason, "Binding" if notice.kind == "Pod" else "Scheduling")
