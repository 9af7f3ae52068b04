from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.translate import pod_requests
from vscheduler.model import resources


def of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    """The request of a pod with this spec, without its slot."""
    pod = manifests.read(manifests.pod("p", spec=spec, status=status or {}))
    assert isinstance(pod, Pod)
    found = pod_requests.of_pod(pod)
    assert found.pop("pods") == 1
    return found


def container(cpu: str = "", name: str = "main", **rest: Any) -> dict[str, Any]:
    """A container that asks for this much cpu."""
    return {"name": name, "resources": {"requests": {"cpu": cpu} if cpu else {}}, **rest}


def sidecar(cpu: str, name: str = "side") -> dict[str, Any]:
    """An init container that goes on running."""
    return container(cpu, name, restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m", "b")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        ({"containers": [container("3")], "initContainers": [container("1")]}, 3000),
        (
            # Init containers run one after the other: the largest counts.
            {"containers": [container("1")], "initContainers": [container("2"), container("3")]},
            3000,
        ),
        ({"containers": [container("1")], "initContainers": [sidecar("2")]}, 3000),
        (
            # The sidecar before an init container runs beside it.
            {"containers": [container("1")], "initContainers": [sidecar("2"), container("3")]},
            5000,
        ),
        (
            # The sidecar after it doesn't yet.
            {"containers": [container("1")], "initContainers": [container("3"), sidecar("1")]},
            3000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        (
            {
                "containers": [
                    {"name": "a", "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2}}}
                ]
            },
            1000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("9")],
                "resources": {"requests": {"cpu": "4"}},
                "overhead": {"cpu": "1"},
            },
            5000,
        ),
        ({"containers": [container()], "resources": {"limits": {"cpu": "4"}}}, 4000),
        ({"containers": [container("1")], "resources": {"limits": {"cpu": "4"}}}, 1000),
    ],
)
def test_requests_add_up_as_in_kubernetes(spec: dict[str, Any], cpu: int) -> None:
    """What runs together, or what starts before it, whichever is larger; overhead on top."""
    assert of(spec) == {"cpu": cpu}


def test_only_what_can_be_asked_of_a_node_counts() -> None:
    """Zeros and object counts are left out, amounts beyond every node are cut, names are sorted."""
    amounts = {"nvidia.com/gpu": 0, "memory": "9E", "count/pods": "5", "cpu": "1"}
    greedy = {"name": "a", "resources": {"requests": amounts}}
    found = of({"containers": [greedy, greedy]})
    assert list(found.items()) == [("cpu", 2000), ("memory", resources.REQUEST_MAX)]


def test_pod_level_requests_are_for_cpu_memory_and_huge_pages_only() -> None:
    """Other names at pod level mean nothing (Kubernetes: IsSupportedPodLevelResource)."""
    whole = {"requests": {"memory": "1Ki", "hugepages-2Mi": "2Mi", "example.com/x": "1"}}
    found = of({"containers": [container("1")], "resources": whole})
    assert found == {"cpu": 1000, "hugepages-2Mi": 2**21, "memory": 1024}


@pytest.mark.parametrize(
    ("node", "conditions", "cpu"),
    [
        ("n1", [], 3000),
        ("", [], 1000),
        ("n1", [{"type": "PodResizePending", "reason": "Deferred"}], 3000),
    ],
)
def test_a_resize_counts_the_larger_amount(
    node: str, conditions: list[dict[str, str]], cpu: int
) -> None:
    """Until the kubelet has shrunk a pod, it holds what it was given."""
    given = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    status = {
        "containerStatuses": [given | {"allocatedResources": {"cpu": "3"}}],
        "conditions": conditions,
    }
    assert of({"containers": [container("1")], "nodeName": node}, status) == {"cpu": cpu}


def test_a_resize_that_can_never_be_counts_what_was_given() -> None:
    """An infeasible wish isn't held against the node; sidecars are resized, too."""
    conditions = [{"type": "PodResizePending", "reason": "Infeasible"}]
    main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    side = {"name": "side", "resources": {"requests": {"cpu": "2"}}}
    status = {
        "containerStatuses": [main],
        "initContainerStatuses": [side],
        "conditions": conditions,
    }
    spec = {
        "containers": [container("99")],
        "initContainers": [sidecar("1")],
        "nodeName": "n1",
    }
    assert of(spec, status) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("wished", "given", "allocated", "reason", "cpu"),
    [
        ("1", "3", "3", "", 3000),
        ("3", "1", "1", "", 3000),
        ("1", "1", "2", "", 2000),
        ("3", "1", "1", "Deferred", 3000),
        ("3", "1", "1", "Infeasible", 1000),
        ("3", "1", "2", "Infeasible", 2000),
        ("3", None, "1", "Infeasible", 3000),
    ],
)
def test_a_resize_of_the_whole_pod_counts_like_that_of_a_container(
    wished: str, given: str | None, allocated: str, reason: str, cpu: int
) -> None:
    """The largest of wish, gift and promise, or the latter two where the wish can't come true; what
    is said of promises alone isn't looked at.
    """
    spec: dict[str, Any] = {"containers": [container()], "nodeName": "n1"}
    spec |= {"resources": {"requests": {"cpu": wished}, "limits": {"cpu": "8"}}}
    status: dict[str, Any] = {"allocatedResources": {"cpu": allocated}}
    if given is not None:
        status["resources"] = {"requests": {"cpu": given}}
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "reason": reason}]
    assert of(spec, status) == {"cpu": cpu}


def test_what_a_pod_was_given_as_a_whole_counts_whatever_it_asks_for() -> None:
    """Even a resource that the pod as a whole doesn't name, and instead of its containers' wish; a
    wish that nothing is given of is none where it can't come true.
    """
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": {"memory": "1Ki"}}}],
        "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}},
        "nodeName": "n1",
    }
    status: dict[str, Any] = {
        "resources": {"requests": {"cpu": "2", "memory": "9Ki"}},
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
    }
    assert of(spec, status) == {"cpu": 2000, "memory": 9216}


def given(name: str, cpu: str, field: str) -> dict[str, Any]:
    """What the kubelet says of a container: that it has set this much, or only promised it."""
    amounts = {"cpu": cpu}
    return {"name": name, field: {"requests": amounts} if field == "resources" else amounts}


@pytest.mark.parametrize("field", ["resources", "allocatedResources"])
def test_containers_are_added_up_before_the_larger_amount_is_taken(field: str) -> None:
    """One container grows by what another one shrinks: the pod needs no more than before."""
    spec = {"containers": [container("1", "a"), container("3", "b")], "nodeName": "n1"}
    status = {"containerStatuses": [given("a", "3", field), given("b", "1", field)]}
    assert of(spec, status) == {"cpu": 4000}


def test_what_a_sidecar_was_given_counts_beside_containers_that_report_nothing() -> None:
    """Sidecars start first."""
    spec = {"containers": [container("1")], "initContainers": [sidecar("1")], "nodeName": "n1"}
    status = {"initContainerStatuses": [given("side", "3", "resources")]}
    assert of(spec, status) == {"cpu": 4000}


def test_what_the_whole_pod_was_given_replaces_what_its_containers_were() -> None:
    """The kubelet reports both; only the former has all that the pod takes."""
    spec = {"containers": [container("1", "a")], "nodeName": "n1"}
    status = {
        "containerStatuses": [given("a", "9", "resources")],
        "resources": {"requests": {"cpu": "3"}},
        "allocatedResources": {"cpu": "2"},
    }
    assert of(spec, status) == {"cpu": 3000}


def test_what_a_pod_was_given_as_a_whole_means_nothing_before_it_has_a_node() -> None:
    """A pod that waits asks for what its spec says."""
    spec = {"containers": [container()], "resources": {"requests": {"cpu": "1"}}}
    assert of(spec, {"resources": {"requests": {"cpu": "3"}}}) == {"cpu": 1000}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"containers": [container("1"), container("x")]},
            "spec.containers[1].resources.requests.cpu",
        ),
        (
            {"initContainers": [container("-1")]},
            "spec.initContainers[0].resources.requests.cpu",
        ),
        ({"overhead": {"memory": "1GB"}}, "spec.overhead.memory"),
        ({"resources": {"requests": {"cpu": ""}}}, "spec.resources.requests.cpu"),
        ({"resources": {"limits": {"cpu": "."}}}, "spec.resources.limits.cpu"),
    ],
)
def test_a_bad_amount_is_told_with_its_place(spec: dict[str, Any], field: str) -> None:
    """The error names the field as a manifest has it."""
    with pytest.raises(FieldError) as caught:
        of(spec)
    assert caught.value.field == field
