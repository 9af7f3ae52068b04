"""Clusters to look at: manifests of three tenants, and of two hundred."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

Document = dict[str, Any]

API = "scheduling.volcano.sh/v1beta1"
GROUP = "scheduling.k8s.io/group-name"
SCHEDULER = "vscheduler"
ZONE = "topology.kubernetes.io/zone"


def stamp(now: float) -> str:
    """A time as in manifests."""
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, **amounts: str) -> Document:
    """A node that is ready."""
    amounts = {"pods": "110", **{key.replace("_", ".com/"): each for key, each in amounts.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def queue(name: str, weight: int = 1, **spec: Any) -> Document:
    """A queue."""
    return {
        "apiVersion": API,
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"queue-{name}"},
        "spec": {"weight": weight, **spec},
    }


def job(
    namespace: str,
    name: str,
    pods: int,
    *,
    queue: str = "",
    cpu: str = "1",
    on: tuple[str, ...] = (),
    created: float = 0.0,
    **more: str,
) -> Iterator[Document]:
    """A Job's PodGroup and its pods; `on` are the nodes of those that run."""
    named = f"{name}-{len(name):04x}"
    yield {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {
            "name": named,
            "namespace": namespace,
            "uid": f"group-{namespace}-{name}",
            "creationTimestamp": stamp(created),
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": name,
                    "uid": "u",
                    "controller": True,
                }
            ],
        },
        "spec": {"minMember": pods, "queue": queue or namespace},
        "status": {"phase": "Running" if on else "Inqueue", "running": len(on)},
    }
    requests = {"cpu": cpu, **{key.replace("_", ".com/"): each for key, each in more.items()}}
    for at in range(pods):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{at}",
                "namespace": namespace,
                "uid": f"pod-{namespace}-{name}-{at}",
                "creationTimestamp": stamp(created),
                "annotations": {GROUP: named},
            },
            "spec": {
                "schedulerName": SCHEDULER,
                "containers": [{"name": "work", "resources": {"requests": requests}}],
                **({"nodeName": on[at]} if at < len(on) else {}),
            },
            "status": {"phase": "Running" if at < len(on) else "Pending"},
        }


def idle() -> list[Document]:
    """Nodes and queues without jobs."""
    found = [node(f"worker-{at}", cpu="8", memory="32Gi") for at in range(3)]
    return [*found, *map(queue, ("robotics", "speech", "vision"))]


def three_queues(now: float) -> list[Document]:
    """Three tenants: one within its share, one that borrows, one that waits for its share."""
    memory = "64Gi"
    found = [node(f"worker-{at}", cpu="16", memory=memory, nvidia_gpu="4") for at in range(5)]
    found += [queue("robotics", 2), queue("speech"), queue("vision")]

    def nodes(*counts: int) -> tuple[str, ...]:
        return tuple(f"worker-{at}" for at, count in enumerate(counts) for _ in range(count))

    found += job("vision", "render-frames", 8, on=nodes(4, 4), created=now - 5400, memory="2Gi")
    found += job("vision", "render-preview", 12, on=nodes(6, 6), created=now - 4000, memory="2Gi")
    found += job(
        "vision", "label-images", 16, on=nodes(0, 0, 8, 8), created=now - 2500, memory="2Gi"
    )
    found += job("vision", "nightly-export", 8, created=now - 700, memory="2Gi")
    found += job("speech", "train-large", 8, on=nodes(0, 0, 4, 4), cpu="2", created=now - 9000)
    found += job("speech", "tune", 4, cpu="4", created=now - 420, memory="8Gi")
    found += job("robotics", "simulate-1", 12, on=nodes(0, 0, 0, 0, 12), created=now - 1800)
    found += job("robotics", "simulate-2", 16, cpu="2", created=now - 1300)
    found += job("robotics", "too-much", 4, cpu="24", created=now - 260)
    return found


def many(now: float, *, queues: int = 200, jobs: int = 5000) -> list[Document]:
    """Many tenants, each with jobs that wait."""
    found = [node(f"n{at:03}", cpu="32", memory="128Gi") for at in range(100)]
    for at in range(queues):
        found.append(queue(f"team-{at:03}", 1 + at % 4))
        if at < 100:
            on = (f"n{at:03}",) * 16
            found += job(f"team-{at:03}", "serve", 16, on=on, created=now - 9000 - at)
    for at in range(jobs):
        team = f"team-{at % queues:03}"
        cpu = str(1 + at % 3)
        found += job(team, f"train-{at:04}", 2, queue=team, cpu=cpu, created=now - 8000 + at)
    return found


def of_one_tenant(found: list[Document], namespace: str) -> Mapping[str, int]:
    """How many PodGroups there are in a namespace, and elsewhere."""
    groups = [document for document in found if document["kind"] == "PodGroup"]
    own = sum(group["metadata"]["namespace"] == namespace for group in groups)
    return {"own": own, "others": len(groups) - own}


def racks(now: float) -> list[Document]:
    """GPU nodes in racks and CPU nodes, and tenants below two organisations."""
    found: list[Document] = []
    for at in range(24):
        each = node(f"gpu-{at:02}", cpu="96", memory="768Gi", nvidia_gpu="8")
        each["metadata"]["labels"] = {ZONE: f"rack-{at // 8 + 1}"}
        if at == 13:
            each["spec"] = {"unschedulable": True}
        found.append(each)
    for at in range(6):
        each = node(f"cpu-{at:02}", cpu="64", memory="256Gi")
        each["metadata"]["labels"] = {ZONE: "rack-4"}
        found.append(each)
    found += [queue("research", 3), queue("product", 2), queue("nightly")]
    found += [
        queue(name, weight, parent="research") for name, weight in (("vision", 2), ("speech", 1))
    ]
    found += [queue(name, parent="product") for name in ("ads", "search")]

    def on(first: int, pods: int, each: int = 1) -> tuple[str, ...]:
        return tuple(f"gpu-{first + at // each:02}" for at in range(pods))

    def gpus(queue: str, name: str, pods: int, each: int, age: float, *nodes: str) -> None:
        amounts = {"memory": "64Gi", "nvidia_gpu": str(each)}
        found.extend(job(queue, name, pods, on=nodes, created=now - age, cpu="8", **amounts))

    gpus("vision", "train-resnet", 6, 8, 7200, *on(0, 6))
    gpus("vision", "finetune-a", 8, 1, 5100, *on(6, 8, 4))
    gpus("speech", "train-asr", 4, 8, 9000, *on(8, 4))
    gpus("speech", "eval-asr", 6, 1, 1500, *on(12, 6, 6))
    gpus("ads", "rank-daily", 12, 1, 3300, *on(14, 12, 3))
    gpus("ads", "rank-sweep", 10, 1, 800, *on(18, 10, 5))
    gpus("search", "embed", 3, 4, 4000, *on(20, 3))
    cpus = tuple(f"cpu-{at:02}" for at in (0, 0, 1, 1, 2))
    found += job("nightly", "etl", 5, on=cpus, created=now - 600, cpu="24", memory="48Gi")
    gpus("vision", "pretrain-vit", 8, 8, 2400)
    gpus("vision", "finetune-b", 4, 8, 900)
    gpus("speech", "train-tts", 2, 16, 650)
    gpus("ads", "rank-large", 6, 8, 300)
    found += job("search", "index", 30, created=now - 120, cpu="16", memory="32Gi")
    return found


def large(now: float, *, nodes: int = 1000, queues: int = 200, jobs: int = 5000) -> list[Document]:
    """A thousand GPU nodes in racks, most of them in use, and many jobs that wait."""
    found: list[Document] = []
    for at in range(nodes):
        each = node(f"n{at:04}", cpu="96", memory="768Gi", nvidia_gpu="8")
        each["metadata"]["labels"] = {ZONE: f"rack-{at // 50 + 1:02}"}
        found.append(each)
    found += [queue(f"team-{at:03}", 1 + at % 4) for at in range(queues)]
    for at in range(nodes):
        team, size = f"team-{(at * at) % queues:03}", (8, 4, 6, 8, 2, 7)[at % 6]
        if at % 11:
            found += job(
                team,
                f"serve-{at}",
                size,
                on=(f"n{at:04}",) * size,
                created=now - 9000 - at,
                cpu="8",
                nvidia_gpu="1",
            )
    for at in range(jobs):
        team, size = f"team-{at % queues:03}", 1 + at % 8
        found += job(
            team, f"train-{at:04}", 2, created=now - 8000 + at, cpu="8", nvidia_gpu=str(size)
        )
    return found


def devices(now: float) -> list[Document]:
    """Nodes whose GPUs are devices of a driver, which claims of two jobs have."""
    found: list[Document] = [queue("vision"), queue("speech")]
    driver = "gpu.example.com"
    for at in range(6):
        found.append(node(f"gpu-{at}", cpu="64", memory="256Gi"))
        spec = {
            "driver": driver,
            "nodeName": f"gpu-{at}",
            "pool": {"name": f"gpu-{at}", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(8)],
        }
        found.append(_device_object("ResourceSlice", f"gpu-{at}", spec))
    for team, name, first, pods, count in (
        ("vision", "train", 0, 3, 8),
        ("speech", "tune", 3, 2, 3),
    ):
        on = tuple(f"gpu-{first + at}" for at in range(pods))
        for document in job(team, name, pods, on=on, created=now - 3600, cpu="8"):
            if document["kind"] == "Pod":
                metadata = document["metadata"]
                document["spec"]["resourceClaims"] = [
                    {"name": "gpus", "resourceClaimName": metadata["name"]}
                ]
                at = document["spec"]["nodeName"]
                results = [
                    {"request": "gpus", "driver": driver, "pool": at, "device": f"gpu-{number}"}
                    for number in range(count)
                ]
                wanted = {"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": count}}
                claim = _device_object(
                    "ResourceClaim", metadata["name"], {"devices": {"requests": [wanted]}}
                )
                claim["metadata"]["namespace"] = team
                user = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
                claim["status"] = {
                    "allocation": {"devices": {"results": results}},
                    "reservedFor": [user],
                }
                found.append(claim)
            found.append(document)
    return found


def _device_object(kind: str, name: str, spec: Document) -> Document:
    metadata = {"name": name, "uid": f"{kind}-{name}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
