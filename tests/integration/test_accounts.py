"""What the shipped accounts may change of pods, tried with their own tokens."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import yaml

from sandbox.client import PATCH_TYPES, Answer, Client
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, installations, permissions
from tests.integration.installations import Installed
from vscheduler.cluster.writes import binder
from vscheduler.controllers.podgroups import auto_groups
from vscheduler.controllers.podgroups.auto_groups import Member
from vscheduler.mirror.translate import pod_owners, pods
from vscheduler.model import decisions
from vscheduler.model.jobs import JobId, PodClass, Task, TaskStatus

FILE = permissions.MANIFESTS / "cluster" / "pod-policies.yaml"
SHIPPED = list(yaml.safe_load_all(FILE.read_text()))
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
BINDINGS = f"{POLICY}ybindings"
ANNOTATES = "accounts-annotate-pods.vscheduler.io"
GROUPS_TOO = [
    "accounts-annotate-podgroups.vscheduler.io",
    "accounts-report-on-podgroups.vscheduler.io",
]
REPORTS = "accounts-report-on-pods.vscheduler.io"
BINDS = "accounts-bind-pods.vscheduler.io"
DEVICES = [
    "accounts-allocate-devices.vscheduler.io",
    "accounts-make-claims.vscheduler.io",
    "accounts-take-devices-back.vscheduler.io",
]
VOLUMES = ["accounts-ask-for-volumes.vscheduler.io", "accounts-give-volumes.vscheduler.io"]
GROUP, OTHER_GROUP = pods.GROUPS
OWN = pod_owners.short_name("train", "6d5f5a2e")
JSON, MERGE, STRATEGIC = (PATCH_TYPES[each] for each in ("json", "merge", "strategic"))
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
DEBUGGER = {"name": "debug", "image": "busybox", "targetContainerName": "main"}
SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
TARGETED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
READY = {"type": "Ready", "status": "True"}


def about(**metadata: Any) -> dict[str, Any]:
    """A patch of the metadata."""
    return {"metadata": metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A patch that an account sends, and what it is refused for."""

    body: dict[str, Any] | list[dict[str, Any]]
    says: str = ""
    """What the refusal names; empty where it is let through."""
    pod: str = "alone"
    subresource: str = ""

    def made(self, api: Client) -> Answer:
        """The answer, of which nothing is kept."""
        path = f"{daemons.PODS}/{self.pod}{self.subresource}"
        headers = {"content-type": JSON if isinstance(self.body, list) else STRATEGIC}
        return api.ask("PATCH", path, self.body, query={"dryRun": "All"}, headers=headers)


ANNOTATING = {
    "joins a group": Attempt(body=about(annotations={GROUP: OWN})),
    "joins its group again": Attempt(body=about(annotations={GROUP: OWN}), pod="member"),
    "changes nothing": Attempt(body=about(labels={"app": "web"})),
    "image": Attempt(
        body={"spec": {"containers": [{"name": "main", "image": "evil"}]}}, says="spec"
    ),
    "deadline": Attempt(body={"spec": {"activeDeadlineSeconds": 5}}, says="spec"),
    "toleration": Attempt(
        body=[{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}],
        says="spec",
    ),
    "gates": Attempt(body={"spec": {"schedulingGates": None}}, says="spec", pod="gated"),
    "image with its group": Attempt(
        body=about(annotations={GROUP: OWN})
        | {"spec": {"containers": [{"name": "main", "image": "evil"}]}},
        says="spec",
    ),
    "label": Attempt(body=about(labels={"app": "db"}), says="metadata.labels"),
    "new label": Attempt(body=about(labels={"new": "x"}), says="metadata.labels"),
    "no label": Attempt(body=about(labels=None), says="metadata.labels"),
    "finalizer": Attempt(body=about(finalizers=["a.io/b"]), says="metadata.finalizers"),
    "no finalizer": Attempt(body=about(finalizers=None), says="metadata.finalizers", pod="member"),
    "owner": Attempt(body=about(ownerReferences=[OWNER]), says="metadata.ownerReferences"),
    "another annotation": Attempt(
        body=about(annotations={"sidecar.istio.io/inject": "true"}),
        says="metadata.annotations sidecar.istio.io/inject",
    ),
    "annotation of the pod": Attempt(
        body=about(annotations={"kept": "no"}), says="metadata.annotations kept", pod="member"
    ),
    "without an annotation": Attempt(
        body=about(annotations={"kept": None}), says="metadata.annotations kept", pod="member"
    ),
    "a group that others made": Attempt(
        body=about(annotations={GROUP: "train"}), says=f"metadata.annotations {GROUP}"
    ),
    "a group with a hash in its name": Attempt(
        body=about(annotations={GROUP: "train-6d5f5a2e"}), says=f"metadata.annotations {GROUP}"
    ),
    "joins a group with Volcano's name": Attempt(
        body=about(annotations={GROUP: pod_owners.volcano_name("6d5f5a2e")})
    ),
    "by the other annotation": Attempt(
        body=about(annotations={OTHER_GROUP: OWN}), says=f"metadata.annotations {OTHER_GROUP}"
    ),
    "into another group": Attempt(
        body=about(annotations={GROUP: pod_owners.short_name("train", "other")}),
        says=f"metadata.annotations {GROUP}",
        pod="member",
    ),
    "out of its group": Attempt(
        body=about(annotations={GROUP: None}), says=f"metadata.annotations {GROUP}", pod="member"
    ),
}
BEYOND_ITS_ROLE = {
    "debugger": Attempt(
        body={"spec": {"ephemeralContainers": [DEBUGGER]}},
        subresource="/ephemeralcontainers",
        says="ephemeralcontainers",
    ),
    "resize": Attempt(
        body={"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "9m"}}}]}},
        subresource="/resize",
        says="resize",
    ),
    "status": Attempt(
        body={"status": {"phase": "Succeeded"}}, subresource="/status", says="status.phase"
    ),
}
"""What RBAC grants none of the accounts; the policies hold where somebody grants it."""


def told(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    """A patch of the status."""
    return {"status": {**status, **({"conditions": list(conditions)} if conditions else {})}}


REPORTING = {
    name: Attempt(body=body, says=says, pod=pod, subresource="/status")
    for name, body, says, pod in (
        ("why it waits", told(SCHEDULED), "", "alone"),
        ("why it goes", told(TARGETED), "", "member"),
        ("where room is kept", told(nominatedNodeName="n1"), "", "alone"),
        ("both", told(SCHEDULED, nominatedNodeName="n1"), "", "member"),
        ("ready", told(READY), "status.conditions", "alone"),
        ("not ready", told({**READY, "status": "False"}), "status.conditions", "member"),
        ("ready beside why", told(SCHEDULED, READY), "status.conditions", "alone"),
        ("phase", told(phase="Succeeded"), "status.phase", "member"),
        (
            "address",
            told(podIP="10.9.9.9", podIPs=[{"$patch": "replace"}, {"ip": "10.9.9.9"}]),
            "status.podIP",
            "member",
        ),
        ("new address", told(podIP="10.9.9.9"), "status.podIP", "alone"),
        ("label", about(labels={"app": "db"}), "metadata.labels", "alone"),
        (
            "label beside why",
            about(labels={"a": "b"}) | told(SCHEDULED),
            "metadata.labels",
            "alone",
        ),
        ("annotation", about(annotations={GROUP: OWN}), "metadata.annotations", "alone"),
        ("no finalizer", about(finalizers=None), "metadata.finalizers", "member"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A Binding that the scheduler's account sends, and what it is refused for."""

    pod: str = "alone"
    node: str = "n1"
    kind: str = "Node"
    metadata: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    """What the refusal names; empty where it is let through."""

    def made(self, api: Client) -> Answer:
        """The answer, of which nothing is kept."""
        path, body = f"{daemons.PODS}/{self.pod}/binding", self.body()
        return api.ask("POST", path, body, query={"dryRun": "All"})

    def body(self) -> dict[str, Any]:
        """The Binding."""
        metadata = {"name": self.pod, "namespace": "default", **self.metadata}
        return {"metadata": metadata, "target": {"kind": self.kind, "name": self.node}}


BINDINGS_OF_OLD = "/api/v1/namespaces/default/bindings"
ZONE = "topology.kubernetes.io/zone"
BINDING = {
    "a bind": Bind(),
    "who leads": Bind(metadata={"annotations": {binder.HOLDER: "a"}}),
    "on a node with a zone": Bind(node="zoned-0"),
    "another scheduler's pod": Bind(pod="foreign"),
    "label": Bind(metadata={"labels": {"app": "payments"}}, says="metadata.labels app"),
    "label of another scheduler's pod": Bind(
        pod="foreign", metadata={"labels": {"app": "payments"}}, says="metadata.labels app"
    ),
    "label beside the zone": Bind(
        node="zoned-0", metadata={"labels": {"app": "payments"}}, says="metadata.labels app"
    ),
    "another zone, by a target without a kind": Bind(
        node="zoned-0", kind="", metadata={"labels": {ZONE: "b"}}, says="target.kind"
    ),
    "annotation": Bind(
        metadata={"annotations": {GROUP: "train"}}, says=f"metadata.annotations {GROUP}"
    ),
    "annotation beside who leads": Bind(
        metadata={"annotations": {binder.HOLDER: "a", "b.io/c": "d"}},
        says="metadata.annotations b.io/c",
    ),
    "finalizer": Bind(metadata={"finalizers": ["a.io/b"]}, says="metadata.finalizers"),
    "owner": Bind(metadata={"ownerReferences": [OWNER]}, says="metadata.ownerReferences"),
}


def pod(name: str, metadata: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod that waits."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "5m"}}}
    return {
        "metadata": {"name": name, "labels": {"app": "web"}, **metadata},
        "spec": {"schedulerName": "vscheduler", "containers": [container], **spec},
    }


PODS = (
    pod("alone", {}),
    pod("foreign", {}, schedulerName="default-scheduler"),
    pod("gated", {}, schedulingGates=[{"name": "a.io/b"}]),
    pod("member", {"annotations": {GROUP: OWN, "kept": "yes"}, "finalizers": ["a.io/keep"]}),
)


@pytest.fixture(scope="module")
def plane(installed: Installed) -> Iterator[ControlPlane]:
    """The shipped manifests, in force, and some pods that wait."""
    plane = installed.plane
    plane.clean()
    for each in PODS:
        plane.api.create(daemons.PODS, each)
    status = told(READY, phase="Running", podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}])
    member = f"{daemons.PODS}/member"
    plane.api.request("PATCH", f"{member}/status", status, headers={"content-type": MERGE})
    plane.create_nodes(prefix="zoned", labels={ZONE: "a", "topology.kubernetes.io/region": "r"})
    until_judged(plane, holds=True)
    yield plane
    plane.api.request("PATCH", member, about(finalizers=None), headers={"content-type": MERGE})
    plane.clean()
    plane.run_kubectl("apply", "-k", str(permissions.MANIFESTS))  # Deployments, for others


def account(plane: ControlPlane, name: str) -> Client:
    """Somebody with the account's token."""
    return plane.client_for_service_account(permissions.NAMESPACE, name)


def until_judged(plane: ControlPlane, *, holds: bool) -> None:
    """Wait until both policies refuse what they should, or let it through."""
    for name, attempt in (
        ("vscheduler-controllers", ANNOTATING["image"]),
        ("vscheduler", REPORTING["phase"]),
        ("vscheduler", BINDING["label"]),
    ):
        api = account(plane, name)
        patience.wait_until(partial(refuses, api, attempt, holds=holds))


def refuses(api: Client, attempt: Attempt | Bind, *, holds: bool) -> bool:
    """Whether the attempt is refused, or let through, as it should be."""
    return (attempt.made(api).status >= 400) is holds


def check(attempt: Attempt, answer: Answer, policy: str, user: str) -> None:
    """It is let through, or the policy says what was wrong, and to whom."""
    if not attempt.says:
        assert answer.status == 200, answer.text
        return
    check_refusal(answer, policy, f"Pod {attempt.pod}, {attempt.says}", user)


def check_refusal(answer: Answer, policy: str, says: str, user: str) -> None:
    """The policy says what was wrong, and to whom."""
    assert answer.status == 403, answer.text
    assert policy in answer.message
    assert says in answer.message
    assert permissions.account(user) in answer.message


@pytest.mark.parametrize("name", ANNOTATING)
def test_controllers_put_pods_into_groups_and_change_nothing_else(
    plane: ControlPlane, name: str
) -> None:
    """With the token of the controllers' account."""
    user, attempt = "vscheduler-controllers", ANNOTATING[name]
    check(attempt, attempt.made(account(plane, user)), ANNOTATES, user)


@pytest.mark.parametrize("name", REPORTING)
def test_schedulers_write_their_conditions_and_nothing_else(plane: ControlPlane, name: str) -> None:
    """With the token of the scheduler's account."""
    user, attempt = "vscheduler", REPORTING[name]
    check(attempt, attempt.made(account(plane, user)), REPORTS, user)


@pytest.mark.parametrize("name", BINDING)
def test_a_bind_changes_nothing_of_a_pod_but_its_node(plane: ControlPlane, name: str) -> None:
    """With the token of the scheduler's account; the API server would copy whatever it sends."""
    user, bind = "vscheduler", BINDING[name]
    answer = bind.made(account(plane, user))
    if not bind.says:
        assert answer.status == 201, answer.text
        return
    check_refusal(answer, BINDS, f"Binding of pod {bind.pod}, {bind.says}", user)


@pytest.mark.parametrize("holder", ["", "host_1-2-3"])
def test_what_the_binder_sends_is_let_through(plane: ControlPlane, holder: str) -> None:
    """The Binding as its own code makes it, with and without leader election."""
    uid = plane.api.get(f"{daemons.PODS}/alone")["metadata"]["uid"]
    task = Task(
        uid=uid,
        namespace="default",
        name="alone",
        job=JobId("default/alone"),
        pod_class=PodClass(request={}),
        status=TaskStatus.PENDING,
        created=0.0,
    )
    bind = decisions.Bind(task=task, node="zoned-0")
    body = json.loads(binder.binding_body(bind, holder))
    path, query = str(binder.binding_path(bind)), {"dryRun": "All"}
    answer = account(plane, "vscheduler").ask("POST", path, body, query=query)
    assert answer.status == 201, answer.text


@pytest.mark.parametrize("user", ["vscheduler-controllers", "vscheduler"])
@pytest.mark.parametrize("name", BEYOND_ITS_ROLE)
def test_neither_has_a_right_to_more_of_pods(plane: ControlPlane, user: str, name: str) -> None:
    """RBAC refuses it, but for the scheduler's status; whole pods and commands in them, too."""
    answer = BEYOND_ITS_ROLE[name].made(account(plane, user))
    assert answer.status == 403
    granted = (user, name) == ("vscheduler", "status")
    assert ("cannot patch resource" in answer.message) is not granted
    api = account(plane, user)
    for method, path, body in (
        ("POST", daemons.PODS, pod("new", {})),
        ("DELETE", f"{daemons.PODS}/alone", None),
        ("POST", f"{daemons.PODS}/alone/exec?command=id&stdout=true", None),
        ("GET", "/api/v1/namespaces/default/secrets", None),
        ("GET", "/api/v1/namespaces/default/configmaps", None),
        ("PATCH", "/api/v1/nodes/n1", about(labels={"a": "b"})),
        ("POST", f"{permissions.RBAC}/clusterrolebindings", {"metadata": {"name": "mine"}}),
    ):
        refused = api.ask(method, path, body, headers={"content-type": MERGE} if body else None)
        assert refused.status == 403, (method, path, refused.text)
        assert "cannot" in refused.message


@pytest.fixture
def generous(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Somebody has made all accounts of the namespace administrators."""
    path = f"{permissions.RBAC}/clusterrolebindings/generous"
    subject = {"kind": "Group", "name": f"system:serviceaccounts:{permissions.NAMESPACE}"}
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": permissions.GROUP}
    head = {"apiVersion": f"{permissions.GROUP}/v1", "kind": "ClusterRoleBinding"}
    subjects = [{**subject, "apiGroup": permissions.GROUP}]
    body = {**head, "metadata": {"name": "generous"}, "subjects": subjects, "roleRef": role}
    plane.api.apply(path, body)
    api = account(plane, "vscheduler-controllers")
    patience.wait_until(lambda: api.ask("GET", "/api/v1/namespaces/default/secrets").status == 200)
    yield plane
    plane.api.delete(path)
    patience.wait_until(lambda: api.ask("GET", "/api/v1/namespaces/default/secrets").status == 403)


def test_policies_hold_whatever_rbac_grants(generous: ControlPlane) -> None:
    """For each account, in whatever namespace it is, and for nobody else."""
    extra = "/api/v1/namespaces/default/serviceaccounts"
    for name in ("vscheduler", "bystander"):
        generous.api.apply(
            f"{extra}/{name}",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        )
    for user in ("vscheduler", "vscheduler-controllers"):
        for attempt in (ANNOTATING["image"], ANNOTATING["label"], BEYOND_ITS_ROLE["debugger"]):
            check(attempt, attempt.made(account(generous, user)), ANNOTATES, user)
        for attempt in (BEYOND_ITS_ROLE["status"], REPORTING["ready"], REPORTING["label"]):
            check(attempt, attempt.made(account(generous, user)), REPORTS, user)
        resize = BEYOND_ITS_ROLE["resize"]
        check(resize, resize.made(account(generous, user)), ANNOTATES, user)
        label = BINDING["label"]
        for path in (f"{daemons.PODS}/alone/binding", BINDINGS_OF_OLD):
            query = {"dryRun": "All"}
            answer = account(generous, user).ask("POST", path, label.body(), query=query)
            assert answer.status == 403, answer.text
            assert label.says in answer.message
    # Not by its token, which has no role: by what an administrator may do in its name.
    for user, status in (("vscheduler", 403), ("vscheduler-online", 403), ("vschedulers", 200)):
        headers = {
            "content-type": STRATEGIC,
            "impersonate-user": f"system:serviceaccount:default:{user}",
            "impersonate-group": "system:masters",
        }
        path, body = f"{daemons.PODS}/alone", ANNOTATING["image"].body
        answer = generous.api.ask("PATCH", path, body, query={"dryRun": "All"}, headers=headers)
        assert answer.status == status, answer.text


def test_without_the_policies_rbac_grants_all_of_it(plane: ControlPlane) -> None:
    """So that it is the policies that refuse it, each what it is there for."""
    kept = [each for each in SHIPPED if each["kind"].endswith("Binding")]
    try:
        for each in kept:
            plane.api.delete(f"{BINDINGS}/{each['metadata']['name']}")
        until_judged(plane, holds=False)
        for user, attempts in (("vscheduler-controllers", ANNOTATING), ("vscheduler", REPORTING)):
            api = account(plane, user)
            for name, attempt in attempts.items():
                assert attempt.made(api).status == 200, name
        for name, bind in BINDING.items():
            assert bind.made(account(plane, "vscheduler")).status == 201, name
    finally:
        plane.run_kubectl("apply", "-k", str(permissions.MANIFESTS))
        until_judged(plane, holds=True)


@pytest.mark.parametrize("way", installations.ROOTS)
def test_every_account_that_is_shipped_is_one_of_them(installed: Installed, way: str) -> None:
    """By its name, in each way of installing it; each policy comes once, with its binding."""
    documents = installations.rendered(installed.plane, installations.ROOTS[way])
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        names = [each["metadata"]["name"] for each in installations.of_kind(documents, kind)]
        volumes = [] if way == "without volumes" else VOLUMES
        allocates = [] if way == "without devices" else DEVICES
        assert sorted(names) == sorted(
            [*allocates, ANNOTATES, *GROUPS_TOO, BINDS, *volumes, REPORTS]
        )
    found = [
        each["metadata"]["name"] for each in installations.of_kind(documents, "ServiceAccount")
    ]
    assert len(found) >= 2
    for name in found:
        assert name == "vscheduler" or name.startswith("vscheduler-")


@pytest.mark.parametrize("scheduler", ["vscheduler", "volcano"])
def test_what_the_controllers_send_is_let_through(plane: ControlPlane, scheduler: str) -> None:
    """The patch as their own code makes it."""
    uid = plane.api.get(f"{daemons.PODS}/alone")["metadata"]["uid"]
    member = Member(
        namespace="default",
        name="alone",
        uid=uid,
        labels={},
        annotations={},
        priority_class="",
        request={},
        owner=None,
    )
    api = account(plane, "vscheduler-controllers")
    name = auto_groups.group_name(member, scheduler)
    answer = Attempt(body=auto_groups.attachment(member, name)).made(api)
    assert answer.status == 200, answer.text
    assert answer.body["metadata"]["annotations"] == {GROUP: name}
