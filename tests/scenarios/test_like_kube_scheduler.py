"""Verdicts that kube-scheduler 1.36 gave on small clusters: which nodes may a pod use?"""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests import running
from tests.scenarios import deciding
from tests.unit.mirror import manifests

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TIERS = running.tiers("gang | predicates nodeorder")
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def allowed(nodes: Mapping[str, Object], spec: Object, pods: Iterable[Object] = ()) -> list[str]:
    """The nodes that take a pod with this spec; nodes by name, with what stands in them."""
    documents = [
        *(manifests.node(name, ROOM, **rest) for name, rest in nodes.items()),
        manifests.queue("default"),
        manifests.group("g", {"minMember": 1}),
        *pods,
        manifests.pod("probe", group="g", spec=spec),
    ]
    session = running.open_session(documents, {"actions": "allocate", "tiers": TIERS})
    (state,) = session.job_states.values()
    (probe,) = state.job.tasks
    rows = session.layout.rows
    return [name for name in nodes if session.placement.feasible(probe, rows[name])]


def asks(cpu: str = "1", **rest: Any) -> Object:
    """The spec of a pod with one container."""
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}, **rest}]}


def selects(*terms: Object) -> Object:
    """A required node affinity of these terms, any of which will do; each has one requirement."""
    listed = [{"matchExpressions": [term]} if term else {} for term in terms]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}}


def prefers(preference: Object) -> Object:
    """A preferred node affinity."""
    listed = [{"weight": 1, "preference": preference}]
    return {"affinity": {"nodeAffinity": {PREFERRED: listed}}}


def disk(operator: str, number: str) -> Object:
    """A requirement on a label that is 5 on one node and text on the other."""
    return {"key": "disk", "operator": operator, "values": [number]}


def zone(name: str) -> Object:
    """A requirement on another label."""
    return {"key": "zone", "operator": "In", "values": [name]}


DISKS = {
    "a0": {"labels": {"disk": "5", "zone": "a"}},
    "a1": {"labels": {"disk": "abc", "zone": "b"}},
}
AFFINITY = {
    "an integer": (selects(disk("Gt", "4")), ["a0"]),
    "no number": (selects(disk("Gt", "abc")), []),
    "no number, or a zone": (selects(disk("Gt", "abc"), zone("a")), ["a0"]),
    "a fraction, or a zone": (selects(disk("Gt", "1.5"), zone("a")), ["a0"]),
    "beyond 64 bits": (selects(disk("Lt", "99999999999999999999")), []),
    "an empty term": (selects({}), []),
    "an empty term, or a zone": (selects({}, zone("b")), ["a1"]),
    "no number, preferred": (prefers({"matchExpressions": [disk("Gt", "abc")]}), ["a0", "a1"]),
    "nothing, preferred": (prefers({}), ["a0", "a1"]),
}


@pytest.mark.parametrize(("spec", "nodes"), AFFINITY.values(), ids=AFFINITY)
def test_a_term_that_means_nothing_matches_nothing(spec: Object, nodes: list[str]) -> None:
    """The terms beside it count all the same, and a preference that means nothing is none."""
    assert allowed(DISKS, asks() | spec) == nodes


def resized(name: str, at: str, container: bool, wish: str, given: str, reason: str) -> Object:
    """A pod of another scheduler that the kubelet is to give more or less than it has."""
    amounts = [{"requests": {"cpu": amount}} for amount in (wish, given)]
    kept = {"resources": amounts[1], "allocatedResources": {"cpu": given}}
    status: Object = {"containerStatuses": [{"name": "c", **kept}]} if container else kept
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    spec = asks(wish) if container else {"resources": amounts[0], "containers": [{"name": "c"}]}
    return manifests.pod(name, node=at, scheduler="other", spec=spec, status=status)


@pytest.mark.parametrize("container", [True, False], ids=["of a container", "of the whole pod"])
def test_a_resize_holds_the_most_that_it_may_come_to(container: bool) -> None:
    """Of 4 cpu, 2 are free only where the wish for 3 can't come true."""
    resizes = {
        "shrinks": ("1", "3", ""),
        "grows": ("3", "1", ""),
        "infeasible": ("3", "1", "Infeasible"),
        "deferred": ("3", "1", "Deferred"),
    }
    pods = [resized(name, name, container, *each) for name, each in resizes.items()]
    assert allowed({name: {} for name in resizes}, asks("2"), pods) == ["infeasible"]


RESTARTS: Object = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}
FEATURES = {
    "restarts all containers": (asks(**RESTARTS), ["f1", "f3"]),
    "an init container does": (asks() | {"initContainers": asks(**RESTARTS)["containers"]}, None),
    "restarts itself": (asks(restartPolicyRules=[{"action": "Restart"}]), ["f0", "f1", "f2", "f3"]),
    "own users on the host's network": (
        asks() | {"hostNetwork": True, "hostUsers": False},
        ["f2", "f3"],
    ),
    "own users": (asks() | {"hostUsers": False}, ["f0", "f1", "f2", "f3"]),
    "on the host's network": (asks() | {"hostNetwork": True}, ["f0", "f1", "f2", "f3"]),
    "both": (asks(**RESTARTS) | {"hostNetwork": True, "hostUsers": False}, ["f3"]),
}


@pytest.mark.parametrize(("spec", "nodes"), FEATURES.values(), ids=FEATURES)
def test_a_pod_goes_where_the_kubelet_has_what_it_needs(
    spec: Object, nodes: list[str] | None
) -> None:
    """As far as kubelets tell of such features, which not all versions of them have."""
    told = {
        "f0": [],
        "f1": ["RestartAllContainersOnContainerExits"],
        "f2": ["UserNamespacesHostNetworkSupport"],
        "f3": ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"],
    }
    declared = {name: {"status": {"declaredFeatures": each}} for name, each in told.items()}
    assert allowed(declared, spec) == (nodes or ["f1", "f3"])


def test_company_that_leaves_is_none_unlike_there() -> None:
    """kube-scheduler would put the pod beside one that is being deleted, docs/kube-scheduler.md."""
    nodes: dict[str, Object] = {
        name: {"labels": {"kubernetes.io/hostname": name}} for name in ("e0", "e1")
    }
    leaves = {"labels": {"app": "x"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    term = {
        "labelSelector": {"matchLabels": {"app": "x"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    spec = asks() | {"affinity": {"podAffinity": {REQUIRED: [term]}}}
    company = manifests.pod("l0", node="e0", scheduler="other", metadata=leaves)
    assert allowed(nodes, spec, [company]) == []
    company["metadata"].pop("deletionTimestamp")
    assert allowed(nodes, spec, [company]) == ["e0"]


def ready(status: str) -> Object:
    """More of a node, which says this of itself."""
    return {"status": {"conditions": [{"type": "Ready", "status": status}]}}


def test_a_node_that_isnt_ready_takes_nobody_unlike_there() -> None:
    """kube-scheduler goes by taints alone, which such a node mostly has, docs/kube-scheduler.md."""
    taint = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    nodes: dict[str, Object] = {
        "b0": ready("False"),
        "b1": ready("False") | {"spec": {"taints": taint}},
        "b2": ready("Unknown"),
        "b3": ready("True") | {"spec": {"unschedulable": True}},
        "b4": ready("True"),
    }
    everything = {"tolerations": [{"operator": "Exists"}]}
    assert allowed(nodes, asks()) == ["b4"]
    assert allowed(nodes, asks() | everything) == ["b3", "b4"]


def test_pods_that_ask_for_nothing_gather_unlike_there() -> None:
    """kube-scheduler counts some cpu and memory for each, docs/kube-scheduler.md."""
    picture = "node n1 cpu=4 pods=3 node n2 cpu=4 pods=3 queue q job q/p cpu=0 -*4"
    decided = deciding.decide(picture, "backfill", "gang | predicates nodeorder")
    assert decided == [deciding.bind(f"p-{at}", "n1" if at < 3 else "n2") for at in range(4)]
