"""Schedulers that compete for Leases, each with a user of its own, and what came of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.client import Object
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.faults import audits, end_states
from tests.faults.audits import Entry, Log
from tests.integration import permissions
from tests.integration.arrivals import Arrivals
from tests.integration.daemons import Daemon
from vscheduler.cli.http_client import NoAnswerError

NAMESPACE = "volcano-system"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
ALL_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
ALL_PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
CONTROLLERS = "vscheduler-controllers"
PATIENCE_SECONDS = 180.0
POLL_SECONDS = 0.05
RESTART_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient the instances are."""

    name: str
    flags: tuple[str, ...]
    duration_seconds: float

    @property
    def fence_seconds(self) -> float:
        """How long a holder acts on a renewal."""
        return self.duration_seconds / 3


DEFAULT = Timing(name="default", flags=(), duration_seconds=15)
SHORT = Timing(
    name="short",
    flags=(
        "--leader-elect-lease-duration=6s",
        "--leader-elect-renew-deadline=4s",
        "--leader-elect-retry-period=1s",
    ),
    duration_seconds=6,
)
TIMINGS = {each.name: each for each in (SHORT, DEFAULT)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is to be said of a scenario."""

    scenario: str
    lease_seconds: float | None
    """From the fault until the successor's first write to the Lease."""
    bind_seconds: float | None
    """From the fault until the successor's first bind after that."""
    binds: int
    bound_twice: tuple[str, ...]
    out_of_turn: tuple[str, ...]
    split: tuple[str, ...]
    overfull: tuple[str, ...]

    @property
    def faultless(self) -> bool:
        """Whether nothing went wrong, and anything could have."""
        wrong = (self.bound_twice, self.out_of_turn, self.split, self.overfull)
        return self.binds > 0 and not any(wrong)

    def tell(self, timing: str) -> None:
        """As a row of a table."""
        seconds = [
            "-" if each is None else f"{each:.1f} s"
            for each in (self.lease_seconds, self.bind_seconds)
        ]
        counts = [len(each) for each in (self.bound_twice, self.out_of_turn, self.split)]
        cells = [self.scenario, timing, *seconds, *map(str, counts), str(self.binds)]
        sys.stdout.write(f"\n| {' | '.join(cells)} |\n")


class Contest:
    """Instances on one control plane, and the work that they compete for."""

    def __init__(self, plane: ControlPlane, log: Log, timing: Timing, folder: Path) -> None:
        self.plane = plane
        self.timing = timing
        self._log = log
        self._folder = folder
        self._running: dict[str, Daemon] = {}
        self._users: dict[str, list[str]] = {}
        """Who stands for the Lease of each scheduler name."""
        self._work: Arrivals | None = None

    def feed(self, *schedulers: str, pause: float = 0.2) -> None:
        """From now on gangs for these come in."""
        for name in schedulers:
            self.plane.create_namespace(name)
        self._work = Arrivals(self.plane.api, schedulers, pause=pause)
        self._work.start()

    def enter(
        self, user: str, *schedulers: str, flags: Sequence[str] = (), through: Path | None = None
    ) -> Daemon:
        """Start an instance for these names; `through` is a kubeconfig other than its own."""
        path = permissions.permit(self.plane, user, *schedulers)
        names = [f"--scheduler-name={name}" for name in schedulers]
        log = self._folder / f"{user}.log"
        daemon = Daemon(through or path, log, *names, *self.timing.flags, *flags)
        self._running[user] = daemon
        for name in schedulers:
            self._users.setdefault(name, []).append(user)
        return daemon

    def send(self, user: str, number: signal.Signals) -> float:
        """Send a signal to all processes of an instance; gives the moment."""
        moment = time.time()
        daemon = self._running[user]
        for process in daemon.children():
            os.kill(process, number)
        daemon.process.send_signal(number)
        return moment

    def end(self, user: str, number: signal.Signals = signal.SIGKILL) -> float:
        """The end of an instance; gives the moment at which the signal was sent."""
        daemon = self._running.pop(user)
        moment = time.time()
        daemon.process.send_signal(number)
        status = daemon.process.wait(PATIENCE_SECONDS)
        assert status == (0 if number is signal.SIGTERM else -number)
        return moment

    def entries(self) -> Sequence[Entry]:
        """What the audit log says so far."""
        return self._log.entries()

    def until(self, done: Callable[[], object]) -> None:
        """Wait until something is so; all instances must live on meanwhile."""

        def check() -> None:
            for user, daemon in self._running.items():
                assert daemon.process.poll() is None, f"{user} has ended:\n{daemon.text()[-2000:]}"

        patience.wait_until(done, check=check, longest_seconds=POLL_SECONDS)

    def until_binds(self, user: str, namespace: str, *, after: float = 0.0) -> Entry:
        """Wait until an instance has bound a pod there; gives the first after a moment."""

        def found() -> Entry | None:
            there = [bind for bind in audits.binds(self.entries()) if bind.namespace == namespace]
            return audits.first(there, user, after)

        self.until(found)
        entry = found()
        assert entry is not None
        return entry

    def until_stands_by(self, user: str, lease: str) -> None:
        """Wait until an instance knows the cluster, and has looked at the Lease."""

        def warm() -> bool:
            own = [entry for entry in self.entries() if entry.user == user]
            watches = any(each.verb == "watch" and each.resource == "pods" for each in own)
            looked = any(each.verb == "get" and each.name == lease and each.done for each in own)
            return watches and looked

        self.until(warm)

    def lease(self, name: str) -> dict[str, Any]:
        """A Lease as it is stored; empty where there is none."""
        return self.plane.api.find(f"{LEASES}/{name}") or {}

    def edit(self, lease: str, **spec: Any) -> float:
        """As `kubectl edit` does; gives the moment."""
        moment = time.time()
        self.plane.api.patch(f"{LEASES}/{lease}", {"spec": spec})
        return moment

    def verdict(
        self, scenario: str, fault: float = 0.0, successor: str = "", lease: str = ""
    ) -> Row:
        """Once all that came is bound: what there is to say, of one takeover where there was one.

        The Lease is one that is called like a scheduler.
        """
        if self._work:
            self._work.stop()
            self._work = None
        self.until(lambda: all(pod["spec"].get("nodeName") for pod in self.pods()))
        pods, seen = self.pods(), self.entries()
        written = bound = None
        if successor:
            users = self._users[lease]
            writes = audits.lease_writes(seen, lease, users)
            own = [bind for bind in audits.binds(seen) if bind.namespace == lease]
            written = audits.first(writes, successor, fault)
            bound = audits.first(own, successor, written.answered) if written else None
        row = Row(
            scenario=scenario,
            lease_seconds=written.answered - fault if written else None,
            bind_seconds=bound.answered - fault if bound else None,
            binds=len(audits.binds(seen)),
            bound_twice=tuple(audits.bound_twice(seen)),
            out_of_turn=tuple(self._out_of_turn(seen)),
            split=tuple(end_states.split_gangs(self.plane.api.list(ALL_GROUPS), pods)),
            overfull=tuple(end_states.overfull_nodes(self.plane.api.list(NODES), pods)),
        )
        row.tell(self.timing.name)
        return row

    def pods(self) -> list[Object]:
        """All pods."""
        return self.plane.api.list(ALL_PODS)

    def close(self) -> None:
        """No thread and no process is left."""
        if self._work:
            self._work.stop()
        for daemon in self._running.values():
            daemon.process.kill()
            daemon.process.wait()

    def _out_of_turn(self, seen: Sequence[Entry]) -> list[str]:
        return [
            f"{each.user}: {each.namespace}/{each.name}"
            for name, users in self._users.items()
            for each in audits.out_of_turn(seen, name, name, users)
        ]


def restart_api_server(plane: ControlPlane) -> subprocess.Popen[bytes]:
    """Kill it, and start it anew after a while; it is the caller's then."""
    number = plane.process_ids["kube-apiserver"]
    command = Path(f"/proc/{number}/cmdline").read_bytes().decode().split("\0")[:-1]
    os.kill(number, signal.SIGKILL)
    time.sleep(RESTART_SECONDS)
    with (plane.log_directory / "kube-apiserver-again.log").open("wb") as output:
        server = subprocess.Popen(command, cwd=plane.directory, stdout=output, stderr=output)  # noqa: S603 - the same again
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _ready(plane):
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
    return server


def _ready(plane: ControlPlane) -> bool:
    try:
        return plane.api.ask("GET", "/readyz").status == 200
    except NoAnswerError:
        return False
