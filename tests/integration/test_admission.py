"""What a real API server refuses with the policies of manifests/admission, and what without.

All is asked with this project's CRDs, and again with some that have no more in them than Volcano's.
Nothing that is tried is kept (dryRun=All), so that any order of cases gives the same answers.
"""

import copy
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.client import PATCH_TYPES, Answer, Client, Object
from sandbox.control_plane import ControlPlane
from sandbox.errors import SandboxError
from tests import patience
from tests.integration import permissions

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "manifests" / "admission").rglob("*.yaml"))
MANIFESTS = [tree for file in FILES for tree in yaml.safe_load_all(file.read_text())]
CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
POLICIES = tuple(CASES["cases"])
AMOUNTS = "amounts-are-in-order.vscheduler.io"
GROUP = "/apis/scheduling.volcano.sh/v1beta1"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
COLLECTIONS = {
    "ValidatingAdmissionPolicy": f"{POLICY}ies",
    "ValidatingAdmissionPolicyBinding": f"{POLICY}ybindings",
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = {"queues": "Queue", "podgroups": "PodGroup"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
USERS = {
    "tenant": ((), "edit"),
    "kubelet": (("system:nodes",), "cluster-admin"),
    "operator": ((), "cluster-admin"),
}
"""Whom cases may be tried as, in place of the sandbox's administrator: groups and ClusterRole."""
OURS = ("deserved", "request", "realCapability", "share", "conditions")


@dataclass(slots=True)
class World:
    """Queues and PodGroups of all sorts, and the policies that are in force around them."""

    plane: ControlPlane
    schema_judges: bool
    """Whether the CRDs have rules on amounts of their own."""
    users: dict[str, Client] = field(default_factory=dict)
    installed: set[str] = field(default_factory=set)

    def have(self, wanted: Iterable[str]) -> None:
        """Apply and delete policies until these are in force, and no others."""
        wanted = set(wanted)
        for manifest in MANIFESTS:
            name = manifest["metadata"]["name"]
            path = f"{COLLECTIONS[manifest['kind']]}/{name}"
            if name in wanted - self.installed:
                self.plane.api.apply(path, manifest)
            elif name in self.installed - wanted:
                self.plane.api.delete(path)
        waits = {name: name not in wanted for name in wanted ^ self.installed}
        if self.schema_judges:
            waits.pop(AMOUNTS, None)
        patience.wait_until(
            lambda: all(self.lets(CASES["cases"][name][0]) is lets for name, lets in waits.items())
        )
        self.installed = wanted

    def tries(self, case: dict[str, Any]) -> Answer:
        """The answer to what a case does, of which nothing stays."""
        (verb,) = case.keys() & {"create", "patch", "delete"}
        plural, _, rest = case[verb].partition("/")
        path = where(plural, case.get("namespace", "default"))
        method = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}[verb]
        new = verb == "create" and not rest  # else something that is made of another, as a binding
        body = thing(plural, "me", case["body"]) if new else case.get("body")
        merge = {"content-type": PATCH_TYPES["merge"]} if verb == "patch" else None
        path = f"{path}/{rest}" if rest else path
        api = self.users[case["as"]] if "as" in case else self.plane.api
        return api.ask(method, path, body, query={"dryRun": "All"}, headers=merge)

    def lets(self, case: dict[str, Any]) -> bool:
        """Whether a case is let through."""
        answer = self.tries(case)
        assert answer.status in {200, 201, 403, 422}, answer.text
        return answer.status < 400


def where(plural: str, namespace: str = "default") -> str:
    """The path of a collection."""
    if plural == "pods":
        return f"/api/v1/namespaces/{namespace}/pods"
    return f"{GROUP}/{'' if plural == 'queues' else f'namespaces/{namespace}/'}{plural}"


def thing(plural: str, name: str, parts: dict[str, Any]) -> Object:
    """A Queue, PodGroup or pod with these parts."""
    metadata = {**parts.get("metadata", {}), "name": name}
    if plural == "pods":
        spec = {"containers": [{"name": "main", "image": "none"}], **parts.get("spec", {})}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": KINDS[plural]}
    return {**head, **parts, "metadata": metadata}


def lax(definition: Object) -> list[Object]:
    """The versions of a CRD with no rules, and no status fields but Volcano's."""
    versions: list[Object] = copy.deepcopy(definition["spec"]["versions"])
    for version in versions:
        schema = version["schema"]["openAPIV3Schema"]
        drop_rules(schema)
        if definition["spec"]["names"]["plural"] == "queues":
            for name in OURS:
                del schema["properties"]["status"]["properties"][name]
    return versions


def drop_rules(node: Any) -> None:
    """Remove every CEL rule at and below a node of a CRD."""
    if isinstance(node, dict):
        node.pop("x-kubernetes-validations", None)
        node = list(node.values())
    for child in node if isinstance(node, list) else []:
        drop_rules(child)


@pytest.fixture(scope="module", params=["our CRDs", "Volcano's CRDs"])
def world(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[World]:
    """The sandbox with the queues and PodGroups that the cases are about, and no policies yet."""
    ours = request.param == "our CRDs"
    plane.clean()
    kept = {
        plural: plane.api.get(f"{DEFINITIONS}/{plural}.scheduling.volcano.sh") for plural in KINDS
    }
    made = World(plane=plane, schema_judges=ours)
    negative = {"create": "queues", "body": {"spec": {"capability": {"cpu": -1}}}}
    try:
        if not ours:
            define(plane, {plural: lax(each) for plural, each in kept.items()})
            patience.wait_until(lambda: made.lets(negative))
        for namespace, annotations in CASES["world"]["namespaces"].items():
            plane.create_namespace(namespace)
            path = f"/api/v1/namespaces/{namespace}"
            plane.api.patch(path, {"metadata": {"annotations": annotations}})
        for name, value in CASES["world"]["priorityclasses"].items():
            plane.api.apply(f"{CLASSES}/{name}", priority_class(name, value))
        made.users |= {user: a_user(plane, user) for user in USERS}
        for name, parts in CASES["world"]["pods"].items():
            namespace = parts.get("metadata", {}).get("namespace", "default")
            plane.api.create(where("pods", namespace), thing("pods", name, parts))
        for plural in KINDS:
            for name, parts in CASES["world"][plural].items():
                body = thing(plural, name, parts)
                stored = plane.api.create(where(plural), body)
                if "status" in parts:
                    stored["status"] = parts["status"]
                    plane.api.replace(f"{where(plural)}/{name}/status", stored)
        yield made
    finally:
        made.have(())
        for name in CASES["world"]["priorityclasses"]:
            plane.api.delete(f"{CLASSES}/{name}")
        for user in USERS:
            plane.api.delete(f"{permissions.RBAC}/clusterrolebindings/{user}")
        define(plane, {plural: each["spec"]["versions"] for plural, each in kept.items()})
        patience.wait_until(lambda: not made.lets(negative))
        plane.clean()


def priority_class(name: str, value: int) -> Object:
    """A PriorityClass."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": {"name": name}, "value": value}


def a_user(plane: ControlPlane, name: str) -> Client:
    """Somebody with a role in all namespaces, once the API server knows of it."""
    groups, role = USERS[name]
    body = {
        "apiVersion": f"{permissions.GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": name, "apiGroup": permissions.GROUP}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": permissions.GROUP},
    }
    plane.api.apply(f"{permissions.RBAC}/clusterrolebindings/{name}", body)
    api = plane.client_for(name, groups=groups)
    patience.wait_until(lambda: api.ask("GET", where("pods")).status == 200)
    return api


def define(plane: ControlPlane, versions: dict[str, list[Object]]) -> None:
    """Give both CRDs these versions."""
    for plural, each in versions.items():
        plane.api.patch(
            f"{DEFINITIONS}/{plural}.scheduling.volcano.sh", {"spec": {"versions": each}}
        )


def named(case: dict[str, Any]) -> str:
    """A case in a few words, for a failure."""
    return " ".join(str(part) for name, part in case.items() if name != "says")


EVERY = [case for cases in CASES["cases"].values() for case in cases]


def test_there_is_a_case_of_either_kind_for_every_policy() -> None:
    """Each policy that is shipped, and its binding, is tried in both directions."""
    for kind in COLLECTIONS:
        shipped = {each["metadata"]["name"] for each in MANIFESTS if each["kind"] == kind}
        assert shipped == set(POLICIES)
    for policy, cases in CASES["cases"].items():
        assert {"says" in case for case in cases} == {True, False}, policy
        assert "says" in cases[0], policy
    assert len(EVERY) >= 30


def test_each_case_with_all_policies(world: World) -> None:
    """It is let through, or refused in one line that names object and field and says what helps."""
    world.have(POLICIES)
    assert [said for case in EVERY if (said := misjudged(world, case))] == []


def misjudged(world: World, case: dict[str, Any]) -> str:
    """A case and the answer to it, if it isn't as it should be; else empty."""
    answer = world.tries(case)
    if "says" not in case:
        good = answer.status in {200, 201}
    else:
        # At most one refusal: another policy would have nothing to say.
        once = answer.message.count("denied request") <= 1
        good = answer.status in {403, 422} and case["says"] in answer.message and once
    return "" if good else f"{named(case)}: {answer.status} {answer.text}"


def test_each_policy_refuses_its_own_cases_and_no_others(world: World) -> None:
    """With it alone its cases are refused, and the others' pass; with it switched off, its pass.

    With others beside it a policy refuses what it does alone. From one policy to the next, two
    change: the API server compiles all that are new.
    """
    wrong = []
    for policy in POLICIES:
        world.have(set(POLICIES) - {policy})
        wrong += [
            ("without", policy, name, named(case))
            for name, case in refused(world)
            if name == policy and not world.lets(case)
        ]
    for policy in POLICIES:
        world.have([policy])
        wrong += [
            ("alone", policy, name, named(case))
            for name, case in refused(world)
            if world.lets(case) is not (name != policy)
        ]
    assert wrong == []


def refused(world: World) -> list[tuple[str, dict[str, Any]]]:
    """What is to be refused, each by the policy of this name and by nothing else."""
    return [
        (policy, case)
        for policy, cases in CASES["cases"].items()
        for case in cases
        # Whatever the policies, our CRDs refuse amounts.
        if "says" in case and not (world.schema_judges and policy == AMOUNTS)
    ]


def test_without_policies_all_is_let_through(world: World) -> None:
    """Who doesn't install them, or takes them away, has what the CRDs alone refuse."""
    world.have(POLICIES)
    world.have(())
    for name, cases in CASES["cases"].items():
        for case in cases:
            judged = world.schema_judges and name == AMOUNTS and "says" in case
            assert world.lets(case) is not judged, named(case)


def test_kubectl_shows_the_message(world: World) -> None:
    """With the policy that it comes from, so that people know what to look up."""
    world.have(POLICIES)
    group = yaml.safe_dump(thing("podgroups", "mine", {"spec": {"queue": "closed"}}))
    with pytest.raises(SandboxError) as refused:
        world.plane.run_kubectl("create", "--filename=-", text=group)
    assert re.search(
        r"ValidatingAdmissionPolicy 'queue-takes-jobs\.vscheduler\.io' .* denied request: "
        r"PodGroup mine, spec\.queue: queue closed is Closed and takes no more PodGroups; "
        r"open it, or name another queue$",
        str(refused.value),
    )
    with pytest.raises(SandboxError, match="Queue default can't be deleted: PodGroups that"):
        world.plane.run_kubectl("delete", "queue", "default")


def test_deleting_all_queues_leaves_those_that_are_kept(world: World) -> None:
    """Each object of a collection is judged by itself."""
    world.have(POLICIES)
    world.plane.api.create(
        where("queues"), thing("queues", "fleeting", {"metadata": {"labels": {"go": "x"}}})
    )
    for name in ("root", "default"):
        world.plane.api.patch(f"{where('queues')}/{name}", {"metadata": {"labels": {"go": "x"}}})
    query = {"labelSelector": "go=x"}
    answer = world.plane.api.ask("DELETE", where("queues"), query=query)
    assert answer.status == 403
    assert "can't be deleted" in answer.message
    patience.wait_until(lambda: world.plane.api.find(f"{where('queues')}/fleeting") is None)
    left = world.plane.api.list(where("queues"), **query)
    assert [each["metadata"]["name"] for each in left] == ["default", "root"]
