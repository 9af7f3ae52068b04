"""Event recorder: Kubernetes events about objects, shown by `kubectl describe`.

Events have the lowest priority of all writes. When too many wait, new events are dropped and
counted.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from vscheduler.cluster.http import connection, send_guard
from vscheduler.cluster.writes import retries, write_queue
from vscheduler.mirror import paths, statuses
from vscheduler.mirror.translate import group_names

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

    def notify(self, notice: statuses.EventNotice) -> None:
        """Record an event, with the lowest priority of all writes."""


class EventRecorder:
    """Records each event as given; repeated events are not merged."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        identity: Identity,
        *,
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = link
        self._queue = queue
        self._identity = identity
        self._observe = observe
        self._errors = retries.WriteErrors(observe)
        self._events = 0
        self._started = f"{time.time_ns():x}"

    def under(self, may_send: Callable[[], bool]) -> Recorder:
        """Return a recorder whose events are sent only while `may_send` returns True."""
        return _Permitted(self, may_send)

    def notify(self, notice: statuses.EventNotice, may_send: Callable[[], bool]) -> None:
        """Record an event. When too many wait, the event is dropped.

        `may_send` is asked right before the call, and again when the request is written to the
        connection.
        """
        record = partial(self._record, notice, time.time(), may_send)
        taken = self._queue.put(write_queue.WritePriority.EVENT, record)
        if not taken:
            self._observe("event", "dropped")

    async def _record(
        self, notice: statuses.EventNotice, when: float, may_send: Callable[[], bool]
    ) -> None:
        if not may_send():
            self._observe("event", "withheld")
            return
        self._events += 1
        name = f"{notice.name[:NAME_MAX]}.{self._started}{self._events:x}"
        body = event_body(notice, name, when, self._identity)
        path = paths.EVENTS.within(_namespace(notice))
        try:
            await self._link.call("POST", path, body, may_send=may_send)
        except send_guard.NotSentError:
            self._observe("event", "withheld")
        except connection.ApiError as error:
            self._errors.failed("event", error, f"{notice.namespace}/{notice.name}")
        else:
            self._observe("event", "written")


class _Permitted(msgspec.Struct, frozen=True):
    """A recorder bound to a permission."""

    recorder: EventRecorder
    may_send: Callable[[], bool]

    def notify(self, notice: statuses.EventNotice) -> None:
        self.recorder.notify(notice, self.may_send)


def event_body(notice: statuses.EventNotice, name: str, when: float, identity: Identity) -> bytes:
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


def _namespace(notice: statuses.EventNotice) -> str:
    """Return the namespace of the event.

    The API server requires `default` for cluster-scoped objects.
    """
    return notice.namespace or "default"


def _action(notice: statuses.EventNotice) -> str:
    by_reason = {
        statuses.EVICT: "Evicting",
        statuses.GROUP_REFUSED: "Grouping",
        group_names.UNREADABLE: "Grouping",
        statuses.RELOADED: "Configuring",
        statuses.RELOAD_FAILED: "Configuring",
        statuses.LEADER_ELECTION: "Electing",
        statuses.CONFIGURATION_CHANGED: "Electing",
    }
    return by_reason.get(notice.reason, "Binding" if notice.kind == "Pod" else "Scheduling")
