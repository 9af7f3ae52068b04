"""HTTP/1.1 in front of the API server: bytes in, bytes out.

One request at a time on a connection. A request is carried out once its last byte has come, and
the answer is written at once; a watch is an answer in chunks.
"""

from collections.abc import Callable
from urllib.parse import parse_qsl, unquote

import httptools

from tests.simulation.api_server import wire
from tests.simulation.api_server.server import ApiServer
from tests.simulation.api_server.watching import Watch
from tests.simulation.api_server.wire import Answer, Request

REASONS = {
    200: "OK",
    201: "Created",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    410: "Gone",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
LAST_CHUNK = b"0\r\n\r\n"
PROCESS = "x-simulated-process"

Write = Callable[[bytes], None]


class HttpServer:
    """Accepts connections."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def connection(self, write: Write, close: Callable[[], None], process: str) -> "HttpConnection":
        """A new connection from a process. `close` is called when the server ends it."""
        return HttpConnection(self._api, write, close, process)


class HttpConnection:
    """One connection."""

    def __init__(
        self, api: ApiServer, write: Write, close: Callable[[], None], process: str
    ) -> None:
        self._api = api
        self._write = write
        self._close = close
        self._process = process
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._watch: Watch | None = None
        self._user = ""
        self._keep_alive = True
        self._open = True

    def received(self, data: bytes) -> None:
        """Take bytes from the client."""
        if not self._open:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            self._end()

    def lost(self) -> None:
        """The client is gone."""
        self._open = False
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def on_message_begin(self) -> None:
        """httptools: a request begins."""
        self._url = b""
        self._headers = {}
        self._body.clear()

    def on_url(self, url: bytes) -> None:
        """httptools: a part of the path and query."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """httptools: the body follows, unless the client waits to be told so."""
        if self._headers.get("expect", "").lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """httptools: the request is complete."""
        self._keep_alive = self._parser.should_keep_alive()
        answer = self._api.ask(self._request())
        if isinstance(answer, Answer):
            self._answer(answer)
        else:
            self._stream(answer)

    def _request(self) -> Request:
        path, _, query = self._url.partition(b"?")
        scheme, _, token = self._headers.get("authorization", "").partition(" ")
        known = scheme.lower() == "bearer"
        self._user = self._api.faults.user_of(token.strip()) if known else ""
        return Request(
            method=self._parser.get_method().decode(),
            path=unquote(path.decode("latin-1")),
            query=dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)),
            headers={**self._headers, PROCESS: self._process},
            body=bytes(self._body),
            user=self._user,
        )

    def _answer(self, answer: Answer) -> None:
        head = self._head(answer, f"content-length: {len(answer.body)}")
        self._write(head + answer.body)
        if not self._keep_alive:
            self._end()

    def _stream(self, watch: Watch) -> None:
        opened = Answer(status=200, body=b"", headers=wire.JSON_HEADERS)
        self._write(self._head(opened, "transfer-encoding: chunked"))
        self._watch = watch
        watch.start(self._send_chunk, self._end_stream)

    def _send_chunk(self, data: bytes) -> None:
        if self._open:
            data = self._api.faults.spoil(self._user, data)
            self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def _end_stream(self) -> None:
        self._watch = None
        if not self._open:
            return
        self._write(LAST_CHUNK)
        if not self._keep_alive:
            self._end()

    def _head(self, answer: Answer, length: str) -> bytes:
        lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines.append(length)
        if not self._keep_alive:
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._close()
