"""What manifests/ comes to: rendered, installed on a control plane, and run without containers."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.client import Object
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, permissions
from tests.integration.daemons import Daemon
from vscheduler.mirror import paths

Document = dict[str, Any]

ROOTS = {
    "one": permissions.MANIFESTS,
    "two": permissions.MANIFESTS / "overlays" / "two-schedulers",
    "monitored": permissions.MANIFESTS / "overlays" / "monitoring",
    "without volumes": permissions.MANIFESTS / "overlays" / "without-volumes",
    "without devices": permissions.MANIFESTS / "overlays" / "without-devices",
}
NAMESPACE = f"/api/v1/namespaces/{permissions.NAMESPACE}"
PODS = f"{NAMESPACE}/pods"
CRDS = (
    "podgroups.scheduling.volcano.sh",
    "queues.scheduling.volcano.sh",
    "hypernodes.topology.volcano.sh",
)
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{permissions.NAMESPACE}/deployments"
ANY_PORT = ("--listen-address=127.0.0.1:0", "--healthz-address=127.0.0.1:0")
INSTANCE = "app.kubernetes.io/instance"


def rendered(plane: ControlPlane, root: Path) -> list[Document]:
    """All that an apply of this folder would send."""
    return list(yaml.safe_load_all(plane.run_kubectl("kustomize", str(root))))


def of_kind(documents: list[Document], kind: str) -> list[Document]:
    """Those of this kind."""
    return [document for document in documents if document["kind"] == kind]


def install(plane: ControlPlane) -> str:
    """Take away what the sandbox has of it, and apply all in one go; what kubectl says."""
    taken = [f"{paths.DEFINITIONS.everywhere}/{name}" for name in CRDS]
    for path in (*taken, NAMESPACE):
        plane.api.delete(path)
    for path in (*taken, NAMESPACE):
        plane.api.wait_until_gone(path, timeout_seconds=daemons.PATIENCE_SECONDS)
    return plane.run_kubectl("apply", "-k", str(permissions.MANIFESTS))


def pod_of(deployment: Document, name: str) -> Document:
    """A pod as the Deployment's ReplicaSet makes it."""
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": name, "namespace": permissions.NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def container(deployment: Document) -> Document:
    """The one container of its pods."""
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


@dataclass(frozen=True, slots=True)
class Installed:
    """A control plane with the manifests applied, and its audit log."""

    plane: ControlPlane
    log: Path

    def pods(self, name: str) -> list[Object]:
        """The pods that a Deployment of this name has come to."""
        return self.plane.api.list(PODS, labelSelector=f"{INSTANCE}={name}")

    def start(self, name: str, log: Path, *flags: str, through: Path | None = None) -> Daemon:
        """Run what the pods of a Deployment would, under their account; flags come last.

        `through` is a kubeconfig other than the account's.
        """
        found = container(self.plane.api.get(f"{DEPLOYMENTS}/{name}"))
        _, *shipped = found["args"]
        account = self.plane.kubeconfig_for_service_account(permissions.NAMESPACE, name)
        return Daemon(
            through or account,
            log,
            *shipped,
            *ANY_PORT,
            *flags,
            environment={**os.environ, **self._environment(name, found)},
        )

    def _environment(self, name: str, found: Document) -> dict[str, str]:
        """What the downward API would set, of the first pod."""
        query = f"{PODS}?labelSelector={INSTANCE}={name}"
        made = self.plane.api.wait_for(query, lambda seen: bool(seen["items"]))
        metadata = made["items"][0]["metadata"]
        return {
            each["name"]: metadata[
                each["valueFrom"]["fieldRef"]["fieldPath"].removeprefix("metadata.")
            ]
            for each in found["env"]
        }
