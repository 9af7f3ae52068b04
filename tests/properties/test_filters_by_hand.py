"""The judge itself, on examples worked out by hand: what nodes say, and what they hold."""

from fractions import Fraction

import pytest

from tests.properties.filters_by_hand import amounts
from tests.properties.filters_by_hand.making import (
    HOST,
    TWO,
    Document,
    asking,
    asks,
    node,
    on_affinity,
    pod,
    takers,
)


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("1500m", Fraction(3, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("2Ki", Fraction(2048)),
        ("1e3", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("1Ei", Fraction(2**60)),
        ("5u", Fraction(1, 200_000)),
        (3, Fraction(3)),
    ],
)
def test_quantities(written: object, amount: Fraction) -> None:
    """Kubernetes: Quantity, "<number><suffix>", decimal, binary or an exponent."""
    assert amounts.quantity(written) == amount


def test_what_is_no_quantity_is_an_error() -> None:
    """`1 Gi` has a space."""
    with pytest.raises(ValueError, match="no quantity"):
        amounts.quantity("1 Gi")


def test_requests_of_containers_add_up() -> None:
    """The sum of the requests of the scheduled containers is less than the capacity."""
    assert takers(
        *TWO, pod("r", "n0", containers=asking(cpu="3")), pod("p", containers=asking(cpu="1001m"))
    ) == ["n1"]
    assert takers(
        *TWO, pod("r", "n0", containers=asking(cpu="3")), pod("p", containers=asking(cpu="1"))
    ) == ["n0", "n1"]
    two = [*asking(cpu="3"), *asking(cpu="2")]
    assert takers(*TWO, pod("p", containers=two)) == []


def test_what_is_not_asked_for_may_be_overcommitted() -> None:
    """kube-scheduler looks at a resource only where the pod asks for it."""
    full = pod("r", "n0", containers=asking(cpu="9"))
    assert takers(*TWO, full, pod("p", containers=asking(memory="1Gi"))) == ["n0", "n1"]
    assert takers(*TWO, full, pod("p", containers=asking(cpu="1m"))) == ["n1"]


def test_limits_stand_in_for_requests() -> None:
    """If you specify a limit for a resource, but no request, Kubernetes copies the limit."""
    limited = [{"name": "main", "resources": {"limits": {"cpu": "5"}}}]
    assert takers(*TWO, pod("p", containers=limited)) == []
    asked = {"limits": {"cpu": "5"}, "requests": {"cpu": "4"}}
    assert takers(*TWO, pod("p", containers=[{"name": "main", "resources": asked}])) == ["n0", "n1"]


def test_init_containers_run_one_by_one_and_sidecars_stay() -> None:
    """The highest of any init container, or the sum of all containers and sidecars."""
    main = asking(cpu="2")
    init = [{**asking(cpu="4")[0], "name": "init"}]
    side = [{**asking(cpu="1")[0], "name": "side", "restartPolicy": "Always"}]
    assert amounts.request(pod("p", containers=main, initContainers=init)) == {"cpu": 4}
    assert amounts.request(pod("p", containers=main, initContainers=[*side, *init])) == {"cpu": 5}
    assert amounts.request(pod("p", containers=main, initContainers=[*init, *side])) == {"cpu": 4}
    assert amounts.request(pod("p", containers=main, initContainers=side)) == {"cpu": 3}


def test_overhead_comes_on_top() -> None:
    """The overhead is considered in addition to the sum of container resource requests."""
    assert takers(*TWO, pod("p", containers=asking(cpu="4"), overhead={"cpu": "1m"})) == []
    assert takers(*TWO, pod("p", containers=asking(cpu="3"), overhead={"cpu": "1"})) == ["n0", "n1"]


def test_resources_of_the_pod_replace_those_of_its_containers() -> None:
    """Pod-level requests take precedence; for cpu, memory and huge pages only."""
    level = {"requests": {"cpu": "3", "example.com/x": "9"}}
    found = pod("p", containers=asking(cpu="1", memory="1"), resources=level)
    assert amounts.request(found) == {"cpu": 3, "memory": 1}
    limited = pod(
        "p", containers=asking(cpu="1"), resources={"limits": {"cpu": "4", "memory": "2"}}
    )
    assert amounts.request(limited) == {"cpu": 1, "memory": 2}


@pytest.mark.parametrize(
    ("wish", "has", "reason", "counted"),
    [("1", "3", "", 3), ("3", "1", "Deferred", 3), ("3", "1", "Infeasible", 1)],
)
@pytest.mark.parametrize("level", [False, True])
def test_a_resize_counts_as_the_larger(
    wish: str, has: str, reason: str, counted: int, *, level: bool
) -> None:
    """The scheduler uses the maximum of desired, allocated and actual requests; of a resize that
    is infeasible the desired ones don't count.
    """
    running = pod("r", "n0", containers=asking() if level else asking(cpu=wish))
    given = {"allocatedResources": {"cpu": has}, "resources": {"requests": {"cpu": has}}}
    if level:
        running["spec"]["resources"] = {"requests": {"cpu": wish}}
        running["status"] = given
    else:
        running["status"] = {"containerStatuses": [{"name": "main", **given}]}
    running["status"]["conditions"] = [{"type": "PodResizePending", "reason": reason}]
    assert amounts.request(running) == {"cpu": counted}


def test_slots_and_extended_resources() -> None:
    """A node takes so many pods, and no pod that asks for what it hasn't."""
    small = {"cpu": "4", "pods": "1", "example.com/gpu": "2"}
    nodes = (node("n0", allocatable=small), node("n1"))
    assert takers(*nodes, pod("r", "n0"), pod("p")) == ["n1"]
    assert takers(*nodes, pod("p", containers=asking(**{"example.com_gpu": "2"}))) == ["n0"]
    assert takers(*nodes, pod("p", containers=asking(**{"example.com_gpu": "3"}))) == []


def test_finished_pods_hold_nothing() -> None:
    """Room, ports and neighbourhood count until a pod has ended."""
    ended = pod("r", "n0", containers=asking(cpu="4"))
    wanted = pod("p", containers=asking(cpu="4"))
    assert takers(*TWO, ended, wanted) == ["n1"]
    for phase in ("Succeeded", "Failed"):
        assert takers(*TWO, {**ended, "status": {"phase": phase}}, wanted) == ["n0", "n1"]


def test_cordons_and_readiness() -> None:
    """A cordon is the taint node.kubernetes.io/unschedulable; one that isn't ready takes none."""
    closed = node("n0", spec={"unschedulable": True})
    lost = node("n2", conditions=[{"type": "Ready", "status": "Unknown"}])
    up = node("n3", conditions=[{"type": "Ready", "status": "True"}])
    anyway = [{"operator": "Exists"}]
    assert takers(closed, lost, up, pod("p")) == ["n3"]
    assert takers(closed, lost, up, pod("p", tolerations=anyway)) == ["n0", "n3"]


@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "l", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
    ],
)
def test_taints_and_tolerations(toleration: Document, *, bears: bool) -> None:
    """Keys and effects are the same, and the operator is Exists, or the values are equal; an empty
    key with Exists is about all, an empty effect about all effects.
    """
    for effect in ("NoSchedule", "NoExecute"):
        tainted = node("n0", spec={"taints": [{"key": "k", "value": "v", "effect": effect}]})
        wanted = toleration
        if toleration.get("effect"):
            other = {"NoSchedule": "NoExecute", "NoExecute": "NoSchedule"}
            same = toleration["effect"] if effect == "NoSchedule" else other[toleration["effect"]]
            wanted = {**toleration, "effect": same}
        assert takers(tainted, pod("p", tolerations=[wanted])) == ["n0"] * bears
        assert takers(tainted, pod("p")) == []
    soft = node("n0", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})
    assert takers(soft, pod("p")) == ["n0"]


def test_node_selectors() -> None:
    """The node must have each of the labels you specify."""
    assert takers(*TWO, pod("p", nodeSelector={"zone": "x"})) == ["n0"]
    assert takers(*TWO, pod("p", nodeSelector={"zone": "x", HOST: "n1"})) == []


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([asks("zone", "In", "x", "z")], ["n0"]),
        ([asks("zone", "NotIn", "x")], ["n1", "n2"]),
        ([asks("zone", "Exists")], ["n0", "n1"]),
        ([asks("zone", "DoesNotExist")], ["n2"]),
        ([asks("size", "Gt", "7")], ["n1"]),
        ([asks("size", "Gt", "8")], []),
        ([asks("size", "Lt", "9")], ["n1"]),
        ([asks("zone", "Gt", "7")], []),
        ([asks("size", "Lt", "9" * 20)], []),
        ([asks("size", "Gt", "1.5"), asks("zone", "In", "x")], ["n0"]),
        ([asks("zone", "In", "x"), asks("size", "Exists")], ["n0", "n1"]),
        ([{**asks("zone", "In", "x"), "matchFields": []}], ["n0"]),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], ["n1"]),
        (
            [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}],
            ["n0", "n2"],
        ),
        ([{}], []),
        ([], []),
        ([{}, asks("zone", "In", "y")], ["n1"]),
    ],
)
def test_required_node_affinity(terms: list[Document], names: list[str]) -> None:
    """Terms are ORed, expressions of one ANDed; an empty term matches nothing."""
    nodes = (node("n0", "x"), node("n1", "y"), node("n2"))
    nodes[1]["metadata"]["labels"]["size"] = "8"
    assert takers(*nodes, pod("p", affinity=on_affinity(*terms))) == names


def test_expressions_of_a_term_must_all_hold_beside_the_selector() -> None:
    """If you specify both nodeSelector and nodeAffinity, both must be satisfied."""
    both = {
        "matchExpressions": [
            *asks("zone", "Exists")["matchExpressions"],
            *asks("zone", "NotIn", "x")["matchExpressions"],
        ]
    }
    affinity = on_affinity(both)
    assert takers(*TWO, pod("p", affinity=affinity)) == ["n1"]
    assert takers(*TWO, pod("p", affinity=affinity, nodeSelector={"zone": "x"})) == []


@pytest.mark.parametrize(
    ("one", "other", "free"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "0.0.0.0"}, False),  # noqa: S104
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"containerPort": 80}, {"hostPort": 80}, True),
    ],
)
def test_host_ports(one: Document, other: Document, *, free: bool) -> None:
    """The combination of hostIP, hostPort and protocol must be unique, 0.0.0.0 is every IP."""
    running, waiting = ([{"name": "main", "ports": [each]}] for each in (one, other))
    found = takers(*TWO, pod("r", "n0", containers=running), pod("p", containers=waiting))
    assert found == ["n0", "n1"][not free :]


def test_ports_of_the_host_s_network_and_of_sidecars() -> None:
    """With hostNetwork each container port is one of the host; init containers give theirs back."""
    port = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}
    plain = {"name": "main", "ports": [{"containerPort": 80}]}
    waiting = pod("p", containers=[port])
    assert takers(*TWO, pod("r", "n0", containers=[plain], hostNetwork=True), waiting) == ["n1"]
    side = {**port, "name": "side", "restartPolicy": "Always"}
    assert takers(*TWO, pod("r", "n0", initContainers=[side]), waiting) == ["n1"]
    assert takers(*TWO, pod("r", "n0", initContainers=[port]), waiting) == ["n0", "n1"]
