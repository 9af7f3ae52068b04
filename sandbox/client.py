"""A thread-safe client for the sandbox's API server: paths and plain JSON.

It is the command line's client, so that tests of the daemon's client don't rely on the code under
test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import msgspec

from sandbox.credentials import KeyPair
from sandbox.errors import ApiError, TimedOut
from vscheduler.cli import http_client
from vscheduler.cli.http_client import HttpClient, NoAnswerError

Object = dict[str, Any]

THREADS = 8
ANSWER_SECONDS = 60.0
POLL_SECONDS = 0.05
BUSY_ATTEMPTS = 50
BUSY_SECONDS = 0.2
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A response of the API server, successful or not."""

    status: int
    text: str

    @property
    def body(self) -> Object:
        """The decoded JSON."""
        decoded: Object = json.loads(self.text)
        return decoded

    @property
    def message(self) -> str:
        """The server's message about a refused request."""
        try:
            return str(self.body.get("message", self.text))
        except ValueError:
            return self.text


class Client:
    """Asks a server as a single identity; thread-safe. The server may be the daemon's page, too."""

    busy_attempts = BUSY_ATTEMPTS
    """How often a request is sent that is answered with 429."""

    def __init__(
        self,
        url: str,
        *,
        authority: Path | None = None,
        pair: KeyPair | None = None,
        token: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.url = url
        self._seconds = answer_seconds
        trusted = {"certificate-authority": str(authority.absolute())} if authority else {}
        user = {"token": token} if token else {}
        if pair is not None:
            files = {"client-certificate": pair.certificate, "client-key": pair.key}
            user = {name: str(file.absolute()) for name, file in files.items()}
        self.http = HttpClient(http_client.config({"server": url, **trusted}, user), direct=True)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the response, even an error response. Raises
        http_client.NoAnswerError.
        """
        sent = {"content-type": "application/json", **(headers or {})}
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        found = self.http.ask(
            method, path, payload, query=query, headers=sent, seconds=self._seconds
        )
        return Answer(status=found.status, text=found.body.decode())

    def read(self, path: str) -> str | None:
        """Return a page, or None while the server doesn't answer, or answers with an error."""
        try:
            answer = self.ask("GET", path)
        except NoAnswerError:
            return None
        return answer.text if answer.status == 200 else None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; raise ApiError for an error response. Status 429 is retried."""
        answer = self.ask(method, path, body, query=query, headers=headers)
        for _ in range(self.busy_attempts - 1):
            if answer.status != 429:
                break
            time.sleep(BUSY_SECONDS)
            answer = self.ask(method, path, body, query=query, headers=headers)
        if answer.status >= 400:
            raise ApiError(status=answer.status, method=method, path=path, message=answer.message)
        return answer

    def get(self, path: str) -> Object:
        """Return an object."""
        return self.request("GET", path).body

    def find(self, path: str) -> Object | None:
        """Return an object, or None if missing."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str, **query: Any) -> list[Object]:
        """Return all objects of a collection; keywords are query parameters such as
        `labelSelector`.
        """
        items: list[Object] = self.request("GET", path, query=query).body["items"] or []
        return items

    def create(self, path: str, body: Object) -> Object:
        """Create an object in a collection."""
        return self.request("POST", path, body).body

    def replace(self, path: str, body: Object) -> Object:
        """Replace an object."""
        return self.request("PUT", path, body).body

    def patch(self, path: str, body: Any, *, kind: str = "merge", **query: Any) -> Object:
        """Patch an object; `kind` is merge, strategic, json or apply."""
        headers = {"content-type": PATCH_TYPES[kind]}
        return self.request("PATCH", path, body, query=query, headers=headers).body

    def apply(self, path: str, body: Object) -> Object:
        """Create or update an object by server-side apply."""
        return self.patch(path, body, kind="apply", fieldManager="vscheduler-sandbox", force="true")

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object or a collection, with fields of DeleteOptions; a missing object is no
        error.
        """
        try:
            self.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except ApiError as error:
            if error.status != 404:
                raise

    def create_all(self, path: str, objects: Iterable[Object]) -> int:
        """Create many objects over several connections; return their number."""
        return in_parallel(lambda body: self.request("POST", path, body), objects)

    def wait_for(
        self,
        path: str,
        condition: Callable[[Object], bool],
        *,
        timeout_seconds: float = 60.0,
    ) -> Object:
        """Read an object or a collection until a condition holds."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            seen = self.find(path)
            if seen is not None and condition(seen):
                return seen
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"{path} was not as expected in {timeout_seconds:.0f} s: "
                    f"{json.dumps(seen)[:2000]}"
                )
            time.sleep(POLL_SECONDS)

    def wait_until_gone(self, path: str, *, timeout_seconds: float = 60.0) -> None:
        """Wait until an object is gone."""
        deadline = time.monotonic() + timeout_seconds
        while self.find(path) is not None:
            if time.monotonic() > deadline:
                raise TimedOut(f"{path} is still there after {timeout_seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Close all connections."""
        self.http.close()


def in_parallel(work: Callable[[Any], Any], items: Iterable[Any]) -> int:
    """Call a function for many items on a few threads; return their number, or raise the first
    error.
    """
    with futures.ThreadPoolExecutor(THREADS) as threads:
        return sum(1 for _ in threads.map(work, items))
