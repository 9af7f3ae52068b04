"""Fair shares that add up to the usable resources: one case in four variants, measured.

Each variant has a control plane and a scheduler of its own on this machine. The busy parts run one
after another, so that no variant slows down another; the quiet minutes overlap.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import click
import figures
import tenants

from sandbox import binaries, control_plane, progress_report
from sandbox.control_plane import ControlPlane
from sandbox.errors import SandboxError
from sandbox.processes import Supervisor

POLL_SECONDS = 0.2
QUIET_POLL_SECONDS = 1.0
STEADY_SECONDS = 2.0
"""How long shares must stay the same before they count as reached."""

START_SECONDS = 30.0
"""How long the first two tenants may take to share the workers; then the third one arrives."""

PATIENCE_SECONDS = 40.0
"""The maximum wait for fair shares; without fair shares by then, the variant has failed."""

DAEMON = "vscheduler"
PODS = "/api/v1/pods"
EVENTS = "/apis/events.k8s.io/v1/events"
CONDITION = f"{tenants.SCHEDULER}/FairShare"


class StoppedError(Exception):
    """All variants have to stop."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared by all variants: a lock for the busy part, and the event on which all stop."""

    slowdown: float = 1.0
    busy: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def rest(self, seconds: float) -> None:
        """Wait for some seconds; raise StoppedError if all variants have to stop."""
        if self.stop.wait(seconds):
            raise StoppedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A variant with its control plane and its scheduler."""

    variant: tenants.Variant
    plane: ControlPlane
    daemon: Supervisor
    shared: Shared
    ledger: figures.Ledger = field(default_factory=figures.Ledger)

    def look(self) -> float:
        """Update the ledger and return the time; raise StartFailed if the scheduler has ended."""
        self.daemon.check()
        pods = self.plane.api.list(PODS)
        events = self.plane.api.list(EVENTS, fieldSelector="reason=Evict")
        now = time.monotonic()
        self.ledger.note(now, pods, events)
        return now

    def wait(self, wanted: tuple[tuple[int, ...], ...], seconds: float) -> float | None:
        """Return when the tenants reached the wanted CPU and kept it; None after a timeout."""
        deadline = time.monotonic() + seconds
        since: float | None = None
        while since is not None or time.monotonic() < deadline:
            now = self.look()
            since = (since or now) if self.ledger.cpu in wanted else None
            if since is not None and now - since >= STEADY_SECONDS:
                return since
            self.shared.rest(POLL_SECONDS)
        return None

    def says(self) -> str:
        """Return the explanation of the last tenant's share in its queue, or an empty text."""
        queue = self.plane.api.get(f"{tenants.QUEUES}/{tenants.TENANTS[-1]}")
        conditions = queue.get("status", {}).get("conditions", [])
        return next(
            (condition["message"] for condition in conditions if condition["type"] == CONDITION), ""
        )

    def tell(self, text: str) -> None:
        """Print progress to stderr."""
        click.echo(f"{self.variant.name}: {text}", err=True)


@click.command()
@click.option(
    "--variant",
    "names",
    multiple=True,
    type=click.Choice([each.name for each in tenants.VARIANTS]),
    help="Run only this variant; may be repeated.",
)
@click.option(
    "--slowdown",
    type=click.FloatRange(min=1.0),
    default=1.0,
    help="How many times slower than two free cores this machine is; all limits grow with it.",
)
def main(names: Sequence[str], slowdown: float) -> None:
    """Show the same fair shares four times, on real control planes on this machine.

    Two tenants share five workers, then a third one arrives. This takes two minutes; the first run
    takes longer, because it also builds the programs of the control plane.
    """
    chosen = [each for each in tenants.VARIANTS if not names or each.name in names]
    try:
        with progress_report.on_stderr() as progress:
            binaries.find_or_build(binaries.REQUIRED, progress=progress)
        results = play_all(chosen, slowdown)
    except SandboxError as error:
        raise click.ClickException(str(error)) from error
    click.echo(figures.table(results))
    for result in results:
        if result.says:
            click.echo(f"{result.variant}: queue {tenants.TENANTS[-1]} says: {result.says}")
    wrong = [
        f"{result.variant}: {problem}"
        for result in results
        for problem in result.problems(slowdown)
    ]
    for problem in wrong:
        click.echo(f"not as promised: {problem}", err=True)
    sys.exit(1 if wrong else 0)


def play_all(variants: Sequence[tenants.Variant], slowdown: float) -> list[figures.Result]:
    """Run the variants side by side; if one fails, all end."""
    shared = Shared(slowdown=slowdown)
    with futures.ThreadPoolExecutor(len(variants)) as threads:
        plays = [threads.submit(play, variant, shared) for variant in variants]
        try:
            futures.wait(plays, return_when=futures.FIRST_EXCEPTION)
        finally:
            shared.stop.set()
        failed = (play.exception() for play in plays)
        for error in failed:
            if error is not None and not isinstance(error, StoppedError):
                raise error
        return [play.result() for play in plays]


def play(variant: tenants.Variant, shared: Shared) -> figures.Result:
    """Run one variant from an empty cluster to the end of its quiet minute."""
    with ExitStack() as stack:
        with shared.busy:
            shared.rest(0)
            stage = stack.enter_context(_stage(variant, shared))
            before = _two_tenants(stage)
            stage.tell(f"{figures.cpu(before)} CPU, and the third tenant arrives")
            arrival = time.monotonic()
            variant.arrive(stage.plane.api, tenants.TENANTS[-1])
            fair = stage.wait((figures.FAIR,), PATIENCE_SECONDS * shared.slowdown)
        ledger = stage.ledger
        strayed = None
        if fair is None:
            stage.tell(f"still {figures.cpu(ledger.cpu)} CPU; giving up")
        else:
            stage.tell(f"{figures.cpu(ledger.cpu)} CPU after {fair - arrival:.1f} s")
            strayed = _quiet_minute(stage, fair + figures.QUIET_SECONDS)
        end = time.monotonic()
        return figures.Result(
            variant=variant.name,
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
def _stage(variant: tenants.Variant, shared: Shared) -> Iterator[Stage]:
    """Start a control plane with nodes, and a scheduler; both end with the block."""
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane.start())
        tenants.furnish(plane)
        directory = plane.directory / "daemon"
        directory.mkdir()
        daemon = Supervisor(directory)
        stack.callback(daemon.end)
        command = [sys.executable, "-m", "vscheduler", "run", f"--kubeconfig={plane.kubeconfig}"]
        daemon.start(DAEMON, [*command, "--leader-elect=false", *variant.flags])
        yield Stage(variant=variant, plane=plane, daemon=daemon, shared=shared)


def _two_tenants(stage: Stage) -> tuple[int, ...]:
    """Let the first two tenants arrive and share the workers; return their CPU."""
    for tenant in tenants.TENANTS[:-1]:
        stage.variant.arrive(stage.plane.api, tenant)
    stage.wait(figures.HALVES, START_SECONDS * stage.shared.slowdown)
    return stage.ledger.cpu


def _quiet_minute(stage: Stage, until: float) -> tuple[int, ...] | None:
    """Watch until the given time; return unfair shares, or None."""
    strayed = None
    while stage.look() < until:
        if stage.ledger.cpu != figures.FAIR:
            strayed = stage.ledger.cpu
        stage.shared.rest(QUIET_POLL_SECONDS)
    return strayed


if __name__ == "__main__":
    main()
