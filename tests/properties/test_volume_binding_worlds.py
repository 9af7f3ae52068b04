"""Unkind worlds for gangs with claims: late, refusing and dead provisioners, crashes, lost nodes.

Judged by what is stored: no pod runs before its claims are bound, or where its volumes aren't; no
gang runs in part. Once the world is kind, every gang runs, and nothing is asked for in vain.
"""

import random
from collections import Counter

import pytest

from tests import volume_labs
from tests.volume_labs import Document, Lab
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

SEEDS = range(24)
UNKIND_CYCLES = 40
KIND_CYCLES = 40
NODES = ("n1", "n2", "n3")
LOCAL = volume_labs.storage_class("local", "kubernetes.io/no-provisioner")


def a_lab(chance: random.Random) -> Lab:
    """Three nodes, some gangs, and claims of two classes; every gang fits, one after the other."""
    lines = [f"node {name} cpu=4" for name in NODES]
    lines.append("queue q")
    uses: dict[str, list[str]] = {}
    storage = [volume_labs.storage_class(), LOCAL]
    for number in range(chance.randint(1, 4)):
        size, least = chance.randint(1, 4), chance.choice((1, 9))
        priority = chance.choice((0, 0, 5))
        pods = " ".join("-" * size)
        lines.append(f"job q/j{number} min={min(size, least)} cpu=1 priority={priority} {pods}")
        for pod in range(size):
            if chance.random() < 0.7:
                name = f"c{number}-{pod}"
                uses[f"j{number}-{pod}"] = [name]
                storage.append(volume_labs.claim(name, chance.choice(("slow", "slow", "local"))))
    local = sum(each.get("spec", {}).get("storageClassName") == "local" for each in storage)
    storage += [volume_labs.volume(f"disk-{n}", chance.choice(NODES)) for n in range(local)]
    return Lab("\n".join(lines), *storage, uses=uses)


def pods(lab: Lab) -> list[Document]:
    """All pods."""
    return [each for (kind, _), each in lab.stored.items() if kind == "Pod"]


def claims_of(pod: Document) -> list[str]:
    """The names of the pod's claims."""
    return [each["persistentVolumeClaim"]["claimName"] for each in pod["spec"].get("volumes", ())]


def reachable(lab: Lab, claim: str, node: str) -> bool:
    """Whether the claim is bound, and its volume can be used on the node."""
    stored = lab.stored.get(("PersistentVolumeClaim", claim), {})
    volume = lab.stored.get(("PersistentVolume", stored.get("spec", {}).get("volumeName", "")))
    if volume is None:
        return False
    required = volume["spec"].get("nodeAffinity", {}).get("required")
    if required is None:
        return True
    terms = required["nodeSelectorTerms"]
    return node in {value for term in terms for value in term["matchFields"][0]["values"]}


def judge(lab: Lab, result: CycleResult) -> None:
    """Raise AssertionError if anything is stored that must never be."""
    new = {bind.task.name for bind in result.binds}
    room = Counter(pod["spec"].get("nodeName") for pod in pods(lab))
    assert all(count <= 4 for node, count in room.items() if node), room
    running: Counter[str] = Counter()
    for pod in pods(lab):
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if node:
            running[name.partition("-")[0]] += 1
            if name in new:
                assert all(reachable(lab, claim, node) for claim in claims_of(pod)), name
    for (kind, name), group in lab.stored.items():
        if kind == "PodGroup" and running[name]:
            assert running[name] >= group["spec"]["minMember"], f"{name} runs in part"
    given = [each.get("spec", {}).get("claimRef", {}).get("uid") for each in lab.stored.values()]
    counts = Counter(uid for uid in given if uid)
    assert not [uid for uid, count in counts.items() if count > 1], "a claim has two volumes"


def provision(lab: Lab, chance: random.Random, *, kind: bool) -> None:
    """Let Kubernetes and the provisioner act on what is asked for."""
    for name in sorted(lab.selected()):
        luck = chance.random()
        if kind or luck < 0.25:
            lab.bind(name)
        elif luck < 0.4:
            lab.refuse(name)
    for volume, name in sorted(lab.given().items()):
        stored = lab.get("PersistentVolume", volume)
        waits = stored["status"]["phase"] == "Available"
        if waits and (kind or chance.random() < 0.3):
            lab.bind(name)


def disturb(lab: Lab, chance: random.Random) -> None:
    """Crash, lose a node, delete a job or a claim, all of them rarely."""
    luck = chance.random()
    if luck < 0.1:
        lab.restart()
    elif luck < 0.13:
        groups = sorted(name for kind, name in lab.stored if kind == "PodGroup")
        if len(groups) > 1:
            gone = chance.choice(groups)
            lab.delete("PodGroup", gone)
            names = [pod["metadata"]["name"] for pod in pods(lab)]
            lab.delete("Pod", *(name for name in names if name.partition("-")[0] == gone))
    elif luck < 0.2:
        finish(lab)


def finish(lab: Lab) -> None:
    """Let a running job end, so that others get its room."""
    for pod in pods(lab):
        if pod["spec"].get("nodeName"):
            job = pod["metadata"]["name"].partition("-")[0]
            lab.delete("PodGroup", job)
            names = [pod["metadata"]["name"] for pod in pods(lab)]
            lab.delete("Pod", *(name for name in names if name.partition("-")[0] == job))
            return


def step(lab: Lab, chance: random.Random, *, kind: bool) -> CycleResult:
    """One cycle; an unkind world lets the scheduler die before all requests are written."""
    crashes = not kind and chance.random() < 0.15
    result = lab.cycle(chance.choice((1.0, 30.0, 400.0)), write=not crashes)
    if crashes:
        lab.write(lab.mirror(), result, chance.randint(0, 3))
        lab.restart()
    judge(lab, result)
    return result


@pytest.mark.parametrize("seed", SEEDS)
def test_gangs_with_claims_start_whole_in_unkind_worlds(seed: int) -> None:
    """And once the world is kind, they all start, and nothing is left over."""
    chance = random.Random(seed)
    lab = a_lab(chance)
    for _ in range(UNKIND_CYCLES):
        step(lab, chance, kind=False)
        provision(lab, chance, kind=False)
        disturb(lab, chance)
    for number in range(KIND_CYCLES):
        step(lab, chance, kind=True)
        provision(lab, chance, kind=True)
        if number % 4 == 3:
            finish(lab)
    waiting = [pod["metadata"]["name"] for pod in pods(lab) if not pod["spec"].get("nodeName")]
    assert waiting == []
    assert lab.selected() == {}
    for volume, claim in lab.given().items():
        assert lab.get("PersistentVolume", volume)["status"]["phase"] == "Bound", claim
    last = lab.cycle()
    assert (last.claims, last.releases, last.binds) == ((), (), ())


def test_the_judge_sees_a_pod_without_its_volume() -> None:
    """The judge has teeth."""
    lab = Lab(
        "node n1 cpu=1\nqueue q\njob q/j0 min=1 cpu=1 n1",
        volume_labs.storage_class(),
        volume_labs.claim("c0-0"),
        uses={"j0-0": ["c0-0"]},
    )
    result = lab.cycle()
    (pod,) = pods(lab)
    assert pod["metadata"]["namespace"] == pictures.NAMESPACE
    assert not reachable(lab, "c0-0", "n1")
    judge(lab, result)
