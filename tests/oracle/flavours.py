"""What a node or a pod may have that filters look at, one function for each, by chance."""

import random
from collections.abc import Callable
from typing import Any

from tests.oracle import manifests

Document = manifests.Document
Flavour = Callable[[random.Random, Document], None]

ZONES = ("a", "b", "c")
TAINTS = ("lab", "spot")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
ADDRESSES = ("", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1")  # noqa: S104  # a pod's
GPU = "example.com/gpu"


def labelled(chance: random.Random, node: Document) -> None:
    """Zone, rack and disk, or some of them; a few nodes have no hostname."""
    labels = node["metadata"]["labels"]
    if chance.random() < 0.9:
        labels["zone"] = chance.choice(ZONES)
    if chance.random() < 0.5:
        labels["rack"] = chance.choice("xy")
    if chance.random() < 0.7:
        labels["disk"] = chance.choice(("1", "5", "5", "10", "0", "007", "abc", ""))
    if chance.random() < 0.05:
        del labels[manifests.HOST]


def narrow(chance: random.Random, node: Document) -> None:
    """Little room of everything."""
    room = node["status"]["allocatable"] = node["status"]["capacity"] = {
        "cpu": chance.choice(("1", "2", "1500m", "4")),
        "memory": chance.choice(("1Gi", "2Gi", "1500M", "4Gi")),
        "pods": "110",
    }
    if chance.random() < 0.7:
        room["ephemeral-storage"] = chance.choice(("1Gi", "4Gi"))
    if chance.random() < 0.5:
        room[GPU] = str(chance.randint(0, 3))
    if chance.random() < 0.3:
        room["hugepages-2Mi"] = chance.choice(("0", "4Mi", "64Mi"))


def few_slots(chance: random.Random, node: Document) -> None:
    """Room for a few pods, or for none."""
    room = node["status"]["allocatable"]
    node["status"]["allocatable"] = {**room, "pods": str(chance.randint(0, 4))}


def tainted(chance: random.Random, node: Document) -> None:
    """Up to two taints."""
    taints = {
        (chance.choice(TAINTS), chance.choice(EFFECTS)): chance.choice(("", "yes", "5"))
        for _ in range(chance.choice((0, 1, 1, 2)))
    }
    node["spec"]["taints"] += [
        {"key": key, "effect": effect, **({"value": value} if value else {})}
        for (key, effect), value in taints.items()
    ]


def cordoned(chance: random.Random, node: Document) -> None:
    """Cordoned, with or without the taint that a controller adds."""
    if chance.random() < 0.5:
        node["spec"]["unschedulable"] = True
    if chance.random() < 0.3:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        node["spec"]["taints"].append(taint)


def unwell(chance: random.Random, node: Document) -> None:
    """Not ready or on its way out, and tainted for it or not."""
    status = chance.choice(("True", "True", "False", "Unknown", ""))
    node["status"]["conditions"] = [{"type": "Ready", "status": status}] if status else []
    if status != "True" and chance.random() < 0.5:
        taint = {"key": "node.kubernetes.io/not-ready", "effect": chance.choice(EFFECTS)}
        node["spec"]["taints"].append(taint)
    if chance.random() < 0.2:
        node["metadata"]["deletionTimestamp"] = manifests.LEAVING


def declaring(chance: random.Random, node: Document) -> None:
    """Some of the features that kubelets of 1.37 declare."""
    known = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]
    node["status"]["declaredFeatures"] = sorted(chance.sample(known, chance.randint(0, 2)))


def amounts(chance: random.Random) -> dict[str, Any]:
    """The resources of a container: requests, limits, both or none."""
    sizes = {
        "cpu": ("0", "100m", "500m", "1", "1500m", "2"),
        "memory": ("0", "100Mi", "512Mi", "1Gi", "1G", "2Gi"),
        "ephemeral-storage": ("0", "100Mi", "1Gi"),
        GPU: ("0", "1", "2"),
        "hugepages-2Mi": ("2Mi", "8Mi"),
    }
    parts = {"cpu": 0.7, "memory": 0.6, "ephemeral-storage": 0.2, GPU: 0.2, "hugepages-2Mi": 0.08}
    asked = {
        name: chance.choice(sizes[name]) for name, part in parts.items() if chance.random() < part
    }
    if "hugepages-2Mi" in asked:
        asked.setdefault("cpu", "100m")  # validation wants one of the two beside them
    whole = {name: amount for name, amount in asked.items() if name in {GPU, "hugepages-2Mi"}}
    if chance.random() < 0.25:
        return {"limits": asked}
    return {"requests": asked, "limits": whole} if whole else {"requests": asked}


def asking(chance: random.Random, pod: Document) -> None:
    """One to three containers that ask for something."""
    pod["spec"]["containers"] = [
        manifests.container(f"c{number}", resources=amounts(chance))
        for number in range(chance.choice((1, 1, 2, 3)))
    ]


def starting(chance: random.Random, pod: Document) -> None:
    """Init containers, some of which go on as sidecars."""
    pod["spec"]["initContainers"] = [
        manifests.container(
            f"i{number}",
            resources=amounts(chance),
            **({"restartPolicy": "Always"} if chance.random() < 0.5 else {}),
        )
        for number in range(chance.randint(1, 3))
    ]


def heavier(chance: random.Random, pod: Document) -> None:
    """A runtime class with an overhead."""
    pod["spec"]["runtimeClassName"] = chance.choice(tuple(manifests.OVERHEADS))


def bounded(chance: random.Random, pod: Document) -> None:
    """Resources of the pod as a whole, which have to cover those of its containers."""
    for each in pod["spec"]["containers"]:
        each["resources"] = {}
        if chance.random() < 0.4:
            each["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    asked = {}
    if chance.random() < 0.8:
        asked["cpu"] = chance.choice(("500m", "1", "1500m", "2"))
    if chance.random() < 0.7:
        asked["memory"] = chance.choice(("256Mi", "1Gi", "2Gi"))
    pod["spec"]["resources"] = {chance.choice(("requests", "limits")): asked} if asked else {}


def open_to_hosts(chance: random.Random, pod: Document) -> None:
    """Host ports, of sidecars as well, and pods in the host's network."""
    ports = {
        (
            chance.choice((80, 80, 81)),
            chance.choice(("TCP", "TCP", "UDP", "SCTP")),
            chance.choice(ADDRESSES),
        )
        for _ in range(chance.choice((1, 1, 2)))
    }
    listed = [
        {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": address}
        for port, protocol, address in sorted(ports)
    ]
    if chance.random() < 0.15:
        pod["spec"]["hostNetwork"] = True
        for each in listed:
            del each["hostPort"], each["hostIP"]
        unique = {(each["containerPort"], each["protocol"]): each for each in listed}
        listed = list(unique.values())
    if chance.random() < 0.25:
        sidecar = manifests.container("side", restartPolicy="Always", ports=listed)
        pod["spec"]["initContainers"] = [
            *pod["spec"].get("initContainers", []),
            sidecar if chance.random() < 0.7 else manifests.container("side", ports=listed),
        ]
    else:
        pod["spec"]["containers"][0]["ports"] = listed


def tolerant(chance: random.Random, pod: Document) -> None:
    """Tolerations of all shapes."""
    found: list[Document] = []
    for _ in range(chance.choice((0, 1, 1, 2))):
        if chance.random() < 0.1:
            found.append({"operator": "Exists"})
            continue
        each = {"key": chance.choice((*TAINTS, "node.kubernetes.io/unschedulable"))}
        if chance.random() < 0.2:
            each["key"] = "node.kubernetes.io/not-ready"
        if chance.random() < 0.5:
            each["operator"] = "Exists"
        else:
            each["value"] = chance.choice(("", "yes", "5"))
            if chance.random() < 0.5:
                each["operator"] = "Equal"
        if chance.random() < 0.6:
            each["effect"] = chance.choice(EFFECTS)
        found.append(each)
        if each.get("effect") == "NoExecute" and chance.random() < 0.3:
            found[-1] = {**each, "tolerationSeconds": 60}
    pod["spec"]["tolerations"] = found


def selective(chance: random.Random, pod: Document) -> None:
    """A node selector."""
    pod["spec"]["nodeSelector"] = chance.choice(
        ({"zone": "a"}, {"zone": "b"}, {"disk": "5"}, {"disk": ""}, {"zone": "a", "rack": "x"}, {})
    )


def choosy(chance: random.Random, pod: Document) -> None:
    """Required node affinity: labels and fields, all operators, several terms."""
    _choose(chance, pod, ("0", "1", "4", "5"))


def oddly_choosy(chance: random.Random, pod: Document) -> None:
    """The same with bounds that are no whole numbers, or are too large."""
    _choose(chance, pod, ("1.5", "abc", "99999999999999999999", "", "0x5", "5"))


def _choose(chance: random.Random, pod: Document, bounds: tuple[str, ...]) -> None:
    odd = "abc" in bounds
    terms = [_node_term(chance, bounds, odd=odd) for _ in range(chance.choice((1, 1, 2, 3)))]
    affinity = pod["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {manifests.REQUIRED: {"nodeSelectorTerms": terms}}
    if chance.random() < 0.3:
        preferred = {"weight": 5, "preference": _node_term(chance, bounds, odd=odd)}
        affinity["nodeAffinity"][manifests.PREFERRED] = [preferred]


def _node_term(chance: random.Random, bounds: tuple[str, ...], *, odd: bool) -> Document:
    if chance.random() < 0.08:
        return {}
    term: Document = {}
    if chance.random() < 0.85:
        term["matchExpressions"] = [
            _expression(chance, bounds, odd=odd) for _ in range(chance.choice((1, 1, 2)))
        ]
    if chance.random() < 0.25 or not term:
        operator, name = chance.choice(("In", "NotIn")), f"n{chance.randrange(8)}"
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    return term


def _expression(chance: random.Random, bounds: tuple[str, ...], *, odd: bool) -> Document:
    if odd and chance.random() < 0.5:
        operator = chance.choice(("Gt", "Lt"))
    else:
        operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    key = "disk" if operator in {"Gt", "Lt"} else chance.choice(("zone", "disk", "rack"))
    expression: Document = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        expression["values"] = chance.sample(("a", "b", "5", "x", "", "abc"), 2)
    elif operator in {"Gt", "Lt"}:
        expression["values"] = [chance.choice(bounds)]
    return expression


def gated(chance: random.Random, pod: Document) -> None:
    """Scheduling gates, or none."""
    if chance.random() < 0.5:
        pod["spec"]["schedulingGates"] = [{"name": "oracle.test/wait"}]


def restarting(chance: random.Random, pod: Document) -> None:
    """Rules that need a feature which the node declares, or none."""
    if chance.random() < 0.5:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}
        pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def leaving(chance: random.Random, pod: Document) -> None:
    """Being deleted, or not."""
    if chance.random() < 0.5:
        pod["metadata"]["deletionTimestamp"] = manifests.LEAVING


def finished(chance: random.Random, pod: Document) -> None:
    """Over, or not."""
    pod["status"] = {"phase": chance.choice(("Succeeded", "Failed", "Running", "Running"))}


def resized(chance: random.Random, pod: Document) -> None:
    """A pod whose containers and sidecars have something else than they ask for by now."""
    pod["status"] = {"phase": "Running", "conditions": _resizing(chance)}
    for field, statuses in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        pod["status"][statuses] = [
            {
                "name": each["name"],
                "image": "pretended",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                **_reported(chance),
            }
            for each in pod["spec"].get(field, [])
        ]


def resized_whole(chance: random.Random, pod: Document) -> None:
    """A pod with resources of its own, which has something else by now."""
    bounded(chance, pod)
    pod["status"] = {"phase": "Running", "conditions": _resizing(chance), **_reported(chance)}


def _reported(chance: random.Random) -> Document:
    asked = {"cpu": chance.choice(("250m", "1", "3")), "memory": chance.choice(("64Mi", "2Gi"))}
    found: Document = {}
    if chance.random() < 0.8:
        found["resources"] = {"requests": asked}
    if chance.random() < 0.8:
        found["allocatedResources"] = asked
    return found


def _resizing(chance: random.Random) -> list[Document]:
    reason = chance.choice(("", "Infeasible", "Deferred"))
    pending = {"type": "PodResizePending", "status": "True", "reason": reason}
    return [pending] if reason else []


def nominated(chance: random.Random, pod: Document) -> None:
    """A pod of kube-scheduler's that isn't on its node yet, or is."""
    if chance.random() < 0.5:
        pod["spec"]["schedulerName"] = manifests.ELDER
