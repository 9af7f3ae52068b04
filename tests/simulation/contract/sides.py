"""The two API servers that must behave alike, behind one interface."""

import heapq
import itertools
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox import client as sandbox
from sandbox.control_plane import ControlPlane
from tests.simulation.api_server import client as memory_client
from tests.simulation.api_server import wire
from tests.simulation.api_server.server import ApiServer
from tests.simulation.api_server.wire import Request
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path

EPOCH = 1_800_000_000.0
USER = "admin"

Event = tuple[str, dict[str, Any]]


class Side(Protocol):
    """An API server under test."""

    api: sandbox.Client

    def watch(
        self,
        path: str,
        *,
        most: int,
        headers: Mapping[str, str] | None = None,
        during: Callable[[], object] | None = None,
        **query: Any,
    ) -> list[Event]:
        """The first events of a watch; fewer if the server ends the watch before.

        `during` is called once the watch is open.
        """

    def pass_time(self, seconds: float) -> None:
        """Let some time go by."""


class Clock:
    """Virtual time that passes when it is told to."""

    def __init__(self) -> None:
        self._now = EPOCH
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._cancelled: set[int] = set()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call later; the answer cancels that."""
        number = next(self._numbers)
        heapq.heappush(self._due, (self._now + seconds, number, call))
        return lambda: self._cancelled.add(number)

    def step(self, until: float) -> bool:
        """Make the next call due by then; return whether there was one."""
        while self._due and self._due[0][0] <= until:
            when, number, call = heapq.heappop(self._due)
            if number not in self._cancelled:
                self._now = max(self._now, when)
                call()
                return True
        self._now = max(self._now, until)
        return False


@dataclass(slots=True)
class Memory:
    """The API server in memory."""

    server: ApiServer
    clock: Clock
    api: sandbox.Client

    @classmethod
    def made(cls) -> "Memory":
        """A new one."""
        clock = Clock()
        made = ApiServer(clock, random.Random(7))
        return cls(made, clock, memory_client.Client(made, USER))

    def watch(
        self,
        path: str,
        *,
        most: int,
        headers: Mapping[str, str] | None = None,
        during: Callable[[], object] | None = None,
        **query: Any,
    ) -> list[Event]:
        """The first events of a watch; fewer if the server ends the watch before.

        `during` is called once the watch is open.
        """
        asked = {"watch": "true", **{key: str(value) for key, value in query.items()}}
        answer = self.server.ask(
            Request(
                method="GET", path=path, query=asked, headers=headers or {}, body=b"", user=USER
            )
        )
        if isinstance(answer, wire.Answer):
            return [("REFUSED", json.loads(answer.body))]
        lines: list[bytes] = []
        ended: list[bool] = []
        answer.start(lines.append, lambda: ended.append(True))
        if during is not None:
            during()
        while not ended and len(lines) < most and self.clock.step(self.clock.now() + 3600):
            pass
        answer.stop()
        return [_event(line) for line in lines[:most]]

    def pass_time(self, seconds: float) -> None:
        """Let some time go by."""
        until = self.clock.now() + seconds
        while self.clock.step(until):
            pass


@dataclass(slots=True)
class Real:
    """A real kube-apiserver."""

    plane: ControlPlane
    api: sandbox.Client

    def watch(
        self,
        path: str,
        *,
        most: int,
        headers: Mapping[str, str] | None = None,
        during: Callable[[], object] | None = None,
        **query: Any,
    ) -> list[Event]:
        """The first events of a watch; fewer if the server ends the watch before.

        `during` is called once the watch is open.
        """
        asked = {"watch": "true", **query}
        with self.api.http.stream(path, asked, headers=headers, silence_seconds=60.0) as response:
            if response.status != 200:
                return [("REFUSED", json.loads(b"".join(response.lines)))]
            if during is not None:
                during()
            return [_event(line) for line in itertools.islice(response.lines, most)]

    def pass_time(self, seconds: float) -> None:
        """Let some time go by."""
        time.sleep(seconds)


def _event(line: bytes) -> Event:
    read = json.loads(line)
    return read["type"], read["object"]


@dataclass(slots=True)
class Case:
    """What a test works with: an API server, a namespace and names of its own."""

    side: Side
    namespace: str

    @property
    def api(self) -> sandbox.Client:
        """The client."""
        return self.side.api

    @property
    def pods(self) -> Path:
        """The pods of the namespace."""
        return paths.PODS.within(self.namespace)

    def name(self, word: str) -> str:
        """A name that no other test uses."""
        return f"{self.namespace}-{word}"

    def pod(self, name: str, **spec: Any) -> dict[str, Any]:
        """A pod that no scheduler looks at, nor a pretended kubelet."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "annotations": {"vscheduler.sandbox/unmanaged": "true"},
            },
            "spec": {
                "schedulerName": "nobody",
                "containers": [{"name": "main", "image": "none:1"}],
                **spec,
            },
        }

    def create_pod(self, name: str, **spec: Any) -> dict[str, Any]:
        """Create such a pod."""
        return self.api.create(self.pods, self.pod(name, **spec))

    def ask(self, method: str, path: str, body: Any = None, **rest: Any) -> sandbox.Answer:
        """One request, refused or not."""
        return self.api.ask(method, path, body, **rest)

    def at(self, name: str) -> Path:
        """The path of a pod of the namespace."""
        return paths.PODS.at(name, self.namespace)

    def bind(self, name: str, node: str = "nowhere", **metadata: Any) -> sandbox.Answer:
        """Bind a pod, refused or not."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = paths.PODS.part(name, self.namespace, "binding")
        return self.ask("POST", path, body)

    def patch(self, path: str, body: Any, kind: str = "merge", **query: Any) -> sandbox.Answer:
        """Patch an object, refused or not."""
        headers = {"content-type": sandbox.PATCH_TYPES[kind]}
        return self.ask("PATCH", path, body, query=query, headers=headers)

    def create_queue(self, word: str, **spec: Any) -> tuple[Path, dict[str, Any]]:
        """Create a Queue; return its path and itself."""
        body = {
            "apiVersion": paths.VOLCANO,
            "kind": "Queue",
            "metadata": {"name": self.name(word)},
            "spec": spec,
        }
        made = self.api.create(paths.QUEUES.everywhere, body)
        return paths.QUEUES.at(self.name(word)), made

    def create_group(self, name: str, **spec: Any) -> tuple[Path, dict[str, Any]]:
        """Create a PodGroup; return its path and itself."""
        body = {
            "apiVersion": paths.VOLCANO,
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        }
        made = self.api.create(paths.POD_GROUPS.within(self.namespace), body)
        return paths.POD_GROUPS.at(name, self.namespace), made

    def apply_queue(
        self, path: str, manager: str, *, force: bool = False, **fields: Any
    ) -> sandbox.Answer:
        """Apply fields of a Queue as a manager."""
        name = path.rstrip("/").removesuffix("/status").rpartition("/")[2]
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": paths.VOLCANO, "kind": "Queue", "metadata": metadata, **fields}
        return self.patch(path, body, "apply", fieldManager=manager, force=str(force).lower())
