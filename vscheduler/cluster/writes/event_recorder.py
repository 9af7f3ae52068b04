"""Events: what is told of objects, for `kubectl describe`.

They go out after all that is more urgent. Where too many wait they are dropped and counted.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from vscheduler.cluster.http import connection, send_guard
from vscheduler.cluster.writes import retries, write_queue
from vscheduler.mirror import paths, statuses

NAME_MAX = 230
NOTE_MAX = 1000
"""Of a name and a note that an Event may have, with some left."""
INSTANCE_MAX = 128
API_VERSIONS = {
    "Pod": "v1",
    "PodGroup": paths.VOLCANO,
    "Queue": paths.VOLCANO,
    "Lease": "coordination.k8s.io/v1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who reports."""

    controller: str
    """The scheduler's name."""
    instance: str
    """This process."""


class Recorder(Protocol):
    """Tells of objects."""

    def notify(self, notice: statuses.EventNotice) -> None:
        """Record an event, after all that is more urgent."""


class EventRecorder:
    """Records events; each as it is, as often as it is told."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        identity: Identity,
        *,
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = link
        self._lanes = queue
        self._identity = identity
        self._observe = observe
        self._errors = retries.WriteErrors(observe)
        self._events = 0
        self._started = f"{time.time_ns():x}"

    def under(self, may_send: Callable[[], bool]) -> Recorder:
        """Who tells for as long as that may be; what waits after that isn't sent."""
        return _Permitted(self, may_send)

    def notify(self, notice: statuses.EventNotice, may_send: Callable[[], bool]) -> None:
        """Record an event, after all that is more urgent; where too many wait it is dropped.

        Whether it may be sent is asked just before, and when its bytes are written.
        """
        record = partial(self._record, notice, time.time(), may_send)
        taken = self._lanes.put(write_queue.WritePriority.EVENT, record)
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
            self._errors.failed("event", error)
        else:
            self._observe("event", "written")


@dataclass(frozen=True, slots=True)
class _Permitted:
    """Tells for as long as it may."""

    herald: EventRecorder
    may_send: Callable[[], bool]

    def notify(self, notice: statuses.EventNotice) -> None:
        self.herald.notify(notice, self.may_send)


def event_body(notice: statuses.EventNotice, name: str, when: float, identity: Identity) -> bytes:
    """An events.k8s.io/v1 Event; `when` is in seconds since the epoch."""
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
                "apiVersion": API_VERSIONS[notice.kind],
                "kind": notice.kind,
                "namespace": notice.namespace,
                "name": notice.name,
                "uid": notice.uid,
            },
        }
    )


def _namespace(notice: statuses.EventNotice) -> str:
    """Where its event is kept: the API server wants those about objects in no namespace there."""
    return notice.namespace or "default"


def _action(notice: statuses.EventNotice) -> str:
    by_reason = {
        statuses.EVICT: "Evicting",
        statuses.GROUP_REFUSED: "Grouping",
        statuses.RELOADED: "Configuring",
        statuses.RELOAD_FAILED: "Configuring",
        statuses.LEADER_ELECTION: "Electing",
    }
    return by_reason.get(notice.reason, "Binding" if notice.kind == "Pod" else "Scheduling")
