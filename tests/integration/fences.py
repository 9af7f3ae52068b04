"""A control plane with the policies of manifests/fencing, and who binds pods under them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.client import Answer, Client, Object
from sandbox.control_plane import ControlPlane
from vscheduler.cluster.writes import binder

FOLDER = Path(__file__).parents[2] / "manifests" / "fencing"
NAMESPACE = "volcano-system"
NAME = "vscheduler"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = f"{LEASES}/{NAME}"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
GRANTS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
PODS = "/api/v1/namespaces/default/pods"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
COLLECTIONS = {
    "ValidatingAdmissionPolicy": f"{POLICY}ies",
    "ValidatingAdmissionPolicyBinding": f"{POLICY}ybindings",
}


def documents(file: str, name: str = NAME) -> list[dict[str, Any]]:
    """What a manifest has in it, with the name of a scheduler as docs/fencing.md puts it in."""
    lines = (FOLDER / file).read_text().splitlines()
    ended = (
        line.removesuffix(NAME) + name if line.endswith(NAME) and file == "binding.yaml" else line
        for line in lines
    )
    return list(yaml.safe_load_all("\n".join(ended)))


@dataclass(frozen=True, slots=True)
class Fence:
    """A control plane of its own, as what policies do there isn't undone."""

    plane: ControlPlane

    def install(self, file: str, name: str = NAME) -> None:
        """Apply a manifest."""
        for document in documents(file, name):
            path = f"{COLLECTIONS[document['kind']]}/{document['metadata']['name']}"
            self.plane.api.apply(path, document)

    def switch(self, name: str, actions: Sequence[str], **reference: str) -> None:
        """Say what becomes of what a name's binding judges; the rest changes its paramRef."""
        (binding,) = documents("binding.yaml", name)
        self.plane.api.patch(
            f"{COLLECTIONS[binding['kind']]}/{binding['metadata']['name']}",
            {"spec": {"validationActions": list(actions), "paramRef": reference}},
        )

    def hand_to(self, holder: str, name: str = NAME, *, seconds: int = 30) -> None:
        """Write into a Lease who holds it; it is made where it is missing."""
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds},
        }
        self.plane.api.apply(f"{LEASES}/{name}", lease)

    def account(self, name: str) -> Client:
        """A service account that may do all; the caller closes it."""
        self.grant(name)
        return self.plane.client_for_service_account(NAMESPACE, name)

    def grant(self, name: str) -> None:
        """Make a service account that may do all."""
        self.plane.api.apply(
            f"{ACCOUNTS}/{name}",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        )
        self.plane.api.apply(
            f"{GRANTS}/{name}",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                },
            },
        )


def make_pod(api: Client, name: str) -> Object:
    """A pod that nobody but the test places."""
    containers = [{"name": "main", "image": "none"}]
    spec = {"schedulerName": "by-hand", "containers": containers}
    return api.create(PODS, {"metadata": {"name": name}, "spec": spec})


def bind(sender: Client, pod: str, holder: str | None, *, keep: bool = False) -> Answer:
    """The answer to a bind; without `keep` nothing stays of it."""
    metadata: dict[str, Any] = {"name": pod}
    if holder is not None:
        metadata["annotations"] = {binder.HOLDER: holder}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"},
    }
    query = None if keep else {"dryRun": "All"}
    return sender.ask("POST", f"{PODS}/{pod}/binding", body, query=query)
