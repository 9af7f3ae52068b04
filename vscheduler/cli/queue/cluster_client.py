"""The cluster for interactive commands: lists, watches and changes of queues.

Results are plain data as the API server writes them; every error is a single sentence.
"""

import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn, Protocol

import click
import msgspec

from vscheduler.cli.http_client import (
    Answer,
    Config,
    HttpClient,
    NoAnswerError,
    UntrustedError,
    UnusableConfigError,
)
from vscheduler.cli.queue import kubeconfigs
from vscheduler.cli.queue.kubeconfigs import KubeconfigError
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection, UnusableNameError
from vscheduler.mirror.wording import phrases


class Kind(StrEnum):
    """Kinds of objects to read."""

    QUEUE = "Queue"
    POD_GROUP = "PodGroup"
    NATIVE_POD_GROUP = "PodGroup.scheduling.k8s.io"
    COMPOSITE_POD_GROUP = "CompositePodGroup"
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
    HYPER_NODE = "HyperNode"
    JOB = "Job"
    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    DEPLOYMENT = "Deployment"
    CONFIG_MAP = "ConfigMap"
    LEASE = "Lease"


COLLECTIONS: Mapping[Kind, Collection] = {
    Kind.QUEUE: paths.QUEUES,
    Kind.POD_GROUP: paths.POD_GROUPS,
    Kind.NATIVE_POD_GROUP: paths.NATIVE_POD_GROUPS,
    Kind.COMPOSITE_POD_GROUP: paths.COMPOSITE_POD_GROUPS,
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
    Kind.HYPER_NODE: paths.HYPER_NODES,
    Kind.JOB: paths.JOBS,
    Kind.REPLICA_SET: paths.REPLICA_SETS,
    Kind.STATEFUL_SET: paths.STATEFUL_SETS,
    Kind.DEPLOYMENT: paths.DEPLOYMENTS,
    Kind.CONFIG_MAP: paths.CONFIG_MAPS,
    Kind.LEASE: paths.LEASES,
}
NAMESPACED = frozenset(kind for kind, each in COLLECTIONS.items() if each.namespaced)

API = "scheduling.volcano.sh/v1beta1"
ANSWER_SECONDS = 10.0
WATCH_SECONDS = 300
SILENCE_SECONDS = 90.0
"""A watch silent for longer is assumed dead: bookmarks arrive about once a minute."""

INTERRUPTED_STATUS = 130
"""Exit status after Ctrl-C, as in kubectl."""

READING = ("get", "list", "watch")
CHANGES = ("ADDED", "MODIFIED", "DELETED")
MERGE_PATCH = "application/merge-patch+json"

Object = dict[str, Any]


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

PAGE_ACCESS = (
    click.option(
        "--token-file",
        metavar="FILE",
        default="",
        help="With --server: a file with a token [default: the kubeconfig's].",
    ),
    click.option(
        "--server-ca",
        metavar="FILE",
        default="",
        envvar="VSCHEDULER_SERVER_CA",
        help="With --server: certificates to trust [default: the system's].",
    ),
)
"""Flags that go with --server, for every command that may ask the scheduler's page."""


def access(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that select the cluster."""
    for add in ACCESS:
        command = add(command)
    return command


class ClusterError(Exception):
    """A request failed. The message is a sentence for users."""


class Unreachable(ClusterError):  # noqa: N818 - what the server is
    """No response, or an unusable response: a retry may succeed."""


class Expired(ClusterError):  # noqa: N818 - what the version is
    """Changes since the version are no longer available: list again."""


class Exists(ClusterError):  # noqa: N818 - what the name is
    """An object of this name exists."""


class NotServed(ClusterError):  # noqa: N818 - what the kind is
    """The cluster has no such kind."""


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

    def __init__(self, connect: Callable[[], Config], namespace: str | None = None) -> None:
        """Create a client; with `namespace`, namespaced kinds are read only there."""
        self._connect = connect
        self._only = namespace
        self._config: Config = None
        self._client: HttpClient | None = None

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context. Raises ClusterError."""
        self._connected()
        with translated_errors("the API server"):
            return str(self._config.namespace or "default")

    def within(self, namespace: str) -> "Cluster":
        """Return a client that reads namespaced kinds only in this namespace."""
        return Cluster(self._connect, namespace)

    def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            self._client.close()

    def list(self, kind: Kind) -> Listing:
        """Return all objects of a kind, in all namespaces unless limited to one.

        Items of lists have no kind and no apiVersion; here they get them.
        """
        found = self._decoded(kind, self._ask("GET", self._path(kind)))
        if not isinstance(found.get("metadata"), dict):
            raise self._no_api_server()
        collection = COLLECTIONS[kind]
        typed = {"apiVersion": collection.api_version, "kind": collection.kind}
        items: list[Object] = [typed | each for each in found.get("items") or ()]
        return Listing(items=items, version=found["metadata"].get("resourceVersion", ""))

    def unbound_pods(self) -> Sequence[Object]:
        """Return the pods of all namespaces that have no node and aren't finished."""
        query = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}
        found = self._decoded(Kind.POD, self._ask("GET", paths.PODS.everywhere, query=query))
        items: Sequence[Object] = found.get("items") or ()
        return items

    def queue(self, name: str) -> Object | None:
        """Return a queue, or None if no queue has the name."""
        answer = self._ask_queue("GET", name)
        return None if answer.status == HTTPStatus.NOT_FOUND else self._decoded(Kind.QUEUE, answer)

    def annotate_queue(self, name: str, key: str, value: str) -> Object | None:
        """Annotate a queue; return the queue as stored, or None if no queue has the name."""
        return self.patch_queue(name, {"metadata": {"annotations": {key: value}}}, dry_run=False)

    def create_queue(self, name: str, spec: Mapping[str, Any]) -> Object:
        """Create a queue; return the queue as stored. Raises Exists."""
        made = {"apiVersion": API, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        answer = self._ask("POST", self._path(Kind.QUEUE), made)
        if answer.status == HTTPStatus.CONFLICT:
            raise Exists(f"there is a queue {name} already")
        return self._decoded(Kind.QUEUE, answer)

    def patch_queue(self, name: str, patch: Mapping[str, Any], *, dry_run: bool) -> Object | None:
        """Change a queue by a merge patch; return the queue as stored, or None if it is gone."""
        answer = self._ask_queue("PATCH", name, patch, dry_run=dry_run)
        if answer.status == HTTPStatus.CONFLICT:
            raise ClusterError(f"queue {name} was changed meanwhile: try again")
        return None if answer.status == HTTPStatus.NOT_FOUND else self._decoded(Kind.QUEUE, answer)

    def delete_queue(self, name: str) -> None:
        """Delete a queue; it stays until its finalizers are gone."""
        answer = self._ask_queue("DELETE", name)
        if answer.status != HTTPStatus.NOT_FOUND:
            self._decoded(Kind.QUEUE, answer)

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """Iterate over changes until the watch ends or falls silent."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        client = self._connected()
        with (
            translated_errors(self._server),
            client.stream(self._path(kind), query, silence_seconds=SILENCE_SECONDS) as stream,
        ):
            if stream.status >= 300:
                raise _refusal(stream.status, _message(stream.status, b"".join(stream.lines)), kind)
            for line in stream.lines:
                change = self._change(kind, line)
                if change is not None:
                    yield change

    def _change(self, kind: Kind, line: bytes) -> Change | None:
        """Return the change of one line of a watch; None for a bookmark."""
        try:
            event = json.loads(line)
            what, item = event["type"], dict(event["object"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable(
                f"{self._server} closed the connection in the middle of a response"
            ) from error
        if what == "ERROR":
            raise _refusal(item.get("code") or 500, str(item.get("message")), kind)
        return Change(item=item, gone=what == "DELETED") if what in CHANGES else None

    def _ask_queue(
        self,
        method: str,
        name: str,
        body: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
    ) -> Answer:
        """Return the answer about a queue; no server is asked for a name that no queue can have."""
        try:
            path = paths.QUEUES.at(name)
        except UnusableNameError:
            return Answer(HTTPStatus.NOT_FOUND, b"")
        return self._ask(method, path, body, dry_run=dry_run)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return an answer. Expired credentials are renewed once. Raises ClusterError."""
        fresh = self._client is None
        client = self._connected()
        patches = MERGE_PATCH if method == "PATCH" else "application/json"

        def ask() -> Answer:
            return client.ask(
                method,
                path,
                None if body is None else json.dumps(body).encode(),
                query={"dryRun": "All"} if dry_run else query,
                headers=None if body is None else {"Content-Type": patches},
                seconds=ANSWER_SECONDS,
            )

        with translated_errors(self._server):
            answer = ask()
            if answer.status == HTTPStatus.UNAUTHORIZED and not fresh:
                self.close()
                self._client = None
                client = self._connected()
                answer = ask()
        return answer

    def _connected(self) -> HttpClient:
        if self._client is None:
            with translated_errors("the API server"):
                self._config = self._connect()
            self._client = HttpClient(self._config)
        return self._client

    @property
    def _server(self) -> str:
        return f"the API server at {self._connected().url}"

    def _path(self, kind: Kind) -> str:
        collection = COLLECTIONS[kind]
        if self._only is None or kind not in NAMESPACED:
            return collection.everywhere
        try:
            return collection.within(self._only)
        except UnusableNameError as error:
            raise ClusterError(str(error)) from error

    def _decoded(self, kind: Kind, answer: Answer) -> Object:
        """Return the object in an answer. Raises ClusterError."""
        if answer.status >= 300:
            raise _refusal(answer.status, _message(answer.status, answer.body), kind)
        try:
            found = json.loads(answer.body)
        except ValueError as error:
            raise self._no_api_server() from error
        if not isinstance(found, dict):
            raise self._no_api_server()
        return found

    def _no_api_server(self) -> ClusterError:
        return ClusterError(f"{self._server} doesn't respond like a Kubernetes API server")


@contextmanager
def translated_errors(server: str) -> Iterator[None]:
    """Translate errors of the client into ClusterError; `server` is who was asked."""
    try:
        yield
    except KubeconfigError as error:
        raise ClusterError(str(error)) from error
    except UntrustedError as error:
        raise ClusterError(f"{server} can't be trusted: {error}") from error
    except NoAnswerError as error:
        raise Unreachable(f"{server} doesn't answer: {error}") from error
    except UnusableConfigError as error:
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
        cluster = Cluster(
            lambda: kubeconfigs.load(
                kubeconfig, context, environment=os.environ, private=Path(private)
            )
        )
        with closing(cluster):
            yield cluster


def _message(status: int, body: bytes) -> str:
    """Return the server's message."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {status}"


def _needed(message: str) -> str:
    """Return the verbs of the missing right: who can't read needs all that reading takes."""
    verb = re.search(r"cannot (\w+) resource", message)
    reads = verb is None or verb[1] in READING
    return phrases.listed(READING) if reads else str(verb and verb[1])


def _refusal(status: int, message: str, kind: Kind) -> ClusterError:
    """Return the error for a refused request, with advice."""
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return Forbidden("the API server doesn't know this user: sign in anew (401)")
        case HTTPStatus.FORBIDDEN:
            return Forbidden(f"{message}; ask for a role that may {_needed(message)} them")
        case HTTPStatus.NOT_FOUND:
            version = COLLECTIONS[kind].api_version
            advice = "; apply the files in crds/" if version == API else ""
            return NotServed(f"this cluster has no kind {kind} of {version}{advice}")
        case HTTPStatus.GONE:
            return Expired(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unreachable(f"the API server can't answer now: {message}")
    return ClusterError(f"the API server refused the request: {message}")
