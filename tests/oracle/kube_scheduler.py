"""A kube-scheduler of one's own beside a sandbox."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sandbox import binaries
from sandbox.control_plane import ControlPlane
from sandbox.processes import Supervisor

USER = "system:kube-scheduler"

Tree: TypeAlias = Mapping[str, Any]
"""The tree of a configuration file."""


def configuration(kubeconfig: Path, **more: Any) -> Tree:
    """Return a configuration file's tree: no election, and no limits of the client."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        **more,
    }


@contextmanager
def running(
    plane: ControlPlane, described: Callable[[Path], Tree], *flags: str
) -> Iterator[Supervisor]:
    """Run kube-scheduler for the time of the block; `described` gets the path of a kubeconfig."""
    program = binaries.find_or_build((binaries.SCHEDULER,))[binaries.SCHEDULER]
    kubeconfig = plane.kubeconfig_for(USER)
    with tempfile.TemporaryDirectory(prefix="vscheduler-oracle-") as folder:
        path = Path(folder) / "kube-scheduler.json"
        path.write_text(json.dumps(described(kubeconfig)))
        supervisor = Supervisor(Path(folder))
        try:
            supervisor.start(
                binaries.SCHEDULER, [program, f"--config={path}", "--secure-port=0", *flags]
            )
            yield supervisor
        finally:
            supervisor.end()
