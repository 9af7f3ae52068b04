"""Start and stop a control plane; the public interface of the sandbox.

with control_plane.start() as plane:
    plane.create_nodes(count=3)
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

import msgspec

from sandbox import (
    binaries,
    components,
    contents,
    credentials,
    definitions,
    processes,
    progress_report,
)
from sandbox.client import Client
from sandbox.components import Options, Start
from sandbox.contents import NodeFields, NodeShape
from sandbox.credentials import Authority
from sandbox.errors import SandboxError, StartFailed
from sandbox.processes import Supervisor
from sandbox.progress_report import Progress
from vscheduler.mirror import paths

ATTEMPTS = 3
KUBECTL_TIMEOUT_SECONDS = 180.0
STATE_NAME = "sandbox.json"
TOKEN_SECONDS = 24 * 3600


class ControlPlane(msgspec.Struct, frozen=True, kw_only=True):
    """A running control plane, with helpers for tests, demo and benchmark."""

    url: str
    directory: Path
    log_directory: Path
    kubeconfig: Path
    kubectl: Path
    process_ids: Mapping[str, int]
    api: Client
    authority: Authority

    def create_nodes(
        self,
        *,
        count: int = 1,
        first: int = 0,
        **shape: Unpack[NodeFields],
    ) -> list[str]:
        """Create nodes of a single shape (see `contents.NodeShape`), ready for pods."""
        return contents.create_nodes(self.api, count=count, first=first, shape=NodeShape(**shape))

    def create_namespace(self, name: str) -> str:
        """Create a namespace if missing; the namespace accepts pods on return."""
        contents.create_namespace(self.api, name)
        return name

    def clean(self) -> None:
        """Delete everything that tests created; see `contents.clean`."""
        contents.clean(self.api)

    def kubeconfig_for(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for any user; RBAC decides on the user's permissions."""
        file = self._file_name(user)
        pair = self.authority.issue_client(user, groups, file=file)
        return credentials.write_kubeconfig(
            self.directory / f"{file}.kubeconfig",
            url=self.url,
            authority=self.authority.certificate_path,
            pair=pair,
        )

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a token of an existing service account."""
        return credentials.write_kubeconfig(
            self.directory / f"{self._file_name(f'{namespace}-{name}')}.kubeconfig",
            url=self.url,
            authority=self.authority.certificate_path,
            token=self.token(namespace, name),
        )

    def client_for(self, user: str, *, groups: Sequence[str] = ()) -> Client:
        """Return a client that acts as any user; the caller closes the client."""
        pair = self.authority.issue_client(user, groups, file=self._file_name(user))
        return Client(self.url, authority=self.authority.certificate_path, pair=pair)

    def client_for_service_account(self, namespace: str, name: str) -> Client:
        """Return a client that acts as a service account; the caller closes the client."""
        return Client(
            self.url, authority=self.authority.certificate_path, token=self.token(namespace, name)
        )

    def token(self, namespace: str, name: str) -> str:
        """Request a token of a service account, as a kubelet does for its pods."""
        path = paths.SERVICE_ACCOUNTS.part(name, namespace, "token")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        return str(self.api.create(path, body)["status"]["token"])

    def run_kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl as admin with `text` on its stdin; return its output."""
        done = subprocess.run(  # noqa: S603  # our kubectl
            [self.kubectl, f"--kubeconfig={self.kubeconfig}", *arguments],
            input=text,
            text=True,
            capture_output=True,
            timeout=KUBECTL_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise SandboxError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    @staticmethod
    def _file_name(name: str) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in name)


@contextmanager
def start(  # noqa: PLR0913  # independent options, all by keyword but the first
    directory: Path | None = None,
    *,
    crds: Path | None = None,
    progress: Progress = progress_report.silent,
    keep: bool = False,
    with_scheduler: bool = False,
    with_gang_api: bool = False,
    audit_log: Path | None = None,
    api_server_flags: Sequence[str] = (),
) -> Iterator[ControlPlane]:
    """Run a control plane within the context, by default in a temporary directory.

    `crds` defaults to the project's own CRDs. With `keep` the control plane keeps running until
    `stop(directory)`. With `with_gang_api` all its components use Kubernetes' own gang API.
    """
    wanted = (*binaries.REQUIRED, *((binaries.SCHEDULER,) if with_scheduler else ()))
    programs = binaries.find_or_build(wanted, progress=progress)
    place = directory or Path(tempfile.mkdtemp(prefix="vscheduler-sandbox-"))
    options = Options(
        programs=programs,
        directory=place.resolve(),
        temporary=directory is None,
        crds=crds or definitions.SHIPPED,
        audit_log=audit_log,
        api_server_flags=tuple(api_server_flags),
        gang_api=with_gang_api,
    )
    supervisor, plane = _start_with_retries(options, progress)
    try:
        _write_state(plane)
        if keep:
            supervisor.keep()
        yield plane
    finally:
        plane.api.close()
        if not keep:
            supervisor.end()
        if not keep and directory is None:
            shutil.rmtree(place, ignore_errors=True)  # in case the supervisor was killed


def stop(directory: Path) -> None:
    """Stop a control plane that was started with `keep`; a stopped one is no error."""
    path = directory / STATE_NAME
    if path.exists():
        state = json.loads(path.read_text())
        processes.end_kept(directory, int(state["processes"]["supervisor"]))


def _start_with_retries(
    options: Options,
    progress: Progress,
) -> tuple[Supervisor, ControlPlane]:
    """Start, and start again with new ports if another process took a port."""
    for attempt in range(1, ATTEMPTS + 1):
        components.make_room(options.directory)
        supervisor = Supervisor(options.directory)
        try:
            if options.temporary:
                supervisor.own_directory()
            return supervisor, _describe(
                options,
                supervisor,
                Start(options=options, supervisor=supervisor, progress=progress),
            )
        except BaseException as error:
            lost = isinstance(error, StartFailed) and components.lost_a_port(supervisor)
            supervisor.end()
            if attempt == ATTEMPTS or not lost:
                raise
    raise AssertionError("the last attempt returns or raises")


def _describe(
    options: Options,
    supervisor: Supervisor,
    begun: Start,
) -> ControlPlane:
    begun.run()
    return ControlPlane(
        url=begun.layout.url,
        directory=options.directory,
        log_directory=supervisor.log_directory,
        kubeconfig=begun.kubeconfig,
        kubectl=options.programs["kubectl"],
        process_ids={**supervisor.process_ids, "supervisor": supervisor.process_id},
        api=begun.api,
        authority=begun.layout.authority,
    )


def _write_state(plane: ControlPlane) -> None:
    state = {
        "url": plane.url,
        "kubeconfig": str(plane.kubeconfig),
        "kubectl": str(plane.kubectl),
        "processes": dict(plane.process_ids),
    }
    (plane.directory / STATE_NAME).write_text(json.dumps(state, indent=2) + "\n")
