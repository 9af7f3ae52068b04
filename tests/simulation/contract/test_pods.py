"""Pods: what admission adds and refuses, and bindings."""

from typing import Any

import pytest

from tests.simulation.contract.sides import Case
from vscheduler.mirror import paths


def scheduled(pod: dict[str, Any]) -> dict[str, Any]:
    """The condition PodScheduled."""
    conditions = pod["status"].get("conditions", ())
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})


def test_a_new_pod_is_complete(case: Case) -> None:
    """With the defaults that schedulers rely on."""
    body = case.pod("a")
    del body["spec"]["schedulerName"]
    pod = case.api.create(case.pods, {**body, "status": {"phase": "Running"}})
    spec = pod["spec"]
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["containers"][0]["resources"] == {}


def test_a_new_pod_bears_with_nodes_for_a_while(case: Case) -> None:
    """Five minutes."""
    tolerations = case.create_pod("a")["spec"]["tolerations"]
    assert {toleration["key"]: toleration["tolerationSeconds"] for toleration in tolerations} == {
        "node.kubernetes.io/not-ready": 300,
        "node.kubernetes.io/unreachable": 300,
    }


def test_limits_are_requests_by_default(case: Case) -> None:
    """And decide on the class of the pod."""
    resources = {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"memory": "1Gi"}}
    container = {"name": "main", "image": "none", "resources": resources}
    pod = case.create_pod("a", containers=[container])
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert pod["status"]["qosClass"] == "Guaranteed"


def test_requests_alone_are_burstable(case: Case) -> None:
    """The class between the others."""
    resources = {"requests": {"cpu": "100m"}}
    container = {"name": "main", "image": "none", "resources": resources}
    assert case.create_pod("a", containers=[container])["status"]["qosClass"] == "Burstable"


def test_a_priority_class_decides_on_the_priority(case: Case) -> None:
    """And on whether the pod preempts."""
    name = case.name("high")
    case.api.create(
        paths.PRIORITY_CLASSES.everywhere,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 7,
            "preemptionPolicy": "Never",
        },
    )
    spec = case.create_pod("a", priorityClassName=name)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    case.api.delete(paths.PRIORITY_CLASSES.at(name))


def test_the_value_of_a_priority_class_stays(case: Case) -> None:
    """422."""
    path = paths.PRIORITY_CLASSES.at(case.name("c"))
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": case.name("c")},
        "value": 7,
    }
    case.api.create(paths.PRIORITY_CLASSES.everywhere, body)
    assert case.patch(path, {"value": 8}).status == 422
    case.api.delete(path)


def test_priority_classes_of_the_system(case: Case) -> None:
    """They are there from the start."""
    found = case.api.get(paths.PRIORITY_CLASSES.at("system-node-critical"))
    assert found["value"] == 2_000_001_000


def test_an_unknown_priority_class_is_refused(case: Case) -> None:
    """403."""
    answer = case.ask("POST", case.pods, case.pod("a", priorityClassName="none"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == 'pods "a" is forbidden: no PriorityClass with name none was found'


def test_nobody_chooses_a_priority_by_number(case: Case) -> None:
    """403."""
    answer = case.ask("POST", case.pods, case.pod("a", priority=5))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize("cpu", ["4x", "", "one"])
def test_what_is_no_quantity_is_refused(case: Case, cpu: str) -> None:
    """400."""
    container = {"name": "m", "image": "n", "resources": {"requests": {"cpu": cpu}}}
    assert case.ask("POST", case.pods, case.pod("a", containers=[container])).status == 400


def test_a_negative_request_is_refused(case: Case) -> None:
    """422 with the field."""
    container = {"name": "m", "image": "n", "resources": {"requests": {"cpu": "-1"}}}
    answer = case.ask("POST", case.pods, case.pod("a", containers=[container]))
    assert answer.status == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == "spec.containers[0].resources.requests[cpu]"


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "x" * 254])
def test_names_are_checked(case: Case, name: str) -> None:
    """422."""
    assert case.ask("POST", case.pods, case.pod(name)).status == 422


def test_a_name_can_be_generated(case: Case) -> None:
    """From a prefix."""
    body = case.pod("")
    body["metadata"]["generateName"] = "made-"
    names = {case.api.create(case.pods, body)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


def test_a_name_is_needed(case: Case) -> None:
    """422 without any."""
    answer = case.ask("POST", case.pods, case.pod(""))
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_the_spec_of_a_pod_stays(case: Case) -> None:
    """422, a node's name included: that is what bindings are for."""
    case.create_pod("a")
    for change in ({"nodeName": "n"}, {"schedulerName": "other"}, {"priority": 3}):
        assert case.patch(case.at("a"), {"spec": change}).status == 422
    assert case.patch(case.at("a"), {"spec": {"nodeName": 5}}).status in (400, 422)


def test_gates_can_be_taken_away(case: Case) -> None:
    """Not added; the condition says that the pod is gated."""
    pod = case.create_pod("a", schedulingGates=[{"name": "tests/gate"}])
    assert scheduled(pod)["reason"] == "SchedulingGated"
    more = [{"name": "tests/gate"}, {"name": "tests/more"}]
    assert case.patch(case.at("a"), {"spec": {"schedulingGates": more}}).status == 422
    assert case.patch(case.at("a"), {"spec": {"schedulingGates": None}}).status == 200


def test_a_binding_sets_the_node(case: Case) -> None:
    """And the condition PodScheduled; the generation stays."""
    made = case.create_pod("a")
    answer = case.bind("a", "somewhere", uid=made["metadata"]["uid"])
    assert (answer.status, answer.body["status"]) == (201, "Success")
    pod = case.api.get(case.at("a"))
    assert pod["spec"]["nodeName"] == "somewhere"
    assert scheduled(pod)["status"] == "True"
    assert "lastTransitionTime" in scheduled(pod)
    assert pod["metadata"]["generation"] == 1


def test_a_binding_replaces_the_condition(case: Case) -> None:
    """Of a pod that was unschedulable."""
    case.create_pod("a")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    path = f"{case.at('a')}/status"
    case.api.patch(path, {"status": {"conditions": [condition]}}, kind="strategic")
    case.bind("a")
    found = scheduled(case.api.get(case.at("a")))
    assert (found["status"], found.get("reason", "")) == ("True", "")


def test_annotations_and_labels_of_a_binding_go_to_the_pod(case: Case) -> None:
    """Over the ones that the pod has."""
    body = case.pod("a")
    body["metadata"]["labels"] = {"mine": "1", "old": "1"}
    case.api.create(case.pods, body)
    case.bind("a", annotations={"tests/by": "me"}, labels={"mine": "2", "new": "3"})
    found = case.api.get(case.at("a"))["metadata"]
    assert found["annotations"]["tests/by"] == "me"
    assert found["labels"] == {"mine": "2", "old": "1", "new": "3"}


def test_a_pod_is_bound_once(case: Case) -> None:
    """409, even to the same node."""
    case.create_pod("a")
    case.bind("a", "one")
    for node in ("one", "two"):
        answer = case.bind("a", node)
        assert (answer.status, answer.body["reason"]) == (409, "Conflict")
        assert 'already assigned to node "one"' in answer.message


def test_a_binding_of_another_pod_is_refused(case: Case) -> None:
    """409 for another UID."""
    case.create_pod("a")
    answer = case.bind("a", uid="another")
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert "nodeName" not in case.api.get(case.at("a"))["spec"]


def test_a_missing_pod_is_not_bound(case: Case) -> None:
    """404."""
    answer = case.bind("none")
    assert (answer.status, answer.message) == (404, 'pods "none" not found')


def test_a_gated_pod_is_not_bound(case: Case) -> None:
    """409."""
    case.create_pod("a", schedulingGates=[{"name": "tests/gate"}])
    answer = case.bind("a")
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_a_pod_that_is_being_deleted_is_not_bound(case: Case) -> None:
    """409."""
    case.create_pod("a")
    case.api.patch(case.at("a"), {"metadata": {"finalizers": ["tests/wait"]}})
    case.api.delete(case.at("a"))
    answer = case.bind("a")
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert "is being deleted" in answer.message
    case.api.patch(case.at("a"), {"metadata": {"finalizers": None}})


def test_a_binding_needs_a_node(case: Case) -> None:
    """500, as the API server answers it; the node needn't exist."""
    case.create_pod("a")
    assert case.bind("a", "").status == 500
    assert case.bind("a", "that-is-nowhere").status == 201


def test_a_dry_run_stores_nothing(case: Case) -> None:
    """But is checked."""
    answer = case.ask("POST", case.pods, case.pod("a"), query={"dryRun": "All"})
    assert (answer.status, answer.body["metadata"]["name"]) == (201, "a")
    assert case.api.find(case.at("a")) is None


def test_a_new_node_is_not_ready(case: Case) -> None:
    """It has a taint; what it can hold is what it has."""
    path = paths.NODES.at(case.name("n"))
    node = case.api.create(
        paths.NODES.everywhere,
        {
            "metadata": {
                "name": case.name("n"),
                "annotations": {"vscheduler.sandbox/unmanaged": "true"},
            },
            "status": {"capacity": {"cpu": "3"}},
        },
    )
    assert [each["key"] for each in node["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
    assert node["status"]["allocatable"] == {"cpu": "3"}
    assert "generation" not in node["metadata"]
    new = case.api.patch(path, {"spec": {"unschedulable": True}, "status": {"capacity": None}})
    assert new["spec"]["unschedulable"] is True
    assert new["status"]["capacity"] == {"cpu": "3"}
    case.api.delete(path)
