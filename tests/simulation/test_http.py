"""HTTP/1.1 in front of the API server in memory."""

import json
import random
from typing import Any

import pytest

from tests.simulation.api_server import server
from tests.simulation.api_server.http import HttpServer
from tests.simulation.api_server.server import ApiServer
from tests.simulation.contract.sides import Clock

PODS = "/api/v1/namespaces/default/pods"
POD: dict[str, Any] = {
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}


class Wire:
    """A connection, and all that came back on it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.server = ApiServer(self.clock, random.Random(1))
        self.written = b""
        self.closed = False
        self.connection = HttpServer(self.server).connection(self.take, self.close, "left")

    def take(self, data: bytes) -> None:
        """Bytes from the server."""
        self.written += data

    def close(self) -> None:
        """The server has ended the connection."""
        self.closed = True

    def send(self, method: str, path: str, body: bytes = b"", *lines: str) -> tuple[int, bytes]:
        """Send a request; return status and body of its answer."""
        self.written = b""
        head = [f"{method} {path} HTTP/1.1", "Host: api", "Authorization: Bearer me", *lines]
        head.append(f"Content-Length: {len(body)}")
        self.connection.received("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        answer, _, rest = self.written.partition(b"\r\n\r\n")
        return int(answer.split()[1]), rest


def test_requests_follow_one_another_on_a_connection() -> None:
    """The history names user and process."""
    line = Wire()
    assert line.send("POST", PODS, json.dumps(POD).encode())[0] == 201
    status, body = line.send("GET", f"{PODS}/a?pretty=1")
    assert (status, json.loads(body)["metadata"]["name"]) == (200, "a")
    (change,) = line.server.history
    assert (change.user, change.origin, change.code) == ("me", "left", 201)
    assert not line.closed


def test_a_request_is_carried_out_with_its_last_byte() -> None:
    """A connection that breaks before has written nothing."""
    line = Wire()
    body = json.dumps(POD).encode()
    head = (
        f"POST {PODS} HTTP/1.1\r\nAuthorization: Bearer me\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    line.connection.received(head.encode() + body[:-1])
    assert line.server.history == []
    line.connection.received(body[-1:])
    assert len(line.server.history) == 1


def test_a_chunked_body_is_put_together() -> None:
    """As clients send what they stream."""
    line = Wire()
    body = json.dumps(POD).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:]))
    head = f"POST {PODS} HTTP/1.1\r\nAuthorization: Bearer me\r\nTransfer-Encoding: chunked\r\n\r\n"
    line.connection.received(head.encode() + chunks + b"0\r\n\r\n")
    assert line.written.startswith(b"HTTP/1.1 201 ")


def test_a_watch_is_an_answer_in_chunks() -> None:
    """The last chunk comes when the watch ends, and the connection can be used again."""
    line = Wire()
    status, _ = line.send("GET", f"{PODS}?watch=true&timeoutSeconds=5")
    assert status == 200
    line.written = b""
    line.server.ask(_create())
    while line.clock.step(line.clock.now() + 10):
        pass
    assert line.written.count(b'{"type":"ADDED"') == 1
    assert line.written.endswith(b"\r\n0\r\n\r\n")


def _create(name: str = "a") -> server.Request:
    return server.Request(
        method="POST",
        path=PODS,
        query={},
        headers={},
        body=json.dumps(POD | {"metadata": {"name": name}}).encode(),
        user="other",
    )


def test_one_line_of_a_watch_is_garbled() -> None:
    """Of the user who was chosen: the next one, and no other."""
    line = Wire()
    line.send("GET", f"{PODS}?watch=1")
    line.written = b""
    line.server.faults.garble("somebody else")
    line.server.faults.garble("me")
    for name in ("a", "b"):
        line.server.ask(_create(name))
    while line.clock.step(line.clock.now()):
        pass
    spoilt, whole = line.written.split(b"\r\n")[1:4:2]
    with pytest.raises(json.JSONDecodeError):
        json.loads(spoilt)
    assert json.loads(whole)["object"]["metadata"]["name"] == "b"


def test_nobody_is_served_without_a_known_token() -> None:
    """401 for none and for one that is revoked."""
    line = Wire()
    line.connection.received(b"GET /version HTTP/1.1\r\n\r\n")
    assert line.written.startswith(b"HTTP/1.1 401 ")
    line.server.faults.revoke("me")
    assert line.send("GET", "/version")[0] == 401


def test_an_outdated_token_is_unknown() -> None:
    """And a newer one is known."""
    line = Wire()
    assert line.send("GET", PODS)[0] == 200
    line.server.faults.outdate("me", 2)
    assert line.send("GET", PODS)[0] == 401
    users = [line.server.faults.user_of(token) for token in ("me", "me#1", "me#2", "you")]
    assert users == ["", "", "me", "you"]


def test_a_broken_request_ends_the_connection() -> None:
    """400, and the end."""
    line = Wire()
    line.connection.received(b"nonsense\r\n\r\n")
    assert line.written.startswith(b"HTTP/1.1 400 ")
    assert line.closed
