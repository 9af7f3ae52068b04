"""An API server in memory that answers after a millisecond, so that the scheduler is the limit.

It is the simulation's, over HTTP on loopback. What a scheduler does for each pod takes a shortcut,
so that one core suffices for thousands of pods per second: bindings are not validated, events are
accepted and not kept, and a page of a list costs as much as the page.
"""

import asyncio
import random
import time
import uuid
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tests.simulation.api_server import kinds, routes, views, wire
from tests.simulation.api_server.client import Client
from tests.simulation.api_server.http import HttpServer
from tests.simulation.api_server.kinds import Catalogue, Kind
from tests.simulation.api_server.server import ApiServer
from tests.simulation.api_server.store import Item
from tests.simulation.api_server.watching import Watch
from tests.simulation.api_server.wire import Answer, Object, Request
from vscheduler.mirror import paths

LATENCY_SECONDS = 0.001
USER = "benchmark"
HISTORY = 1_000_000
PEERS = (
    Kind(plural="services", kind="Service"),
    Kind(plural="replicationcontrollers", kind="ReplicationController"),
    Kind(
        group="resource.k8s.io",
        plural="devicetaintrules",
        kind="DeviceTaintRule",
        namespaced=False,
    ),
)
"""Kinds that kube-scheduler waits for. They stay empty."""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: stub
clusters: [{{name: stub, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: stub, user: {{token: {user}}}}}]
contexts: [{{name: stub, context: {{cluster: stub, user: stub}}}}]
"""


class RealTime:
    """The clock of the machine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call later; the answer cancels that."""
        return self._loop.call_later(seconds, call).cancel


class Stub(ApiServer):
    """The API server, with shortcuts; notes when each pod was created and bound."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(RealTime(loop), random.Random(1), history_limit=HISTORY)
        self.catalogue = Catalogue([*self.catalogue, *PEERS])
        self.client = Client(self, USER)
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        """time.monotonic() by the pod's name."""
        self.writes: Counter[str] = Counter()
        """By method and the end of the path."""

    def ask(self, request: Request) -> Answer | Watch:
        """Answer a request. A watch is started by its receiver."""
        if not request.user:  # Go's client sends no token over plain HTTP
            request = replace(request, user=USER)
        if request.method == "GET":
            return self._page(request) or super().ask(request)
        *_, before, last = request.path.rsplit("/", 2)
        self.writes[f"{request.method} {last if last in SUBRESOURCES else before}"] += 1
        if request.method == "POST" and last == "binding" and (answer := self._bind(request)):
            return answer
        if request.method == "POST" and last == "events":
            return Answer(status=201, body=request.body, headers=wire.JSON_HEADERS)
        return super().ask(request)

    def add(self, kind: Kind, template: Item, name: str, changed: Object | None = None) -> None:
        """Store a copy of a stored object, without admission."""
        body = template.copy()
        body["metadata"] |= {"name": name, "uid": str(uuid.uuid4())}
        for key, value in (changed or {}).items():
            body[key] = {**body.get(key, {}), **value}
        key = f"{body['metadata']['namespace']}/{name}" if kind.namespaced else name
        self.store.put(kind, key, body)

    def add_node(self, body: Object) -> None:
        """Create a node that takes pods."""
        made = self.client.create(paths.NODES.everywhere, body)
        made["spec"].pop("taints", None)  # that of new nodes
        self.store.put(kinds.NODES, made["metadata"]["name"], made)

    def add_pod(self, template: Item, name: str) -> None:
        """Create a pod, and note when."""
        self.created[name] = time.monotonic()
        self.add(kinds.PODS, template, name)

    def template(self, path: str, body: Object) -> Item:
        """The object as the API server would store it."""
        made = self.client.create(path, body)
        name = made["metadata"]["name"]
        self.client.delete(f"{path}/{name}?gracePeriodSeconds=0")
        return Item(name, 0, made)

    def _page(self, request: Request) -> Answer | None:
        """A page of all objects of a kind; None: that is no case for the shortcut.

        Pages are not those of one instant. The watch after the last page shows what has changed.
        """
        if "limit" not in request.query or "watch" in request.query:
            return None
        place = routes.place(self.catalogue, request.path)
        if place is None or place.namespace or place.name or SELECTORS & set(request.query):
            return None
        collection, limit = self.store.of(place.kind), int(request.query["limit"])
        token = request.query.get("continue", "") or f"{self.store.revision} "
        revision, _, after = token.partition(" ")
        start = bisect_right(collection.keys, after)
        keys = collection.keys[start : start + limit]
        metadata: Object = {"resourceVersion": revision}
        if start + limit < len(collection.keys):
            metadata["continue"] = f"{revision} {keys[-1]}"
        items = [collection.items[key] for key in keys]
        shown = views.view(place.kind, request.headers.get("accept", ""))
        body = views.listed(place.kind, shown, items, metadata)
        return Answer(status=200, body=body, headers=wire.JSON_HEADERS)

    def _bind(self, request: Request) -> Answer | None:
        """Bind a pod; None: that is no case for the shortcut."""
        _, namespace, _, name, _ = request.path.rsplit("/", 4)
        item = self.store.find(kinds.PODS, f"{namespace}/{name}")
        if item is None or item.object["spec"].get("nodeName"):
            return None
        pod: dict[str, Any] = item.object
        node = wire.decode(request.body)["target"]["name"]
        scheduled = {"type": "PodScheduled", "status": "True"}
        self.store.put(
            kinds.PODS,
            item.key,
            {
                **pod,
                "metadata": dict(pod["metadata"]),
                "spec": {**pod["spec"], "nodeName": node},
                "status": {**pod["status"], "conditions": [scheduled]},
            },
        )
        self.bound[name] = time.monotonic()
        return BOUND


SELECTORS = {"fieldSelector", "labelSelector"}
SUBRESOURCES = ("binding", "eviction", "status", "events")
BOUND = Answer(status=201, body=wire.encode(wire.success(201)), headers=wire.JSON_HEADERS)


class _Connection(asyncio.Protocol):
    """A client's connection. Whatever is sent leaves after the latency."""

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: a client has connected."""
        later, connected = self._loop.call_later, cast("asyncio.Transport", transport)

        def write(data: bytes) -> None:
            later(LATENCY_SECONDS, self._write, connected, data)

        def close() -> None:
            later(LATENCY_SECONDS, connected.close)

        self._connection = self._server.connection(write, close, "")

    @staticmethod
    def _write(connected: asyncio.Transport, data: bytes) -> None:
        if not connected.is_closing():
            connected.write(data)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes have come."""
        self._connection.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the client is gone."""
        del exc
        self._connection.lost()


async def listen(stub: Stub, folder: Path) -> Path:
    """Serve on loopback until the event loop ends; return a kubeconfig."""
    loop = asyncio.get_running_loop()
    server = HttpServer(stub)
    listening = await loop.create_server(lambda: _Connection(server, loop), "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    kubeconfig = folder / "stub.kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(port=port, user=USER), encoding="utf-8")
    return kubeconfig
