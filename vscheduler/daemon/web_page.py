"""What the page shows and whom: looks at the Mirror and the last cycle, and asks the API server
about tokens. The page itself is in `web`, in a thread of its own.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from vscheduler.cluster.http.connection import ApiError, Connection, Forbidden
from vscheduler.core.config.policy import Policy
from vscheduler.daemon import health
from vscheduler.daemon.health import ListenError, not_listening
from vscheduler.daemon.leader_election import api
from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.runtime import Runtime
from vscheduler.daemon.settings import Settings
from vscheduler.mirror import paths, workloads
from vscheduler.mirror.paths import Collection
from vscheduler.mirror.wording import plain_text
from vscheduler.mirror.workloads import Workload
from vscheduler.model import jobs
from vscheduler.model.decisions import DomainRoom
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import Snapshot
from vscheduler.simulator import network, waiting_line
from vscheduler.simulator.waiting_line import Place
from vscheduler.web import access, cluster_view
from vscheduler.web.access import ReviewError
from vscheduler.web.cluster_view import Instance, Look
from vscheduler.web.history import History
from vscheduler.web.remedies import FinderError, Found
from vscheduler.web.server import Certificate, Server, Sources, TlsError

log = structlog.get_logger(__name__)

REVIEW_SECONDS = 5.0
"""How long a visitor waits for the API server."""

LOOK_SECONDS = 10.0

REVIEW_MAX_BYTES = 1_000_000

T = TypeVar("T")


class _Status(msgspec.Struct):
    """`status` of a TokenReview or SubjectAccessReview."""

    class User(msgspec.Struct):
        """`status.user` of a TokenReview."""

        username: str = ""
        uid: str = ""
        groups: list[str] = []
        extra: dict[str, list[str]] = {}

    authenticated: bool = False
    allowed: bool = False
    denied: bool = False
    user: User | None = None


class _Review(msgspec.Struct):
    status: _Status


class Reviews:
    """Asks the API server about tokens, over the daemon's connection. For the page's thread."""

    def __init__(self, connection: Connection) -> None:
        """Belongs to the daemon's event loop, which must be running."""
        self._link = connection
        self._loop = asyncio.get_running_loop()

    async def user(self, token: str) -> access.User | None:
        """Return who the token stands for, or None for an unknown one. Raises ReviewError."""
        status = await self._ask(paths.TOKEN_REVIEWS, {"token": token})
        user = status.user
        if not status.authenticated or user is None or not user.username:
            return None
        return access.User(
            name=user.username,
            uid=user.uid,
            groups=tuple(user.groups),
            extra=tuple((key, tuple(values)) for key, values in sorted(user.extra.items())),
        )

    async def may_list(self, user: access.User, kind: Collection, namespace: str = "") -> bool:
        """Whether the user may list this kind in a namespace; in all without one. Raises
        ReviewError.
        """
        group, _, version = kind.api_version.rpartition("/")
        attributes = {
            "namespace": namespace,
            "verb": "list",
            "group": group,
            "version": version,
            "resource": kind.plural,
        }
        spec: dict[str, Any] = {
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": dict(user.extra),
            "resourceAttributes": attributes,
        }
        status = await self._ask(paths.ACCESS_REVIEWS, spec)
        return status.allowed and not status.denied

    async def _ask(self, kind: Collection, spec: Mapping[str, Any]) -> _Status:
        """Create a review and return its status."""
        body = msgspec.json.encode(
            {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        )
        try:
            answer = await _in(self._loop, lambda: self._call(kind, body))
            return msgspec.json.decode(answer, type=_Review).status
        except TimeoutError:
            raise ReviewError("the API server doesn't answer about tokens") from None
        except Forbidden as error:
            log.warning("web.reviews_refused", message=plain_text.shown(str(error)))
            raise ReviewError(
                "the scheduler may not ask the API server about tokens: it needs the role of "
                "manifests/page"
            ) from None
        except (ApiError, msgspec.DecodeError, RuntimeError):
            raise ReviewError("the API server can't be asked about tokens now") from None

    async def _call(self, kind: Collection, body: bytes) -> bytes:
        async with asyncio.timeout(REVIEW_SECONDS):
            return await self._link.call("POST", kind.everywhere, body, most_bytes=REVIEW_MAX_BYTES)


async def _in(loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]) -> T:
    """Run the work in another thread's event loop. Raises RuntimeError when that has ended."""

    async def run() -> T:
        return await work()

    coroutine = run()
    try:
        asked = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise
    return await asyncio.wrap_future(asked)


def where_to_go(settings: Settings, statuses: Sequence[LeaseStatus]) -> str:
    """Return how to reach the leader's page from one that stands by.

    In a cluster, the identity of an instance begins with the name of its pod.
    """
    stands_by = "This instance stands by, and only the leader knows queues, jobs and decisions."
    pod = next((api.host_of(status.holder) for status in statuses if status.holder), "")
    if not pod:
        return f"{stands_by} Nobody leads now, as far as it knows."
    if settings.own_pod is None or settings.web is None:
        return f"{stands_by} Open the page of {pod}."
    forward = f"kubectl port-forward -n {settings.own_pod.namespace} pod/{pod}"
    return f"{stands_by} Open the leader's page: {forward} {settings.web.address.port}."


class Page:
    """Looks for the page."""

    def __init__(
        self,
        shared: Runtime,
        statuses: Callable[[], tuple[LeaseStatus, ...]],
        in_force: Callable[[], Policy],
    ) -> None:
        """`in_force` returns the policy that cycles run with."""
        self._runtime = shared
        assert isinstance(shared.observer, History)
        self._history = shared.observer
        self._statuses = statuses
        self._in_force = in_force
        self._loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Serve the page during the block; yield the port. Raises health.ListenError."""
        web, link = self._runtime.settings.web, self._runtime.connection
        history = self._runtime.settings.history
        assert web is not None
        sources = Sources(
            look=self.look,
            version=lambda: self._history.version,
            places=self._places,
            domains=self._domains,
            node_domains=self._node_domains,
            reviewer=Reviews(link),
            failures=self._runtime.failures,
            finder=RemedyProcess(self._runtime.settings),
            history=None if history is None else Path(history.file),
        )
        host, port = web.address
        certificate = None
        if web.certificate:
            certificate = Certificate(certificate=web.certificate, private_key=web.private_key)
        try:
            server = Server(sources, host, port, certificate)
        except OSError as error:
            raise ListenError(not_listening("--web-address", web.address, error)) from error
        except TlsError as error:
            raise ListenError(str(error)) from error
        server.start()
        log.info("web.listening", host=host, port=server.port, tls=certificate is not None)
        try:
            yield server.port
        finally:
            await server.stop()

    async def look(self) -> Look:
        """Return what there is to see now. For the page's thread."""

        async def here() -> Look:
            return self._look()

        async with asyncio.timeout(LOOK_SECONDS):
            return await _in(self._loop, here)

    def _look(self) -> Look:
        mirror, settings = self._runtime.mirror, self._runtime.settings
        now = time.time()
        return Look(
            now=now,
            instance=self._instance(),
            past=self._history.frozen(now),
            owners={
                key: each.owner for key, each in mirror.groups.items() if each.owner is not None
            },
            without_pods=tuple(cluster_view.without_pods(mirror, settings.scheduler_names)),
        )

    def _instance(self) -> Instance:
        lines = [plain_text.shown(health.lease_line(status)) for status in self._statuses()]
        leads = self._history.leads
        if not self._runtime.settings.schedules:
            return Instance(
                leads=False, sentence="This instance runs the controllers only, and no cycles."
            )
        if leads:
            return Instance(leads=True, sentence="; ".join(lines))
        where = where_to_go(self._runtime.settings, self._statuses())
        return Instance(leads=False, sentence=" ".join((where, "; ".join(lines))))

    def _places(self, snapshot: Snapshot) -> Mapping[JobId, Place]:
        with self._runtime.failures.contained("web", "places in line"):
            return waiting_line.places_in(snapshot, self._in_force())
        return {}

    def _domains(self, snapshot: Snapshot) -> Mapping[JobId, DomainRoom]:
        with self._runtime.failures.contained("web", "domains of the network"):
            return network.domains(snapshot, self._in_force())
        return {}

    def _node_domains(self, snapshot: Snapshot) -> Sequence[str]:
        with self._runtime.failures.contained("web", "domains of nodes"):
            return network.node_domains(snapshot, self._in_force())
        return ()


SECONDS_MAX = 30.0
MEMORY_MAX = 1 << 30
MEMORY_LEAST = 128 << 20
RESERVE = 64 << 20
"""Bytes that stay free in the container."""

LOWEST_PRIORITY = 19
FIRST_TO_END = b"1000"
GROUP = Path("/sys/fs/cgroup")

SLOW = f"Finding out takes longer than {SECONDS_MAX:.0f} seconds in this cluster."
FAILED = "Finding out has failed; the scheduler's log has the details."
UNKNOWN = (
    "It isn't known what would help: the job has just started or changed, or the scheduler may not "
    "read all that decisions depend on."
)
CROWDED = "The scheduler has too little memory left to find out what would help."


class RemedyProcess:
    """Runs `vscheduler job why` and `vscheduler what-if` with the daemon's own access to the
    cluster, in another process.

    No cycle waits for it: the process has the lowest priority, a time limit and a limit of memory,
    and the kernel ends it before the scheduler when memory runs short.
    """

    def __init__(self, settings: Settings) -> None:
        self._given = settings

    async def find(self, namespace: str, name: str) -> Found:
        """Return the changes that would start the job of this PodGroup. Raises FinderError."""
        output = await self._run(command(self._given, namespace, name))
        remedies = json.loads(output).get("remedies")
        if not remedies:
            raise FinderError(UNKNOWN)
        return dict(remedies)

    async def what_if(self, queue: str, flags: Sequence[str]) -> Found:
        """Return what other settings of a queue would do. Raises FinderError."""
        scheduler = f"--scheduler-name={self._given.scheduler_names[0]}"
        words = ["what-if", *flags, scheduler, *_access(self._given), "--output=json", "--", queue]
        return dict(json.loads(await self._run([sys.executable, "-m", "vscheduler", *words])))

    async def _run(self, words: Sequence[str]) -> bytes:
        """Return what a command prints. Raises FinderError."""
        if self._given.master:
            raise FinderError("With --master, the page can't find out what would help.")
        memory = memory_left(GROUP)
        if memory < MEMORY_LEAST:
            raise FinderError(CROWDED)
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _restrain(process.pid, memory)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                output, errors = await process.communicate()
        except TimeoutError:
            raise FinderError(SLOW) from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode:
            said = plain_text.shown(errors.decode(errors="replace")[-2000:])
            log.warning("web.remedies_failed", status=process.returncode, message=said)
            raise FinderError(FAILED)
        return output


def command(settings: Settings, namespace: str, name: str) -> Sequence[str]:
    """Return the command line for one job."""
    words = [*_access(settings), f"--namespace={namespace}", "--output=json"]
    if settings.history is not None and Path(settings.history.file).is_file():
        words.append(f"--history={settings.history.file}")
    job = workloads.of_group_name(name)
    if job.kind == workloads.POD_GROUP and not jobs.is_native(JobId(name)):
        job = Workload(job.kind, f"{name}{workloads.OF_VOLCANO}")  # there may be one of each kind
    return [sys.executable, "-m", "vscheduler", "job", "why", str(job), *words]


def _access(settings: Settings) -> list[str]:
    """Return the flags for the daemon's own access, configuration and nodes."""
    flags = {
        "--kubeconfig": [settings.kubeconfig] if settings.kubeconfig else [],
        "--context": [settings.context] if settings.context else [],
        "--scheduler-conf": [settings.scheduler_conf] if settings.scheduler_conf else [],
        "--node-selector": [f"{key}={value}" for key, value in settings.node_selector],
    }
    return [f"{flag}={value}" for flag, values in flags.items() for value in values]


def memory_left(group: Path) -> int:
    """Return how much memory the process may use: less than the container has left."""
    try:
        most = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        return MEMORY_MAX if most == "max" else min(MEMORY_MAX, int(most) - used - RESERVE)
    except (OSError, ValueError):
        return MEMORY_MAX


def _restrain(process: int, memory: int) -> None:
    """Give way to the scheduler; a process that has ended already needs nothing."""
    with suppress(OSError):
        resource.prlimit(process, resource.RLIMIT_DATA, (memory, memory))
        os.setpriority(os.PRIO_PROCESS, process, LOWEST_PRIORITY)
        Path(f"/proc/{process}/oom_score_adj").write_bytes(FIRST_TO_END)
