"""The Helm chart: it installs what manifests/ installs, and what its values say."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox import binaries

Document = dict[str, Any]
Objects = dict[tuple[str, str], Document]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "vscheduler"
OVERLAYS = ROOT / "manifests" / "overlays"
NAMESPACE = "volcano-system"
HELMS_LABELS = {"app.kubernetes.io/managed-by", "helm.sh/chart"}
KEPT = "helm.sh/resource-policy"
POLICIES = "ValidatingAdmissionPolicy"


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program."""
    return binaries.find_or_build((binaries.HELM,))[binaries.HELM]


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The program, for its kustomize."""
    return binaries.find_or_build(("kubectl",))["kubectl"]


def run(program: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A program's result."""
    return subprocess.run(  # noqa: S603 - helm or kubectl, on files of ours
        [program, *words], check=False, capture_output=True, text=True, timeout=120
    )


def rendered(helm: Path, values: object, *, namespace: str = NAMESPACE) -> Objects:
    """What `helm install` would send."""
    done = template(helm, values, namespace)
    assert done.returncode == 0, done.stderr
    return by_name(done.stdout)


def template(helm: Path, values: object, namespace: str) -> subprocess.CompletedProcess[str]:
    """Helm's own answer."""
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in dict(values).items()]  # type: ignore[call-overload]  # a mapping
    return run(helm, ["template", "release", str(CHART), f"--namespace={namespace}", *given])


def by_name(text: str) -> Objects:
    """Objects by kind and name; no two have the same."""
    documents = [each for each in yaml.safe_load_all(text) if each]
    found = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    assert len(found) == len(documents)
    return found


def without_helms(objects: Objects) -> Objects:
    """The same without what Helm's own objects bear."""
    for each in objects.values():
        labels = each["metadata"]["labels"]
        assert labels.keys() >= HELMS_LABELS
        for label in HELMS_LABELS:
            del labels[label]
        if each["kind"] == "CustomResourceDefinition":
            assert each["metadata"]["annotations"].pop(KEPT) == "keep"
            if not each["metadata"]["annotations"]:
                del each["metadata"]["annotations"]
    return objects


def configuration(name: str) -> str:
    """The configuration of a scheduler of the overlay with two."""
    path = OVERLAYS / "two-schedulers" / name / "configuration.yaml"
    return str(yaml.safe_load(path.read_text())["data"]["scheduler.yaml"])


@pytest.mark.parametrize(
    ("root", "values"),
    [
        (ROOT / "manifests", {}),
        (OVERLAYS / "monitoring", {"monitoring": True}),
        (OVERLAYS / "without-volumes", {"volumes": False}),
        (OVERLAYS / "without-devices", {"devices": False}),
        (OVERLAYS / "page", {"page": True}),
        (
            OVERLAYS / "history",
            {"schedulers": [{"name": "vscheduler", "history": {"enabled": True}}]},
        ),
        (
            OVERLAYS / "two-schedulers",
            {
                "schedulers": [
                    {"name": f"vscheduler-{name}", "configuration": configuration(name)}
                    for name in ("online", "offline")
                ]
            },
        ),
    ],
    ids=lambda given: given.name if isinstance(given, Path) else "",
)
def test_the_chart_installs_what_kustomize_installs(
    root: Path, values: Document, helm: Path, kubectl: Path
) -> None:
    """Except for the namespace, which `helm install --create-namespace` makes."""
    wanted = by_name(run(kubectl, ["kustomize", str(root)]).stdout)
    del wanted["Namespace", NAMESPACE]
    for (kind, _), each in wanted.items():
        if kind.startswith(POLICIES):  # kustomize takes their kind for one with namespaces
            each["metadata"].pop("namespace", None)
    found = without_helms(rendered(helm, values))
    assert found.keys() == wanted.keys()
    for key, each in wanted.items():
        assert found[key] == each, key


def test_policies_of_admission_are_those_of_the_manifests(helm: Path) -> None:
    """The optional ones as well; node names are left to each of the schedulers."""
    names = ["hierarchy-leaves", "namespaces", "node-names", "priority-classes"]
    schedulers = [{"name": "one"}, {"name": "vscheduler"}]
    chosen = {"enabled": True, "optional": names}
    found = without_helms(rendered(helm, {"admission": chosen, "schedulers": schedulers}))
    paths = [*ROOT.glob("manifests/admission/*.yaml"), *ROOT.glob("manifests/admission/*/*.yaml")]
    wanted = by_name("\n---\n".join(path.read_text() for path in paths))
    for key, each in wanted.items():
        if key != (POLICIES, "scheduler-names-nodes.vscheduler.io"):
            assert found[key] == each, key
    text = json.dumps(found[POLICIES, "scheduler-names-nodes.vscheduler.io"])
    assert "['one', 'vscheduler']" in text
    without = rendered(helm, {})
    assert not wanted.keys() & without.keys()


def test_a_scheduler_has_the_name_that_it_is_given(helm: Path) -> None:
    """In all its places, and nowhere is another; the policies know its account."""
    objects = rendered(helm, {"schedulers": [{"name": "gpu"}]}, namespace="elsewhere")
    deployment = objects["Deployment", "gpu"]
    pods = deployment["spec"]["template"]
    assert "--scheduler-name=gpu" in pods["spec"]["containers"][0]["args"]
    assert pods["spec"]["serviceAccountName"] == "gpu"
    assert pods["spec"]["volumes"][0]["configMap"]["name"] == "gpu"
    assert pods["metadata"]["labels"]["app.kubernetes.io/instance"] == "gpu"
    assert deployment["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/instance": "gpu"}
    assert objects["Role", "gpu"]["rules"][0]["resourceNames"] == ["gpu"]
    binding = objects["ClusterRoleBinding", "gpu"]
    assert binding["roleRef"]["name"] == "vscheduler-scheduler"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "gpu", "namespace": "elsewhere"}
    ]
    leases = objects["Role", "vscheduler-controllers"]["rules"][0]["resourceNames"]
    assert leases == ["gpu-podgroups", "vscheduler-controllers"]
    assert ("Deployment", "vscheduler") not in objects
    namespaces = {each["metadata"].get("namespace") for each in objects.values()}
    assert namespaces == {None, "elsewhere"}
    policies = [each for (kind, _), each in objects.items() if kind == POLICIES]
    assert len(policies) == 10
    for policy in policies:
        assert ":(vscheduler(-[a-z0-9.-]+)?|gpu)$" in json.dumps(policy)


def test_reviews_of_tokens_are_allowed_only_where_the_page_is(helm: Path) -> None:
    """To all schedulers, and never to the controllers."""
    asking = {"tokenreviews", "subjectaccessreviews"}
    schedulers = [{"name": "one"}, {"name": "vscheduler"}]
    for page in (False, True):
        objects = rendered(helm, {"page": page, "schedulers": schedulers})
        roles = {
            name
            for (kind, name), each in objects.items()
            if kind.endswith("Role")
            for rule in each["rules"]
            if asking & set(rule["resources"]) or "*" in rule["resources"]
        }
        assert roles == ({"vscheduler-page"} if page else set())
        served = {
            name
            for (kind, name), each in objects.items()
            if kind == "Deployment" and "--web-address" in json.dumps(each)
        }
        assert served == ({"one", "vscheduler"} if page else set())
    subjects = objects["ClusterRoleBinding", "vscheduler-page"]["subjects"]
    assert {subject["name"] for subject in subjects} == {"one", "vscheduler"}
    (role,) = [
        each
        for each in objects.values()
        if each["metadata"]["name"] == "vscheduler-page" and "rules" in each
    ]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"create"}


def test_pods_run_as_the_values_say(helm: Path) -> None:
    """Both halves alike; a half with one replica lets its node be drained."""
    where = {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    image = {
        "repository": "registry.example.com/v",
        "tag": "2",
        "pullPolicy": "Always",
        "pullSecrets": [{"name": "key"}],
    }
    half = {"replicas": 1, "args": ["--v=4"], "resources": {"requests": {"cpu": "2"}}}
    values = {
        **where,
        "image": image,
        "controllers": half,
        "schedulers": [{"name": "vscheduler", **half}],
        "podAnnotations": {"a": "b"},
    }
    objects = rendered(helm, values)
    for name in ("vscheduler", "vscheduler-controllers"):
        deployment = objects["Deployment", name]["spec"]
        assert deployment["replicas"] == 1
        assert deployment["template"]["metadata"]["annotations"] == {"a": "b"}
        spec = deployment["template"]["spec"]
        assert {key: spec[key] for key in where} == where
        assert spec["imagePullSecrets"] == image["pullSecrets"]
        (container,) = spec["containers"]
        assert container["image"] == "registry.example.com/v:2"
        assert container["imagePullPolicy"] == "Always"
        assert container["args"][-1] == "--v=4"
        assert container["resources"]["requests"] == {"cpu": "2", "memory": "256Mi"}
        assert objects["PodDisruptionBudget", name]["spec"]["minAvailable"] == 0


def test_history_can_be_in_the_volume_of_a_claim(helm: Path) -> None:
    """Of one of several schedulers; the others keep none."""
    kept = {"name": "one", "history": {"enabled": True, "claim": "past"}}
    objects = rendered(helm, {"schedulers": [kept, {"name": "two"}]})
    one, two = (objects["Deployment", name]["spec"]["template"]["spec"] for name in ("one", "two"))
    claim = {"name": "history", "persistentVolumeClaim": {"claimName": "past"}}
    assert one["volumes"][-1] == claim
    assert one["securityContext"]["fsGroup"] == 65532
    assert "history" not in json.dumps(two)


def test_parts_can_be_left_out(helm: Path) -> None:
    """CRDs that somebody else keeps, and the network policy, whose ports can be others."""
    kinds = {kind for kind, _ in rendered(helm, {"crds": {"install": False}})}
    assert "CustomResourceDefinition" not in kinds
    assert "NetworkPolicy" in kinds
    kinds = {kind for kind, _ in rendered(helm, {"networkPolicy": {"enabled": False}})}
    assert "CustomResourceDefinition" in kinds
    assert "NetworkPolicy" not in kinds
    found = rendered(helm, {"networkPolicy": {"apiServerPorts": [16443]}})
    egress = found["NetworkPolicy", "vscheduler"]["spec"]["egress"]
    assert egress[-1] == {"ports": [{"protocol": "TCP", "port": 16443}]}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"scheduler": {}}, "scheduler"),
        ({"schedulers": []}, "schedulers"),
        ({"schedulers": [{"name": "Not A Name"}]}, "schedulers/0/name"),
        ({"schedulers": [{"name": "vscheduler-controllers"}]}, "schedulers/0/name"),
        ({"schedulers": [{"configuration": ""}]}, "schedulers/0"),
        ({"controllers": {"replicas": 0}}, "controllers/replicas"),
        ({"image": {"pullPolicy": "Sometimes"}}, "image/pullPolicy"),
        ({"admission": {"optional": ["all"]}}, "admission/optional/0"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "networkPolicy/apiServerPorts/0"),
    ],
)
def test_wrong_values_are_refused_by_name(values: Document, told: str, helm: Path) -> None:
    """Before anything is sent."""
    done = template(helm, values, NAMESPACE)
    assert done.returncode != 0
    assert told in done.stderr


def test_two_schedulers_of_one_name_are_refused(helm: Path) -> None:
    """They would be one Deployment, which both describe."""
    done = template(helm, {"schedulers": [{"name": "one"}, {"name": "one"}]}, NAMESPACE)
    assert done.returncode != 0
    assert "values.yaml: schedulers: two have the name one" in done.stderr


def test_the_version_is_the_packages() -> None:
    """An image of this version is what the chart pulls."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    text = (ROOT / "pyproject.toml").read_text()
    assert f'\nversion = "{chart["version"]}"\n' in text
    assert chart["appVersion"] == chart["version"]


def test_the_chart_has_no_faults_for_helm(helm: Path) -> None:
    """Nor warnings."""
    done = run(helm, ["lint", "--strict", str(CHART)])
    assert done.returncode == 0, done.stdout
