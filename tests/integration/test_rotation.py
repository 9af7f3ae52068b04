"""Credentials that are renewed on disk while pods are bound, the old ones being invalid by then."""

import base64
import datetime as dt
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sandbox import credentials
from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, permissions
from tests.integration.daemons import Daemon

SECRETS = f"/api/v1/namespaces/{permissions.NAMESPACE}/secrets"
USER = "rotated"
PAUSE_SECONDS = 15.0
"""The longest between two binds, on a machine that is busy; on a quiet one it is below 5."""
EVERY_SECONDS = 0.25
UNKNOWN = 401
LONG, SHORT = dt.timedelta(hours=1), dt.timedelta(seconds=20)


class Tokens:
    """A token's file. A token is of no use once the Secret is gone that it is bound to."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._cluster = cluster
        self._file = folder / "token"
        self._count = 0
        permissions.permit_account(cluster, USER)
        self.renew()
        self.kubeconfig = with_user(cluster, folder / "config", {"tokenFile": "token"})

    def renew(self) -> None:
        """Write another."""
        self._count += 1
        name = f"token-{self._count}"
        secret = self._cluster.api.create(SECRETS, {"metadata": {"name": name}})
        bound_to = {"kind": "Secret", "apiVersion": "v1", "name": name}
        bound_to["uid"] = secret["metadata"]["uid"]
        answer = self._cluster.api.create(
            f"{permissions.ACCOUNTS}/{USER}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 600, "boundObjectRef": bound_to},
            },
        )
        self._token = str(answer["status"]["token"])
        self._file.write_text(self._token)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Renew it within the block if that is to be in time; after it the one before is of no
        use.
        """
        name, token = f"token-{self._count}", self._token
        yield
        self._cluster.api.delete(f"{SECRETS}/{name}")
        wait_until_unknown(self._cluster, token=token)


class Certificates:
    """Files of a certificate and its key, or a kubeconfig that has them in it."""

    def __init__(self, cluster: ControlPlane, folder: Path, *, embedded: bool) -> None:
        self._cluster = cluster
        self._embedded = embedded
        self._lifetimes = iter((LONG, SHORT, LONG))  # a slow start costs none of them its time
        self.kubeconfig = folder / "config"
        permissions.permit(cluster, USER)
        self.renew()

    def renew(self) -> None:
        """Write another."""
        self._lifetime = next(self._lifetimes)
        pair = self._cluster.authority.issue_client(USER, file=USER, lifetime=self._lifetime)
        self._ends = time.monotonic() + self._lifetime.total_seconds()
        files = {"client-certificate": pair.certificate, "client-key": pair.key}
        user = {name: str(path) for name, path in files.items()}
        if self._embedded:
            user = {
                f"{name}-data": base64.b64encode(path.read_bytes()).decode()
                for name, path in files.items()
            }
        with_user(self._cluster, self.kubeconfig, user)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """The same, where its life is short: it ends by itself."""
        ends, waits = self._ends, self._lifetime is SHORT
        yield
        if waits:
            time.sleep(max(0.0, ends + 1.0 - time.monotonic()))


def with_user(cluster: ControlPlane, path: Path, user: dict[str, str]) -> Path:
    """A kubeconfig of this user."""
    credentials.write_kubeconfig(
        path, url=cluster.url, authority=cluster.authority.certificate_path
    )
    tree = yaml.safe_load(path.read_text())
    tree["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(tree))
    return path


def wait_until_unknown(cluster: ControlPlane, *, token: str) -> None:
    """The API server remembers whom it knew for some seconds."""
    asking = Client(cluster.url, authority=cluster.authority.certificate_path, token=token)
    deadline = time.monotonic() + daemons.PATIENCE_SECONDS
    try:
        while asking.ask("GET", "/api/v1/nodes").status != UNKNOWN:
            assert time.monotonic() < deadline, "it is known still"
            time.sleep(0.2)
    finally:
        asking.close()


class Work:
    """Gangs of one that come in all the time, and when they were bound."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._come, self._look)]
        self._bound: list[float] = []
        self._failures: list[BaseException] = []
        self.made = 0

    @property
    def bound(self) -> int:
        """How many have a node."""
        return len(self._bound)

    @property
    def longest_pause(self) -> float:
        """Between two binds."""
        later = self._bound[1:]
        return max(after - before for before, after in zip(self._bound, later, strict=False))

    @contextmanager
    def coming(self) -> Iterator[None]:
        """For the time of the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in self._threads:
                thread.join()
        assert not self._failures

    def _come(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            daemons.a_gang(self._cluster, f"g{self.made}", 1, cpu="1m")
            self.made += 1

    def _look(self) -> None:
        looking = self._cluster.client_for("looker", groups=["system:masters"])
        while not self._ended.wait(0.1):
            found = sum(1 for pod in looking.list(daemons.PODS) if pod["spec"].get("nodeName"))
            self._bound += [time.monotonic()] * (found - len(self._bound))
        looking.close()


def by_token(cluster: ControlPlane, folder: Path) -> Tokens:
    """A token's file."""
    return Tokens(cluster, folder)


def by_certificate(cluster: ControlPlane, folder: Path) -> Certificates:
    """Two files."""
    return Certificates(cluster, folder, embedded=False)


def embedded(cluster: ControlPlane, folder: Path) -> Certificates:
    """All in one."""
    return Certificates(cluster, folder, embedded=True)


Way = Callable[[ControlPlane, Path], Tokens | Certificates]


@pytest.mark.parametrize(
    "way",
    [
        by_token,
        *(pytest.param(each, marks=pytest.mark.at_length) for each in (by_certificate, embedded)),
    ],
)
def test_binding_goes_on_while_credentials_are_renewed(
    way: Way, cluster: ControlPlane, tmp_path: Path
) -> None:
    """Once in time, and once when the old ones have just become invalid: no Lease is lost, and no
    watch lists anew.
    """
    cluster.create_nodes(count=2, pods=5000)
    held = way(cluster, tmp_path)
    daemon = Daemon(held.kubeconfig, tmp_path / "daemon.log")
    work = Work(cluster)
    try:
        with work.coming():
            daemons.until(lambda: work.bound > 5, daemon)
            lists = daemons.first_lists(daemon)
            with held.ending():
                time.sleep(2)
                held.renew()
            count = work.made
            daemons.until(lambda: work.bound > count, daemon)
            with held.ending():
                pass
            held.renew()
            count = work.made
            daemons.until(lambda: work.bound > count, daemon)
        sys.stdout.write(
            f"\n{way.__name__}: longest pause {work.longest_pause:.1f} s, {work.bound} binds\n"
        )
        assert work.longest_pause < PAUSE_SECONDS
        assert len(daemon.said("watch.listed")) == lists
        assert len(daemon.said("credentials.renewed")) >= 2
        assert daemon.stop() == 0
    finally:
        daemon.kill()
