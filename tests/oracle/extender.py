"""A scheduler extender that only listens: which nodes kube-scheduler's own filters let through."""

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType

from sandbox import components

VERB = "filter"
CLOSED = "left to the oracle"
"""What it says of each node, so that nothing is ever bound."""


class Extender(http.server.ThreadingHTTPServer):
    """What was asked first about each pod; a retry may come when the cluster is another one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((components.LOOPBACK, 0), _Request)
        self._seen: dict[str, frozenset[str]] = {}

    @property
    def url(self) -> str:
        """What the configuration calls urlPrefix."""
        return f"http://{components.LOOPBACK}:{self.server_port}"

    @property
    def seen(self) -> Mapping[str, frozenset[str]]:
        """Names of the nodes that filters let through, by the pod's UID."""
        return MappingProxyType(self._seen)

    def hear(self, uid: str, names: list[str]) -> None:
        """Filters let the pod onto these nodes."""
        self._seen.setdefault(uid, frozenset(names))


class _Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Request after request, until kube-scheduler ends, which closes nothing."""
        with suppress(ConnectionResetError):
            super().handle()

    def do_POST(self) -> None:
        """ExtenderArgs in, ExtenderFilterResult out."""
        assert isinstance(self.server, Extender)
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = asked["NodeNames"] or []
        self.server.hear(asked["Pod"]["metadata"]["uid"], names)
        answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(names, CLOSED)}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Nothing: the table is what people read."""


@contextmanager
def listening() -> Iterator[Extender]:
    """An extender, for the time of the block."""
    with Extender() as extender:
        thread = threading.Thread(target=extender.serve_forever, name="extender", daemon=True)
        thread.start()
        try:
            yield extender
        finally:
            extender.shutdown()
            thread.join()
