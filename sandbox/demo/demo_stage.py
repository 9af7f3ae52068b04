"""Steps of the demo: start a control plane, create tenants and gangs, run the daemon, check the
outcome.
"""

import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from sandbox import control_plane, free_ports, progress_report
from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from sandbox.demo import demo_view, page_link
from sandbox.demo.demo_view import View
from sandbox.demo.page_link import PageLink
from sandbox.errors import StartFailed
from sandbox.processes import Supervisor
from vscheduler.cli import screen
from vscheduler.mirror import paths

POLL_SECONDS = 0.2
ANSWER_SECONDS = 5.0
SETTLE_SECONDS = 1.0
"""How long the final state must last, in seconds: the oversized gang must not start in parts."""

READY_SECONDS = 30.0
TIMEOUT_SECONDS = 60.0
DAEMON = "vscheduler"
LOOPBACK = "127.0.0.1"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane with tenants, and a daemon."""

    plane: ControlPlane
    daemon: Supervisor
    health: Client
    """Asks the daemon."""
    page: PageLink
    history: Path
    """The file in which the daemon keeps what ran."""

    def wait_until_ready(self) -> None:
        """Wait for the daemon's first look at the cluster, so that its startup isn't measured."""
        deadline = time.monotonic() + READY_SECONDS
        while self.health.read("/readyz") is None:
            self.daemon.check()
            if time.monotonic() > deadline:
                tail = self.daemon.log_tail(DAEMON)
                raise StartFailed(f"the scheduler was not ready in {READY_SECONDS:.0f} s.\n{tail}")
            time.sleep(POLL_SECONDS)

    def look(self) -> View:
        """Return the cluster as of now. Raises StartFailed, with the end of the log, if the daemon
        has ended.
        """
        self.daemon.check()
        return demo_view.look(self.plane.api, self.health)


def run(*, keep: bool, browse: bool) -> bool:
    """Run the whole demo; return whether the outcome was as expected.

    `browse` opens a browser with the page, if there is one. `keep` leaves everything running until
    Ctrl-C, so that the page can be looked at.
    """
    with _stage() as stage:
        stage.wait_until_ready()
        if browse and page_link.shows(stage.page.once()):
            screen.say(f"your browser shows the scheduler's page, {stage.page.url}", err=True)
        else:
            screen.say(f"the page, signed in by this link once: {stage.page.once()}", err=True)
            screen.say(*page_link.forwarding(stage.page.url), err=True)
        began = time.monotonic()
        _create_jobs(stage.plane.api)
        view, seconds = _watch(stage, began)
        problems = view.problems()
        screen.say(*demo_view.summary(view, seconds))
        screen.say(*(f"unexpected: {problem}" for problem in problems), err=True)
        if keep:
            _wait(stage)
    return not problems


def _watch(stage: Stage, began: float) -> tuple[View, float]:
    """Show the queues until the outcome is as expected and lasts, or until the time limit.

    Return the last view, and the seconds until the last pod that fits was running.
    """
    seconds = 0.0
    good_since: float | None = None
    with demo_view.on(sys.stderr) as show:
        while True:
            view = stage.look()
            elapsed = time.monotonic() - began
            show(view, elapsed)
            if not seconds and view.running >= demo_view.PODS:
                seconds = elapsed
            good_since = None if view.problems() else good_since or elapsed
            settled = good_since is not None and elapsed - good_since >= SETTLE_SECONDS
            if settled or elapsed > TIMEOUT_SECONDS:
                return view, seconds or elapsed
            time.sleep(POLL_SECONDS)


@contextmanager
def _stage() -> Iterator[Stage]:
    """Set up everything except the jobs. Everything is torn down at the end, even after an
    error.
    """
    with ExitStack() as stack:
        with progress_report.on_stderr() as progress:
            plane = stack.enter_context(control_plane.start(progress=progress))
        plane.create_nodes(count=demo_view.WORKERS, prefix="worker", cpu=str(demo_view.WORKER_CPU))
        for tenant in demo_view.TENANTS:
            plane.create_namespace(tenant)
            plane.api.create(paths.QUEUES.everywhere, demo_view.queue(tenant))
        page_link.install_tenants(plane.api, demo_view.TENANTS)
        port, page = free_ports.choose(2)
        directory = plane.directory / "daemon"
        directory.mkdir()
        history = demo_view.write_past(directory, time.time())
        daemon = Supervisor(directory)
        stack.callback(daemon.end)
        daemon.start(DAEMON, _daemon_command(plane, port, page, history))
        health = stack.enter_context(
            closing(Client(f"http://{LOOPBACK}:{port}", answer_seconds=ANSWER_SECONDS))
        )
        link = PageLink(plane.api, f"http://{LOOPBACK}:{page}")
        yield Stage(plane=plane, daemon=daemon, health=health, page=link, history=history)


def _daemon_command(plane: ControlPlane, port: int, page: int, history: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "vscheduler", "run"),
        f"--kubeconfig={plane.kubeconfig}",
        f"--scheduler-name={demo_view.SCHEDULER}",
        "--leader-elect=false",  # the only instance has no rivals to wait for
        "--enable-metrics",
        f"--listen-address={LOOPBACK}:{port}",
        "--enable-healthz",
        f"--healthz-address={LOOPBACK}:{port}",
        f"--web-address={LOOPBACK}:{page}",
        f"--history-file={history}",
    ]


def _create_jobs(client: Client) -> None:
    """Create the PodGroups first, and the oversized gang last, after the tenants' shares are
    known.
    """
    for gang in (*demo_view.FITTING, *demo_view.WAITING):
        client.create(paths.POD_GROUPS.within(gang.tenant), gang.pod_group())
    for gang in (*demo_view.FITTING, *demo_view.WAITING):
        client.create_all(paths.PODS.within(gang.tenant), gang.members())


def _kept(stage: Stage, name: str, token: str) -> str:
    """Write a token to a file, and return its name for a shell."""
    path = stage.plane.directory / name
    path.touch(mode=0o600)
    path.write_text(token)
    return shlex.quote(str(path))


def _wait(stage: Stage) -> None:
    """Print how to look around, and keep everything running until Ctrl-C or SIGTERM."""
    plane, tenant = stage.plane, demo_view.TENANTS[0]
    kubectl = shlex.quote(str(plane.kubectl))
    ours = shlex.quote(str(Path(sys.executable).with_name("vscheduler")))
    asking = f"{ours} job list --all-namespaces --server {stage.page.url} --token-file"
    screen.say(
        "",
        f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}",
        f"{kubectl} get queues,podgroups,pods --all-namespaces",
        f"# the page, signed in by this link once: {stage.page.once()}",
        f"{ours} status",
        "# what the page shows, as a list, and as a member of a tenant sees it:",
        f"{asking} {_kept(stage, 'visitor.token', stage.page.token())}",
        f"{asking} {_kept(stage, 'member.token', stage.page.token_of(tenant, page_link.MEMBER))}",
        f"# as a member of {tenant} sees the page, signed in by this link once: "
        f"{stage.page.once(tenant)}",
        "# two weeks of history are made up, so that there is something to look back at:",
        f"{ours} report --history {shlex.quote(str(stage.history))} --since 14d --by queue",
        f"# metrics: {stage.health.url}/metrics",
        f"# the scheduler's log: {stage.daemon.log_path(DAEMON)}",
        "# Ctrl-C ends it all",
    )
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    signal.sigwait(ends)
