"""The page on a real API server: tokens of service accounts, and what these may list."""

from pathlib import Path
from typing import Any

import urllib3
import yaml

from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, permissions, test_tenants
from tests.integration.daemons import Start
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection

PAGE = permissions.MANIFESTS / "page" / "reviews.yaml"


def token_of(cluster: ControlPlane, name: str) -> str:
    """A token of a service account of the namespace `default`."""
    path: Path = cluster.kubeconfig_for_service_account("default", name)
    return str(yaml.safe_load(path.read_text())["users"][0]["user"]["token"])


def may_create(cluster: ControlPlane, kind: Collection) -> bool:
    """Whether the scheduler's account may do so by now."""
    group, _, _ = kind.api_version.partition("/")
    attributes = {"verb": "create", "group": group, "resource": kind.plural}
    review = {
        "apiVersion": paths.ACCESS_REVIEWS.api_version,
        "kind": paths.ACCESS_REVIEWS.kind,
        "spec": {
            "user": permissions.account(permissions.TESTED),
            "resourceAttributes": attributes,
        },
    }
    answer = cluster.api.create(paths.ACCESS_REVIEWS.everywhere, review)
    return bool(answer["status"]["allowed"])


def asked(port: int, what: str, token: str) -> tuple[int, Any]:
    """What the page answers."""
    headers = {"Authorization": f"Bearer {token}"}
    with urllib3.PoolManager() as pool:
        found = pool.request("GET", f"http://127.0.0.1:{port}/api/v1/{what}", headers=headers)
        return found.status, found.json()


def test_a_tenant_sees_its_own_and_a_stranger_nothing(cluster: ControlPlane, start: Start) -> None:
    """Rights that are taken away end soon, and the token is nowhere in the log."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "default")
    daemons.a_gang(cluster, "mine", 2)
    daemons.a_gang(cluster, "large", 2, cpu="3")
    daemon = start("--web-address=127.0.0.1:0", daemons.ALONE)
    daemons.until(lambda: daemon.said("web.listening"), daemon)
    port = daemon.said("web.listening")[0]["port"]
    test_tenants.apply(cluster, "apply", test_tenants.ROLES)
    with test_tenants.account(cluster, "tenant", "edit"):
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stranger"}}
        cluster.api.apply(f"{test_tenants.NAMESPACE}/serviceaccounts/stranger", body)
        tenant, stranger = token_of(cluster, "tenant"), token_of(cluster, "stranger")

        test_tenants.apply(cluster, "apply", PAGE)
        for kind in (paths.TOKEN_REVIEWS, paths.ACCESS_REVIEWS):
            patience.wait_until(lambda kind=kind: may_create(cluster, kind))  # type: ignore[misc]  # of now
        daemons.until(lambda: asked(port, "jobs", tenant)[1].get("count") == 1, daemon)
        _, jobs = asked(port, "jobs", tenant)
        (job,) = jobs["jobs"]
        assert (job["namespace"], job["podGroup"]) == ("default", "large")
        assert "cpu" in job["message"]
        _, summary = asked(port, "summary", tenant)
        assert summary["visitor"]["namespaces"] == ["default"]
        assert summary["visitor"]["name"] == "system:serviceaccount:default:tenant"
        assert asked(port, "queues", tenant)[1]["count"] == 1

        assert asked(port, "jobs", stranger)[1]["count"] == 0
        assert asked(port, "jobs?state=all", stranger)[1]["count"] == 0
        assert asked(port, "summary", tenant[:-6] + "aaaaaa")[0] == 401
        assert tenant not in daemon.text()
    daemons.until(lambda: asked(port, "jobs", tenant)[1].get("count") == 0, daemon)
    test_tenants.apply(cluster, "delete", PAGE)
    test_tenants.apply(cluster, "delete", test_tenants.ROLES)
    assert daemon.stop() == 0
