"""Priorities of pods from PriorityClasses, as the API server fills them in."""

from typing import Any

import pytest

from tests import running
from vscheduler.simulator import admission, manifests, run
from vscheduler.simulator.manifests import Manifest
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    """A PriorityClass."""
    fields = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
    return {**fields, "metadata": {"name": name}, **more}


def pod(**spec: Any) -> dict[str, Any]:
    """A pod with these fields."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


POLICY = running.policy_of(
    {"actions": "allocate", "tiers": running.tiers("priority gang | predicates")}
)
HIGH = priority_class("high", 1000)
SHY = priority_class("shy", 500, preemptionPolicy="Never")
USUAL = priority_class("usual", 7, globalDefault=True)
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[Any, ...]]] = {
    "no class": ({}, [HIGH], (None, None, None)),
    "a class": ({"priorityClassName": "high"}, [HIGH], ("high", 1000, None)),
    "a policy": ({"priorityClassName": "shy"}, [SHY], ("shy", 500, "Never")),
    "a class of every cluster": (
        {"priorityClassName": "system-node-critical"},
        [],
        ("system-node-critical", 2_000_001_000, None),
    ),
    "the default": ({}, [HIGH, USUAL], ("usual", 7, None)),
    "the lower of two defaults": (
        {},
        [USUAL, priority_class("other", 3, globalDefault=True)],
        ("other", 3, None),
    ),
    "admitted before the class was changed": (
        {"priorityClassName": "high", "priority": 5, "preemptionPolicy": "PreemptLowerPriority"},
        [HIGH],
        ("high", 5, "PreemptLowerPriority"),
    ),
    "admitted before there was a default": ({"priority": 0}, [USUAL], (None, 0, None)),
    "its class is gone since": (
        {"priorityClassName": "gone", "priority": 5},
        [],
        ("gone", 5, None),
    ),
}


@pytest.mark.parametrize(("spec", "classes", "filled"), CASES.values(), ids=CASES)
def test_a_pod_has_what_its_class_says(
    spec: dict[str, Any], classes: list[dict[str, Any]], filled: tuple[Any, ...]
) -> None:
    """Name, value and policy; fields of a pod that has a priority stay."""
    documents = [pod(**spec), *classes]
    found = admission.with_priorities(
        manifests.collect(Manifest(tree=document) for document in documents).objects
    )
    (tree,) = (each.tree["spec"] for each in found.objects if each.kind == "Pod")
    assert found.unknown == []
    assert tuple(map(tree.get, ("priorityClassName", "priority", "preemptionPolicy"))) == filled


def test_a_pod_of_an_unknown_class_is_refused() -> None:
    """As by the API server, unless the input needn't have the classes of the cluster."""
    given = [pod(priorityClassName="hgih"), HIGH]
    said = "Pod default/p: spec.priorityClassName: no PriorityClass with name hgih was found"
    found = run.read(given, POLICY, Options())
    assert [str(problem) for problem in found.problems] == [said]
    assert not [each for each in found.objects if each.kind == "Pod"]
    found = run.read(given, POLICY, Options(unknown_classes=True))
    assert found.problems == []
    assert [each.name for each in found.objects if each.kind == "Pod"] == ["p"]


def test_priorities_of_classes_decide() -> None:
    """A PodGroup without a class has the priority of its pods, from their class."""
    documents = pictures.documents("node n1 cpu=1 queue q job q/a min=1 - job q/b min=1 -")
    for document in documents:
        if document["kind"] == "Pod":
            document["spec"].pop("priority", None)
            if document["metadata"]["name"] == "b-0":
                document["spec"]["priorityClassName"] = "high"
    outcome = run.simulate([*documents, HIGH], POLICY, Options())
    assert [bind.task.key for bind in outcome.binds] == ["default/b-0"]
