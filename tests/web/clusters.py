"""Clusters to look at: manifests of three tenants, and of two hundred."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

Document = dict[str, Any]

API = "scheduling.volcano.sh/v1beta1"
GROUP = "scheduling.k8s.io/group-name"
SCHEDULER = "vscheduler"


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
