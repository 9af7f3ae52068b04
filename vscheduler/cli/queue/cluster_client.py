"""The cluster as the commands for people see it: lists, single queues and changes, by pykube.

What comes out is plain data, as the API server writes it; what goes wrong is one sentence.
"""

import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar
from urllib.parse import quote

import click
import pykube
import requests
import urllib3

from vscheduler.cli.queue import kubeconfigs

API = "scheduling.volcano.sh/v1beta1"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
WATCH_SECONDS = 300
SILENCE_SECONDS = 90.0
"""A watch that says nothing for longer is taken for dead; bookmarks come about once a minute."""

INTERRUPTED_STATUS = 130
"""What is ended by Ctrl-C, as with kubectl."""

Object = dict[str, Any]
Answer = TypeVar("Answer")


ACCESS = (
    click.option("--context", default="", help="A context of the kubeconfig file."),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="A kubeconfig file [default: as for kubectl; in a pod, its service account].",
    ),
)
"""Flags that say which cluster: of every command that asks one."""


class Kind(StrEnum):
    """What is asked for."""

    QUEUE = "Queue"
    POD_GROUP = "PodGroup"


class _Queue(pykube.objects.APIObject):  # type: ignore[misc]  # no types there
    version = API
    endpoint = "queues"
    kind = "Queue"


class _PodGroup(pykube.objects.NamespacedAPIObject):  # type: ignore[misc]  # no types there
    version = API
    endpoint = "podgroups"
    kind = "PodGroup"


_BAD_FILE = (
    *(pykube.exceptions.KubernetesError, ImportError, OSError),
    *(LookupError, AttributeError, TypeError, NotImplementedError),
)
"""What a bad kubeconfig leads pykube to."""

CLASSES: Mapping[Kind, Any] = {Kind.QUEUE: _Queue, Kind.POD_GROUP: _PodGroup}


class ClusterError(Exception):
    """What was asked can't be had; the message is a sentence for people."""


class Unreachable(ClusterError):  # noqa: N818 - what the server is
    """No answer, or none that can be used: another attempt may do better."""


class Expired(ClusterError):  # noqa: N818 - what the version is
    """Changes since this version aren't known any more; list anew."""


class Forbidden(ClusterError):  # noqa: N818 - what the question is
    """This user may not ask that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects of a kind, and the version from which changes are to be watched."""

    items: list[Object]
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An object that is new, different or gone."""

    item: Object
    gone: bool = False


class Source(Protocol):
    """Where objects come from; Cluster, or a test's own."""

    def list(self, kind: Kind) -> Listing:
        """All objects of a kind."""

    def queue(self, name: str) -> Object | None:
        """One queue, or None where there is none of this name."""

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """What changes, until the server has had enough. Raises Expired for an old version."""


class Cluster:
    """A real one."""

    def __init__(self, connect: Callable[[], pykube.KubeConfig]) -> None:
        self._connect = connect
        self._config: pykube.KubeConfig = None
        self._server = "the API server"

    def list(self, kind: Kind) -> Listing:
        """All objects of a kind, of all namespaces."""

        def ask(client: pykube.HTTPClient) -> Listing:
            found = self._query(kind, client).execute().json()
            if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
                raise ClusterError(f"{self._server} doesn't answer like one of Kubernetes")
            items: list[Object] = found.get("items") or []
            return Listing(items=items, version=found["metadata"].get("resourceVersion", ""))

        with self._told(kind):
            return self._asked(ask)

    def queue(self, name: str) -> Object | None:
        """One queue, or None where there is none of this name."""

        def ask(client: pykube.HTTPClient) -> Object | None:
            try:
                found: Object = (
                    self._query(Kind.QUEUE, client).get_by_name(quote(name, safe="")).obj
                )
            except pykube.ObjectDoesNotExist:
                return None
            return found

        with self._told(Kind.QUEUE):
            return self._asked(ask)

    def annotate_queue(self, name: str, key: str, value: str) -> Object | None:
        """Annotate a queue; as it is then, or None where there is none of this name."""

        def ask(client: pykube.HTTPClient) -> Object | None:
            stored = _Queue(client, {"metadata": {"name": quote(name, safe="")}})
            try:
                stored.patch({"metadata": {"annotations": {key: value}}})
            except (requests.HTTPError, pykube.exceptions.HTTPError) as error:
                if _status(error) != HTTPStatus.NOT_FOUND:
                    raise
                return None
            changed: Object = stored.obj
            return changed

        with self._told(Kind.QUEUE):
            return self._asked(ask)

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """What changes; a watch that just ends, or falls silent, ends here, too."""
        parameters = {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        with self._told(kind), self._client(SILENCE_SECONDS) as client:
            for event in self._query(kind, client).watch(since=version, params=parameters):
                item: Object = event.object.obj
                match event.type:
                    case "ADDED" | "MODIFIED" | "DELETED":
                        yield Change(item=item, gone=event.type == "DELETED")
                    case "ERROR":
                        raise _refusal(item.get("code") or 500, str(item.get("message")), kind)

    def _asked(self, ask: Callable[[pykube.HTTPClient], Answer]) -> Answer:
        """The answer; credentials that have run out are worked out anew, once."""
        fresh = self._config is None
        try:
            with self._client(ANSWER_SECONDS) as client:
                return ask(client)
        except (requests.HTTPError, pykube.exceptions.HTTPError) as error:
            if fresh or _status(error) != HTTPStatus.UNAUTHORIZED:
                raise
        self._config = None
        with self._client(ANSWER_SECONDS) as client:
            return ask(client)

    @contextmanager
    def _client(self, seconds: float) -> Iterator[pykube.HTTPClient]:
        """A client of its own for each question: its sessions aren't made for several threads."""
        if self._config is None:
            self._config = self._connect()
        client = pykube.HTTPClient(self._config, timeout=(CONNECT_SECONDS, seconds))
        self._server = f"the API server at {client.url}"
        proxy = self._config.cluster.get("proxy-url")
        if proxy:
            client.session.trust_env = False  # the environment's proxies would win
            client.session.proxies = {"http": proxy, "https": proxy}
        client.session.auth = lambda request: request  # else passwords of ~/.netrc would win
        if self._config.cluster.get("insecure-skip-tls-verify"):  # who writes that knows it
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        with client.session:
            yield client

    @staticmethod
    def _query(kind: Kind, client: pykube.HTTPClient) -> Any:
        query = CLASSES[kind].objects(client)
        return query.filter(namespace=pykube.all) if kind is Kind.POD_GROUP else query

    @contextmanager
    def _told(self, kind: Kind) -> Iterator[None]:
        """Whatever goes wrong, as a ClusterError."""
        try:
            yield
        except kubeconfigs.KubeconfigError as error:
            raise ClusterError(str(error)) from error
        except (requests.HTTPError, pykube.exceptions.HTTPError) as error:
            raise _refusal(_status(error), _message(error), kind) from error
        except requests.exceptions.JSONDecodeError as error:
            raise ClusterError(f"{self._server} doesn't answer like one of Kubernetes") from error
        except requests.exceptions.SSLError as error:
            raise ClusterError(f"{self._server} can't be trusted: {_cause(error)}") from error
        except requests.RequestException as error:
            raise Unreachable(f"{self._server} doesn't answer: {_cause(error)}") from error
        except ValueError as error:
            raise Unreachable(f"{self._server} broke off in the middle of a word") from error
        except _BAD_FILE as error:
            raise ClusterError(f"the kubeconfig can't be used: {error}") from error


@contextmanager
def tidy_end() -> Iterator[None]:
    """SIGTERM ends the command as an error would: no key is left behind in a file."""

    def end(number: int, _: object) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def opened(kubeconfig: str, context: str) -> Iterator[Cluster]:
    """The cluster that these flags and the environment name; nothing is sent yet."""
    with tempfile.TemporaryDirectory(prefix="vscheduler-") as private:
        yield Cluster(
            lambda: kubeconfigs.load(
                kubeconfig, context, environment=os.environ, private=Path(private)
            )
        )


def _status(error: Any) -> int:
    """The HTTP status of either library's error."""
    return int(error.response.status_code if hasattr(error, "response") else error.code)


def _message(error: Any) -> str:
    """What the server said."""
    if not hasattr(error, "response"):
        return str(error)
    try:
        return str(error.response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {error.response.status_code}"


def _refusal(status: int, message: str, kind: Kind) -> ClusterError:
    """The server's no, with what would help."""
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return Forbidden("the API server doesn't know this user: sign in anew (401)")
        case HTTPStatus.FORBIDDEN:
            return Forbidden(f"{message}; ask for a role that may get, list and watch them")
        case HTTPStatus.NOT_FOUND:
            return ClusterError(
                f"this cluster has no kind {kind} of {API}; apply the files in crds/"
            )
        case HTTPStatus.GONE:
            return Expired(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unreachable(f"the API server can't answer now: {message}")
    return ClusterError(f"the API server said no: {message}")


def _cause(error: requests.RequestException) -> str:
    """The innermost of what the libraries say, without their objects and numbers."""
    if isinstance(error, requests.Timeout):
        return "it took too long"
    inner: Any = error.args[0] if error.args else error
    text = str(getattr(inner, "reason", None) or inner)
    certificate = re.search(r"certificate verify failed: .+?(?= \(_ssl)", text)
    if certificate:
        return certificate[0]
    return re.sub(r"\[Errno -?[0-9]+\] ", "", re.sub(r"^.*?[>)]: ", "", text))
