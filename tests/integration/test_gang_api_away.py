"""Kubernetes' own gang API appears and vanishes while the daemon runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import from_thread

from sandbox import control_plane, credentials
from sandbox.control_plane import ControlPlane
from tests.faults import proxying
from tests.faults.plans import Plan, Refuse, Rule
from tests.faults.proxying import Proxy
from tests.integration import daemons
from tests.integration.daemons import ALONE, Daemon
from tests.integration.test_without_crds import PODS, a_gang, a_pod, said_of

API = "/apis/scheduling.k8s.io/v1beta1"
AWAY = Plan([Rule(requests=f" {API}", fault=Refuse(status=404))])


@pytest.fixture
def native() -> Iterator[ControlPlane]:
    """A control plane with Kubernetes' own gang API, and Volcano's CRDs."""
    with control_plane.start(with_gang_api=True) as running:
        running.create_nodes(count=1, cpu="16")
        yield running


@pytest.fixture
def way_through(native: ControlPlane) -> Iterator[Proxy]:
    """A proxy before it, by which the API can vanish."""
    served = proxying.serving(proxying.upstream_of(native.kubeconfig), AWAY)
    with (
        from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served) as proxy,
    ):
        yield proxy


def test_gangs_wait_while_their_api_is_away(
    native: ControlPlane, way_through: Proxy, tmp_path: Path
) -> None:
    """They are told so, all others start, and what runs stays."""
    path = credentials.write_kubeconfig(
        tmp_path / "through", url=way_through.url, authority=native.authority.certificate_path
    )
    daemon = Daemon(path, tmp_path / "log", ALONE)

    def starts(*pods: str) -> None:
        daemons.until(lambda: set(pods) <= daemons.nodes_of(native).keys(), daemon)

    def times_away() -> int:
        absent = [each["path"] for each in daemon.said("watch.absent")]
        return absent.count(f"{API}/podgroups")

    try:
        a_gang(native, "first", 2)
        native.api.create(PODS, a_pod("plain"))
        starts("plain")
        version = "the API server doesn't serve this version"
        daemons.until(lambda: version in said_of(native, "first-0"), daemon)

        way_through.follow(Plan())
        starts("first-0", "first-1")

        before = times_away()
        way_through.follow(AWAY)
        daemons.until(lambda: times_away() >= before + 2, daemon)  # scheduler and controllers
        a_gang(native, "second", 2)
        native.api.create(PODS, a_pod("other"))
        starts("other")
        daemons.until(lambda: version in said_of(native, "second-0"), daemon)
        native.api.delete(f"{PODS}/first-1", gracePeriodSeconds=0)
        native.api.create(PODS, a_pod("first-2", group="first"))

        way_through.follow(Plan())
        starts("first-0", "first-2", "second-0", "second-1")
    finally:
        daemon.kill()
    assert daemon.said("work.failed") == []
    assert [each for each in daemon.said("cycle.done") if each["evicted"]] == []
