"""Visitors of the demo's page: a link that signs a browser in once, so that no token is in an
address, and an account for each tenant, so that the page can be seen as a tenant sees it.
"""

import os
import socket
import sys
import webbrowser
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import yaml

from sandbox.client import Client, Object
from sandbox.errors import StartFailed
from vscheduler.mirror import paths

NAMESPACE = "default"
ACCOUNT = "demo-visitor"
ANSWER_SECONDS = 5.0
CODES = "sign-in-codes"

ROLE = "cluster-admin"
"""Visitors of the demo see everything; nothing on the page changes anything."""

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Set where a Linux session can show windows. Browsers in a terminal would hide the demo."""

FILE = Path(__file__).parents[2] / "manifests" / "cluster" / "tenant-roles.yaml"
MEMBER = "member"
"""The name of each tenant's account."""

TENANT_ROLE = "edit"
API = "rbac.authorization.k8s.io"
COLLECTIONS = {each.kind: each for each in (paths.CLUSTER_ROLES, paths.CLUSTER_ROLE_BINDINGS)}


class PageLink(msgspec.Struct, frozen=True):
    """Makes links to the page."""

    api: Client
    url: str
    """The page's address."""

    def once(self, tenant: str = "") -> str:
        """Return a link that signs a browser in, once: as a member of a tenant, or as somebody who
        sees everything. Raises StartFailed.
        """
        token = self.token_of(tenant, MEMBER) if tenant else self.token()
        with closing(Client(self.url, token=token, answer_seconds=ANSWER_SECONDS)) as page:
            answer = page.ask("POST", f"{paths.PAGE}/{CODES}")
        if answer.status != 201:
            raise StartFailed(f"the page answers with HTTP status {answer.status}")
        return f"{self.url}/#sign-in={answer.body['code']}"

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


def shows(link: str, *, environment: Mapping[str, str] = os.environ) -> bool:
    """Open a link; return False where no browser can show it."""
    if sys.platform == "linux" and not any(map(environment.get, DISPLAYS)):
        return False
    try:
        return webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return False


def forwarding(url: str, *, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return how somebody who came over SSH reaches the page; nothing for others."""
    if "SSH_CONNECTION" not in environment:
        return []
    port = urlsplit(url).port
    return [f"from your own machine, first: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}"]


def install_tenants(client: Client, tenants: Iterable[str]) -> None:
    """Apply the roles, and create an account for each tenant."""
    for tree in yaml.safe_load_all(FILE.read_text()):
        client.apply(COLLECTIONS[tree["kind"]].at(tree["metadata"]["name"]), tree)
    for tenant in tenants:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": MEMBER}}
        client.create(paths.SERVICE_ACCOUNTS.within(tenant), account)
        client.create(paths.ROLE_BINDINGS.within(tenant), _tenant_binding(tenant))


def _tenant_binding(tenant: str) -> Object:
    return {
        "apiVersion": paths.ROLE_BINDINGS.api_version,
        "kind": paths.ROLE_BINDINGS.kind,
        "metadata": {"name": MEMBER},
        "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": TENANT_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": MEMBER, "namespace": tenant}],
    }
