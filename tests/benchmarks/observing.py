"""When pods are bound, as a watch of the API server shows it; the same clock for everybody."""

import threading
import time
from contextlib import suppress

import msgspec

from sandbox.client import Client
from tests.benchmarks import loading
from vscheduler.cli.http_client import NoAnswerError

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
WATCH_SECONDS = 3600


class _Metadata(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815 - the wire's name


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Line(msgspec.Struct):
    type: str
    object: _Object


_decode = msgspec.json.Decoder(_Line).decode


class Observer:
    """Notes when a watch of bound pods shows each of them for the first time."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self.bound: dict[str, float] = {}
        """time.monotonic() by pod."""
        start = api.get(f"{loading.PODS}?limit=1")
        self._version = str(start["metadata"]["resourceVersion"])
        self._stopped = False
        self._thread = threading.Thread(target=self._follow, name="observer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """See nothing more; what the API server says at its end doesn't matter."""
        self._stopped = True

    def _follow(self) -> None:
        # An API server that is busy ends the watches that it finds slow.
        while not self._stopped:
            with suppress(NoAnswerError):
                self._follow_once()

    def _follow_once(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": "spec.nodeName!=",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        headers = {"accept": METADATA_ONLY}
        with self._api.http.stream(
            loading.PODS, query, headers=headers, silence_seconds=WATCH_SECONDS
        ) as response:
            for line in map(_decode, response.lines):
                now = time.monotonic()
                assert line.type != "ERROR", "the watch is too old: binds were missed"
                self._version = line.object.metadata.resourceVersion
                if line.type == "ADDED":
                    self.bound.setdefault(line.object.metadata.name, now)
