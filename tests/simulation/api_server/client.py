"""A client in the same process, for actors and tests."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl

from sandbox import client as sandbox
from sandbox.errors import ApiError, TimedOut
from tests.simulation.api_server import wire
from tests.simulation.api_server.watching import Watch
from tests.simulation.api_server.wire import Object, Request


class Server(Protocol):
    """What the client needs of the API server."""

    def ask(self, request: Request) -> wire.Answer | Watch:
        """Answer a request."""


Event = Callable[[str, Object], None]
"""Receives the type and the object of an event of a watch."""


class Client(sandbox.Client):
    """The sandbox's client, but without a network: a call is answered before it returns.

    Errors are raised at once, 429 among them: an actor decides itself when it tries again.
    """

    busy_attempts = 1

    def __init__(self, server: Server, user: str, *, process: str = "") -> None:
        """`process` is Change.origin of all writes."""
        self._server = server
        self._user = user
        self._fixed = {"x-simulated-process": process} if process else {}

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> sandbox.Answer:
        """Send a request and return the response, even an error response."""
        answer = self._send(method, path, body, query=query, headers=headers)
        assert isinstance(answer, wire.Answer), "a watch: use `watch`"
        return sandbox.Answer(status=answer.status, text=answer.body.decode())

    def watch(
        self,
        path: str,
        on_event: Event,
        on_end: Callable[[], None],
        **query: Any,
    ) -> Callable[[], None]:
        """Watch a collection; the answer ends that. `on_end`: the server has ended it.

        An ERROR comes as an event, and then the end. Raises ApiError.
        """
        answer = self._send("GET", path, None, query={**query, "watch": "true"}, headers=None)
        if isinstance(answer, wire.Answer):
            refused = sandbox.Answer(status=answer.status, text=answer.body.decode())
            raise ApiError(status=answer.status, method="GET", path=path, message=refused.message)

        def hand_on(line: bytes) -> None:
            event = wire.decode(line)
            on_event(event["type"], event["object"])

        answer.start(hand_on, on_end)
        return answer.stop

    def create_all(self, path: str, objects: Iterable[Object]) -> int:
        """Create many objects; return their number."""
        return sum(1 for body in objects if self.create(path, body))

    def wait_for(
        self,
        path: str,
        condition: Callable[[Object], bool],
        *,
        timeout_seconds: float = 10.0,
    ) -> Object:
        """Read an object, of which the condition must hold already: nothing happens meanwhile."""
        del timeout_seconds
        seen = self.find(path)
        if seen is None or not condition(seen):
            raise TimedOut(f"{path} is not as expected: {seen}")
        return seen

    def wait_until_gone(self, path: str, *, timeout_seconds: float = 10.0) -> None:
        """Check that an object is gone already."""
        del timeout_seconds
        if self.find(path) is not None:
            raise TimedOut(f"{path} is still there")

    def close(self) -> None:
        """There is nothing to close."""

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> wire.Answer | Watch:
        where, _, inline = path.partition("?")
        asked = dict(parse_qsl(inline, keep_blank_values=True))
        asked |= {key: str(value) for key, value in (query or {}).items()}
        payload = b"" if body is None else body if isinstance(body, bytes) else wire.encode(body)
        sent = {"content-type": "application/json", **self._fixed}
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        return self._server.ask(
            Request(
                method=method, path=where, query=asked, headers=sent, body=payload, user=self._user
            )
        )
