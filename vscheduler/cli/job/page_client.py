"""`job --server`: jobs from the page's JSON (docs/page.md), for users who may not read nodes and
all pods.
"""

import json
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlsplit

from vscheduler.cli import http_client, screen
from vscheduler.cli.http_client import (
    HttpClient,
    UnusableConfigError,
)
from vscheduler.cli.job import selection
from vscheduler.cli.job.explained import Explained
from vscheduler.cli.job.job_figures import Entry, Job, Pod
from vscheduler.cli.queue import kubeconfigs, queue_figures
from vscheduler.cli.queue.cluster_client import ClusterError, Unreachable, translated_errors
from vscheduler.cli.queue.kubeconfigs import KubeconfigError
from vscheduler.mirror import paths, workloads
from vscheduler.mirror.wording import phrases
from vscheduler.simulator.waiting_line import Place

ANSWER_SECONDS = 15.0
REMEDY_SECONDS = 150.0
"""How long the answer may take to what would start a job: others may have asked before."""

PAGE = 200
ANSWER_BYTES_MAX = 64 << 20
NOTHING: Mapping[str, str] = MappingProxyType({})
LOOPBACK = ("localhost", "127.0.0.1", "::1")

Document = dict[str, Any]

POLL_SECONDS = 2.0

Told = list[tuple[Job, list[Entry]]]


@contextmanager
def signed_in(
    server: str, authority: str, token_file: str, kubeconfig: str, context: str
) -> Iterator["PageClient"]:
    """Provide a client with the token of a file, else of the kubeconfig's user. Raises
    ClusterError.
    """
    address = urlsplit(server)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise ClusterError(f"--server: {server!r} isn't an address like https://…")
    if address.scheme == "http" and address.hostname not in LOOPBACK:
        raise ClusterError(f"--server: {server} would get your token unencrypted; use https")
    with tempfile.TemporaryDirectory(prefix="vscheduler-") as private:
        token, namespace = _token(token_file, kubeconfig, context, Path(private))
        config = http_client.config(_page(server, authority), {"token": token}, namespace)
        with closing(HttpClient(config, direct=True)) as client:
            yield PageClient(client, namespace)


def _token(token_file: str, kubeconfig: str, context: str, private: Path) -> tuple[str, str]:
    """Return the token and the namespace of the kubeconfig's context."""
    try:
        if token_file:
            return Path(token_file).read_text().strip(), "default"
        found = kubeconfigs.load(kubeconfig, context, environment=os.environ, private=private)
        token = str(found.user.get("token") or "")
    except KubeconfigError as error:
        raise ClusterError(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"--token-file can't be read: {error}") from error
    if not token:
        raise ClusterError(
            "the kubeconfig's user has no token, which the page asks for; "
            "name a file with one in --token-file"
        )
    return token, str(found.namespace or "default")


def _page(server: str, authority: str) -> dict[str, str]:
    """Return the page as a cluster of a kubeconfig."""
    found = {"server": server.rstrip("/")}
    if authority:
        try:
            ssl.create_default_context(cafile=authority)
        except OSError as error:
            raise ClusterError(f"--server-ca can't be used: {error}") from error
        found["certificate-authority"] = str(Path(authority).resolve())
    return found


class PageClient:
    """Asks the page."""

    def __init__(self, client: HttpClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context."""
        return self._namespace

    def notes(self) -> list[str]:
        """Return what this user isn't shown, and why.

        Raises ClusterError, with who leads, for a standby: it knows of no job, so it can't say that
        there is none.
        """
        found = self._get("summary")
        if not found["instance"]["leads"]:
            raise ClusterError(found["instance"]["sentence"])
        return list(found["visitor"]["notes"])

    def jobs(self, namespace: str | None) -> list[Job]:
        """Return all jobs of a namespace, or of all, that the token may see."""
        asked = {"state": "all", **({"namespace": namespace} if namespace is not None else {})}
        return [job_of(each) for each in self._all("jobs", asked)]

    def job(self, job: Job) -> tuple[Job, list[Entry]]:
        """Return a job with its pods, and what happened to it."""
        found = self._get(_path(job))
        history = [(queue_figures.instant(each["time"]), each["what"]) for each in found["history"]]
        return job_of(found), sorted(history)

    def remedies(self, job: Job) -> Document:
        """Return what would start a waiting job, as docs/page.md describes it."""
        return self._get(_path(job, "remedies"), seconds=REMEDY_SECONDS)

    def past(self, what: str, asked: Mapping[str, Sequence[str]]) -> Document:
        """Return an answer about the past: jobs or report, as docs/history.md describes it."""
        return self._get(f"history/{what}", asked)

    def about_queue(self, name: str) -> list[str]:
        """Return sentences about a queue; none if the token may not see it."""
        found = next((each for each in self._all("queues") if each["name"] == name), None)
        if found is None:
            return []
        named = [
            f"{each['has']['text']}/{each['deserves']['text']} {resource}"
            for resource, each in found["resources"].items()
            if "deserves" in each
        ]
        has = [f"Queue {name} has, of what it deserves: {', '.join(named)}."] if named else []
        return has + ([f"Its share: {found['sentence']}."] if found["sentence"] else [])

    def _all(self, what: str, asked: Mapping[str, str] = NOTHING) -> Iterator[Document]:
        offset, count = 0, 1
        while offset < count:
            window = {"offset": str(offset), "limit": str(PAGE)}
            found = self._get(what, {**window, **asked})
            count = found["count"]
            yield from found[what]
            offset += PAGE

    def _get(
        self, path: str, asked: Mapping[str, Any] = NOTHING, seconds: float = ANSWER_SECONDS
    ) -> Document:
        """Return a document. Raises ClusterError."""
        where = self._client.url
        with translated_errors(where):
            try:
                answer = self._client.ask(
                    "GET",
                    f"{paths.PAGE}/{path}",
                    query=asked,
                    seconds=seconds,
                    most_bytes=ANSWER_BYTES_MAX,
                )
            except UnusableConfigError as error:  # no kubeconfig's fault
                raise ClusterError(str(error)) from error
        try:
            found = json.loads(answer.body)
            if answer.status == 200 and isinstance(found, dict):
                return dict(screen.plain(found))
            raise ClusterError(str(found["error"]["message"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ClusterError(f"{where} doesn't answer like the scheduler's page") from error


def _path(job: Job, *more: str) -> str:
    names = (quote(each, safe="") for each in (job.namespace, job.name))
    return "/".join(("jobs", *names, *more))


def job_of(found: Document) -> Job:
    """Return a job of the page's JSON."""
    place, pods = found.get("place"), found["pods"]
    itself = workloads.of_group_name(found["podGroup"])
    members = found.get("members")
    return Job(
        namespace=found["namespace"],
        name=found["podGroup"],
        uid="",
        names=tuple(dict.fromkeys((workloads.parse(found["workload"]), itself))),
        queue=found["queue"],
        phase=found["state"],
        minimum=pods["minimum"],
        running=pods["running"],
        pods=None if members is None else tuple(map(_pod, members)),
        counted=pods["total"],
        created=queue_figures.instant(found["created"]),
        since=queue_figures.instant(found.get("waitingSince")),
        admitted=0.0,
        reason=found.get("reason", ""),
        message=found.get("message", ""),
        unreadable="",
        scheduler="",
        place=None
        if place is None
        else Place(
            queue=found["queue"],
            in_queue=place["inQueue"],
            of_queue=place["ofQueue"],
            first=place["first"],
            overall=place["overall"],
            of_all=place["ofAll"],
        ),
    )


def _pod(found: Document) -> Pod:
    return Pod(
        name=found["name"],
        uid="",
        phase=found["status"],
        node=found.get("node", ""),
        created=0.0,
        bound=0.0,
        scheduler="",
        waits_because="",
        evicted=None,
    )


def remedy_lines(found: Document) -> Sequence[str]:
    """Return what would start a job as lines of text."""
    messages = [each["message"] for each in found["remedies"]]
    starts, cut = found["startsInCycle"], found["cutShort"]
    hidden, untried = found["hidden"], found.get("untried", ())
    lines = phrases.domains(found.get("domains", ()))
    lines += [said] if (said := found.get("likelyStart")) else []
    lines += phrases.remedies(
        starts,
        messages,
        cut,
        hidden=hidden,
        untried=untried,
        for_admission=bool(found.get("forAdmission")),
    )
    return lines + phrases.not_enough(found.get("notEnough", ""))


def watch(
    page: PageClient,
    namespace: str | None,
    show: Callable[[Sequence[Job]], None],
) -> None:
    """Show the jobs again and again."""
    while True:
        show(page.jobs(namespace))
        time.sleep(POLL_SECONDS)


def chosen(page: PageClient, names: Sequence[str], namespace: str | None) -> tuple[Told, list[str]]:
    """Return the named jobs with pods and history, and a sentence for each name without any."""
    every = page.jobs(namespace)
    found, unknown = selection.named(every, names)
    everywhere = page.jobs(None) if unknown else []
    missing = [
        selection.not_there(name, namespace, everywhere, seen=" that you may see")
        for name in unknown
    ]
    return [page.job(each) for each in found], missing


def explained_by(page: PageClient, job: Job) -> Explained:
    """Return why a job waits, and what would start it. Raises cluster_client.Unreachable."""
    helps: Sequence[str] = []
    found = None
    if job.waits:
        try:
            found = page.remedies(job)
            helps = remedy_lines(found)
        except Unreachable:
            raise
        except ClusterError as error:
            helps = [str(error)]
    about = page.about_queue(job.queue)
    return Explained(job=job, about_queue=about, helps=helps, remedies=found)
