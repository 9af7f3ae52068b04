"""The sandbox behaves like a cluster, and leaves nothing behind however it ends."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox import binaries, control_plane, processes
from sandbox.client import Client, Object
from sandbox.control_plane import ControlPlane
from sandbox.errors import StartFailed
from tests import survivors
from tests.integration import daemons

PODS = "/api/v1/namespaces/default/pods"
CLAIM_SECONDS = 60.0

CHILD = """
import json, sys, time
from pathlib import Path
from sandbox import control_plane
with control_plane.start(keep="keep" in sys.argv[2:], directory=Path(sys.argv[1])) as plane:
    print(json.dumps(dict(plane.process_ids)), flush=True)
    if "wait" in sys.argv[2:]:
        time.sleep(600)
"""


def a_pod(name: str, **annotations: str) -> Object:
    """A pod that waits for a scheduler, with annotations of the sandbox."""
    return {
        "metadata": {
            "name": name,
            "annotations": {
                f"vscheduler.sandbox/{key.replace('_', '-')}": value
                for key, value in annotations.items()
            },
        },
        "spec": {
            "schedulerName": "by-hand",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


def bind(plane: ControlPlane, pod: str, node: str) -> None:
    """Bind a pod as a scheduler does."""
    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    plane.api.create(f"{PODS}/{pod}/binding", body)


def run(plane: ControlPlane, pod: Object) -> Object:
    """Create a pod, bind it to node-0 and wait until it has left Pending."""
    plane.api.create(PODS, pod)
    bind(plane, pod["metadata"]["name"], "node-0")
    return plane.api.wait_for(
        f"{PODS}/{pod['metadata']['name']}", lambda seen: seen["status"]["phase"] != "Pending"
    )


def conditions(seen: Object) -> dict[str, str]:
    """An object's conditions by type."""
    return {each["type"]: each["status"] for each in seen["status"].get("conditions") or ()}


def test_server_reports_the_pinned_version(plane: ControlPlane) -> None:
    """Clients that ask for the version must not see an unversioned build."""
    version = plane.api.get("/version")
    assert version["gitVersion"] == binaries.KUBERNETES_VERSION
    assert (version["major"], version["minor"]) == ("1", "37")


def test_schedulers_find_leases_to_lead_with(cluster: ControlPlane) -> None:
    """Their namespace is there, and in a clean slate nobody holds those of a test's daemon."""
    leases = cluster.api.list(daemons.LEASES)
    holders = {lease["metadata"]["name"]: lease["spec"]["holderIdentity"] for lease in leases}
    assert holders == dict.fromkeys(
        ("vscheduler", "vscheduler-controllers", "vscheduler-podgroups"), ""
    )


def test_user_without_rights_is_forbidden(cluster: ControlPlane) -> None:
    """RBAC is on: who has no role gets 403, and 401 who is nobody."""
    stranger = cluster.client_for("stranger", groups=["nobodies"])
    token = "invented"  # noqa: S105  # which is the point
    nobody = Client(cluster.url, authority=cluster.authority.certificate_path, token=token)
    try:
        assert stranger.ask("GET", PODS).status == 403
        assert "stranger" in stranger.ask("GET", PODS).message
        assert nobody.ask("GET", PODS).status == 401
    finally:
        stranger.close()
        nobody.close()


def test_service_account_has_exactly_its_roles(cluster: ControlPlane) -> None:
    """A token that the API server issued stands for the account and for what it was granted."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    group = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "namespace": "default", "name": "reader"}
    cluster.api.apply(
        "/api/v1/namespaces/default/serviceaccounts/reader",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
    )
    cluster.api.apply(
        f"{rbac}/namespaces/default/rolebindings/reader",
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
            "subjects": [account],
        },
    )
    reader = cluster.client_for_service_account("default", "reader")
    try:
        assert reader.ask("GET", PODS).status == 200
        assert reader.ask("POST", PODS, a_pod("refused")).status == 403
    finally:
        reader.close()
    kubeconfig = cluster.kubeconfig_for_service_account("default", "reader")
    said = cluster.run_kubectl(f"--kubeconfig={kubeconfig}", "auth", "whoami", "-o=json")
    user = json.loads(said)["status"]["userInfo"]["username"]
    assert user == "system:serviceaccount:default:reader"


def test_nodes_become_ready_and_keep_what_they_have(cluster: ControlPlane) -> None:
    """A node can be allocated just what it was created with, and bears just its own taints."""
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    names = cluster.create_nodes(
        count=3, cpu="4", memory="8Gi", pods=7, extended={"example.com/gpu": 2}, taints=[taint]
    )
    assert names == ["node-0", "node-1", "node-2"]
    node = cluster.api.get("/api/v1/nodes/node-2")
    wanted = {"cpu": "4", "memory": "8Gi", "pods": "7", "example.com/gpu": "2"}
    assert node["status"]["allocatable"] == node["status"]["capacity"] == wanted
    assert node["spec"]["taints"] == [taint]
    assert conditions(node)["Ready"] == "True"


def test_bare_node_becomes_ready(cluster: ControlPlane) -> None:
    """A node from any other source, such as kubectl, is taken care of too."""
    manifest = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    cluster.run_kubectl("apply", "--filename=-", text=manifest)
    node = cluster.api.wait_for(
        "/api/v1/nodes/bare",
        lambda seen: conditions(seen).get("Ready") == "True" and not seen["spec"].get("taints"),
    )
    assert node["status"]["allocatable"]["pods"] == "110"


def test_unmanaged_node_keeps_its_status(cluster: ControlPlane) -> None:
    """A test can take a node down."""
    cluster.create_nodes(count=1)
    path = "/api/v1/nodes/node-0"
    cluster.api.patch(path, {"metadata": {"annotations": {"vscheduler.sandbox/unmanaged": ""}}})
    down = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    cluster.api.patch(f"{path}/status", down, kind="strategic")
    time.sleep(0.5)
    assert conditions(cluster.api.get(path))["Ready"] == "False"


def test_bound_pod_runs(cluster: ControlPlane) -> None:
    """Binding starts a pod; conditions that others set are kept."""
    cluster.create_nodes(count=1)
    pod = run(cluster, a_pod("one"))
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["startTime"]
    assert pod["status"]["podIP"]
    assert pod["status"]["containerStatuses"][0]["ready"] is True
    assert conditions(pod)["Ready"] == "True"
    assert conditions(pod)["PodScheduled"] == "True"


def test_deleted_pod_goes_at_once(cluster: ControlPlane) -> None:
    """Nobody has to wait for the thirty seconds of grace."""
    cluster.create_nodes(count=1)
    run(cluster, a_pod("brief"))
    cluster.api.delete(f"{PODS}/brief")
    cluster.api.wait_until_gone(f"{PODS}/brief")


def test_slow_pod_takes_its_time_to_go(cluster: ControlPlane) -> None:
    """Changes to a terminating pod do not make it start over."""
    cluster.create_nodes(count=1)
    run(cluster, a_pod("slow", terminates_after="2s"))
    began = time.monotonic()
    cluster.api.delete(f"{PODS}/slow")
    time.sleep(1)
    cluster.api.patch(f"{PODS}/slow", {"metadata": {"labels": {"touched": "yes"}}})
    cluster.api.wait_until_gone(f"{PODS}/slow")
    assert time.monotonic() - began > 1.9


@pytest.mark.parametrize(
    ("annotation", "phase"), [("completes_after", "Succeeded"), ("fails_after", "Failed")]
)
def test_pod_ends_when_told(cluster: ControlPlane, annotation: str, phase: str) -> None:
    """A pod with an annotation ends by itself, which is how jobs get done."""
    cluster.create_nodes(count=1)
    run(cluster, a_pod("ends", **{annotation: "1s"}))
    pod = cluster.api.wait_for(f"{PODS}/ends", lambda seen: seen["status"]["phase"] == phase)
    assert conditions(pod)["Ready"] == "False"
    assert "terminated" in pod["status"]["containerStatuses"][0]["state"]


def test_controllers_make_pods_of_a_job(cluster: ControlPlane) -> None:
    """A Job's pods are made, bound, completed and counted."""
    cluster.create_nodes(count=1)
    template = a_pod("ignored", completes_after="1s")
    template["spec"]["restartPolicy"] = "Never"
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    spec = {"template": template, "completions": 2, "parallelism": 2}
    cluster.api.create(jobs, {"metadata": {"name": "work"}, "spec": spec})
    seen = cluster.api.wait_for(PODS, lambda pods: len(pods["items"]) == 2)
    for pod in seen["items"]:
        bind(cluster, pod["metadata"]["name"], "node-0")
    job = cluster.api.wait_for(f"{jobs}/work", lambda seen: "Complete" in conditions(seen))
    assert job["status"]["succeeded"] == 2


def test_clean_slate_leaves_nothing(cluster: ControlPlane) -> None:
    """Workloads, their pods, slow ones too, nodes and our own resources are gone afterwards."""
    cluster.create_nodes(count=2)
    cluster.create_namespace("team")
    template = a_pod("ignored", terminates_after="30s")
    template["metadata"]["labels"] = labels = {"app": "web"}
    deployment: dict[str, Any] = {"replicas": 3, "selector": {"matchLabels": labels}}
    deployment["template"] = template
    cluster.api.create(
        "/apis/apps/v1/namespaces/team/deployments",
        {"metadata": {"name": "web"}, "spec": deployment},
    )
    pods = "/api/v1/namespaces/team/pods"
    cluster.api.wait_for(pods, lambda seen: len(seen["items"]) == 3)
    held = a_pod("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    run(cluster, held)
    queues = "/apis/scheduling.volcano.sh/v1beta1/queues"
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    cluster.api.create(queues, {**queue, "metadata": {"name": "gold"}, "spec": {"weight": 1}})
    cluster.clean()
    for path in (PODS, pods, queues, "/api/v1/nodes", "/apis/apps/v1/deployments"):
        assert cluster.api.list(path) == [], path
    classes = cluster.api.list("/apis/scheduling.k8s.io/v1/priorityclasses")
    assert {each["metadata"]["name"][:7] for each in classes} == {"system-"}


def test_two_sandboxes_live_side_by_side(cluster: ControlPlane, tmp_path: Path) -> None:
    """They share nothing, and one ends without the other noticing; the audit log is optional."""
    cluster.create_nodes(count=1)
    audit = tmp_path / "audit.log"
    with control_plane.start(audit_log=audit) as second:
        assert second.url != cluster.url
        assert second.api.list("/api/v1/nodes") == []
        assert len(cluster.api.list("/api/v1/nodes")) == 1
    assert not second.directory.exists()
    assert survivors.all_gone(dict(second.process_ids))
    assert all(map(survivors.alive, cluster.process_ids.values()))
    verbs = {json.loads(line)["verb"] for line in audit.read_text(encoding="utf-8").splitlines()}
    assert {"list", "create"} <= verbs


def test_sandbox_ends_with_its_parent(tmp_path: Path) -> None:
    """Whatever ends the Python process ends everything that it started."""
    with survivors.parent(CHILD, tmp_path, "wait") as (process, process_ids):
        assert all(map(survivors.alive, process_ids.values()))
        process.kill()
        process.wait(CLAIM_SECONDS)
        assert survivors.all_gone(process_ids)


def test_kept_sandbox_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """It outlives the Python process, refuses a second one in its place, and stops on demand."""
    with survivors.parent(CHILD, tmp_path, "keep") as (process, process_ids):
        process.wait(CLAIM_SECONDS)
    try:
        assert all(map(survivors.alive, process_ids.values()))
        with (
            pytest.raises(StartFailed, match="stop it first"),
            control_plane.start(tmp_path),
        ):
            pass
    finally:
        control_plane.stop(tmp_path)
    assert survivors.all_gone(process_ids)
    assert not processes.is_running(tmp_path)
    control_plane.stop(tmp_path)


def test_failing_component_is_named_with_its_log(tmp_path: Path) -> None:
    """Whoever starts a sandbox in vain learns which process failed and what it said."""
    with (
        pytest.raises(StartFailed) as caught,
        control_plane.start(tmp_path, api_server_flags=["--no-such-flag"]),
    ):
        pass
    assert "kube-apiserver ended" in str(caught.value)
    assert "no-such-flag" in str(caught.value)
    assert not processes.is_running(tmp_path)
