"""Tenants of the demo: the roles of manifests/cluster/tenant-roles.yaml, and an account in each
tenant's namespace with Kubernetes' own role `edit`, so that the page and `job --server` can be seen
as a tenant sees them.
"""

from collections.abc import Iterable
from pathlib import Path

import yaml

from sandbox.client import Client, Object
from vscheduler.mirror import paths

FILE = Path(__file__).parents[2] / "manifests" / "cluster" / "tenant-roles.yaml"
MEMBER = "member"
"""The name of each tenant's account."""

ROLE = "edit"
API = "rbac.authorization.k8s.io"
COLLECTIONS = {each.kind: each for each in (paths.CLUSTER_ROLES, paths.CLUSTER_ROLE_BINDINGS)}


def install(client: Client, tenants: Iterable[str]) -> None:
    """Apply the roles, and create an account for each tenant."""
    for tree in yaml.safe_load_all(FILE.read_text()):
        client.apply(COLLECTIONS[tree["kind"]].at(tree["metadata"]["name"]), tree)
    for tenant in tenants:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": MEMBER}}
        client.create(paths.SERVICE_ACCOUNTS.within(tenant), account)
        client.create(paths.ROLE_BINDINGS.within(tenant), _binding(tenant))


def _binding(tenant: str) -> Object:
    return {
        "apiVersion": paths.ROLE_BINDINGS.api_version,
        "kind": paths.ROLE_BINDINGS.kind,
        "metadata": {"name": MEMBER},
        "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": MEMBER, "namespace": tenant}],
    }
