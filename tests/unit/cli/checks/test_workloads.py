"""What `check` says of workloads: usual mistakes, and nothing of what is right."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import testing

from vscheduler.cli import main
from vscheduler.cli.checks import workloads

Document = dict[str, Any]
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE = "scheduling.volcano.sh/queue-name"
GROUP = "scheduling.k8s.io/group-name"
MINIMUM = f"metadata.annotations.{MIN_MEMBER}"


def template(
    annotations: dict[str, str] | None = None, scheduler: str | None = "vscheduler", cpu: str = "1"
) -> Document:
    """What pods are made of."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec: Document = {"containers": [container]}
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    return {"metadata": {"annotations": annotations or {}}, "spec": spec}


def thing(
    version: str, kind: str, spec: Document, annotations: dict[str, str] | None = None
) -> Document:
    """An object called `w`."""
    metadata = {"name": "w", "annotations": annotations or {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def job(annotations: dict[str, str] | None = None, **more: Any) -> Document:
    """A Job of two pods."""
    spec = {"parallelism": 2, "completions": 4, "template": template(), **more}
    return thing("batch/v1", "Job", spec, annotations)


def stateful_set(minimum: str, **more: Any) -> Document:
    """One of three pods."""
    spec = {"replicas": 3, "template": template(), **more}
    return thing("apps/v1", "StatefulSet", spec, {MIN_MEMBER: minimum})


def volcano_job(**more: Any) -> Document:
    """One with two tasks."""
    tasks = [
        {"replicas": 2, "template": template(scheduler=None)},
        {"template": template(scheduler=None)},
    ]
    spec = {"schedulerName": "vscheduler", "minAvailable": 3, "tasks": tasks, **more}
    return thing("batch.volcano.sh/v1alpha1", "Job", spec)


def pod(**arguments: Any) -> Document:
    """A bare pod."""
    made = template(**arguments)
    made["metadata"]["name"] = "w"
    return {"apiVersion": "v1", "kind": "Pod", **made}


def asking(resource: str) -> Document:
    """A bare pod that asks for one of a resource."""
    made = pod()
    made["spec"]["containers"][0]["resources"]["requests"][resource] = "1"
    return made


def labelled(document: Document, labels: dict[str, str]) -> Document:
    """The object or template, with labels."""
    return {**document, "metadata": {**document.get("metadata", {}), "labels": labels}}


def ray(**head: Any) -> Document:
    """A RayCluster with one group of workers."""
    groups = [{"replicas": 2, "template": template()}]
    spec = {"headGroupSpec": {"template": template(**head)}, "workerGroupSpecs": groups}
    return thing("ray.io/v1", "RayCluster", spec)


A_QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "lab"},
}
A_LOCAL_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "LocalQueue",
    "metadata": {"name": "lq", "namespace": "default"},
    "spec": {"clusterQueue": "lab"},
}
ANOTHER_LOCAL_QUEUE = {**A_LOCAL_QUEUE, "spec": {"clusterQueue": "other"}}
A_NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "default", "annotations": {QUEUE: "lab"}},
}
A_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "pods": "10"}},
}


def said(tmp_path: Path, *documents: Document) -> list[tuple[str, str]]:
    """Fields and messages about objects called `w`."""
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    done = testing.CliRunner().invoke(main.vscheduler, ["check", str(path), "-o", "json"])
    found = json.loads(done.stdout)["complaints"]
    assert all(each["line"] for each in found)
    return [(each["field"], each["message"]) for each in found if each["name"] == "default/w"]


RIGHT = {
    "a Job": [job()],
    "a gang": [job({MIN_MEMBER: "parallelism"})],
    "a Deployment": [thing("apps/v1", "Deployment", {"template": template()})],
    "a StatefulSet of single pods": [stateful_set("1")],
    "a StatefulSet in parallel": [stateful_set("3", podManagementPolicy="Parallel")],
    "a Volcano Job": [volcano_job()],
    "a RayCluster": [ray()],
    "an automatic PodGroup": [pod(annotations={GROUP: "podgroup-5"})],
    "somebody else's pod": [pod(scheduler="another", annotations={GROUP: "none"})],
    "somebody else's deployment": [
        thing("apps/v1", "Deployment", {"template": template(scheduler=None)})
    ],
    "a queue that is given": [A_QUEUE, job({QUEUE: "lab"})],
    "Kueue's queue beside ours": [
        labelled(job({QUEUE: "lab"}), {"kueue.x-k8s.io/queue-name": "user-queue"})
    ],
    "Kueue's queue for somebody else's pods": [
        labelled(job(template=template(scheduler=None)), {"kueue.x-k8s.io/queue-name": "q"})
    ],
    "a Volcano Job's pod": [
        labelled(pod(annotations={GROUP: "podgroup-5"}), {"volcano.sh/queue-name": "lab"})
    ],
    "a queue of a Volcano Job": [labelled(volcano_job(queue="lab"), {QUEUE: "lab"})],
    "a queue for KubeRay": [labelled(ray(), {"volcano.sh/queue-name": "lab"})],
    "a pod that fits": [A_NODE, pod(cpu="4")],
    "no spec": [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "w"}}],
    "no template": [thing("ray.io/v1", "RayCluster", {"workerGroupSpecs": [None, 5]})],
}


@pytest.mark.parametrize("documents", RIGHT.values(), ids=RIGHT)
def test_nothing_is_said_of_what_is_right(tmp_path: Path, documents: list[Document]) -> None:
    """Nor of what isn't ours, or of parts that the API server would refuse."""
    assert said(tmp_path, *documents) == []


WRONG = {
    "a slip in the scheduler's name": (
        [job(template=template(scheduler="vschedular"))],
        "spec.template.spec.schedulerName",
        "vschedular is no scheduler that is known here; did you mean vscheduler?",
    ),
    "no scheduler": (
        [job({MIN_MEMBER: "2"}, template=template(scheduler=None))],
        "spec.template.spec.schedulerName",
        f"is default-scheduler, which doesn't look at {MIN_MEMBER}; name vscheduler",
    ),
    "a PodGroup in a label": (
        [labelled(pod(), {GROUP: "g"})],
        f"metadata.labels.{GROUP}",
        f"is no label but an annotation; write annotation {GROUP}: g",
    ),
    "a queue in a label": (
        [job(template=labelled(template(), {QUEUE: "lab"}))],
        f"spec.template.metadata.labels.{QUEUE}",
        f"is no label but an annotation; write annotation {QUEUE}: lab",
    ),
    "a queue in a label of a CronJob's Jobs": (
        [
            thing(
                "batch/v1",
                "CronJob",
                {"jobTemplate": labelled({"spec": {"template": template()}}, {QUEUE: "lab"})},
            )
        ],
        f"spec.jobTemplate.metadata.labels.{QUEUE}",
        f"is no label but an annotation; write annotation {QUEUE}: lab",
    ),
    "a queue in a label of a Volcano Job": (
        [labelled(volcano_job(), {QUEUE: "lab"})],
        f"metadata.labels.{QUEUE}",
        "is no label but an annotation; write spec.queue: lab",
    ),
    **{
        f"{key} of {whose}": (
            [labelled(job(), {key: "lab"})],
            f"metadata.labels.{key}",
            f"is for {whose} only; write annotation {meant}: lab",
        )
        for key, whose, meant in (
            ("volcano.sh/queue-name", "Volcano's job controller", QUEUE),
            ("kai.scheduler/queue", "KAI", QUEUE),
            ("runai/queue", "KAI", QUEUE),
            ("scheduling.x-k8s.io/pod-group", "coscheduling", GROUP),
            ("pod-group.scheduling.sigs.k8s.io", "coscheduling", GROUP),
        )
    },
    **{
        f"a LocalQueue of Kueue{known}": (
            [labelled(job(), {"kueue.x-k8s.io/queue-name": "lq"}), *more],
            "metadata.labels.kueue.x-k8s.io/queue-name",
            f"is for Kueue only; write annotation {QUEUE}: {meant}",
        )
        for known, more, meant in (
            ("", [], "the ClusterQueue of LocalQueue lq"),
            (" that is given", [A_LOCAL_QUEUE], "lab"),
            (", converted", [A_NAMESPACE], "lab"),
            (" and another of the namespace", [A_NAMESPACE, ANOTHER_LOCAL_QUEUE], "other"),
        )
    },
    "no PodGroup": (
        [pod(annotations={GROUP: "train"})],
        f"metadata.annotations.{GROUP}",
        "there is no PodGroup train among the given objects; unless the cluster has it",
    ),
    "no PodGroup, behind a slip in the scheduler's name": (
        [pod(scheduler="vschedular", annotations={GROUP: "train"})],
        f"metadata.annotations.{GROUP}",
        "there is no PodGroup train among the given objects; unless the cluster has it",
    ),
    "no PodGroup, behind a missing scheduler's name": (
        [job(template=template({GROUP: "train"}, scheduler=None))],
        f"spec.template.metadata.annotations.{GROUP}",
        "there is no PodGroup train among the given objects; unless the cluster has it",
    ),
    "an annotation that nothing reads": (
        [job(template=template({"scheduling.k8s.io/group-nam": "train"}))],
        "spec.template.metadata.annotations.scheduling.k8s.io/group-nam",
        f"nothing reads this annotation; did you mean {GROUP}?",
    ),
    "a label of a PodGroup that nothing reads": (
        [
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "w", "labels": {"volcano.sh/preemptible": "true"}},
            }
        ],
        "metadata.labels.volcano.sh/preemptible",
        "nothing reads this label; did you mean volcano.sh/preemptable?",
    ),
    "an annotation of a CronJob's Jobs": (
        [
            thing(
                "batch/v1",
                "CronJob",
                {
                    "jobTemplate": {
                        "metadata": {"annotations": {"scheduling.volcano.sh/queue-nmae": "lab"}},
                        "spec": {"template": template()},
                    }
                },
            )
        ],
        "spec.jobTemplate.metadata.annotations.scheduling.volcano.sh/queue-nmae",
        f"did you mean {QUEUE}?",
    ),
    "a field of a container": (
        [ray(), job(template={"spec": {"containers": [{"resources": {"request": {}}}]}})],
        "spec.template.spec.containers[0].resources.request",
        "unknown field; did you mean requests?",
    ),
    "a field of a Volcano Job": (
        [volcano_job(minAvaliable=3)],
        "spec.minAvaliable",
        "unknown field; did you mean minAvailable?",
    ),
    "no queue": (
        [A_QUEUE, job({QUEUE: "lap"})],
        f"metadata.annotations.{QUEUE}",
        "there is no queue lap among the given ones; without it the pods wait",
    ),
    "a minimum in letters": (
        [job({MIN_MEMBER: "eight"})],
        MINIMUM,
        "'eight' is not a number of pods; 1 is used",
    ),
    "a minimum in letters, in pods": (
        [thing("apps/v1", "ReplicaSet", {"template": template({MIN_MEMBER: "x"})})],
        f"spec.template.{MINIMUM}",
        "'x' is not a number of pods; 1 is used",
    ),
    "a minimum that is too high": (
        [job({MIN_MEMBER: "3"})],
        MINIMUM,
        "3 is more than the 2 pods that there will be; 2 is used",
    ),
    "of a CronJob": (
        [
            thing(
                "batch/v1",
                "CronJob",
                {
                    "jobTemplate": {
                        "metadata": {"annotations": {MIN_MEMBER: "eight"}},
                        "spec": {"template": template()},
                    }
                },
            )
        ],
        f"spec.jobTemplate.{MINIMUM}",
        "'eight' is not a number of pods; 1 is used",
    ),
    "one pod after the other": (
        [stateful_set("9")],
        "spec.podManagementPolicy",
        "created when the first one is ready, so a gang of 3 never starts; set Parallel",
    ),
    "too few tasks": (
        [volcano_job(minAvailable=4)],
        "spec.minAvailable",
        "4 is more than the 3 pods of all tasks: it never starts",
    ),
    "no queue of a Volcano Job": (
        [A_QUEUE, volcano_job(queue="lap")],
        "spec.queue",
        "there is no queue lap among the given ones; without it the pods wait",
    ),
    "a pod larger than any node": (
        [A_NODE, ray(cpu="5")],
        "spec.headGroupSpec.template.spec.containers",
        "asks for 5 cpu, and the most that a given node has is 4 cpu: it never fits",
    ),
    "a resource that no node has": (
        [A_NODE, asking("gpu")],
        "spec.containers",
        "asks for 1 gpu, and no given node has gpu; did you mean amd.com/gpu or nvidia.com/gpu?",
    ),
    "a template that can't be read": (
        [job(template=template(cpu="4x"))],
        "spec.template.spec.containers[0].resources.requests.cpu",
        "4x",
    ),
}


@pytest.mark.parametrize(("documents", "field", "message"), WRONG.values(), ids=WRONG)
def test_mistakes_are_named_with_their_field(
    tmp_path: Path, documents: list[Document], field: str, message: str
) -> None:
    """And what happens instead."""
    found = said(tmp_path, *documents)
    assert field in {where for where, _ in found}
    assert any(message in text for where, text in found if where == field)


def test_lists_are_looked_into_and_counted(tmp_path: Path) -> None:
    """As `kubectl get -o yaml` prints them; other kinds are named."""
    items = [job({MIN_MEMBER: "eight"}), thing("v1", "Service", {})]
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    done = testing.CliRunner().invoke(main.vscheduler, ["check", str(path)])
    assert "Job default/w: " in done.stdout
    assert done.stderr == "not looked at: 1 Service\n0 errors, 1 warning; 1 object looked at\n"


def test_a_configmap_is_no_configuration(tmp_path: Path) -> None:
    """It says how to get at the text."""
    path = tmp_path / "c.yaml"
    data = {"scheduler.conf": 'actions: "allocate"'}
    metadata = {"name": "mine"}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    path.write_text(yaml.safe_dump(tree))
    done = testing.CliRunner().invoke(main.vscheduler, ["check", f"--scheduler-conf={path}"])
    assert done.exit_code == 1
    assert "is a ConfigMap; the configuration is the text in its data: " in done.stdout
    assert "kubectl get configmap mine -o jsonpath='{.data.scheduler\\.conf}'" in done.stdout


def test_every_kind_has_its_templates() -> None:
    """Where the API has them."""
    assert {kind for _, kind in workloads.KINDS} >= {"Pod", "CronJob", "RayService"}
    service = thing("ray.io/v1", "RayService", {"rayClusterConfig": ray()["spec"]})
    found = workloads.read(service)
    assert found is not None
    assert [template.path[1:3] for template in found.templates] == [
        ("rayClusterConfig", "headGroupSpec"),
        ("rayClusterConfig", "workerGroupSpecs"),
    ]
    assert [template.count for template in found.templates] == [1, 2]
