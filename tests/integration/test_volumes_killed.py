"""kill -9 between any two calls of a daemon that prepares claims: its successor ends the work.

`make test-faults` runs it. The simulation tries some calls each day (tests/simulation/killed.py).

A proxy counts the daemon's writes. At the one in question the daemon is killed, before the call is
sent on, or after it was; another daemon follows. Then the next call, until there is none.
"""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from anyio import from_thread

from sandbox import credentials
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.faults import end_states, proxying
from tests.faults.plans import LoseAnswer, LoseRequest, Plan, Struck
from tests.integration import daemons, devices, provisioners
from tests.integration.daemons import Daemon, Start

NODES = ("node-0", "node-1")
CLASSES = (provisioners.SLOW, provisioners.LOCAL, provisioners.SLOW)
DEVICES = 2
"""How many pods have a device of their own and share one more, instead of volumes."""
LONG = (*CLASSES, provisioners.AT_ONCE, "", provisioners.SLOW, provisioners.LOCAL, "")
COUNTED = re.compile(
    r"^(POST|PUT|PATCH|DELETE) [^?]*"
    r"/(pods|podgroups|persistentvolumeclaims|persistentvolumes|resourceclaims)\b"
)
POSITIONS_MAX = 150
WAYS = ("lost", "carried out")


class Killing(Plan):
    """Kills a process at one of its writes about pods and claims, which is carried out or lost."""

    def __init__(self, position: int, way: str) -> None:
        super().__init__()
        self._position = position
        self._fault = LoseAnswer() if way == "carried out" else LoseRequest()
        self.process = 0
        """0 until it is to be counted."""
        self.count = 0
        self.line = ""
        """The write at which the process was killed; empty while it lives."""

    def choose(self, line: str) -> Struck | None:
        """What becomes of this request: at the one in question, the end of its sender."""
        if self.line:
            return Struck(fault=LoseRequest())
        if not self.process or not COUNTED.search(line):
            return None
        self.count += 1
        if self.count < self._position:
            return None
        self.line = line
        os.kill(self.process, signal.SIGKILL)
        return Struck(fault=self._fault)


@pytest.fixture(scope="module")
def portal() -> Iterator[from_thread.BlockingPortal]:
    """An event loop in another thread, where proxies live."""
    with from_thread.start_blocking_portal() as running:
        yield running


Killed = Callable[[int, str, Sequence[str]], str]


def create(cluster: ControlPlane, classes: Sequence[str]) -> None:
    """A gang with volumes of these classes; without any, with devices."""
    if classes:
        provisioners.a_gang(cluster, "gang", classes)
        return
    devices.publish(cluster.api, NODES, 3)
    devices.a_template(cluster.api, "one", devices.asked(1))
    devices.a_claim(cluster.api, "shared", devices.asked(1))
    own, shared = {"resourceClaimTemplateName": "one"}, {"resourceClaimName": "shared"}
    devices.a_gang(cluster, "gang", DEVICES, own, shared)


@pytest.fixture
def killed(
    cluster: ControlPlane,
    portal: from_thread.BlockingPortal,
    kubeconfig: Path,
    start: Start,
    tmp_path: Path,
) -> Killed:
    """Start a gang by a daemon that is killed at a position, and then by another."""

    def run(position: int, way: str, classes: Sequence[str]) -> str:
        size = len(classes) or DEVICES
        cluster.clean()
        cluster.create_nodes(count=len(NODES), cpu="4")
        provisioners.create_disks(cluster.api, NODES, 2)
        plan = Killing(position, way)
        served = proxying.serving(proxying.upstream_of(kubeconfig), plan)
        with (
            provisioners.provisioning(cluster.api),
            portal.wrap_async_context_manager(served) as proxy,
        ):
            path = credentials.write_kubeconfig(
                tmp_path / "proxied", url=proxy.url, authority=cluster.authority.certificate_path
            )
            first = Daemon(path, tmp_path / f"{position}-{way}.log", daemons.ALONE)
            try:
                daemons.until(lambda: first.said("serving"), first)
                plan.process = first.process.pid
                create(cluster, classes)
                patience.wait_until(lambda: plan.line or is_whole(cluster, size))
                if plan.line:
                    first.process.wait(daemons.PATIENCE_SECONDS)
                    second = start(daemons.ALONE)
                    daemons.until(lambda: is_whole(cluster, size), second)
                    second.stop()
            finally:
                first.kill()
        groups, pods = cluster.api.list(daemons.GROUPS), cluster.api.list(daemons.PODS)
        assert end_states.split_gangs(groups, pods) == {}
        assert provisioners.misplaced(cluster.api) == []
        assert provisioners.leftovers(cluster.api) == []
        assert devices.wrong(cluster.api) == []
        assert devices.leftovers(cluster.api) == []
        return plan.line

    return run


def is_whole(cluster: ControlPlane, size: int) -> bool:
    """Whether all pods have nodes."""
    return len(daemons.nodes_of(cluster)) == size


def every_position(
    killed: Killed, ways: Callable[[int], Sequence[str]], classes: Sequence[str]
) -> list[str]:
    """The writes at which daemons were killed, one after the other, in these ways at a position."""
    lines = []
    for position in range(1, POSITIONS_MAX):
        found = [killed(position, way, classes) for way in ways(position)]
        lines += found
        if not all(found):
            return lines
    raise AssertionError(f"more than {POSITIONS_MAX} writes")


def tell(lines: Sequence[str]) -> None:
    """What the daemons were about to write."""
    for line in lines:
        sys.stdout.write(f"killed at {line.partition('?')[0]}\n")


def in_turn(position: int) -> Sequence[str]:
    """One way at each write."""
    return (WAYS[position % len(WAYS)],)


def all_ways(_position: int) -> Sequence[str]:
    """Both at each write."""
    return WAYS


@pytest.mark.at_length
@pytest.mark.parametrize(
    ("ways", "classes"),
    [
        pytest.param(in_turn, (provisioners.SLOW, provisioners.LOCAL), id="two"),
        pytest.param(all_ways, CLASSES, id="three"),
        pytest.param(all_ways, LONG, id="eight"),
        pytest.param(in_turn, (), id="devices"),
    ],
)
def test_a_daemon_that_is_killed_at_any_write_has_a_successor(
    killed: Killed, ways: Callable[[int], Sequence[str]], classes: Sequence[str]
) -> None:
    """It starts the gang, and nothing is left over.

    Which of the writes that leave together is the first differs from run to run.
    """
    lines = every_position(killed, ways, classes)
    tell(lines)
    kinds = ("persistentvolumeclaims", "persistentvolumes") if ways is all_ways else ()
    for kind in (*kinds, "binding" if classes else "resourceclaims"):
        assert any(kind in line for line in lines), kind
