"""Fair shares that add up to what the nodes can give: one case in four ways, measured.

Each way has a control plane and a scheduler of its own on this machine. They get busy one after
another, so that none slows the others down; the quiet minutes overlap.
"""

import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import click
import figures
import tenants

from vscheduler.sandbox import binaries, control_plane, errors, processes, progress_report

POLL_SECONDS = 0.2
QUIET_POLL_SECONDS = 1.0
STEADY_SECONDS = 2.0
"""How long shares must be what they are before anything is built on it."""

START_SECONDS = 30.0
"""For the first two tenants to share the workers; the third one comes anyway."""

PATIENCE_SECONDS = 40.0
"""For fair shares; without them after that, the way has missed."""

DAEMON = "vscheduler"
PODS = "/api/v1/pods"
EVENTS = "/apis/events.k8s.io/v1/events"
CONDITION = f"{tenants.SCHEDULER}/FairShare"


class StoppedError(Exception):
    """Somebody wants an end of it."""


@dataclass(frozen=True, slots=True)
class Turns:
    """What the ways share: one after another is busy, and all stop together."""

    busy: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def rest(self, seconds: float) -> None:
        """Wait a moment. Raises StoppedError."""
        if self.stop.wait(seconds):
            raise StoppedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A way on its control plane, with its scheduler."""

    way: tenants.Way
    plane: control_plane.ControlPlane
    daemon: processes.Supervisor
    turns: Turns
    ledger: figures.Ledger = field(default_factory=figures.Ledger)

    def look(self) -> float:
        """Bring the ledger up to date; the time. Raises StartFailed if the scheduler has ended."""
        self.daemon.check()
        pods = self.plane.api.list(PODS)
        events = self.plane.api.list(EVENTS, fieldSelector="reason=Evict")
        now = time.monotonic()
        self.ledger.note(now, pods, events)
        return now

    def wait(self, wanted: tuple[tuple[int, ...], ...], seconds: float) -> float | None:
        """When the tenants came to what is wanted, and kept it; None if not within the time."""
        deadline = time.monotonic() + seconds
        since: float | None = None
        while since is not None or time.monotonic() < deadline:
            now = self.look()
            since = (since or now) if self.ledger.cpu in wanted else None
            if since is not None and now - since >= STEADY_SECONDS:
                return since
            self.turns.rest(POLL_SECONDS)
        return None

    def says(self) -> str:
        """What the last tenant's queue says of its share; empty when it says nothing."""
        queue = self.plane.api.get(f"{tenants.QUEUES}/{tenants.TENANTS[-1]}")
        conditions = queue.get("status", {}).get("conditions", [])
        return next((each["message"] for each in conditions if each["type"] == CONDITION), "")

    def tell(self, text: str) -> None:
        """Show progress."""
        click.echo(f"{self.way.name}: {text}", err=True)


@click.command()
def main() -> None:
    """Show the same fair shares four times, on real control planes on this machine.

    Two tenants share five workers, then a third one arrives. Takes two minutes; the first run
    builds the control plane's programs, which takes some more, and keeps them.
    """
    try:
        with progress_report.on_stderr() as progress:
            binaries.find_or_build(binaries.REQUIRED, progress=progress)
        results = all_ways()
    except errors.SandboxError as error:
        raise click.ClickException(str(error)) from error
    click.echo(figures.table(results))
    for each in results:
        if each.says:
            click.echo(f"{each.way}: queue {tenants.TENANTS[-1]} says: {each.says}")
    wrong = [f"{each.way}: {problem}" for each in results for problem in each.problems()]
    for problem in wrong:
        click.echo(f"not as promised: {problem}", err=True)
    sys.exit(1 if wrong else 0)


def all_ways() -> list[figures.Result]:
    """The four side by side; when one fails, all end."""
    turns = Turns()
    with futures.ThreadPoolExecutor(len(tenants.WAYS)) as threads:
        plays = [threads.submit(play, way, turns) for way in tenants.WAYS]
        try:
            futures.wait(plays, return_when=futures.FIRST_EXCEPTION)
        finally:
            turns.stop.set()
        failed = (play.exception() for play in plays)
        for error in failed:
            if error is not None and not isinstance(error, StoppedError):
                raise error
        return [play.result() for play in plays]


def play(way: tenants.Way, turns: Turns) -> figures.Result:
    """One way from an empty cluster to the end of its quiet minute."""
    with ExitStack() as stack:
        with turns.busy:
            turns.rest(0)
            stage = stack.enter_context(_stage(way, turns))
            before = _two_tenants(stage)
            stage.tell(f"{figures.cpu(before)} CPU, and the third tenant arrives")
            arrival = time.monotonic()
            way.arrive(stage.plane.api, tenants.TENANTS[-1])
            fair = stage.wait((figures.FAIR,), PATIENCE_SECONDS)
        ledger = stage.ledger
        strayed = None
        if fair is None:
            stage.tell(f"still {figures.cpu(ledger.cpu)} CPU; giving up")
        else:
            stage.tell(f"{figures.cpu(ledger.cpu)} CPU after {fair - arrival:.1f} s")
            strayed = _quiet_minute(stage, fair + figures.QUIET_SECONDS)
        end = time.monotonic()
        return figures.Result(
            way=way.name,
            before=before,
            after=ledger.cpu,
            running=ledger.running,
            seconds=None if fair is None else fair - arrival,
            evicted=ledger.evicted_between(arrival, fair or end),
            later=ledger.evicted_between(fair or end, end),
            strayed=strayed,
            says=stage.says(),
        )


@contextmanager
def _stage(way: tenants.Way, turns: Turns) -> Iterator[Stage]:
    """A control plane, its nodes and a scheduler; all of it ends with the block."""
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane.start())
        tenants.furnish(plane)
        directory = plane.directory / "daemon"
        directory.mkdir()
        daemon = processes.Supervisor(directory)
        stack.callback(daemon.end)
        command = [sys.executable, "-m", "vscheduler", "run", f"--kubeconfig={plane.kubeconfig}"]
        daemon.start(DAEMON, [*command, "--leader-elect=false", *way.flags])
        yield Stage(way=way, plane=plane, daemon=daemon, turns=turns)


def _two_tenants(stage: Stage) -> tuple[int, ...]:
    """Let the first two arrive, and share the workers; what they have then."""
    for tenant in tenants.TENANTS[:-1]:
        stage.way.arrive(stage.plane.api, tenant)
    stage.wait(figures.HALVES, START_SECONDS)
    return stage.ledger.cpu


def _quiet_minute(stage: Stage, until: float) -> tuple[int, ...] | None:
    """Go on looking; shares that weren't fair, if any were seen."""
    strayed = None
    while stage.look() < until:
        if stage.ledger.cpu != figures.FAIR:
            strayed = stage.ledger.cpu
        stage.turns.rest(QUIET_POLL_SECONDS)
    return strayed


if __name__ == "__main__":
    main()
