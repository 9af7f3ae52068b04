"""The command line of each process, tuned for a small machine and for tests."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from vscheduler.sandbox import credentials

LOOPBACK = "127.0.0.1"

# Left out: whatever needs a cloud, a real kubelet or heartbeats. Nodes stay Ready without a lease,
# as no node lifecycle controller runs; kwok's stages lift the taint that it would lift.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Free ports on loopback, one per server."""

    etcd: int
    api_server: int
    controller_manager: int
    kwok: int
    scheduler: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Everything that the command lines refer to."""

    directory: Path
    ports: Ports
    authority: credentials.Authority
    serving: credentials.KeyPair
    signing_key: Path
    audit_log: Path | None = None
    api_server_flags: Sequence[str] = field(default=())

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://{LOOPBACK}:{self.ports.api_server}"

    @property
    def etcd_url(self) -> str:
        """Where etcd listens: without TLS, as all of this is thrown away."""
        return f"http://{LOOPBACK}:{self.ports.etcd}"


def free_ports() -> Ports:
    """Pick ports that nobody uses now; whoever loses the race for one starts again."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(5)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        numbers = [int(one.getsockname()[1]) for one in sockets]
    return Ports(
        etcd=numbers[0],
        api_server=numbers[1],
        controller_manager=numbers[2],
        kwok=numbers[3],
        scheduler=numbers[4],
    )


def etcd(program: Path, layout: Layout) -> list[str]:
    """Etcd, which need not survive a power cut."""
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
    """The API server: RBAC and default admission as in real life, generous with requests."""
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
        "--endpoint-reconciler-type=none",  # it refuses to publish a loopback address
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--delete-collection-workers=8",  # halves the time of a clean slate
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
    return command + list(layout.api_server_flags)


def controller_manager(program: Path, layout: Layout, kubeconfig: Path) -> list[str]:
    """The controllers of `CONTROLLERS`, each under a service account of its own."""
    return [
        str(program),
        *_serving_as(layout, layout.ports.controller_manager, kubeconfig),
        "--leader-elect=false",
        f"--controllers={','.join(CONTROLLERS)}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={layout.signing_key}",
        f"--root-ca-file={layout.authority.certificate_path}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]


def scheduler(program: Path, layout: Layout, kubeconfig: Path) -> list[str]:
    """Kubernetes' own scheduler, for pods that name no other."""
    config = layout.directory / "kube-scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 5000}}\n"
    )
    serving = _serving_as(layout, layout.ports.scheduler, kubeconfig)
    return [str(program), *serving, f"--config={config}"]


def kwok(program: Path, layout: Layout, kubeconfig: Path) -> list[str]:
    """Kubelets that only pretend: no leases, no heartbeats, so no load at rest."""
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
