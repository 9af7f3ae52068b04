"""The admission policies as files: what needs no API server to be checked."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "manifests" / "admission"
ABOUT_PODS = {
    "scheduler-names-nodes.vscheduler.io",
    "namespace-may-use-priority.vscheduler.io",
    "task-priority-is-within-class.vscheduler.io",
}
"""Optional policies that judge pods."""
POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"
PARAMETERS = {"selector": {}, "parameterNotFoundAction": "Allow"}


def objects(kind: str) -> dict[str, dict[str, Any]]:
    """All manifests of a kind by name."""
    trees = [
        each for file in FOLDER.rglob("*.yaml") for each in yaml.safe_load_all(file.read_text())
    ]
    return {tree["metadata"]["name"]: tree for tree in trees if tree["kind"] == kind}


def test_every_policy_has_a_binding_that_denies() -> None:
    """One of the same name, with all Queues as parameters, or none, where it has none."""
    policies, bindings = objects(POLICY), objects(BINDING)
    assert policies.keys() == bindings.keys()
    for name, binding in bindings.items():
        wanted: dict[str, object] = {"policyName": name, "validationActions": ["Deny"]}
        if "paramKind" in policies[name]["spec"]:
            wanted["paramRef"] = PARAMETERS
        assert binding["spec"] == wanted, name


def test_all_can_be_taken_away_by_one_label() -> None:
    """What the documentation deletes is everything that the folder applies."""
    for each in (*objects(POLICY).values(), *objects(BINDING).values()):
        assert each["metadata"]["labels"] == {"app.kubernetes.io/part-of": "vscheduler"}


def test_the_documented_command_spares_what_belongs_to_the_roles() -> None:
    """Their policies have the label, too, which kustomize puts on all that it renders."""
    text = (ROOT / "docs" / "admission.md").read_text()
    labels = "app.kubernetes.io/part-of=vscheduler,app.kubernetes.io/component!=accounts"
    assert (
        f"kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings -l {labels}"
        in (text.replace("\\\n    ", ""))
    )
    shipped = yaml.safe_load_all((ROOT / "manifests/cluster/pod-policies.yaml").read_text())
    for each in shipped:
        assert each["metadata"]["labels"] == {"app.kubernetes.io/component": "accounts"}


def test_policies_are_about_queues_and_podgroups_only() -> None:
    """None but some optional ones can ever stop a pod, or any other object that isn't ours."""
    judging = set()
    for name, policy in objects(POLICY).items():
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
            if rule["apiGroups"] == [""]:
                assert rule["resources"] == ["pods"], name
                judging.add(name)
                continue
            if rule["apiGroups"] == ["scheduling.k8s.io"]:
                assert rule["resources"] == ["podgroups", "compositepodgroups"], name
                continue
            assert rule["apiGroups"] == ["scheduling.volcano.sh"], name
            assert rule["apiVersions"] == ["v1beta1"], name
            assert set(rule["resources"]) <= {"queues", "queues/status", "podgroups"}, name
            assert set(rule["operations"]) <= {"CREATE", "UPDATE", "DELETE"}, name
    assert judging == ABOUT_PODS
    files = {path.name for path in FOLDER.glob("*.yaml")}
    assert files == {"hierarchy.yaml", "podgroups.yaml", "queues.yaml"}, "applied by everybody"


def test_status_writes_of_podgroups_are_not_judged_with_each_queue() -> None:
    """PodGroups have no status subresource, so an update may be a scheduler's status write."""
    for name, policy in objects(POLICY).items():
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
            if "podgroups" in rule["resources"] and "UPDATE" in rule["operations"]:
                assert "paramKind" not in policy["spec"], name


def test_only_what_the_documentation_says_fails_closed() -> None:
    """A border that nobody else guards, and what can't fail; the rest is never in the way."""
    closed = {
        name for name, each in objects(POLICY).items() if each["spec"]["failurePolicy"] == "Fail"
    }
    assert closed == {
        "queue-is-kept.vscheduler.io",
        "namespace-may-use-queue.vscheduler.io",
        "podgroup-keeps-queue.vscheduler.io",
        *ABOUT_PODS,
    }


def test_every_policy_and_refusal_is_told() -> None:
    """docs/admission.md has a row for each policy, with its file; each validation has a message."""
    text = (ROOT / "docs" / "admission.md").read_text()
    for file in FOLDER.rglob("*.yaml"):
        for each in yaml.safe_load_all(file.read_text()):
            if each["kind"] != POLICY:
                continue
            name = each["metadata"]["name"].removesuffix(".vscheduler.io")
            assert f"| `{name}` | `{file.relative_to(FOLDER)}` |" in text
            for rule in each["spec"]["validations"]:
                assert rule.keys() & {"message", "messageExpression"}, name
