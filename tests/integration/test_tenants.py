"""What a tenant may do with the usual role `edit`, which manifests/ extends, and what not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox.client import PATCH_TYPES, Client
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, permissions
from tests.integration.daemons import Start
from vscheduler.mirror.translate import translation

ADMISSION = permissions.MANIFESTS / "admission"
NAMESPACES = ADMISSION / "optional" / "namespaces.yaml"
NAMESPACE = "/api/v1/namespaces/default"
SYSTEM = f"/api/v1/namespaces/{permissions.NAMESPACE}"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{permissions.NAMESPACE}/leases"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
NODE = {"target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
ROLES = permissions.MANIFESTS / "cluster" / "tenant-roles.yaml"
CANNOT: dict[str, tuple[str, str, Any]] = {
    "bind": ("POST", f"{daemons.PODS}/mine/binding", {"metadata": {"name": "mine"}, **NODE}),
    "bind by the old way": (
        "POST",
        f"{NAMESPACE}/bindings",
        {"metadata": {"name": "mine"}, **NODE},
    ),
    "write a pod's status": (
        "PATCH",
        f"{daemons.PODS}/mine/status",
        {"status": {"phase": "Failed"}},
    ),
    "make a queue": ("POST", daemons.QUEUES, {"metadata": {"name": "own"}}),
    "change a queue": ("PATCH", f"{daemons.QUEUES}/default", {"spec": {"weight": 99}}),
    "change a queue's status": ("PATCH", f"{daemons.QUEUES}/default/status", {"status": {}}),
    "make a HyperNode": ("POST", HYPER_NODES, {"metadata": {"name": "own"}}),
    "make a class": ("POST", CLASSES, {"metadata": {"name": "own"}, "value": 1000000000}),
    "take a Lease": ("PATCH", f"{LEASES}/vscheduler", {"spec": {"holderIdentity": "me"}}),
    "make a Lease": ("POST", LEASES, {"metadata": {"name": "own"}}),
    "write the configuration": ("PATCH", f"{SYSTEM}/configmaps/vscheduler", {"data": {}}),
    "annotate its namespace": ("PATCH", NAMESPACE, {"metadata": {"annotations": {"a": "b"}}}),
    "use another namespace": ("POST", daemons.GROUPS.replace("default", "kube-public"), {}),
    "drop a policy": (
        "DELETE",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        None,
    ),
}


@pytest.fixture
def tenant(cluster: ControlPlane) -> Iterator[Client]:
    """Somebody with a token, in a namespace of a cluster with a node and the queue `default`."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "default")
    apply(cluster, "apply", ROLES)
    with account(cluster, "tenant", "edit") as api:
        yield api
    apply(cluster, "delete", ROLES)


@contextmanager
def account(cluster: ControlPlane, name: str, role: str) -> Iterator[Client]:
    """Somebody with a token and one of Kubernetes' own roles in the namespace `default`."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    cluster.api.apply(f"{NAMESPACE}/serviceaccounts/{name}", body)
    binding = {
        "apiVersion": f"{permissions.GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": permissions.GROUP},
    }
    path = f"{permissions.RBAC}/namespaces/default/rolebindings/{name}"
    cluster.api.apply(path, binding)
    api = cluster.client_for_service_account("default", name)
    for seen in (daemons.GROUPS, daemons.PODS, daemons.QUEUES, HYPER_NODES):
        patience.wait_until(lambda seen=seen: api.ask("GET", seen).status == 200)  # type: ignore[misc]  # of now
    yield api
    cluster.api.delete(path)


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of ours that asks for 2 cpu."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}
    return {
        "metadata": {"name": name, "annotations": {daemons.GROUP_NAME: "mine"}},
        "spec": {"schedulerName": "vscheduler", "containers": [container], **spec},
    }


def a_group(queue: str) -> dict[str, Any]:
    """A PodGroup that claims to have been let in."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "mine"},
        "spec": {"minMember": 1, "queue": queue},
        "status": {"phase": "Inqueue"},
    }


def test_a_tenant_is_refused_what_is_not_its_own(tenant: Client) -> None:
    """By RBAC, with the usual roles; pods and PodGroups it may make."""
    assert tenant.ask("POST", daemons.PODS, a_pod("mine")).status == 201
    assert tenant.ask("POST", daemons.GROUPS, a_group("default")).status == 201
    for what, (method, path, body) in CANNOT.items():
        headers = {"content-type": PATCH_TYPES["merge"]} if method == "PATCH" else None
        answer = tenant.ask(method, path, body, headers=headers)
        assert answer.status == 403, (what, answer.text)
        assert "cannot" in answer.message, what


def test_a_tenant_sees_its_podgroups_and_all_queues(cluster: ControlPlane, tenant: Client) -> None:
    """And the network, for `job why`. Who may only view may change nothing; neither sees PodGroups
    of other namespaces.
    """
    tenant.create(daemons.GROUPS, a_group("default"))
    mine = f"{daemons.GROUPS}/mine"
    patch = {"content-type": PATCH_TYPES["merge"]}
    with account(cluster, "viewer", "view") as viewer:
        for api in (tenant, viewer):
            assert api.get(mine)["spec"]["queue"] == "default"
            assert api.get(f"{daemons.QUEUES}/default")["metadata"]["name"] == "default"
            assert api.list(HYPER_NODES) == []
            elsewhere = daemons.GROUPS.replace("default", "kube-public")
            assert api.ask("GET", elsewhere).status == 403
        change = {"spec": {"minMember": 2}}
        assert viewer.ask("PATCH", mine, change, headers=patch).status == 403
        assert viewer.ask("DELETE", mine).status == 403
        assert tenant.ask("PATCH", mine, change, headers=patch).status == 200
        assert tenant.ask("DELETE", mine).status == 200


def test_a_pod_that_names_its_node_passes_its_queues_capability(
    cluster: ControlPlane, tenant: Client, start: Start
) -> None:
    """Without the optional policy: the right to create pods is all that it takes."""
    cluster.api.patch(f"{daemons.QUEUES}/default", {"spec": {"capability": {"cpu": "1"}}})
    daemon = start()
    tenant.create(daemons.GROUPS, a_group("default"))
    tenant.create(daemons.PODS, a_pod("asks"))
    (node,) = (each["metadata"]["name"] for each in cluster.api.list("/api/v1/nodes"))
    tenant.create(daemons.PODS, a_pod("takes", nodeName=node))
    daemons.until(lambda: "asks" in reasons(cluster), daemon)
    assert daemons.nodes_of(cluster) == {"takes": node}


def reasons(cluster: ControlPlane) -> dict[str, str]:
    """Of pods that aren't scheduled."""
    return {
        pod["metadata"]["name"]: each["reason"]
        for pod in cluster.api.list(daemons.PODS)
        for each in pod["status"].get("conditions", [])
        if (each["type"], each["status"]) == ("PodScheduled", "False")
    }


@pytest.fixture
def guarded(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The sandbox with the policies on namespaces in force."""
    a_queue_for("team-a", cluster, "theirs")
    tried = {"body": a_group("theirs"), "query": {"dryRun": "All"}}
    try:
        apply(cluster, "apply", NAMESPACES)
        patience.wait_until(lambda: cluster.api.ask("POST", daemons.GROUPS, **tried).status == 403)
        yield cluster
    finally:
        apply(cluster, "delete", NAMESPACES)
        patience.wait_until(lambda: cluster.api.ask("POST", daemons.GROUPS, **tried).status != 403)


def a_queue_for(namespaces: str, cluster: ControlPlane, name: str) -> None:
    """A queue that only takes jobs of these namespaces."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": {translation.NAMESPACES: namespaces}},
    }
    cluster.api.apply(f"{daemons.QUEUES}/{name}", body)


def apply(cluster: ControlPlane, verb: str, file: Path) -> None:
    """Apply or delete a file."""
    cluster.run_kubectl(verb, f"--filename={file}")


def test_a_queue_that_is_made_later_is_not_occupied(
    guarded: ControlPlane, tenant: Client, start: Start
) -> None:
    """The policy can't see it; the scheduler places nothing there that the queue isn't for."""
    daemon = start()
    tenant.create(daemons.GROUPS, a_group("late"))
    tenant.create(daemons.PODS, a_pod("mine"))
    daemons.until(lambda: reasons(guarded).get("mine") == "QueueNotFound", daemon)
    a_queue_for("team-a", guarded, "late")
    daemons.until(lambda: reasons(guarded).get("mine") == "QueueNotForNamespace", daemon)
    told = daemons.conditions(guarded, "mine")["Unschedulable"]
    assert told["message"].startswith("queue late isn't for namespace default; ")
    assert daemons.nodes_of(guarded) == {}
    a_queue_for("team-a, default", guarded, "late")
    daemons.until(lambda: set(daemons.nodes_of(guarded)) == {"mine"}, daemon)
