"""The controller of JobSets, built from its Go module, with the objects of its installation."""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from sandbox import binaries, definitions, free_ports, progress_report
from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from sandbox.processes import Supervisor
from tests import patience

MODULE = "sigs.k8s.io/jobset"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
LOOPBACK = free_ports.LOOPBACK


def module_folder() -> Path:
    """Return the folder of the module's source, downloaded where it is missing."""
    go = binaries.find_or_install_go(cache=binaries.cache_folder(), progress=progress_report.silent)
    done = subprocess.run(  # noqa: S603 - our own command
        [go, "mod", "download", "-json", MODULE],
        cwd=binaries.MODULES / "jobset",
        capture_output=True,
        check=True,
    )
    return Path(json.loads(done.stdout)["Dir"])


@contextmanager
def running(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """Install JobSet and run its controller for the time of the block, with all its webhooks."""
    program = binaries.find_or_build((binaries.JOBSET,))[binaries.JOBSET]
    components = module_folder() / "config" / "components"
    definitions.apply_folder(plane.api, components / "crd" / "bases")
    webhook, health = free_ports.choose(2)
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {
            "host": LOOPBACK,
            "port": webhook,
            "certDir": str(_certificates(plane, folder)),
        },
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
    }
    path = folder / "jobset.yaml"
    path.write_text(yaml.safe_dump(configuration))
    supervisor = Supervisor(folder)
    try:
        flags = (f"--kubeconfig={plane.kubeconfig}", f"--config={path}")
        supervisor.start(binaries.JOBSET, [program, *flags])
        with closing(Client(f"http://{LOOPBACK}:{health}")) as client:
            patience.wait_until(lambda: _is_ready(client, supervisor))
        _register(plane, components / "webhook" / "manifests.yaml", webhook)
        yield
    finally:
        supervisor.end()


def _certificates(plane: ControlPlane, folder: Path) -> Path:
    """Return a folder with a serving certificate, under the names that the controller expects."""
    pair = plane.authority.issue_serving()
    found = folder / "certificates"
    found.mkdir()
    shutil.copy(pair.certificate, found / "tls.crt")
    shutil.copy(pair.key, found / "tls.key")
    return found


def _is_ready(client: Client, supervisor: Supervisor) -> bool:
    supervisor.check()
    return client.read("/readyz") is not None


def _register(plane: ControlPlane, manifests: Path, port: int) -> None:
    """Create the webhook configurations of the installation, with an address on this machine."""
    bundle = base64.b64encode(plane.authority.certificate_path.read_bytes()).decode()
    for document in yaml.safe_load_all(manifests.read_text()):
        hooks: list[dict[str, Any]] = document["webhooks"]
        for hook in hooks:
            url = f"https://{LOOPBACK}:{port}{hook['clientConfig']['service']['path']}"
            hook["clientConfig"] = {"url": url, "caBundle": bundle}
        plural = f"{document['kind'].lower()}s"
        plane.api.create(f"{HOOKS}/{plural}", document)
