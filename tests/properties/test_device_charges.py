"""Device charges against an oracle: what counts for each pod, after each of many random changes."""

import copy
import random
from collections import Counter
from typing import Any

import pytest

from tests import device_labs
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.jobs import HOLDING, TaskId
from vscheduler.testing import pictures

Document = dict[str, Any]

PREFIX = "deviceclass.resource.k8s.io/"
CLAIMS = ("c0", "c1", "c2")
PODS = tuple(f"{job}-{number}" for job in ("a", "b") for number in range(3))
PICTURE = """
    node  n1 cpu=8
    queue q
    job   q/a min=1 cpu=1 - - -
    job   q/b min=1 cpu=1 - - -
"""
STEPS = 60


class World:
    """Stored objects, and the Mirror that follows them."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.stored: dict[tuple[str, str], Document] = {}
        self.mirror = new_mirror()
        self.version = 100
        self.templates: dict[str, Document] = {}
        for document in pictures.documents(PICTURE):
            if document["kind"] == "Pod":
                self.templates[document["metadata"]["name"]] = document
            else:
                self.put(document)

    def put(self, document: Document) -> None:
        """Store an object."""
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self.stored[document["kind"], document["metadata"]["name"]] = document
        apply(self.mirror, document)

    def change(self) -> None:
        """Something comes, changes or goes."""
        kind, names = self.chance.choice((("Pod", PODS), ("ResourceClaim", CLAIMS)))
        name = self.chance.choice(names)
        if (kind, name) in self.stored and self.chance.random() < 0.2:
            gone = self.stored.pop((kind, name))
            uid = gone["metadata"]["uid"]
            self.mirror.apply(
                Remove(kind=Kind(kind), namespace=pictures.NAMESPACE, name=name, uid=uid)
            )
        else:
            self.put(self.pod(name) if kind == "Pod" else self.claim(name))

    def pod(self, name: str) -> Document:
        """A pod that waits, runs, has ended or is being deleted."""
        pod = copy.deepcopy(self.templates[name])
        uses = self.chance.sample(CLAIMS, self.chance.randint(0, 2))
        pod["spec"]["resourceClaims"] = [{"name": c, "resourceClaimName": c} for c in uses]
        if self.chance.random() < 0.2:
            pod["spec"]["schedulerName"] = "another"
        kind = self.chance.choice(("waits", "waits", "gated", "runs", "ended", "leaves"))
        if kind == "gated":
            pod["spec"]["schedulingGates"] = [{"name": "g"}]
        if kind in {"runs", "ended", "leaves"}:
            pod["spec"]["nodeName"] = "n1"
            pod["status"]["phase"] = "Succeeded" if kind == "ended" else "Running"
        if kind == "leaves":
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def claim(self, name: str) -> Document:
        """A claim, allocated to some pods or not."""
        count = self.chance.randint(1, 3)
        claim = device_labs.claim(name, count, self.chance.choice(("gpu", "net")))
        if self.chance.random() < 0.5:
            device = {"request": "gpus", "driver": "d", "pool": "p"}
            results = [{**device, "device": f"{name}-{number}"} for number in range(count)]
            pods = self.chance.sample(PODS, self.chance.randint(0, 3))
            claim["status"] = {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [
                    {"resource": "pods", "name": pod, "uid": self.uid(pod)} for pod in pods
                ],
            }
        return claim

    def uid(self, pod: str) -> str:
        """The UID of a pod."""
        found: str = self.templates[pod]["metadata"]["uid"]
        return found


def new_mirror() -> Mirror:
    """A Mirror that has seen nothing."""
    return Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))


def apply(mirror: Mirror, document: Document) -> None:
    """Show an object to a Mirror."""
    kind = events.kind_of(document)
    assert kind is not None
    mirror.apply(events.convert(kind, document))


def charges(mirror: Mirror) -> dict[str, dict[str, int]]:
    """What counts for each pod."""
    taken = mirror.snapshot(pictures.NOW.timestamp())
    tasks = [task for job in taken.jobs for task in job.tasks]
    for job in taken.jobs:
        held: Counter[str] = Counter()
        for task in job.tasks:
            if task.status in HOLDING:
                held.update(task.pod_class.counted)
        assert Counter(job.allocated) == held
    return {task.name: dict(task.pod_class.devices) for task in tasks if task.pod_class.devices}


def expected(stored: dict[tuple[str, str], Document]) -> dict[str, dict[str, int]]:
    """The same, worked out anew from the stored objects."""
    pods = {name: each for (kind, name), each in stored.items() if kind == "Pod"}
    found: dict[str, Counter[str]] = {name: Counter() for name in pods}
    for (kind, name), claim in stored.items():
        if kind != "ResourceClaim":
            continue
        asked = claim["spec"]["devices"]["requests"][0]["exactly"]
        amounts = {PREFIX + asked["deviceClassName"]: asked["count"]}
        reserved = claim["status"].get("reservedFor") or []
        if reserved:
            alive = [each["name"] for each in reserved if lives(pods.get(each["name"]))]
            payers = [pod for pod in alive if ours(pods[pod])]
            payers = sorted(payers, key=lambda pod: not pods[pod]["spec"].get("nodeName"))[:1]
        else:
            users = [
                pod
                for pod, each in pods.items()
                if ours(each)
                and waits(each)
                and name in [use["name"] for use in each["spec"]["resourceClaims"]]
            ]
            users.sort(
                key=lambda pod: (
                    bool(pods[pod]["spec"].get("schedulingGates")),
                    pods[pod]["metadata"]["creationTimestamp"],
                    pods[pod]["metadata"]["uid"],
                )
            )
            payers = [
                next(pod for pod in users if pod.startswith(job))
                for job in ("a", "b")
                if any(pod.startswith(job) for pod in users)
            ]
        for payer in payers:
            found[payer].update(amounts)
    return {name: dict(sorted(each.items())) for name, each in found.items() if each}


def foreign(stored: dict[tuple[str, str], Document]) -> set[str]:
    """The claims of other schedulers' living pods, worked out likewise."""
    pods = {name: each for (kind, name), each in stored.items() if kind == "Pod"}
    found = set()
    for (kind, name), claim in stored.items():
        if kind == "ResourceClaim":
            users = [pods.get(each["name"]) for each in claim["status"].get("reservedFor") or []]
            known = [pod for pod in users if pod is not None]
            if any(map(lives, known)) and not any(map(ours, known)):
                found.add(f"{pictures.NAMESPACE}/{name}")
    return found


def shared(stored: dict[tuple[str, str], Document]) -> dict[str, tuple[str, ...]]:
    """The claims without devices that several waiting pods of a job use, worked out likewise."""
    names = {name for kind, name in stored if kind == "ResourceClaim"}
    free = {name for name in names if "allocation" not in stored["ResourceClaim", name]["status"]}
    found: dict[str, tuple[str, ...]] = {}
    for job in ("a", "b"):
        uses = Counter(
            use["name"]
            for (kind, name), pod in stored.items()
            if kind == "Pod" and name.startswith(job) and ours(pod) and waits(pod)
            for use in pod["spec"]["resourceClaims"]
        )
        several = sorted(name for name in free if uses[name] > 1)
        if several:
            key = f"{pictures.NAMESPACE}/{job}"
            found[key] = tuple(f"{pictures.NAMESPACE}/{name}" for name in several)
    return found


def ours(pod: Document) -> bool:
    """Whether we schedule a pod."""
    return bool(pod["spec"]["schedulerName"] == pictures.SCHEDULER)


def lives(pod: Document | None) -> bool:
    """Whether a pod is there, and neither ends nor has ended."""
    return (
        pod is not None
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") != "Succeeded"
    )


def waits(pod: Document) -> bool:
    """Whether a pod has no node."""
    return "nodeName" not in pod["spec"]


@pytest.mark.parametrize("seed", range(12))
def test_what_counts_for_pods_is_what_an_oracle_says(seed: int) -> None:
    """After each change, and for a Mirror that sees the same objects in another order."""
    world = World(random.Random(seed))
    counted = 0
    for _ in range(STEPS):
        world.change()
        found = expected(world.stored)
        assert charges(world.mirror) == found
        assert world.mirror.devices.charges.foreign == foreign(world.stored)
        assert world.mirror.devices.charges.shared == shared(world.stored)
        counted += len(found)
    assert counted
    other, documents = new_mirror(), list(world.stored.values())
    world.chance.shuffle(documents)
    for document in documents:
        apply(other, document)
    assert charges(other) == found
    assert other.devices.charges.foreign == foreign(world.stored)
    assert other.devices.charges.shared == shared(world.stored)


def test_a_shared_claim_counts_for_the_next_pod_once_the_first_is_being_evicted() -> None:
    """From the moment when the eviction is sent, and for the first one again if it fails."""
    world = World(random.Random(0))
    for name in ("a-0", "a-1"):
        pod = copy.deepcopy(world.templates[name])
        pod["spec"] |= {"nodeName": "n1"}
        pod["status"]["phase"] = "Running"
        world.put(pod)
    claim = device_labs.claim("c0")
    reserved = [{"resource": "pods", "name": pod, "uid": world.uid(pod)} for pod in ("a-0", "a-1")]
    device = {"request": "gpus", "driver": "d", "pool": "p", "device": "c0"}
    claim["status"] = {"allocation": {"devices": {"results": [device]}}, "reservedFor": reserved}
    world.put(claim)
    counted = {f"{PREFIX}gpu": 1}
    assert charges(world.mirror) == {"a-0": counted}
    world.mirror.evicting(TaskId(world.uid("a-0")), 0.0)
    assert charges(world.mirror) == {"a-1": counted}
    world.mirror.forget_eviction(TaskId(world.uid("a-0")))
    assert charges(world.mirror) == {"a-0": counted}


def test_devices_count_again_for_a_pod_whose_bind_fails() -> None:
    """As they did before."""
    world = World(random.Random(0))
    pod = copy.deepcopy(world.templates["a-0"])
    pod["spec"]["resourceClaims"] = [{"name": "c0", "resourceClaimName": "c0"}]
    world.put(pod)
    claim = device_labs.claim("c0", 2)
    device = {"request": "gpus", "driver": "d", "pool": "p"}
    claim["status"] = {
        "allocation": {"devices": {"results": [{**device, "device": each} for each in "xy"]}},
        "reservedFor": [{"resource": "pods", "name": "a-0", "uid": world.uid("a-0")}],
    }
    world.put(claim)
    task = TaskId(world.uid("a-0"))
    counted = {"a-0": {f"{PREFIX}gpu": 2}}
    assert charges(world.mirror) == counted
    assert world.mirror.assume(task, "n1", 0.0)
    assert world.mirror.forget(task)
    assert charges(world.mirror) == counted
