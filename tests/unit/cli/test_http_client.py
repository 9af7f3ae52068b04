"""The client of the command line and the sandbox against a small server."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import server
from pathlib import Path

import pytest

from sandbox import credentials
from vscheduler.cli import http_client
from vscheduler.cli.http_client import (
    HttpClient,
    NoAnswerError,
    UntrustedError,
    UnusableConfigError,
)

SIZE = 100


class Handler(server.BaseHTTPRequestHandler):
    """Answers by path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Lines that break off, a redirect, or a body of SIZE bytes."""
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("location", "/there")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.send_response(200)
        if self.path == "/breaks":
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"4\r\none\n\r\n")
            self.close_connection = True
            return
        self.send_header("content-length", str(SIZE))
        self.end_headers()
        self.wfile.write(b"x" * SIZE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Where the server is."""
    with server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        if context is not None:
            listening.socket = context.wrap_socket(listening.socket, server_side=True)
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http{'s' if context else ''}://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.fixture
def url() -> Iterator[str]:
    """As above, without TLS."""
    with serving() as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[HttpClient]:
    """A client of that server."""
    made = HttpClient(http_client.config({"server": url}, {"token": "t"}), direct=True)
    yield made
    made.close()


def test_a_body_has_a_bound(client: HttpClient) -> None:
    """Not a byte more than asked for."""
    assert client.ask("GET", "/", most_bytes=SIZE).body == b"x" * SIZE
    with pytest.raises(NoAnswerError, match="more than 99 bytes"):
        client.ask("GET", "/", most_bytes=SIZE - 1)


def test_credentials_follow_no_redirect(client: HttpClient) -> None:
    """What it says is up to the caller."""
    assert client.ask("GET", "/elsewhere").status == 302


def test_a_server_asked_directly_hears_nothing_through_a_proxy(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy would get the token of an unencrypted request."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert client.ask("GET", "/").status == 200


def test_lines_that_break_off_are_no_answer(client: HttpClient) -> None:
    """Those before count."""
    with client.stream("/breaks", {}, silence_seconds=5.0) as stream:
        assert next(stream.lines) == b"one"

    def rest() -> None:
        with client.stream("/breaks", {}, silence_seconds=5.0) as stream:
            list(stream.lines)

    with pytest.raises(NoAnswerError):
        rest()


def test_errors_of_a_reader_stay_what_they_are(client: HttpClient) -> None:
    """Only errors of the configuration are told as such."""
    with pytest.raises(KeyError), client.stream("/", {}, silence_seconds=5.0):
        raise KeyError
    unusable = HttpClient(http_client.config({"server": "https://a"}, {"client-certificate": "/x"}))
    with pytest.raises(UnusableConfigError, match="/x"):
        unusable.ask("GET", "/")


def test_callers_at_a_time_share_no_session(client: HttpClient) -> None:
    """Sessions of pykube aren't thread-safe; the next caller has one that is free."""
    with client._lent() as first, client._lent() as second:
        assert first is not second
    with client._lent() as third:
        assert third in {first, second}


def test_the_systems_certificates_vouch_for_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a company has added, too, which no library brings along."""
    authority = credentials.found_authority(tmp_path)
    pair = authority.issue_serving()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    with serving(context) as address:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate_path))
        made = HttpClient(http_client.config({"server": address}, {}), direct=True)
        assert made.ask("GET", "/").status == 200
        made.close()
        monkeypatch.delenv("SSL_CERT_FILE")
        stranger = HttpClient(http_client.config({"server": address}, {}), direct=True)
        with pytest.raises(UntrustedError, match="certificate verify failed"):
            stranger.ask("GET", "/")


@pytest.mark.parametrize("token", ["secret\nsecret", "secret\u20ac"])
def test_a_token_that_is_none_is_not_shown(url: str, token: str) -> None:
    """Such as a file of several lines."""
    made = HttpClient(http_client.config({"server": url}, {"token": token}))
    with pytest.raises(UnusableConfigError) as told:
        made.ask("GET", "/")
    assert "secret" not in str(told.value)
