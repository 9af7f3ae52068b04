"""Jobs with `spec.scheduling` under vscheduler: queues, fair shares and reclaim for the PodGroups
that the Job controller makes.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import control_plane
from sandbox.client import PATCH_TYPES, Client, Object
from sandbox.contents import NATIVE_COMPOSITES, NATIVE_POD_GROUPS, NATIVE_WORKLOADS
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, devices, permissions
from tests.integration.daemons import ALONE, Daemon
from vscheduler.mirror import paths

NAMESPACE = "default"
QUEUE = "scheduling.volcano.sh/queue-name"
JOBS, PODS = paths.JOBS.within(NAMESPACE), paths.PODS.within(NAMESPACE)
GROUPS = NATIVE_POD_GROUPS.within(NAMESPACE)
LIVING = ("Pending", "Running")


@pytest.fixture(scope="module")
def native() -> Iterator[ControlPlane]:
    """A control plane that serves Kubernetes' own gang API, without kube-scheduler."""
    with control_plane.start(with_gang_api=True) as running:
        yield running


@pytest.fixture(scope="module")
def account(native: ControlPlane) -> Path:
    """Of a service account with the shipped roles and nothing else."""
    return permissions.permit_account(native, permissions.TESTED, "vscheduler")


@pytest.fixture
def daemon(native: ControlPlane, account: Path, tmp_path: Path) -> Iterator[Daemon]:
    """A scheduler on a clean control plane; it ends with the test."""
    native.clean()
    running = Daemon(account, tmp_path / "log", ALONE)
    yield running
    running.kill()
    assert running.said("work.failed") == []


def a_job(name: str, queue: str, pods: int, scheduling: Object, **annotations: str) -> Object:
    """A Job of a gang of pods with one cpu each, which names its queue itself."""
    requests = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}]}
    spec = {"schedulerName": "vscheduler", "restartPolicy": "Never", **requests}
    return {
        "metadata": {"name": name, "annotations": {QUEUE: queue}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": 1000,
            "scheduling": scheduling,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


def placed(plane: ControlPlane) -> Counter[str]:
    """How many pods of each Job have a node and haven't ended."""
    return Counter(
        each["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        for each in plane.api.list(PODS)
        if each["spec"].get("nodeName")
        and each["status"]["phase"] in LIVING
        and "deletionTimestamp" not in each["metadata"]
    )


def by_queue(plane: ControlPlane) -> dict[str, int]:
    """The same by queue, which is the first letter of the Job's name."""
    found: Counter[str] = Counter()
    for job, pods in placed(plane).items():
        found[job[0]] += pods
    return dict(found)


def conditions(group: Object) -> dict[str, tuple[str, str]]:
    """Status and reason of a PodGroup's conditions by type."""
    found = group.get("status", {}).get("conditions", ())
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def group_of(plane: ControlPlane, job: str) -> Object:
    """The PodGroup that the Job controller has made for a Job."""
    (found,) = (
        each
        for each in plane.api.list(GROUPS)
        if each["metadata"]["ownerReferences"][0]["name"] == job
    )
    return found


@pytest.mark.parametrize(
    "mode", [pytest.param("single", marks=pytest.mark.at_length), pytest.param("all")]
)
def test_three_queues_share_fairly(native: ControlPlane, daemon: Daemon, mode: str) -> None:
    """25/25/25, after one of them has had all; gangs that go whole do, and none is partial."""
    native.create_nodes(count=5, cpu="15", memory="64Gi")
    for queue in "abc":
        head = {"apiVersion": paths.VOLCANO, "kind": "Queue"}
        native.api.create(paths.QUEUES.everywhere, {**head, "metadata": {"name": queue}})
    minimum = 5 if mode == "all" else 1
    scheduling: Object = {
        "schedulingPolicy": {"gang": {"minCount": minimum}},
        "disruptionMode": {mode: {}},
    }
    for queue, jobs in (("a", 15), ("b", 6), ("c", 6)):
        if queue == "b":
            daemons.until(lambda: by_queue(native) == {"a": 75}, daemon)
        each = [a_job(f"{queue}{number}", queue, 5, scheduling) for number in range(jobs)]
        native.api.create_all(JOBS, each)
    daemons.until(lambda: by_queue(native) == {"a": 25, "b": 25, "c": 25}, daemon)
    daemons.until_at_rest(lambda: by_queue(native), daemon, 2.0)
    assert by_queue(native) == {"a": 25, "b": 25, "c": 25}
    if mode == "all":
        assert set(placed(native).values()) == {5}
        evicted = {
            each["metadata"]["ownerReferences"][0]["name"]
            for each in native.api.list(GROUPS)
            if conditions(each).get("DisruptionTarget", ("", ""))[0] == "True"
        }
        gone = {f"a{number}" for number in range(15)} - placed(native).keys()
        assert len(gone) == 10
        assert gone <= evicted  # and one of b, if it had 30 before c came


def test_a_job_finishes_though_a_pod_fails_after_another_completed(
    native: ControlPlane, daemon: Daemon
) -> None:
    """kube-scheduler leaves the replacement waiting: the pods that are done don't count there."""
    native.create_nodes(count=1, cpu="3", memory="64Gi")
    unmanaged: dict[str, Any] = {"vscheduler.sandbox/unmanaged": "true"}
    scheduling: Object = {"schedulingPolicy": {"gang": {}}}
    native.api.create(JOBS, a_job("train", "default", 3, scheduling, **unmanaged))

    def end(index: int, phase: str) -> None:
        (pod,) = (
            each
            for each in native.api.list(PODS)
            if each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(index)
            and each["status"]["phase"] in LIVING
            and each["spec"].get("nodeName")
        )
        path = paths.PODS.status(pod["metadata"]["name"], NAMESPACE)
        native.api.patch(path, {"status": {"phase": phase}})

    daemons.until(lambda: placed(native) == {"train": 3}, daemon)
    for index in (0, 1):
        end(index, "Succeeded")
    end(2, "Failed")
    daemons.until(lambda: placed(native) == {"train": 1}, daemon)
    end(2, "Succeeded")
    native.api.wait_for(
        paths.JOBS.at("train", NAMESPACE), lambda job: job["status"].get("succeeded") == 3
    )
    group = group_of(native, "train")
    assert conditions(group)["PodGroupInitiallyScheduled"] == ("True", "Scheduled")


def test_a_gang_below_its_minimum_waits_until_it_is_lowered(
    native: ControlPlane, daemon: Daemon
) -> None:
    """Of five, three fit; minCount is the one field that may change."""
    native.create_nodes(count=1, cpu="3", memory="64Gi")
    native.api.create(JOBS, a_job("train", "default", 5, {"schedulingPolicy": {"gang": {}}}))
    said = ("False", "Unschedulable")
    daemons.until(
        lambda: (
            native.api.list(GROUPS)
            and conditions(group_of(native, "train")).get("PodGroupInitiallyScheduled") == said
        ),
        daemon,
    )
    assert placed(native) == {}
    lowered = {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 3}}}}}
    native.api.patch(paths.JOBS.at("train", NAMESPACE), lowered)
    daemons.until(lambda: placed(native) == {"train": 3}, daemon)


TEMPLATE = "scheduling.k8s.io/group-template-name"
VERSION = "jobset.x-k8s.io/v1alpha2"
JOB_SETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobsets.jobset.x-k8s.io"},
    "spec": {
        "group": "jobset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "jobsets", "singular": "jobset", "kind": "JobSet"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def test_the_jobs_of_a_job_set_are_gangs_of_their_own(native: ControlPlane, daemon: Daemon) -> None:
    """Its controller makes a Workload, and lets the Job controller make PodGroups of templates."""
    native.create_nodes(count=1, cpu="3", memory="64Gi")
    native.api.create(paths.DEFINITIONS.everywhere, JOB_SETS)
    native.api.wait_for(
        paths.DEFINITIONS.at("jobsets.jobset.x-k8s.io"),
        lambda seen: any(
            each["type"] == "Established" and each["status"] == "True"
            for each in seen.get("status", {}).get("conditions") or ()
        ),
    )
    job_set = native.api.create(
        f"/apis/{VERSION}/namespaces/{NAMESPACE}/jobsets",
        {"apiVersion": VERSION, "kind": "JobSet", "metadata": {"name": "train"}},
    )
    owner = {
        "apiVersion": VERSION,
        "kind": "JobSet",
        "name": "train",
        "uid": job_set["metadata"]["uid"],
        "controller": True,
    }
    sizes = {"train-driver-0": 1, "train-workers-0": 4, "train-workers-1": 2}
    templates = [
        {"name": name, "schedulingPolicy": {"gang": {"minCount": pods}}}
        for name, pods in sizes.items()
    ]
    controller = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "train"}
    workload = {
        "metadata": {"name": "train"},
        "spec": {"controllerRef": controller, "podGroupTemplates": templates},
    }
    native.api.create(NATIVE_WORKLOADS.within(NAMESPACE), workload)
    for name, pods in sizes.items():
        job = a_job(name, "default", pods, {"schedulingPolicy": {"gang": {}}})
        job["metadata"]["ownerReferences"] = [owner]
        job["metadata"]["annotations"][TEMPLATE] = name
        native.api.create(JOBS, job)
    daemons.until(lambda: placed(native) == {"train-driver-0": 1, "train-workers-1": 2}, daemon)
    native.create_nodes(count=1, first=1, cpu="4", memory="64Gi")
    daemons.until(lambda: placed(native)["train-workers-0"] == 4, daemon)


def pods_of(group: str, pods: int, **more: Any) -> list[Object]:
    """So many pods of a PodGroup, with one cpu each."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    spec = {
        "schedulerName": "vscheduler",
        "schedulingGroup": {"podGroupName": group},
        "containers": containers,
        **more,
    }
    return [{"metadata": {"name": f"{group}-{number}"}, "spec": spec} for number in range(pods)]


def started(plane: ControlPlane) -> set[str]:
    """The pods that have a node."""
    return {
        each["metadata"]["name"] for each in plane.api.list(PODS) if each["spec"].get("nodeName")
    }


def test_a_tree_of_pod_groups_starts_whole(native: ControlPlane, daemon: Daemon) -> None:
    """Two groups of two need four cpus; root and groups are told, once and for all. The root gets
    the queue that its groups name. A group that then loses a pod is Unknown until that is replaced.
    """
    native.create_nodes(count=1, cpu="3", memory="64Gi")
    of = {"workloadName": "w", "templateName": "t"}
    root = {
        "metadata": {"name": "tree"},
        "spec": {"workloadRef": of, "schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }
    native.api.create(NATIVE_COMPOSITES.within(NAMESPACE), root)
    for name in "ab":
        spec = {
            "workloadRef": of,
            "parentCompositePodGroupName": "tree",
            "schedulingPolicy": {"gang": {"minCount": 2}},
        }
        metadata = {"name": name, "annotations": {QUEUE: "default"}}
        native.api.create(GROUPS, {"metadata": metadata, "spec": spec})
        native.api.create_all(PODS, pods_of(name, 2))
    path = NATIVE_COMPOSITES.at("tree", NAMESPACE)
    kind = "CompositePodGroupInitiallyScheduled"

    def told() -> list[tuple[str, str]]:
        """What the root and its groups say."""
        groups = map(conditions, native.api.list(GROUPS))
        parts = [each.get("PodGroupInitiallyScheduled", ("", "")) for each in groups]
        return [conditions(native.api.get(path)).get(kind, ("", "")), *parts]

    daemons.until(lambda: told() == [("False", "Unschedulable")] * 3, daemon)
    assert started(native) == set()
    native.create_nodes(count=1, first=1, cpu="1", memory="64Gi")
    daemons.until(lambda: told() == [("True", "Scheduled")] * 3, daemon)
    assert started(native) == {"a-0", "a-1", "b-0", "b-1"}
    native.api.wait_for(
        path, lambda seen: seen["metadata"].get("annotations", {}).get(QUEUE) == "default"
    )

    def phases() -> list[str]:
        """The phases of the groups."""
        return [conditions(each)["vscheduler.io/Phase"][1] for each in native.api.list(GROUPS)]

    native.api.delete(f"{PODS}/a-0", gracePeriodSeconds=0)
    daemons.until(lambda: phases() == ["Unknown", "Running"], daemon)
    native.api.create_all(PODS, pods_of("a", 1))
    daemons.until(lambda: phases() == ["Running", "Running"], daemon)


def test_the_pods_of_a_group_share_a_claim(native: ControlPlane, daemon: Daemon) -> None:
    """Kubernetes makes it of a template, and takes it back only with the group."""
    native.create_nodes(count=2, cpu="4", memory="64Gi")
    devices.publish(native.api, ("node-0", "node-1"), 1)
    devices.a_template(native.api, "one", devices.asked(1))
    entry = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, "resourceClaims": entry}
    native.api.create(GROUPS, {"metadata": {"name": "g"}, "spec": spec})
    native.api.create_all(PODS, pods_of("g", 3, resourceClaims=entry))
    daemons.until(lambda: len(started(native)) == 3, daemon)
    (claim,) = native.api.list(devices.CLAIMS)
    (consumer,) = claim["status"]["reservedFor"]
    assert (consumer["apiGroup"], consumer["resource"]) == ("scheduling.k8s.io", "podgroups")
    assert len({each["spec"]["nodeName"] for each in native.api.list(PODS)}) == 1
    native.api.delete(PODS, gracePeriodSeconds=0)
    (claim,) = native.api.list(devices.CLAIMS)
    assert claim["status"]["reservedFor"] == [consumer]
    native.api.delete(paths.NATIVE_POD_GROUPS.at("g", NAMESPACE))
    daemons.until(lambda: native.api.list(devices.CLAIMS) == [], daemon)


def test_devices_are_taken_back_from_a_group_that_has_no_pod_with_a_node(
    native: ControlPlane, daemon: Daemon
) -> None:
    """Their node is gone before the first bind. The policies let that through, and nothing more."""
    policies = permissions.MANIFESTS / "cluster" / "device-policies.yaml"
    native.run_kubectl("apply", "-f", str(policies))
    native.create_nodes(count=1, cpu="4", memory="64Gi")
    devices.publish(native.api, ("node-0",), 1)
    devices.a_claim(native.api, "shared", devices.asked(1))
    entry = [{"name": "gpu", "resourceClaimName": "shared"}]
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": entry}
    made = native.api.create(GROUPS, {"metadata": {"name": "g"}, "spec": spec})
    lost = {"request": "gpus", "driver": devices.DRIVER, "pool": "gone", "device": "gpu-0"}
    of_node = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    selector = {"nodeSelectorTerms": [{"matchFields": [of_node]}]}
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g"}
    status = {
        "allocation": {"devices": {"results": [lost]}, "nodeSelector": selector},
        "reservedFor": [{**group, "uid": made["metadata"]["uid"]}],
    }
    claim, merge = f"{devices.CLAIMS}/shared", {"content-type": PATCH_TYPES["merge"]}
    native.api.request("PATCH", f"{claim}/status", {"status": status}, headers=merge)
    native.api.create_all(PODS, pods_of("g", 2, resourceClaims=entry))
    daemons.until(lambda: len(started(native)) == 2, daemon)
    (found,) = native.api.get(claim)["status"]["allocation"]["devices"]["results"]
    assert found["pool"] == "node-0"

    def refused(client: Client, body: Object) -> str:
        query = {"dryRun": "All"}
        answer = client.ask("PATCH", f"{claim}/status", body, query=query, headers=merge)
        return answer.message if answer.status == 403 else ""

    back = {"status": {"allocation": None, "reservedFor": None}}
    label = {"metadata": {"labels": {"vscheduler.io/deallocating": "true"}}}
    native.api.request("PATCH", claim, label, headers=merge)
    account = native.client_for_service_account(permissions.NAMESPACE, permissions.TESTED)
    daemons.until(lambda: "has the devices" in refused(account, back), daemon)
    native.api.delete(f"{PODS}/g-0", gracePeriodSeconds=0)
    assert "pod g-1 on node node-0 has the devices" in refused(account, back)


ADOPTION: list[tuple[str, Object, str]] = [
    ("bare", {"annotations": {QUEUE: "q", "scheduling.volcano.sh/group-min-member": "2"}}, ""),
    ("named", {"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}, ""),
    ("named", {"annotations": {QUEUE: "other"}}, f"metadata.annotations {QUEUE}"),
    ("named", {"annotations": {QUEUE: None}}, f"metadata.annotations {QUEUE}"),
    ("bare", {"annotations": {"a": "b"}}, "metadata.annotations a"),
    ("bare", {"labels": {QUEUE: "q"}}, "metadata.labels"),
    ("bare", {"finalizers": None}, "metadata.finalizers"),
]
TREE_ADOPTION = [each for each in ADOPTION if each[0] == "bare" and "finalizers" not in each[1]]


def said(kind: str, reason: str = "Unschedulable") -> Object:
    """A status with this condition."""
    time = "2026-01-01T00:00:00Z"
    each = {"type": kind, "status": "False", "reason": reason, "message": "m"}
    return {"status": {"conditions": [{**each, "lastTransitionTime": time}]}}


SCHEDULED = "PodGroupInitiallyScheduled"
CLAIMED = [{"name": "c", "resourceClaimName": "made"}]
REPORTS: list[tuple[str, Object, str]] = [
    *(("named", said(kind), "") for kind in (SCHEDULED, "DisruptionTarget", "vscheduler.io/Phase")),
    ("labelled", said(SCHEDULED), ""),
    ("below", said(SCHEDULED), ""),
    ("bare", said(SCHEDULED), "status"),
    ("named", said("Ready"), "status.conditions"),
    ("named", said("vscheduler.com/Phase"), "status.conditions"),
    ("named", {"status": {"resourceClaimStatuses": CLAIMED}}, "status.resourceClaimStatuses"),
]


def test_the_controllers_name_the_queue_of_a_group_and_change_nothing_else(
    native: ControlPlane, account: Path
) -> None:
    """Also where there are no annotations yet. The minCount is its user's."""
    user = with_policies(native)
    fewer = {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    bare = paths.NATIVE_POD_GROUPS.at("bare", NAMESPACE)
    patience.wait_until(lambda: "bare, spec: " in refusal(user, bare, fewer))
    for name, metadata, field in ADOPTION:
        path = paths.NATIVE_POD_GROUPS.at(name, NAMESPACE)
        told = refusal(user, path, {"metadata": metadata})
        assert (f"PodGroup {name}, {field}: " in told) if field else told == "", told
    for _, metadata, field in TREE_ADOPTION:
        told = refusal(user, NATIVE_COMPOSITES.at("tree", NAMESPACE), {"metadata": metadata})
        assert (f"CompositePodGroup tree, {field}: " in told) if field else told == "", told
    assert account.exists()


def test_the_scheduler_writes_conditions_of_groups_in_queues_and_nothing_else(
    native: ControlPlane, account: Path
) -> None:
    """Conditions of its own, and those of Kubernetes that it has to write; of trees, too."""
    user = with_policies(native)
    bare = f"{paths.NATIVE_POD_GROUPS.at('bare', NAMESPACE)}/status"
    patience.wait_until(lambda: "bare, status: " in refusal(user, bare, said(SCHEDULED)))
    for name, body, field in REPORTS:
        told = refusal(user, f"{paths.NATIVE_POD_GROUPS.at(name, NAMESPACE)}/status", body)
        assert (f"PodGroup {name}, {field}" in told) if field else told == "", told
    path = f"{paths.NATIVE_POD_GROUPS.at('named', NAMESPACE)}/status"
    about = {"annotations": {"a": "b"}, "labels": {"a": "b"}, "finalizers": ["a.io/b"]}
    merge = {"content-type": PATCH_TYPES["merge"]}
    after = user.ask("PATCH", path, {"metadata": about, "spec": {}}, headers=merge).body
    assert {"a", "a.io/b"}.isdisjoint(str(after["metadata"].get(name)) for name in about), after
    assert "a" not in after["metadata"]["annotations"]
    assert "labels" not in after["metadata"]
    tree = f"{NATIVE_COMPOSITES.at('tree', NAMESPACE)}/status"
    assert refusal(user, tree, said(f"Composite{SCHEDULED}")) == ""
    assert "tree, status.conditions: " in refusal(user, tree, said("Ready"))
    assert account.exists()


def with_policies(plane: ControlPlane) -> Client:
    """Groups with and without a queue, a tree, and the client of an account under our policies."""
    plane.clean()
    plane.run_kubectl("apply", "-f", str(permissions.MANIFESTS / "cluster" / "pod-policies.yaml"))
    of = {"workloadName": "w", "templateName": "t"}
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    below = {**spec, "workloadRef": of, "parentCompositePodGroupName": "tree"}
    claim = {"name": "c", "resourceClaimTemplateName": "t"}
    for metadata, wanted in (
        ({"name": "bare"}, spec),
        ({"name": "named", "annotations": {QUEUE: "q"}}, {**spec, "resourceClaims": [claim]}),
        ({"name": "labelled", "labels": {QUEUE: "q"}}, spec),
        ({"name": "below"}, below),
    ):
        plane.api.create(GROUPS, {"metadata": metadata, "spec": wanted})
    tree = {"workloadRef": of, "schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    plane.api.create(
        NATIVE_COMPOSITES.within(NAMESPACE), {"metadata": {"name": "tree"}, "spec": tree}
    )
    return plane.client_for_service_account(permissions.NAMESPACE, permissions.TESTED)


def refusal(user: Client, path: str, body: Object) -> str:
    """What the API server says to a patch of which nothing is kept; empty if nothing is wrong."""
    query, merge = {"dryRun": "All"}, {"content-type": PATCH_TYPES["merge"]}
    answer = user.ask("PATCH", path, body, query=query, headers=merge)
    assert answer.status in (200, 403), answer.text
    return answer.message if answer.status == 403 else ""
