"""Bringing up the processes of a control plane, in order, each waited for."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

from vscheduler.mirror import paths
from vscheduler.sandbox import (
    binaries,
    client,
    components,
    credentials,
    definitions,
    errors,
    processes,
    progress_report,
)

ADMIN_GROUP = "system:masters"
SYSTEM_NAMESPACE = "volcano-system"
"""Where schedulers keep their Leases; they don't make it themselves."""

POLL_SECONDS = 0.03
READY_TIMEOUT_SECONDS = 60.0
REQUEST_TIMEOUT = urllib3.Timeout(total=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the caller asked for."""

    programs: Mapping[str, Path]
    directory: Path
    temporary: bool
    crds: Path | None
    audit_log: Path | None
    api_server_flags: Sequence[str]


class Start:
    """One attempt; `run` goes through it, and what it made can be read afterwards."""

    def __init__(
        self,
        *,
        wish: Wish,
        supervisor: processes.Supervisor,
        progress: progress_report.Progress,
    ) -> None:
        self._wish = wish
        self._supervisor = supervisor
        self._progress = progress
        self._began = time.monotonic()
        authority = credentials.found_authority(wish.directory / "credentials")
        self.layout = components.Layout(
            directory=wish.directory,
            ports=components.free_ports(),
            authority=authority,
            serving=authority.issue_serving(),
            signing_key=credentials.write_signing_key(authority.directory / "service-accounts.key"),
            audit_log=wish.audit_log,
            api_server_flags=wish.api_server_flags,
        )
        admin = authority.issue_client("admin", [ADMIN_GROUP], file="admin")
        self.kubeconfig = self._write_kubeconfig(wish.directory / "kubeconfig", admin)
        self.api = client.Client(self.layout.url, authority=authority.certificate_path, pair=admin)

    def run(self) -> None:
        """Start everything; a failure names the process and shows the end of its log."""
        try:
            self._start_store_and_server()
            self._start_the_rest()
        except BaseException:
            self.api.close()
            raise

    def _start_store_and_server(self) -> None:
        ports = self.layout.ports
        self._launch("etcd", components.etcd(self._program("etcd"), self.layout))
        self._wait("etcd", f"{self.layout.etcd_url}/readyz")
        self._launch(
            "kube-apiserver", components.api_server(self._program("kube-apiserver"), self.layout)
        )
        self._wait("kube-apiserver", f"https://{components.LOOPBACK}:{ports.api_server}/readyz")

    def _start_the_rest(self) -> None:
        """These wait for nobody but the API server, so they start at the same time."""
        ports, host = self.layout.ports, components.LOOPBACK
        ready = {
            "kube-controller-manager": f"https://{host}:{ports.controller_manager}/healthz",
            "kwok": f"http://{host}:{ports.kwok}/healthz",
        }
        self._launch(
            "kube-controller-manager",
            components.controller_manager(
                self._program("kube-controller-manager"),
                self.layout,
                self._kubeconfig_for("system:kube-controller-manager"),
            ),
        )
        self._launch(
            "kwok",
            components.kwok(
                self._program("kwok"), self.layout, self._kubeconfig_for("kwok", ADMIN_GROUP)
            ),
        )
        if binaries.SCHEDULER in self._wish.programs:
            ready[binaries.SCHEDULER] = f"https://{host}:{ports.scheduler}/readyz"
            self._launch(
                binaries.SCHEDULER,
                components.scheduler(
                    self._program(binaries.SCHEDULER),
                    self.layout,
                    self._kubeconfig_for("system:kube-scheduler"),
                ),
            )
        self.api.create(paths.NAMESPACES.everywhere, {"metadata": {"name": SYSTEM_NAMESPACE}})
        if self._wish.crds is not None:
            definitions.apply_folder(self.api, self._wish.crds)
        for name, url in ready.items():
            self._wait(name, url)
        # Only then may pods be created in the default namespace.
        self._wait_until(
            "kube-controller-manager",
            lambda: self.api.find(paths.SERVICE_ACCOUNTS.at("default", "default")) is not None,
        )

    def _program(self, name: str) -> Path:
        return self._wish.programs[name]

    def _launch(self, name: str, command: Sequence[str]) -> None:
        elapsed = time.monotonic() - self._began
        self._progress(progress_report.Step(what=f"starting {name}", elapsed_seconds=elapsed))
        self._supervisor.start(name, command)

    def _wait(self, name: str, url: str) -> None:
        """Ask for a health check until it says yes."""
        authority = str(self.layout.authority.certificate_path)
        with urllib3.PoolManager(
            ca_certs=authority, retries=False, timeout=REQUEST_TIMEOUT
        ) as pool:
            self._wait_until(name, lambda: pool.request("GET", url).status == 200)

    def _wait_until(self, name: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while not _holds(condition):
            self._supervisor.check()
            if time.monotonic() > deadline:
                tail = self._supervisor.log_tail(name)
                raise errors.StartFailed(
                    f"{name} was not ready in {READY_TIMEOUT_SECONDS:.0f} s.\n{tail}"
                )
            time.sleep(POLL_SECONDS)

    def _kubeconfig_for(self, user: str, *groups: str) -> Path:
        file = user.removeprefix("system:")
        pair = self.layout.authority.issue_client(user, groups, file=file)
        return self._write_kubeconfig(self.layout.authority.directory / f"{file}.kubeconfig", pair)

    def _write_kubeconfig(self, path: Path, pair: credentials.KeyPair) -> Path:
        return credentials.write_kubeconfig(
            path, url=self.layout.url, authority=self.layout.authority.certificate_path, pair=pair
        )


def make_room(directory: Path) -> None:
    """Remove what an earlier run left in the directory, and nothing that is not the sandbox's."""
    if processes.is_running(directory):
        raise errors.StartFailed(f"a sandbox runs in {directory}; stop it first")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("etcd", "logs", "credentials"):
        shutil.rmtree(directory / name, ignore_errors=True)


def lost_a_port(supervisor: processes.Supervisor) -> bool:
    """Tell whether somebody else took a port between the choice and its use."""
    logs = supervisor.log_directory.glob("*.log")
    return any("address already in use" in log.read_text(errors="replace") for log in logs)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except urllib3.exceptions.HTTPError:
        return False
