"""Watches whose connections stay open and carry nothing, as behind a firewall that forgot them."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import from_thread

from sandbox import credentials
from sandbox.control_plane import ControlPlane
from tests.faults import proxying
from tests.faults.plans import Plan
from tests.faults.proxying import Proxy
from tests.integration import daemons, takeovers
from tests.integration.daemons import Daemon

BOUND_SECONDS = 40.0
"""From the beginning of the silence until a pod that came then is bound."""


@pytest.fixture
def way_through(kubeconfig: Path) -> Iterator[Proxy]:
    """A proxy before the control plane."""
    served = proxying.serving(proxying.upstream_of(kubeconfig), Plan())
    with (
        from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served) as proxy,
    ):
        yield proxy


@pytest.fixture
def daemon(cluster: ControlPlane, way_through: Proxy, tmp_path: Path) -> Iterator[Daemon]:
    """One that goes through it, and has default settings."""
    path = credentials.write_kubeconfig(
        tmp_path / "through", url=way_through.url, authority=cluster.authority.certificate_path
    )
    made = Daemon(path, tmp_path / "daemon.log")
    yield made
    made.kill()


@pytest.mark.parametrize(
    "number",
    [0, *(pytest.param(each, marks=pytest.mark.at_length) for each in (1, 2))],
)
def test_silence_is_noticed_before_anybody_waits_for_long(
    cluster: ControlPlane,
    way_through: Proxy,
    daemon: Daemon,
    number: int,
) -> None:
    """Pods are bound again, and Queues looked after; what was known meanwhile isn't listed anew."""
    cluster.create_nodes(count=2)
    daemons.a_gang(cluster, "before", 2)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 2, daemon)
    lists = daemons.first_lists(daemon)
    daemons.until(lambda: daemon.said("kopf.started"), daemon)
    time.sleep(5.0 * number)  # watches are of another age each time
    way_through.hush()
    began = time.monotonic()
    daemons.a_queue(cluster, "later")
    daemons.a_gang(cluster, "after", 2, group={"queue": "later"})
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, daemon)
    bound = time.monotonic() - began
    daemons.until(lambda: is_kept(cluster, "later"), daemon)
    kept = time.monotonic() - began
    sys.stdout.write(f"\nafter silence: bound after {bound:.1f} s, queue kept after {kept:.1f} s\n")
    assert max(bound, kept) < BOUND_SECONDS
    assert len(daemon.said("watch.listed")) == lists
    assert daemon.stop() == 0


def test_a_successor_notices_at_once_that_its_watches_are_silent(
    cluster: ControlPlane,
    way_through: Proxy,
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """A list shows it what its predecessor did, and its watches don't."""
    path = credentials.write_kubeconfig(
        tmp_path / "through", url=way_through.url, authority=cluster.authority.certificate_path
    )
    cluster.create_nodes(count=2)
    flags = takeovers.SHORT.flags
    leader = Daemon(kubeconfig, tmp_path / "leader.log", *flags)
    daemons.a_gang(cluster, "before", 2)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 2, leader)
    successor = Daemon(path, tmp_path / "successor.log", *flags)
    try:
        daemons.until(lambda: successor.said("watch.listed"), successor)
        daemons.until(lambda: way_through.notes("/pods.*watch=true"), successor)
        time.sleep(1)
        way_through.hush()
        daemons.a_gang(cluster, "meanwhile", 2)
        daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, leader)
        leader.process.kill()
        leader.process.wait()
        daemons.until(lambda: successor.said("pods.behind"), successor)
        began = time.monotonic()
        daemons.a_gang(cluster, "after", 2)
        daemons.until(lambda: len(daemons.nodes_of(cluster)) == 6, successor)
        bound = time.monotonic() - began
        sys.stdout.write(f"\nafter its first list: bound after {bound:.1f} s\n")
        assert successor.said("watch.overtaken")
        assert bound < BOUND_SECONDS
        assert successor.stop() == 0
    finally:
        for each in (leader, successor):
            each.kill()


def is_kept(cluster: ControlPlane, queue: str) -> bool:
    """Whether the Queue's controller has seen that it is in use."""
    found = cluster.api.get(f"{daemons.QUEUES}/{queue}")
    return bool(found.get("status", {}).get("running"))
