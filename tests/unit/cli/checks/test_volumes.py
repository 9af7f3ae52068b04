from collections.abc import Sequence
from typing import Any

import pytest

from tests import running
from tests import volume_manifests as made
from tests.oracle import manifests
from vscheduler.cli.checks import volumes
from vscheduler.testing import pictures

Document = dict[str, Any]

IN_B = made.storage_class(
    "in-b", allowedTopologies=[{"matchLabelExpressions": [{"key": made.ZONE, "values": ["b"]}]}]
)
IN_A = made.bound(
    made.claim("a", ""), made.volume("pv-a", "", terms=made.on_labels(made.ZONE, "a"))
)
ALSO_IN_A = made.bound(made.claim("z", ""), made.volume("pv-z", "", labels={made.ZONE: "a"}))
LOST = {**made.claim("lost", "", volumeName="gone"), "status": {"phase": "Lost"}}


def said(objects: Sequence[Document], *claims: str) -> list[tuple[str, str]]:
    """What is found about a pod with these claims, on a node in zone a and one in zone b."""
    pod = manifests.pod("p", "default")
    pod["metadata"] |= {"uid": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    pod["spec"] |= {"schedulerName": pictures.SCHEDULER, "volumes": made.using(*claims)}
    nodes = [manifests.node(name, {made.ZONE: name}) for name in "ab"]
    group = manifests.group("default", "g")
    taken = running.snapshot_of([manifests.QUEUE, *nodes, *objects, group, pod])
    found = [*volumes.of_claims(taken.storage), *volumes.of_pods(taken)]
    return [(each.name, each.message) for each in found]


MISSING = "there is no PersistentVolumeClaim b among the given objects; without it the pod waits"

CASES = {
    "a claim that isn't there, beside others": (
        IN_A,
        ["a", "b"],
        [("default/p", MISSING)],
    ),
    "no claims at all": ([IN_B], ["b"], [("default/p", MISSING)]),
    "a class that isn't there": (
        [IN_B, made.claim("c", "fast")],
        ["c"],
        [
            (
                "default/c",
                "StorageClass fast isn't among those given; the claim is never bound",
            )
        ],
    ),
    "a class in name only": ([IN_B, made.claim("c", "hand"), made.volume("v", "hand")], ["c"], []),
    "no classes at all": ([made.claim("c", "fast")], ["c"], []),
    "a lost claim": (
        [LOST],
        ["lost"],
        [
            (
                "default/p",
                "PersistentVolumeClaim lost is lost or being deleted; the pod never starts",
            )
        ],
    ),
    "a volume and a class in different zones": (
        [*IN_A, IN_B, made.claim("c", "in-b")],
        ["a", "c"],
        [("default/p", "exclude each other: no given node can use a and c")],
    ),
    "a class in a zone, with a volume in the other": (
        [*IN_A, IN_B, made.claim("c", "in-b"), made.volume("v", "in-b")],
        ["a", "c"],
        [],
    ),
    "two volumes in one zone": ([*IN_A, *ALSO_IN_A], ["a", "z"], []),
    "a volume and a label in different zones": (
        [
            *made.bound(
                made.claim("b", ""), made.volume("pv-b", "", terms=made.on_labels(made.ZONE, "b"))
            ),
            *ALSO_IN_A,
        ],
        ["z", "b"],
        [("default/p", "exclude each other: no given node can use b and z")],
    ),
}


@pytest.mark.parametrize(("objects", "claims", "expected"), CASES.values(), ids=CASES)
def test_volumes_that_keep_pods_from_every_node(
    objects: Sequence[Document], claims: Sequence[str], expected: list[tuple[str, str]]
) -> None:
    """Named with the claims, and only where the input proves it."""
    assert said(objects, *claims) == expected
