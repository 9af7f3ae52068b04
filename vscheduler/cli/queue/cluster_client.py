"""The cluster for interactive commands: lists, watches and changes of queues, through pykube.

Results are plain data as the API server writes them; every error is a single sentence.
"""

import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar
from urllib.parse import quote

import click
import msgspec
import pykube
import requests
import urllib3

from vscheduler.cli.queue import kubeconfigs
from vscheduler.cli.queue.kubeconfigs import KubeconfigError
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection


class Kind(StrEnum):
    """Kinds of objects to read."""

    QUEUE = "Queue"
    POD_GROUP = "PodGroup"
    POD = "Pod"
    NODE = "Node"
    PRIORITY_CLASS = "PriorityClass"
    EVENT = "Event"
    NAMESPACE = "Namespace"
    BUDGET = "PodDisruptionBudget"
    QUOTA = "ResourceQuota"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"


COLLECTIONS: Mapping[Kind, Collection] = {
    Kind.QUEUE: paths.QUEUES,
    Kind.POD_GROUP: paths.POD_GROUPS,
    Kind.POD: paths.PODS,
    Kind.NODE: paths.NODES,
    Kind.PRIORITY_CLASS: paths.PRIORITY_CLASSES,
    Kind.EVENT: paths.CORE_EVENTS,
    Kind.NAMESPACE: paths.NAMESPACES,
    Kind.BUDGET: paths.BUDGETS,
    Kind.QUOTA: paths.QUOTAS,
    Kind.CLAIM: paths.CLAIMS,
    Kind.VOLUME: paths.VOLUMES,
    Kind.STORAGE_CLASS: paths.STORAGE_CLASSES,
    Kind.CSI_NODE: paths.CSI_NODES,
    Kind.CSI_DRIVER: paths.CSI_DRIVERS,
    Kind.STORAGE_CAPACITY: paths.CAPACITIES,
    Kind.VOLUME_ATTACHMENT: paths.ATTACHMENTS,
}
NAMESPACED = frozenset(kind for kind, each in COLLECTIONS.items() if each.namespaced)


def _served(collection: Collection) -> Any:
    """Return the class with which pykube reads a collection."""
    base = pykube.objects.NamespacedAPIObject if collection.namespaced else pykube.objects.APIObject
    words = {"version": collection.api_version, "endpoint": collection.plural}
    return type(collection.kind, (base,), {**words, "kind": collection.kind})


CLASSES: Mapping[Kind, Any] = {kind: _served(each) for kind, each in COLLECTIONS.items()}


API = "scheduling.volcano.sh/v1beta1"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
WATCH_SECONDS = 300
SILENCE_SECONDS = 90.0
"""A watch silent for longer is assumed dead: bookmarks arrive about once a minute."""

INTERRUPTED_STATUS = 130
"""Exit status after Ctrl-C, as in kubectl."""

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
"""Flags that select the cluster, for every command that contacts a cluster."""


def access(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that select the cluster."""
    for add in ACCESS:
        command = add(command)
    return command


_queue = CLASSES[Kind.QUEUE]

_BAD_FILE = (
    *(pykube.exceptions.KubernetesError, ImportError, OSError),
    *(LookupError, AttributeError, TypeError, NotImplementedError),
)
"""Errors that pykube raises for a bad kubeconfig."""


class ClusterError(Exception):
    """A request failed. The message is a sentence for users."""


class Unreachable(ClusterError):  # noqa: N818 - what the server is
    """No response, or an unusable response: a retry may succeed."""


class Expired(ClusterError):  # noqa: N818 - what the version is
    """Changes since the version are no longer available: list again."""


class Exists(ClusterError):  # noqa: N818 - what the name is
    """An object of this name exists."""


class Forbidden(ClusterError):  # noqa: N818 - what the question is
    """The user lacks the permission."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """All objects of a kind, and the version to watch from."""

    items: list[Object]
    version: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A new, changed or deleted object."""

    item: Object
    gone: bool = False


class Source(Protocol):
    """Access to objects: Cluster, or a fake in tests."""

    def list(self, kind: Kind) -> Listing:
        """Return all objects of a kind."""

    def queue(self, name: str) -> Object | None:
        """Return a queue, or None if no queue has the name."""

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """Iterate over changes until the server ends the watch. Raises Expired for an old
        version.
        """


class Cluster:
    """A real cluster."""

    def __init__(
        self, connect: Callable[[], pykube.KubeConfig], namespace: str | None = None
    ) -> None:
        """Create a client; with `namespace`, namespaced kinds are read only there."""
        self._connect = connect
        self._only = namespace
        self._config: pykube.KubeConfig = None
        self._server = "the API server"

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context. Raises ClusterError."""
        with self._translated_errors(Kind.QUEUE):
            if self._config is None:
                self._config = self._connect()
            return str(self._config.namespace or "default")

    def within(self, namespace: str) -> "Cluster":
        """Return a client that reads namespaced kinds only in this namespace."""
        return Cluster(self._connect, namespace)

    def list(self, kind: Kind) -> Listing:
        """Return all objects of a kind, in all namespaces unless limited to one.

        Items of lists have no kind and no apiVersion; here they get them.
        """

        def ask(client: pykube.HTTPClient) -> Listing:
            found = self._query(kind, client).execute().json()
            if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
                raise ClusterError(f"{self._server} doesn't respond like a Kubernetes API server")
            typed = {"apiVersion": CLASSES[kind].version, "kind": str(kind)}
            items: list[Object] = [typed | each for each in found.get("items") or ()]
            return Listing(items=items, version=found["metadata"].get("resourceVersion", ""))

        with self._translated_errors(kind):
            return self._answered(ask)

    def queue(self, name: str) -> Object | None:
        """Return a queue, or None if no queue has the name."""

        def ask(client: pykube.HTTPClient) -> Object | None:
            try:
                found: Object = (
                    self._query(Kind.QUEUE, client).get_by_name(quote(name, safe="")).obj
                )
            except pykube.ObjectDoesNotExist:
                return None
            return found

        with self._translated_errors(Kind.QUEUE):
            return self._answered(ask)

    def annotate_queue(self, name: str, key: str, value: str) -> Object | None:
        """Annotate a queue; return the queue as stored, or None if no queue has the name."""

        def ask(client: pykube.HTTPClient) -> Object | None:
            stored = CLASSES[Kind.QUEUE](client, {"metadata": {"name": quote(name, safe="")}})
            try:
                stored.patch({"metadata": {"annotations": {key: value}}})
            except (requests.HTTPError, pykube.exceptions.HTTPError) as error:
                if _status(error) != HTTPStatus.NOT_FOUND:
                    raise
                return None
            changed: Object = stored.obj
            return changed

        with self._translated_errors(Kind.QUEUE):
            return self._answered(ask)

    def create_queue(self, name: str, spec: Mapping[str, Any]) -> Object:
        """Create a queue; return the queue as stored. Raises Exists."""

        def ask(client: pykube.HTTPClient) -> Object:
            made = {"apiVersion": API, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
            stored = _queue(client, made)
            try:
                stored.create()
            except (requests.HTTPError, pykube.exceptions.HTTPError) as error:
                if _status(error) == HTTPStatus.CONFLICT:
                    raise Exists(f"there is a queue {name} already") from error
                raise
            created: Object = stored.obj
            return created

        with self._translated_errors(Kind.QUEUE):
            return self._answered(ask)

    def patch_queue(self, name: str, patch: Mapping[str, Any], *, dry_run: bool) -> Object | None:
        """Change a queue by a merge patch; return the queue as stored, or None if it is gone."""

        def ask(client: pykube.HTTPClient) -> Object | None:
            stored = _queue(client, {"metadata": {"name": quote(name, safe="")}})
            query = {"params": {"dryRun": "All"}} if dry_run else {}
            headers = {"Content-Type": "application/merge-patch+json"}
            body = json.dumps(patch)
            try:
                answer = client.patch(**stored.api_kwargs(headers=headers, data=body, **query))
                client.raise_for_status(answer)
            except (requests.HTTPError, pykube.exceptions.HTTPError) as error:
                if _status(error) == HTTPStatus.CONFLICT:
                    raise ClusterError(f"queue {name} was changed meanwhile: try again") from error
                if _status(error) != HTTPStatus.NOT_FOUND:
                    raise
                return None
            changed: Object = answer.json()
            return changed

        with self._translated_errors(Kind.QUEUE):
            return self._answered(ask)

    def delete_queue(self, name: str) -> None:
        """Delete a queue; it stays until its finalizers are gone."""

        def ask(client: pykube.HTTPClient) -> None:
            CLASSES[Kind.QUEUE](client, {"metadata": {"name": quote(name, safe="")}}).delete()

        with self._translated_errors(Kind.QUEUE):
            self._answered(ask)

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """Iterate over changes until the watch ends or falls silent."""
        parameters = {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        with self._translated_errors(kind), self._client(SILENCE_SECONDS) as client:
            for event in self._query(kind, client).watch(since=version, params=parameters):
                item: Object = event.object.obj
                match event.type:
                    case "ADDED" | "MODIFIED" | "DELETED":
                        yield Change(item=item, gone=event.type == "DELETED")
                    case "ERROR":
                        raise _refusal(item.get("code") or 500, str(item.get("message")), kind)

    def _answered(self, ask: Callable[[pykube.HTTPClient], Answer]) -> Answer:
        """Return a response. Expired credentials are renewed once."""
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
        """Provide a new client for each request: pykube's sessions aren't thread-safe."""
        if self._config is None:
            self._config = self._connect()
        client = pykube.HTTPClient(self._config, timeout=(CONNECT_SECONDS, seconds))
        self._server = f"the API server at {client.url}"
        proxy = self._config.cluster.get("proxy-url")
        if proxy:
            client.session.trust_env = False  # proxies of the environment would take precedence
            client.session.proxies = {"http": proxy, "https": proxy}
        # Without an auth function, passwords in ~/.netrc would take precedence.
        client.session.auth = lambda request: request
        if self._config.cluster.get("insecure-skip-tls-verify"):  # the user's explicit choice
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        with client.session:
            yield client

    def _query(self, kind: Kind, client: pykube.HTTPClient) -> Any:
        query = CLASSES[kind].objects(client)
        if kind not in NAMESPACED:
            return query
        return query.filter(namespace=pykube.all if self._only is None else self._only)

    @contextmanager
    def _translated_errors(self, kind: Kind) -> Iterator[None]:
        """Translate all errors into ClusterError."""
        try:
            yield
        except KubeconfigError as error:
            raise ClusterError(str(error)) from error
        except (requests.HTTPError, pykube.exceptions.HTTPError) as error:
            raise _refusal(_status(error), _message(error), kind) from error
        except requests.exceptions.JSONDecodeError as error:
            raise ClusterError(
                f"{self._server} doesn't respond like a Kubernetes API server"
            ) from error
        except requests.exceptions.SSLError as error:
            raise ClusterError(f"{self._server} can't be trusted: {_cause(error)}") from error
        except requests.RequestException as error:
            raise Unreachable(f"{self._server} doesn't answer: {_cause(error)}") from error
        except ValueError as error:
            raise Unreachable(
                f"{self._server} closed the connection in the middle of a response"
            ) from error
        except _BAD_FILE as error:
            raise ClusterError(f"the kubeconfig can't be used: {error}") from error


@contextmanager
def tidy_end() -> Iterator[None]:
    """Let SIGTERM end the command like an error, so that no key file is left behind."""

    def end(number: int, _: object) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def opened(kubeconfig: str, context: str) -> Iterator[Cluster]:
    """Provide the cluster selected by flags and environment; nothing is sent yet."""
    with tempfile.TemporaryDirectory(prefix="vscheduler-") as private:
        yield Cluster(
            lambda: kubeconfigs.load(
                kubeconfig, context, environment=os.environ, private=Path(private)
            )
        )


def _status(error: Any) -> int:
    """Return the HTTP status of an error of requests or pykube."""
    return int(error.response.status_code if hasattr(error, "response") else error.code)


def _message(error: Any) -> str:
    """Return the server's message."""
    if not hasattr(error, "response"):
        return str(error)
    try:
        return str(error.response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {error.response.status_code}"


def _refusal(status: int, message: str, kind: Kind) -> ClusterError:
    """Return the error for a refused request, with advice."""
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return Forbidden("the API server doesn't know this user: sign in anew (401)")
        case HTTPStatus.FORBIDDEN:
            return Forbidden(f"{message}; ask for a role that may get, list and watch them")
        case HTTPStatus.NOT_FOUND:
            version = CLASSES[kind].version
            advice = "; apply the files in crds/" if version == API else ""
            return ClusterError(f"this cluster has no kind {kind} of {version}{advice}")
        case HTTPStatus.GONE:
            return Expired(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unreachable(f"the API server can't answer now: {message}")
    return ClusterError(f"the API server refused the request: {message}")


def _cause(error: requests.RequestException) -> str:
    """Return the innermost cause of an error, without object addresses and error numbers."""
    if isinstance(error, requests.Timeout):
        return "it took too long"
    inner: Any = error.args[0] if error.args else error
    text = str(getattr(inner, "reason", None) or inner)
    certificate = re.search(r"certificate verify failed: .+?(?= \(_ssl)", text)
    if certificate:
        return certificate[0]
    return re.sub(r"\[Errno -?[0-9]+\] ", "", re.sub(r"^.*?[>)]: ", "", text))
