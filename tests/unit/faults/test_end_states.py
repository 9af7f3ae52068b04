from typing import Any

from tests.faults import end_states


def group(name: str, minimum: int) -> dict[str, Any]:
    """A PodGroup."""
    return {"metadata": {"namespace": "ns", "name": name}, "spec": {"minMember": minimum}}


def pod(owner: str, node: str = "", cpu: str = "1", phase: str = "Running") -> dict[str, Any]:
    """A pod of a PodGroup."""
    metadata = {"namespace": "ns", "annotations": {"scheduling.k8s.io/group-name": owner}}
    container = {"resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def node(name: str, cpu: str, pods: int = 10) -> dict[str, Any]:
    """A node."""
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": str(pods)}}}


def test_a_gang_with_some_of_its_minimum_is_split() -> None:
    """One with none, or with all and not yet the rest, isn't."""
    groups = [group("none", 2), group("some", 3), group("enough", 1)]
    pods = [pod("none"), pod("none"), *[pod("some", "n")] * 2, pod("some"), pod("enough", "n")]
    assert end_states.split_gangs(groups, [*pods, pod("enough")]) == {"ns/some": "2 of 3"}


def test_a_node_that_holds_too_much_is_overfull() -> None:
    """In whatever it is; finished pods hold nothing, and what is just full is fine."""
    pods = [pod("g", "full"), pod("g", "full"), pod("g", "full", phase="Succeeded"), pod("g")]
    pods += [pod("g", "over", "1500m"), pod("g", "over", "600m"), pod("g", "crowded", "0")] * 2
    found = end_states.overfull_nodes(
        [node("full", "2"), node("over", "4"), node("crowded", "1", 1)], pods
    )
    assert found == {"over": "cpu 4200 of 4000", "crowded": "pods 2 of 1"}
