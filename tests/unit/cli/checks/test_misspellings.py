"""Keys that are nearly those that are read: slips are found, and nothing that Kubernetes knows."""

import re
from typing import Any

import pytest
from kubernetes import client

from vscheduler.cli.checks import misspellings

GROUP = "scheduling.k8s.io/group-name"


def _whole(kind: str, depth: int = 9) -> Any:
    """A value of this type of the API, with all its fields."""
    listed = re.fullmatch(r"list\[(.*)\]", kind)
    if listed:
        return [_whole(listed[1], depth)]
    model = getattr(client, kind, None)
    if model is None or not hasattr(model, "attribute_map") or not depth:
        return {} if kind.startswith("dict") else "x"
    return {
        key: _whole(model.openapi_types[name], depth - 1)
        for name, key in model.attribute_map.items()
    }


@pytest.mark.parametrize("kind", ["V1PodSpec", "V1PodTemplateSpec"])
def test_no_field_of_kubernetes_is_a_slip(kind: str) -> None:
    """Many fields that the scheduler doesn't read are like some that it reads."""
    tree = _whole(kind)
    assert "containers" in tree.get("spec", tree)
    spec = tree.get("spec", tree)
    assert list(misspellings.of_pod_spec(spec, ("spec",))) == []


@pytest.mark.parametrize(
    "kind",
    [
        *("V1DeploymentSpec", "V1StatefulSetSpec", "V1JobSpec", "V1CronJobSpec"),
        *("V1DaemonSetSpec", "V1ReplicaSetSpec"),
    ],
)
def test_no_field_of_a_controller_is_a_slip(kind: str) -> None:
    """Nor are fields of what creates pods."""
    assert list(misspellings.of_spec({"spec": _whole(kind, 1)})) == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("scheduling.k8s.io/group-nam", GROUP),
        ("scheduling.k8s.io/gruop-name", GROUP),
        ("schedulling.k8s.io/group-name", GROUP),
        ("volcano.sh/task-specs", "volcano.sh/task-spec"),
        ("volcano.sh/group-min-member", "scheduling.volcano.sh/group-min-member"),
        ("scheduling.volcano.sh/preemptable", "volcano.sh/preemptable"),
        ("vscheduler.io/namespace", "vscheduler.io/namespaces"),
        *((known, "") for known in sorted(misspellings.KEYS)),
        ("example.com/group-name", ""),
        ("volcano.sh/gpu-index", ""),
        ("app.kubernetes.io/name", ""),
        ("team", ""),
    ],
)
@pytest.mark.parametrize("part", misspellings.METADATA)
def test_annotations_and_labels(part: str, key: str, meant: str) -> None:
    """Up to two characters, or another domain of ours or of Volcano."""
    found = list(misspellings.of_metadata({"metadata": {part: {key: "1s"}}}, ("spec", "template")))
    message = f"nothing reads this {part[:-1]}; did you mean {meant}?"
    path = ("spec", "template", "metadata", part, key)
    assert found == ([(path, message)] if meant else [])


@pytest.mark.parametrize(
    ("spec", "path", "meant"),
    [
        (
            {"containers": [{"resources": {"request": {}}}]},
            "containers 0 resources request",
            "requests",
        ),
        ({"containers": [{"resource": {}}]}, "containers 0 resource", "resources"),
        ({"nodeselector": {}}, "nodeselector", "nodeSelector"),
        ({"tolerations": [{"efect": "x"}]}, "tolerations 0 efect", "effect"),
        ({"container": []}, "container", "containers"),
        ({"resources": {"limits": {"cpus": 1}}}, "resources limits cpus", "cpu"),
        ({"overhead": {"memroy": 1}}, "overhead memroy", "memory"),
        ({"overhead": {"CPU": 1}}, "overhead CPU", "cpu"),
        ({"overhead": {"nvidia.com/gpus": 1}}, "overhead nvidia.com/gpus", "nvidia.com/gpu"),
    ],
)
def test_fields_of_pods(spec: dict[str, Any], path: str, meant: str) -> None:
    """They are found wherever the scheduler reads, with what may be meant."""
    ((where, message),) = misspellings.of_pod_spec(spec, ())
    assert " ".join(map(str, where)) == path
    assert message.endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize(
    "spec", [None, 5, [], {"containers": 5}, {"containers": [None, {"ports": {}}]}]
)
def test_values_of_wrong_types_are_left_to_others(spec: object) -> None:
    """The API server refuses them."""
    assert list(misspellings.of_pod_spec(spec, ())) == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [("ab", ""), ("replica", "replicas"), ("tsaks", "tasks"), ("minAvaliable", "minAvailable")],
)
def test_short_keys_must_be_closer(key: str, meant: str) -> None:
    """Two characters of five would be another word; neighbours that change places count once."""
    assert misspellings.nearest(key, misspellings.SPEC_KEYS) == meant
