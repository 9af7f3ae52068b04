"""Random gang problems as manifests."""

from collections.abc import Sequence
from typing import Any

from tests.properties.gang_problems import Node, Pods, World

KEYS = {"host": "kubernetes.io/hostname", "zone": "zone"}


def documents(world: World) -> list[dict[str, Any]]:
    """Return the manifests of the world: amounts in cores, Gi and GPUs."""
    return [
        *(_node(row, node) for row, node in enumerate(world.nodes)),
        *([] if world.queue is None else [_queue(world.queue)]),
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {
                "queue": "default" if world.queue is None else "limited",
                "minMember": world.least,
                "minTaskMember": {f"k{kind}": least for kind, least in world.roles.items()},
            },
        },
        *(
            _pod(kind, number, pods)
            for kind, pods in enumerate(world.pods)
            for number in range(pods.count)
        ),
    ]


def _queue(most: Sequence[int]) -> dict[str, Any]:
    cpu, memory, gpus = most
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "limited"},
        "spec": {
            "capability": {"cpu": str(cpu), "memory": f"{memory}Gi", "nvidia.com/gpu": str(gpus)}
        },
    }


def _node(row: int, node: Node) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": f"n{row}", "disk": node.disk or "none"}
    if node.zone >= 0:
        labels["zone"] = f"z{node.zone}"
    cpu, memory, gpus = node.free
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{row}", "labels": labels},
        "status": {
            "allocatable": {
                "cpu": str(cpu),
                "memory": f"{memory}Gi",
                "nvidia.com/gpu": str(gpus),
                "pods": "110",
            },
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(kind: int, number: int, pods: Pods) -> dict[str, Any]:
    cpu, memory, gpus = pods.request
    requests = {"cpu": str(cpu), "memory": f"{memory}Gi"}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    container: dict[str, Any] = {
        "name": "c",
        "image": "i",
        "resources": {"requests": requests, "limits": requests},
    }
    if pods.port:
        container["ports"] = [{"containerPort": pods.port, "hostPort": pods.port}]
    spec: dict[str, Any] = {"schedulerName": "vscheduler", "containers": [container]}
    if pods.disk:
        spec["nodeSelector"] = {"disk": pods.disk}
    affinity = {}
    if pods.apart_by:
        affinity["podAntiAffinity"] = _required(pods.apart_by, pods.apart_from)
    if pods.near_by:
        affinity["podAffinity"] = _required(pods.near_by, pods.near_to)
    if affinity:
        spec["affinity"] = affinity
    if pods.spread_by:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": pods.skew,
                "topologyKey": KEYS[pods.spread_by],
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": _kinds(frozenset({kind})),
            }
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"k{kind}-{number}",
            "namespace": "default",
            "labels": {"kind": f"k{kind}"},
            "annotations": {
                "scheduling.k8s.io/group-name": "g",
                "volcano.sh/task-spec": f"k{kind}",
            },
        },
        "spec": spec,
    }


def _required(by: str, kinds: frozenset[int]) -> dict[str, Any]:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": KEYS[by], "labelSelector": _kinds(kinds)}
        ]
    }


def _kinds(kinds: frozenset[int]) -> dict[str, Any]:
    values = [f"k{kind}" for kind in sorted(kinds)]
    nobody = {"key": "kind", "operator": "DoesNotExist"}  # In needs at least one value
    some = {"key": "kind", "operator": "In", "values": values}
    return {"matchExpressions": [some if values else nobody]}
