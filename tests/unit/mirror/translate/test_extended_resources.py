"""What a claim for extended resources asks for, by container, as kube-scheduler 1.36 writes it."""

from typing import Any

import msgspec
import pytest

from vscheduler.mirror.decode.wire import PodSpec
from vscheduler.mirror.translate import extended_resources
from vscheduler.model import extended_resources as models

GPU = "example.com/gpu"
CLASSES = {GPU: "gpu"}


def container(name: str, requests: dict[str, str], **more: Any) -> dict[str, Any]:
    """A container with these requests."""
    return {"name": name, "resources": {"requests": requests}, **more}


def asked(
    early: list[dict[str, Any]], late: list[dict[str, Any]]
) -> tuple[dict[str, int | None], set[tuple[str, str]]]:
    """The requests of the claim with their counts, and which containers use which."""
    spec = msgspec.convert({"initContainers": early, "containers": late}, PodSpec)
    containers = extended_resources.of_pod(spec)
    use = extended_resources.use_of("ns/p", "u", containers, CLASSES)
    assert use is not None
    claim = extended_resources.claim_of(use, containers, CLASSES)
    (found,) = claim.extended
    assert sorted(found.requests) == [request.name for request in claim.requests]
    counts = {request.name: request.alternatives[0].count for request in claim.requests}
    return counts, {(mapping.container, mapping.request) for mapping in found.mappings}


def test_each_container_has_a_request() -> None:
    """Named by its place, and by the place of the resource among its requests by name."""
    late = [container("a", {"cpu": "1", GPU: "1"}), container("b", {GPU: "2", "z.io/z": "1"})]
    counts, mappings = asked([container("i", {"cpu": "1"})], late)
    assert counts == {"container-1-request-1": 1, "container-2-request-0": 2}
    assert mappings == {("a", "container-1-request-1"), ("b", "container-2-request-0")}


def test_init_containers_use_again_what_later_containers_have() -> None:
    """What the largest of them lacks is one request more, which they share."""
    early = [container("i", {GPU: "4"}), container("k", {GPU: "5"}), container("l", {GPU: "1"})]
    counts, mappings = asked(early, [container("a", {GPU: "1"}), container("b", {GPU: "2"})])
    assert counts == {
        "container-1-request-0": 2,
        "container-3-request-0": 1,
        "container-4-request-0": 2,
    }
    of_first = {("i", f"container-{at}-request-0") for at in (1, 3, 4)}
    of_second = {("k", request) for _, request in of_first}
    own = {("a", "container-3-request-0"), ("b", "container-4-request-0")}
    assert mappings == own | of_first | of_second | {("l", "container-3-request-0")}


def test_sidecars_keep_their_devices() -> None:
    """An init container uses those of later sidecars, not of earlier ones."""
    early = [
        container("before", {GPU: "1"}, restartPolicy="Always"),
        container("i", {GPU: "2"}),
        container("after", {GPU: "1"}, restartPolicy="Always"),
    ]
    counts, _ = asked(early, [container("a", {"cpu": "1"})])
    assert counts == {f"container-{at}-request-0": 1 for at in range(3)}


def test_a_limit_is_a_request() -> None:
    """Where there is no request, as in manifests that no API server has seen."""
    late = [{"name": "a", "resources": {"limits": {GPU: "2"}}}]
    assert asked([], late)[0] == {"container-0-request-0": 2}


@pytest.mark.parametrize(
    ("resource", "extended"),
    [
        (GPU, True),
        (f"{models.IMPLICIT}gpu", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/batch-cpu", False),
        ("requests.example.com/gpu", False),
    ],
)
def test_names_of_extended_resources(resource: str, *, extended: bool) -> None:
    """Those with a domain that isn't Kubernetes' own, and those that stand for each class."""
    assert extended_resources.is_extended(resource) is extended


def test_names_of_claims_are_not_too_long() -> None:
    """The name of the pod is cut; what follows from its UID isn't."""
    name = extended_resources.claim_name("p" * 80, "u")
    assert len(name) == 63
    assert name != extended_resources.claim_name("p" * 80, "v")
    assert extended_resources.claim_name("p", "u") == extended_resources.claim_name("p", "u")
