"""An instance that can't work doesn't lead: whatever hangs, it ends, and another one goes on."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anyio import from_thread

from sandbox import credentials, free_ports
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.faults import proxying
from tests.faults.plans import Delay, Plan, Rule
from tests.faults.proxying import What
from tests.integration import daemons, hanging
from tests.integration.daemons import Daemon
from vscheduler.daemon.liveness import watchdog

LEASE = f"{daemons.LEASES}/vscheduler"
QUICK = (
    "--cycle-deadline=3s",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
PATIENCE_SECONDS = 120.0


@dataclass
class Pair:
    """One instance that leads, and that goes wrong at a word, and one that stands by."""

    cluster: ControlPlane
    kubeconfig: Path
    folder: Path
    running: list[Daemon] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)

    def enter(self, *flags: str, through: Path | None = None) -> Daemon:
        """Start one; it has a file of its own for the word, and an address for its health.

        `through` is a kubeconfig of its own.
        """
        number = len(self.running)
        folder = self.folder / str(number)
        environment = hanging.install(folder)
        environment[hanging.FAULT] = str(folder / "word")
        self.ports += free_ports.choose(1)
        self.running.append(
            Daemon(
                through or self.kubeconfig,
                folder / "log",
                f"--scheduler-conf={folder / 'scheduler.conf'}",
                "--enable-healthz",
                f"--healthz-address=127.0.0.1:{self.ports[-1]}",
                *flags,
                module=hanging.__name__,
                environment=environment,
            )
        )
        return self.running[-1]

    def both(self, *flags: str) -> tuple[Daemon, Daemon]:
        """The first leads and has bound; the second knows the cluster."""
        self.cluster.create_nodes(count=2, cpu="16")
        first = self.enter(*flags)
        daemons.a_gang(self.cluster, "early", 1)
        daemons.until(lambda: "early-0" in daemons.nodes_of(self.cluster), first)
        second = self.enter(*flags)
        daemons.until(lambda: self.health(1, "/readyz")[0] == 200, second)
        daemons.until(lambda: first.said("kopf.started"), first)
        return first, second

    def spoil(self, number: int, word: str) -> float:
        """From now on this goes wrong with an instance; gives the moment."""
        (self.folder / str(number) / "word").write_text(word)
        return time.monotonic()

    def health(self, number: int, path: str) -> tuple[int, str]:
        """What an instance says of itself; (0, "") where it says nothing within a second."""
        return daemons.asked(self.ports[number], path)

    def holder(self) -> str:
        """Who has the Lease."""
        return str(self.cluster.api.get(LEASE)["spec"]["holderIdentity"])

    def until(self, done: Callable[[], object]) -> None:
        """Wait until something is so."""
        patience.wait_until(done, told=lambda: [each.text()[-3000:] for each in self.running])


@pytest.fixture
def pair(cluster: ControlPlane, kubeconfig: Path, tmp_path: Path) -> Iterator[Pair]:
    """None runs yet; none outlives the test."""
    made = Pair(cluster, kubeconfig, tmp_path)
    yield made
    for daemon in made.running:
        daemon.process.kill()
        daemon.process.wait()


def reasons(daemon: Daemon) -> set[str]:
    """Why it lost the Lease of its scheduler, if it did."""
    lost = daemon.said("lease.lost")
    return {line["why"] for line in lost if line["lease"] == "vscheduler"}


def why(daemon: Daemon) -> str:
    """The cause in the one line that says why an instance has ended."""
    (line,) = daemon.said("instance.stuck")
    return str(line["cause"])


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("loop", "cycle"),
        ("exit", "dropped"),
        pytest.param("wait", "cycle", marks=pytest.mark.at_length),
        pytest.param("cancel", "dropped", marks=pytest.mark.at_length),
    ],
)
def test_a_leader_whose_cycles_come_to_nothing_lets_another_lead(
    pair: Pair, fault: str, cause: str
) -> None:
    """A plugin that never ends, or raises what nobody contains; the Lease is given back.

    /livez answers for as long as the process lives, and says so once only a new one can help.
    """
    first, second = pair.both(*QUICK)
    before = pair.holder()
    pair.spoil(0, fault)
    daemons.a_gang(pair.cluster, "late", 2)
    answers = []
    while first.process.poll() is None:
        answers.append(pair.health(0, "/livez")[0])
        time.sleep(0.1)
        assert len(answers) < 10 * PATIENCE_SECONDS
    assert first.process.returncode == watchdog.STATUS
    pair.until(lambda: {"late-0", "late-1"} <= set(daemons.nodes_of(pair.cluster)))
    assert why(first) == cause
    assert reasons(first) == {"it is given back"}
    assert answers == sorted(answers, key=(200, 503, 0).index)
    assert answers.count(200) > 5
    assert pair.holder() != before
    assert second.process.poll() is None
    assert not second.said("instance.stuck")
    if fault == "loop":
        (line,) = first.said("instance.stuck")
        assert line["where"][-1].endswith(("hanging.py:62 overused", "overused"))


@pytest.mark.at_length
def test_with_default_settings_a_standby_binds_within_45_seconds_of_the_hang(pair: Pair) -> None:
    """30 until the cycle is given up, and the rest for the other one."""
    first, _ = pair.both()
    began = pair.spoil(0, "loop")
    daemons.a_gang(pair.cluster, "late", 2)
    pair.until(lambda: {"late-0", "late-1"} <= set(daemons.nodes_of(pair.cluster)))
    seconds = time.monotonic() - began
    sys.stdout.write(f"\na standby has bound {seconds:.1f} s after the hang\n")
    assert seconds < 45
    assert first.process.wait(PATIENCE_SECONDS) == watchdog.STATUS


def test_who_keeps_the_interpreter_to_himself_is_ended_by_the_kernel(pair: Pair) -> None:
    """No thread of Python's can look then; the Lease runs out, and the stacks are in the log."""
    first, _ = pair.both(*QUICK)
    pair.spoil(0, "expression")
    daemons.a_gang(pair.cluster, "late", 2)
    pair.until(lambda: first.process.poll() is not None)
    assert first.process.returncode == -signal.SIGPROF
    assert "overused" in first.text()
    pair.until(lambda: {"late-0", "late-1"} <= set(daemons.nodes_of(pair.cluster)))


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.at_length)])
def test_an_event_loop_that_is_blocked_ends_its_process(pair: Pair, number: int) -> None:
    """A leader's, which keeps its Lease as calls may be under way, and a standby's."""
    first, second = both = pair.both(*QUICK)
    pair.spoil(number, "event loop")
    daemons.a_gang(pair.cluster, "late", 2)
    pair.until(lambda: both[number].process.poll() is not None)
    assert both[number].process.returncode == watchdog.STATUS
    assert why(both[number]) == "loop"
    assert not reasons(both[number])
    pair.until(lambda: {"late-0", "late-1"} <= set(daemons.nodes_of(pair.cluster)))
    assert (second if number == 0 else first).process.poll() is None


def test_controllers_that_hang_are_started_anew_beside_a_scheduler_that_goes_on(
    pair: Pair,
) -> None:
    """They end by themselves, as any process that is stuck, and the scheduler starts others."""
    pair.cluster.create_nodes(count=2, cpu="16")
    daemon = pair.enter(*QUICK)
    daemons.until(lambda: pair.health(0, "/readyz")[0] == 200, daemon)
    (child,) = daemon.children()
    os.kill(child, signal.SIGSTOP)
    daemons.a_gang(pair.cluster, "early", 1)
    daemons.until(lambda: "early-0" in daemons.nodes_of(pair.cluster), daemon)
    assert pair.health(0, "/readyz")[0] == 503
    os.kill(child, signal.SIGKILL)
    daemons.until(lambda: len(daemon.said("controllers.started")) == 2, daemon)
    daemons.until(lambda: pair.health(0, "/readyz")[0] == 200, daemon)
    assert daemon.stop() == 0


def test_a_leader_with_a_call_under_way_keeps_its_lease(pair: Pair) -> None:
    """The bind may be done yet; so the other one waits until the Lease has run out."""
    rule = Rule(requests=r"^POST .*/pods/slow-0/binding", fault=Delay(seconds=60))
    served = proxying.serving(proxying.upstream_of(pair.kubeconfig), Plan([rule]))
    pair.cluster.create_nodes(count=2, cpu="16")
    with (
        from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served) as proxy,
    ):
        path = credentials.write_kubeconfig(
            pair.folder / "proxied",
            url=proxy.url,
            authority=pair.cluster.authority.certificate_path,
        )
        daemon = pair.enter(*QUICK, through=path)
        daemons.until(lambda: daemon.said("serving"), daemon)
        holder = pair.holder()
        daemons.a_gang(pair.cluster, "slow", 1)
        daemons.until(lambda: proxy.notes("slow-0/binding", What.RECEIVED), daemon)
        pair.spoil(0, "wait")
        daemons.a_gang(pair.cluster, "late", 1)
        pair.until(lambda: daemon.process.poll() is not None)
    assert daemon.process.returncode == watchdog.STATUS
    assert why(daemon) == "cycle"
    assert daemon.said("leases.kept")
    assert pair.holder() == holder != ""


def test_a_stop_is_not_held_up_by_a_cycle_that_never_ends(pair: Pair) -> None:
    """SIGTERM comes before the deadline; the Lease is given back."""
    pair.cluster.create_nodes(count=2, cpu="16")
    daemon = pair.enter()
    daemons.until(lambda: daemon.said("serving"), daemon)
    pair.spoil(0, "wait")
    daemons.a_gang(pair.cluster, "late", 1)
    time.sleep(2)
    assert daemon.stop() == 0
    assert pair.holder() == ""
