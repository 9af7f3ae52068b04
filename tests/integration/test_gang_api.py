"""A sandbox that serves Kubernetes' own gang API, whose components use it, and vscheduler beside
them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import contents, control_plane
from sandbox.client import PATCH_TYPES, Answer, Object
from sandbox.contents import NATIVE_COMPOSITES, NATIVE_POD_GROUPS, NATIVE_WORKLOADS
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import permissions
from tests.oracle.gang_api import cases, stage
from tests.oracle.gang_api.cases import Case
from vscheduler.mirror import paths

NAMESPACE = "default"
PODS = paths.PODS.within(NAMESPACE)
CONTAINERS = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
RACK = "example.com/rack"
QUEUE = "scheduling.volcano.sh/queue-name"
OPTIONAL = permissions.MANIFESTS / "admission" / "optional"
POLICIES = ("namespaces.yaml", "priority-classes.yaml")
HIGH = "/apis/scheduling.k8s.io/v1/priorityclasses/high"
REFUSED = {403, 422}


@pytest.fixture(scope="module")
def native() -> Iterator[ControlPlane]:
    """A control plane with the gang API, and a kube-scheduler that uses it."""
    with control_plane.start(with_scheduler=True, with_gang_api=True) as running:
        yield running


@pytest.fixture
def slate(native: ControlPlane) -> ControlPlane:
    """The same with two racks of two nodes, with a cpu each, and nothing else in it."""
    native.clean()
    for number, rack in enumerate("ab"):
        native.create_nodes(count=2, first=2 * number, cpu="1", labels={RACK: rack})
    return native


def a_group(name: str, minimum: int) -> Object:
    """A gang that wants to be in one rack."""
    spec = {
        "schedulingPolicy": {"gang": {"minCount": minimum}},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
    }
    return {"metadata": {"name": name}, "spec": spec}


def a_pod(name: str, group: str) -> Object:
    """A pod of a gang."""
    spec = {"schedulingGroup": {"podGroupName": group}, "containers": CONTAINERS}
    return {"metadata": {"name": name}, "spec": spec}


def verdict(group: Object) -> str | None:
    """Whether the group was scheduled, in kube-scheduler's words; None while it hasn't said."""
    conditions = group.get("status", {}).get("conditions", ())
    found = (each for each in conditions if each["type"] == "PodGroupInitiallyScheduled")
    return next((each["status"] for each in found), None)


def nodes_of(plane: ControlPlane) -> list[str | None]:
    """The node of each pod, in the pods' order."""
    return [each["spec"].get("nodeName") for each in plane.api.list(PODS)]


def test_kube_scheduler_starts_a_pod_group_in_one_rack(slate: ControlPlane) -> None:
    """Two pods get the two nodes of a rack; three don't fit into one, and none of them starts."""
    for size in (3, 2):
        name = f"of-{size}"
        slate.api.create(NATIVE_POD_GROUPS.within(NAMESPACE), a_group(name, size))
        pods = [a_pod(f"{name}-{number}", name) for number in range(size)]
        slate.api.create_all(PODS, pods)
        path = NATIVE_POD_GROUPS.at(name, NAMESPACE)
        seen = slate.api.wait_for(path, lambda seen: verdict(seen) is not None)
        assert verdict(seen) == str(size == 2)
    placed = nodes_of(slate)
    assert set(placed[:2]) in ({"node-0", "node-1"}, {"node-2", "node-3"})
    assert placed[2:] == [None] * 3


def test_job_controller_makes_the_pod_group_of_a_job(slate: ControlPlane) -> None:
    """A Job that asks for a gang gets a PodGroup of its parallelism, and its pods are bound."""
    template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}
    spec = {
        "parallelism": 2,
        "completions": 2,
        "completionMode": "Indexed",
        "scheduling": {"schedulingPolicy": {"gang": {}}},
        "template": template,
    }
    slate.api.create(paths.JOBS.within(NAMESPACE), {"metadata": {"name": "train"}, "spec": spec})
    slate.api.wait_for(
        paths.JOBS.at("train", NAMESPACE), lambda seen: seen["status"].get("ready") == 2
    )
    (group,) = slate.api.list(NATIVE_POD_GROUPS.within(NAMESPACE))
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert verdict(group) == "True"
    joined = {each["spec"]["schedulingGroup"]["podGroupName"] for each in slate.api.list(PODS)}
    assert joined == {group["metadata"]["name"]}


@pytest.fixture
def policies(slate: ControlPlane) -> Iterator[None]:
    """What limits tenants to their queues and priorities; namespace `team` may use no class."""
    slate.create_namespace("team")
    none = {"metadata": {"annotations": {"vscheduler.io/priority-classes": ""}}}
    slate.api.patch("/api/v1/namespaces/team", none)
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 9}
    slate.api.apply(HIGH, {**high, "metadata": {"name": "high"}})
    for file in POLICIES:
        slate.run_kubectl("apply", f"--filename={OPTIONAL / file}")
    slate.api.create(NATIVE_POD_GROUPS.within(NAMESPACE), a_group("first", 1))
    patched(slate, "first", "labels", "vision")
    patience.wait_until(
        lambda: (
            patched(slate, "first", "labels", None, dryRun="All").status in REFUSED
            and urgent(slate, "team", dryRun="All").status in REFUSED
        )
    )
    yield
    for file in POLICIES:
        slate.run_kubectl("delete", f"--filename={OPTIONAL / file}")
    slate.api.delete(HIGH)


def patched(plane: ControlPlane, name: str, place: str, queue: str | None, **query: str) -> Answer:
    """What comes of writing a group's queue into its annotations or labels."""
    body = {"metadata": {place: {QUEUE: queue, "own": str(queue)}}}
    path, merge = NATIVE_POD_GROUPS.at(name, NAMESPACE), {"content-type": PATCH_TYPES["merge"]}
    return plane.api.ask("PATCH", path, body, query=query, headers=merge)


def urgent(plane: ControlPlane, namespace: str, **query: str) -> Answer:
    """What comes of a group with a class in a namespace."""
    spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": "high"}
    body = {"metadata": {"name": "urgent"}, "spec": spec}
    return plane.api.ask("POST", NATIVE_POD_GROUPS.within(namespace), body, query=query)


@pytest.mark.usefixtures("policies")
@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_policies_are_about_its_pod_groups_too(slate: ControlPlane, place: str) -> None:
    """A group may get a queue later, which it keeps; its class must be one of the namespace's."""
    slate.api.create(NATIVE_POD_GROUPS.within(NAMESPACE), a_group("g", 1))
    for queue, told in (("vision", ""), ("vision", ""), ("speech", "speech"), (None, "none")):
        answer = patched(slate, "g", place, queue)
        refusal = f"it is in queue vision and can't be moved to {told}; delete it"
        assert (refusal in answer.message) is bool(told), answer.text
    assert "PriorityClass high is not for namespace team" in urgent(slate, "team").message
    assert urgent(slate, NAMESPACE).status == 201


def test_clean_slate_has_none_of_its_objects(slate: ControlPlane) -> None:
    """Whatever protects them, cleaning deletes groups, groups of groups and their templates."""
    templates = [{"name": "part", "schedulingPolicy": {"basic": {}}}]
    tree = [{"name": "whole", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": templates}]
    head = {"apiVersion": NATIVE_COMPOSITES.api_version, "kind": "Workload"}
    workload = {**head, "metadata": {"name": "w"}, "spec": {"compositePodGroupTemplates": tree}}
    slate.run_kubectl("create", "--filename=-", text=str(workload))
    composite = {
        "metadata": {"name": "whole"},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "whole"},
            "schedulingPolicy": {"basic": {}},
        },
    }
    slate.api.create(NATIVE_COMPOSITES.within(NAMESPACE), composite)
    slate.api.create(NATIVE_POD_GROUPS.within(NAMESPACE), a_group("alone", 1))
    for collection in contents.NATIVE:
        assert slate.api.list(collection.everywhere), collection.plural
    slate.clean()
    for collection in contents.NATIVE:
        assert slate.api.list(collection.everywhere) == [], collection.plural


def test_other_sandboxes_serve_none_of_it(plane: ControlPlane) -> None:
    """As in most clusters, only priority classes are in that group."""
    for collection in (NATIVE_POD_GROUPS, NATIVE_COMPOSITES, NATIVE_WORKLOADS):
        assert plane.api.ask("GET", collection.everywhere).status == 404


IN_SHORT = "a Job of 3; two indexes succeed, and the third fails"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, id=each.title, marks=[pytest.mark.at_length] * (each.title != IN_SHORT))
        for each in cases.CASES
    ],
)
def test_both_schedulers_do_what_the_page_says(
    native: ControlPlane, tmp_path: Path, case: Case
) -> None:
    """The same objects, once under kube-scheduler's gang scheduling, once under vscheduler."""
    quiet_seconds = 2.0 if case.title == IN_SHORT else cases.QUIET_SECONDS
    with stage.acting(native, tmp_path) as fresh:
        for scheduler in stage.SCHEDULERS:
            seen = case.run(fresh(scheduler), quiet_seconds=quiet_seconds)
            assert seen == list(case.expected(scheduler)), scheduler
