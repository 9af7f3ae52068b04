"""Processes of a control plane: command lines tuned for small machines and tests, and an ordered
startup.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from sandbox import binaries, credentials, definitions, free_ports, processes
from sandbox.client import Client
from sandbox.credentials import Authority, KeyPair
from sandbox.errors import StartFailed
from sandbox.processes import Supervisor
from sandbox.progress_report import Progress, Step
from vscheduler.cli.http_client import NoAnswerError
from vscheduler.mirror import paths

LOOPBACK = free_ports.LOOPBACK

# Left out: whatever needs a cloud, a real kubelet or heartbeats. Nodes stay Ready without a lease,
# as no node lifecycle controller runs; kwok's stages lift the taint that it would lift.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
)

GANG_CONTROLLERS = ("podgroup-protection-controller",)
"""What kube-controller-manager runs, too, where Kubernetes' own gang API is served."""

GANG_GATES = "--feature-gates=" + ",".join(
    f"{name}=true"
    for name in (
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
        "CompositePodGroup",
        "WorkloadWithJob",
        "DRAWorkloadResourceClaims",
    )
)
"""The flag of Kubernetes' components for Kubernetes' own gang API, with all parts that controllers
and kube-scheduler act on. All of them are off by default.
"""

GANG_VERSIONS = "--runtime-config=" + ",".join(
    f"scheduling.k8s.io/{version}=true" for version in ("v1beta1", "v1alpha3")
)
"""The API server's flag to serve these objects: only v1alpha3 has CompositePodGroups."""

ADMIN_GROUP = "system:masters"

SYSTEM_NAMESPACE = "volcano-system"
"""The namespace of the schedulers' Leases; schedulers don't create the namespace."""

POLL_SECONDS = 0.03

READY_TIMEOUT_SECONDS = 180.0

ANSWER_SECONDS = 5.0


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """A free loopback port for each server."""

    etcd: int
    api_server: int
    controller_manager: int
    kwok: int
    scheduler: int


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the command lines refer to."""

    directory: Path
    ports: Ports
    authority: Authority
    serving: KeyPair
    signing_key: Path
    audit_log: Path | None = None
    api_server_flags: Sequence[str] = msgspec.field(default=())
    gang_api: bool = False

    @property
    def gates(self) -> Sequence[str]:
        """Flags about feature gates that Kubernetes' components share."""
        return (GANG_GATES,) if self.gang_api else ()

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{LOOPBACK}:{self.ports.api_server}"

    @property
    def etcd_url(self) -> str:
        """Address of etcd, without TLS, for a disposable cluster needs none."""
        return f"http://{LOOPBACK}:{self.ports.etcd}"


def choose_ports() -> Ports:
    """Return ports that are free now. If another process takes a port before use, start again."""
    etcd, api_server, controller_manager, kwok, scheduler = free_ports.choose(5)
    return Ports(
        etcd=etcd,
        api_server=api_server,
        controller_manager=controller_manager,
        kwok=kwok,
        scheduler=scheduler,
    )


def etcd(program: Path, layout: Layout) -> list[str]:
    """Return etcd's command line, without durability against power failures."""
    return [
        str(program),
        f"--data-dir={layout.directory / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={layout.etcd_url}",
        f"--advertise-client-urls={layout.etcd_url}",
        f"--listen-peer-urls=http://{LOOPBACK}:0",
        "--log-level=warn",
        "--quota-backend-bytes=8589934592",
        "--snapshot-count=10000",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
    ]


def api_server(program: Path, layout: Layout) -> list[str]:
    """Return the API server's command line: RBAC and default admission, but generous request
    limits.
    """
    command = [
        str(program),
        f"--etcd-servers={layout.etcd_url}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports.api_server}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        f"--client-ca-file={layout.authority.certificate_path}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.signing_key}",
        f"--service-account-signing-key-file={layout.signing_key}",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--endpoint-reconciler-type=none",  # the reconciler refuses to publish a loopback address
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--delete-collection-workers=8",  # halves the time of a cleanup
        "--profiling=false",
    ]
    if layout.audit_log is not None:
        policy = layout.directory / "audit-policy.yaml"
        policy.write_text(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
            "rules:\n- level: Metadata\n"
        )
        command += [
            f"--audit-log-path={layout.audit_log}",
            f"--audit-policy-file={policy}",
            "--audit-log-mode=blocking",
        ]
    if layout.gang_api:
        command.append(GANG_VERSIONS)
    return [*command, *layout.gates, *layout.api_server_flags]


def controller_manager(program: Path, layout: Layout, kubeconfig: Path) -> list[str]:
    """Return the command line for `CONTROLLERS`, each with a service account of its own."""
    controllers = (*CONTROLLERS, *(GANG_CONTROLLERS if layout.gang_api else ()))
    return [
        str(program),
        *_serving_as(layout, layout.ports.controller_manager, kubeconfig),
        "--leader-elect=false",
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={layout.signing_key}",
        f"--root-ca-file={layout.authority.certificate_path}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
        *layout.gates,
    ]


def scheduler(program: Path, layout: Layout, kubeconfig: Path) -> list[str]:
    """Return the command line of Kubernetes' own scheduler."""
    config = layout.directory / "kube-scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 5000}}\n"
    )
    serving = _serving_as(layout, layout.ports.scheduler, kubeconfig)
    return [str(program), *serving, f"--config={config}", *layout.gates]


def kwok(program: Path, layout: Layout, kubeconfig: Path) -> list[str]:
    """Return kwok's command line: simulated kubelets without leases and heartbeats, so idle at
    rest.
    """
    stages = Path(__file__).parent / "stages"
    config = layout.directory / "kwok.yaml"
    options = (
        "apiVersion: config.kwok.x-k8s.io/v1alpha1\nkind: KwokConfiguration\noptions:\n"
        "  manageAllNodes: true\n  nodeLeaseDurationSeconds: 0\n  cidr: 10.128.0.0/10\n"
        "  enableDebuggingHandlers: false\n  enableProfilingHandler: false\n"
        "  podPlayStageParallelism: 16\n  nodePlayStageParallelism: 16\n"
    )
    texts = [options, *(path.read_text() for path in sorted(stages.glob("*.yaml")))]
    config.write_text("---\n".join(texts))
    return [
        str(program),
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--server-address={LOOPBACK}:{layout.ports.kwok}",
    ]


def _serving_as(layout: Layout, port: int, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
    ]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a start."""

    programs: Mapping[str, Path]
    directory: Path
    temporary: bool
    crds: Path
    audit_log: Path | None
    api_server_flags: Sequence[str]
    gang_api: bool


class Start:
    """An attempt to start a control plane; `run` starts the processes."""

    def __init__(
        self,
        *,
        options: Options,
        supervisor: Supervisor,
        progress: Progress,
    ) -> None:
        self._options = options
        self._supervisor = supervisor
        self._progress = progress
        self._began = time.monotonic()
        authority = credentials.found_authority(options.directory / "credentials")
        self.layout = Layout(
            directory=options.directory,
            ports=choose_ports(),
            authority=authority,
            serving=authority.issue_serving(),
            signing_key=credentials.write_signing_key(authority.directory / "service-accounts.key"),
            audit_log=options.audit_log,
            api_server_flags=options.api_server_flags,
            gang_api=options.gang_api,
        )
        admin = authority.issue_client("admin", [ADMIN_GROUP], file="admin")
        self.kubeconfig = self._write_kubeconfig(options.directory / "kubeconfig", admin)
        self.api = Client(self.layout.url, authority=authority.certificate_path, pair=admin)

    def run(self) -> None:
        """Start everything. An error names the failed process and quotes the end of its log."""
        try:
            self._start_store_and_server()
            self._start_clients()
        except BaseException:
            self.api.close()
            raise

    def _start_store_and_server(self) -> None:
        ports = self.layout.ports
        self._launch("etcd", etcd(self._program("etcd"), self.layout))
        self._wait("etcd", self.layout.etcd_url, "/readyz")
        self._launch("kube-apiserver", api_server(self._program("kube-apiserver"), self.layout))
        self._wait("kube-apiserver", f"https://{LOOPBACK}:{ports.api_server}", "/readyz")

    def _start_clients(self) -> None:
        """Start the processes that only need the API server, all at the same time."""
        ports, host = self.layout.ports, LOOPBACK
        ready = {
            "kube-controller-manager": (f"https://{host}:{ports.controller_manager}", "/healthz"),
            "kwok": (f"http://{host}:{ports.kwok}", "/healthz"),
        }
        self._launch(
            "kube-controller-manager",
            controller_manager(
                self._program("kube-controller-manager"),
                self.layout,
                self._kubeconfig_for("system:kube-controller-manager"),
            ),
        )
        self._launch(
            "kwok",
            kwok(self._program("kwok"), self.layout, self._kubeconfig_for("kwok", ADMIN_GROUP)),
        )
        if binaries.SCHEDULER in self._options.programs:
            ready[binaries.SCHEDULER] = (f"https://{host}:{ports.scheduler}", "/readyz")
            self._launch(
                binaries.SCHEDULER,
                scheduler(
                    self._program(binaries.SCHEDULER),
                    self.layout,
                    self._kubeconfig_for("system:kube-scheduler"),
                ),
            )
        self.api.create(paths.NAMESPACES.everywhere, {"metadata": {"name": SYSTEM_NAMESPACE}})
        definitions.apply_folder(self.api, self._options.crds)
        for name, (url, path) in ready.items():
            self._wait(name, url, path)
        # Pods can be created in the default namespace only with its service account.
        self._wait_until(
            "kube-controller-manager",
            lambda: self.api.find(paths.SERVICE_ACCOUNTS.at("default", "default")) is not None,
        )

    def _program(self, name: str) -> Path:
        return self._options.programs[name]

    def _launch(self, name: str, command: Sequence[str]) -> None:
        elapsed = time.monotonic() - self._began
        self._progress(Step(what=f"starting {name}", elapsed_seconds=elapsed))
        self._supervisor.start(name, command)

    def _wait(self, name: str, url: str, path: str) -> None:
        """Poll a health endpoint until it succeeds."""
        authority = self.layout.authority.certificate_path
        with closing(Client(url, authority=authority, answer_seconds=ANSWER_SECONDS)) as client:
            self._wait_until(name, lambda: client.read(path) is not None)

    def _wait_until(self, name: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while not _holds(condition):
            self._supervisor.check()
            if time.monotonic() > deadline:
                tail = self._supervisor.log_tail(name)
                raise StartFailed(f"{name} was not ready in {READY_TIMEOUT_SECONDS:.0f} s.\n{tail}")
            time.sleep(POLL_SECONDS)

    def _kubeconfig_for(self, user: str, *groups: str) -> Path:
        file = user.removeprefix("system:")
        pair = self.layout.authority.issue_client(user, groups, file=file)
        return self._write_kubeconfig(self.layout.authority.directory / f"{file}.kubeconfig", pair)

    def _write_kubeconfig(self, path: Path, pair: KeyPair) -> Path:
        return credentials.write_kubeconfig(
            path, url=self.layout.url, authority=self.layout.authority.certificate_path, pair=pair
        )


def make_room(directory: Path) -> None:
    """Remove files of an earlier run from the directory, and only files of the sandbox."""
    if processes.is_running(directory):
        raise StartFailed(f"a sandbox runs in {directory}; stop it first")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("etcd", "logs", "credentials"):
        shutil.rmtree(directory / name, ignore_errors=True)


def lost_a_port(supervisor: Supervisor) -> bool:
    """Whether another process took a port between choice and use."""
    logs = supervisor.log_directory.glob("*.log")
    return any("address already in use" in log.read_text(errors="replace") for log in logs)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except NoAnswerError:
        return False
