"""Users who may do what docs/permissions.md lists, and nothing else."""

import re
from pathlib import Path

import yaml

from vscheduler.sandbox import control_plane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PERMISSIONS = Path(__file__).parents[2] / "docs" / "permissions.md"


def permit(plane: control_plane.ControlPlane, user: str) -> Path:
    """Give a user the ClusterRole of that page; returns a kubeconfig of the user."""
    (text,) = re.findall(r"```yaml\n(.+?)```", PERMISSIONS.read_text(), re.DOTALL)
    role = yaml.safe_load(text)
    name = role["metadata"]["name"]
    plane.api.apply(f"{RBAC}/clusterroles/{name}", role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"},
    }
    plane.api.apply(f"{RBAC}/clusterrolebindings/{user}", binding)
    return plane.kubeconfig_for(user)
