"""How `vscheduler run` ends, whatever it is doing; and that nobody needs to read what it says."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from sandbox import free_ports
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons
from tests.integration.daemons import Start

END_SECONDS = 90.0
"""Kubernetes kills after that."""

SMALLEST_PIPE = 4096
LEASES = tuple(f"{daemons.LEASES}/{name}" for name in ("vscheduler", "vscheduler-controllers"))
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Run = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def run(kubeconfig: Path) -> Iterator[Run]:
    """Start a scheduler as a process like any other; none outlives the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(
        *flags: str, program: Sequence[str] = daemons.PROGRAM, access: Path = kubeconfig, **how: Any
    ) -> "subprocess.Popen[bytes]":
        command = [*program, "run", f"--kubeconfig={access}", *flags]
        started.append(subprocess.Popen(command, **how))  # noqa: S603 - our own command
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def until(done: Callable[[], object], process: "subprocess.Popen[bytes]") -> None:
    """Wait until something is so, and the process still runs."""

    def check() -> None:
        assert process.poll() is None, "the daemon has ended"

    patience.wait_until(done, check=check)


def holders(cluster: ControlPlane) -> list[str]:
    """Who has the Leases."""
    return [cluster.api.get(path)["spec"].get("holderIdentity") or "" for path in LEASES]


def bind(cluster: ControlPlane, name: str, process: Any) -> None:
    """See a gang come and be bound."""
    daemons.a_gang(cluster, name, 2)
    until(lambda: {f"{name}-0", f"{name}-1"} <= daemons.nodes_of(cluster).keys(), process)


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe to write to, with little room and nobody who reads."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    yield writing
    os.close(writing)
    os.close(reading)


def fill(pipe: int) -> None:
    """Make it as full as it can be."""
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x")
    os.set_blocking(pipe, True)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_log_that_nobody_reads_stops_nothing(
    cluster: ControlPlane, run: Run, unread: int, number: signal.Signals
) -> None:
    """Pods are bound, and a signal ends it with its Leases given back."""
    cluster.create_nodes(count=1, cpu="8")
    daemon = run("--log-level=debug", stdout=unread, stderr=unread)
    bind(cluster, "first", daemon)
    fill(unread)
    bind(cluster, "second", daemon)
    bind(cluster, "third", daemon)
    until(lambda: all(holders(cluster)), daemon)
    daemon.send_signal(number)
    assert daemon.wait(END_SECONDS) == 0
    assert holders(cluster) == ["", ""]


def test_lines_that_nobody_read_are_counted(cluster: ControlPlane, run: Run) -> None:
    """In a metric; and when somebody reads on, a line says how many there were."""
    (port,) = free_ports.choose(1)
    address = f"127.0.0.1:{port}"
    impatient = (
        "from vscheduler.daemon.observability import logs;"
        " logs.LineWriter.__init__.__kwdefaults__.update(lines_max=5);"
        " from vscheduler import __main__; __main__.main()"
    )
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    cluster.create_nodes(count=1, cpu="64")
    daemon = run(
        *("--log-level=debug", "--log-format=json", "--enable-metrics"),
        f"--listen-address={address}",
        program=(sys.executable, "-c", impatient),
        stderr=writing,
    )
    os.close(writing)

    def dropped() -> float:
        text = urllib3.request("GET", f"http://{address}/metrics", timeout=60.0).data.decode()
        (line,) = [
            splitline
            for splitline in text.splitlines()
            if splitline.startswith("vscheduler_log_lines_dropped_total ")
        ]
        return float(line.split()[1])

    for number in range(10):
        bind(cluster, f"gang-{number}", daemon)
    until(lambda: dropped() > 0, daemon)
    daemon.send_signal(signal.SIGTERM)
    with os.fdopen(reading, "rb") as log:
        events = [json.loads(line)["event"] for line in log]
    assert daemon.wait(END_SECONDS) == 0
    assert any("lines dropped" in event for event in events)
    assert events[-1] == "stopped"


def test_a_full_disk_stops_nothing(cluster: ControlPlane, run: Run) -> None:
    """Nor does a log that can't be written at all."""
    cluster.create_nodes(count=1, cpu="8")
    with Path("/dev/full").open("wb") as full:
        daemon = run("--log-level=debug", stdout=full, stderr=full)
    bind(cluster, "first", daemon)
    daemon.terminate()
    assert daemon.wait(END_SECONDS) == 0
    assert holders(cluster) == ["", ""]


def test_it_runs_without_standard_streams(cluster: ControlPlane, run: Run) -> None:
    """Closed ones aren't sockets a moment later."""
    cluster.create_nodes(count=1, cpu="8")
    shell = ("/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *daemons.PROGRAM)
    daemon = run("--log-level=debug", program=shell)
    bind(cluster, "first", daemon)
    standard = [Path(f"/proc/{daemon.pid}/fd/{number}").readlink() for number in range(3)]
    assert standard == [Path(os.devnull)] * 3
    daemon.terminate()
    assert daemon.wait(END_SECONDS) == 0
    assert holders(cluster) == ["", ""]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_standby(
    cluster: ControlPlane,
    start: Start,
    run: Run,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    """It has nothing to give back, and takes nothing."""
    leader = start()
    daemons.until(lambda: all(holders(cluster)), leader)
    before = holders(cluster)
    log = tmp_path / "standby.log"
    with log.open("wb") as output:
        standby = run("--log-format=json", "--log-level=debug", stderr=output)
    until(lambda: "lease.holder_changed" in log.read_text(), standby)
    standby.send_signal(number)
    assert standby.wait(END_SECONDS) == 0
    assert holders(cluster) == before


@pytest.fixture(params=["refuses", "is silent"])
def unreachable(request: pytest.FixtureRequest, kubeconfig: Path, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig for a server that refuses connections, or takes them and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            server.listen(100)
        tree = yaml.safe_load(kubeconfig.read_text())
        for each in tree["clusters"]:
            each["cluster"]["server"] = f"https://127.0.0.1:{server.getsockname()[1]}"
        path = tmp_path / "unreachable.yaml"
        path.write_text(yaml.safe_dump(tree))
        yield path


@pytest.mark.parametrize(
    ("number", "seconds"), [(signal.SIGTERM, 0.0), (signal.SIGINT, 0.0), (signal.SIGHUP, 4.0)]
)
def test_a_signal_ends_it_where_no_server_answers(
    run: Run, unreachable: Path, tmp_path: Path, number: signal.Signals, seconds: float
) -> None:
    """Before its first list, and from its first moment on."""
    log = tmp_path / "log"
    with log.open("wb") as output:
        daemon = run("--log-format=json", access=unreachable, stderr=output)
    until(lambda: "started" in log.read_text(), daemon)
    time.sleep(seconds)
    daemon.send_signal(number)
    assert daemon.wait(END_SECONDS) == 0


def test_a_later_signal_changes_nothing(cluster: ControlPlane, run: Run) -> None:
    """Its Leases are given back all the same."""
    daemon = run(stderr=subprocess.DEVNULL)
    until(lambda: all(holders(cluster)), daemon)
    for number in (*SIGNALS, signal.SIGTERM, signal.SIGUSR1):
        daemon.send_signal(number)
    assert daemon.wait(END_SECONDS) == 0
    assert holders(cluster) == ["", ""]


def test_who_is_started_by_nohup_outlives_its_terminal(cluster: ControlPlane, run: Run) -> None:
    """SIGHUP is passed over by whoever was told so."""
    cluster.create_nodes(count=1, cpu="8")
    daemon = run(program=("nohup", *daemons.PROGRAM), stderr=subprocess.DEVNULL)
    until(lambda: all(holders(cluster)), daemon)
    daemon.send_signal(signal.SIGHUP)
    bind(cluster, "first", daemon)
    daemon.terminate()
    assert daemon.wait(END_SECONDS) == 0
