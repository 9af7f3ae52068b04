"""The link to the demo's page: with a code that signs a browser in once, so that no token is in an
address.
"""

import json

import msgspec
import urllib3

from sandbox.client import Client, Object
from sandbox.demo import tenant_roles
from sandbox.errors import StartFailed
from vscheduler.mirror import paths

NAMESPACE = "default"
ACCOUNT = "demo-visitor"
TIMEOUT = urllib3.Timeout(total=5)
CODES = "sign-in-codes"

ROLE = "cluster-admin"
"""Visitors of the demo see everything; nothing on the page changes anything."""


class PageLink(msgspec.Struct, frozen=True):
    """Makes links to the page."""

    api: Client
    url: str
    """The page's address."""
    pool: urllib3.PoolManager

    def once(self, tenant: str = "") -> str:
        """Return a link that signs a browser in, once: as a member of a tenant, or as somebody who
        sees everything. Raises StartFailed.
        """
        token = self.token_of(tenant, tenant_roles.MEMBER) if tenant else self.token()
        answer = self.pool.request(
            "POST",
            f"{self.url}{paths.PAGE}/{CODES}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT,
        )
        if answer.status != 201:
            raise StartFailed(f"the page answers with HTTP status {answer.status}")
        return f"{self.url}/#sign-in={json.loads(answer.data)['code']}"

    def token(self) -> str:
        """Return a token of the visitor's account, which is created if it isn't there."""
        if not any(
            each["metadata"]["name"] == ACCOUNT
            for each in self.api.list(paths.SERVICE_ACCOUNTS.within(NAMESPACE))
        ):
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
            self.api.create(paths.SERVICE_ACCOUNTS.within(NAMESPACE), account)
            self.api.create(paths.CLUSTER_ROLE_BINDINGS.everywhere, _binding())
        return self.token_of(NAMESPACE, ACCOUNT)

    def token_of(self, namespace: str, account: str) -> str:
        """Return a token of an account that exists."""
        path = paths.SERVICE_ACCOUNTS.part(account, namespace, "token")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api.create(path, asked)["status"]["token"])


def _binding() -> Object:
    return {
        "apiVersion": paths.CLUSTER_ROLE_BINDINGS.api_version,
        "kind": paths.CLUSTER_ROLE_BINDINGS.kind,
        "metadata": {"name": ACCOUNT},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": ROLE,
        },
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
