"""Domains of pods: their numbers, and what the next cycle may know of them."""

import numpy as np
import pytest

from vscheduler.core.shares import node_domains
from vscheduler.core.shares.demands import Place
from vscheduler.core.shares.node_domains import Domain, DomainDemands, NumberedDomains
from vscheduler.model.constraints import ClaimUse, Constraints, ResourceClaimUse
from vscheduler.model.jobs import JobId, PodClass

PLAIN = PodClass(request={"cpu": 2, "pods": 1})
CLAIM = PodClass(
    request={"cpu": 1, "pods": 1},
    constraints=Constraints(resource_claims=(ResourceClaimUse("gpu", "ns/claim"),)),
)
VOLUME = PodClass(
    request={"cpu": 1, "pods": 1},
    constraints=Constraints(volumes=(ClaimUse("ns/claim"),)),
)


def domain(*rows: int) -> Domain:
    """Return a domain of these nodes, of four."""
    mask = np.zeros(4, dtype=np.bool_)
    mask[list(rows)] = True
    return Domain(mask)


def place(job: str) -> Place:
    """Return the place of the only class of a job."""
    return JobId(job), 0


def test_pods_whose_nodes_change_with_claims_are_not_known() -> None:
    """A claim may be bound or allocated to a node while nodes and queues stay the same."""
    found = DomainDemands()
    for pod_class in (PLAIN, CLAIM, VOLUME):
        found.add(("q", pod_class), domain(0), place("ns/a"), 1)
    assert node_domains.lasting(found).keys() == {("q", PLAIN)}


def numbered() -> tuple[DomainDemands, DomainDemands]:
    """Pods that run, and pods that are unschedulable; two of the domains are of the same nodes."""
    here, there = DomainDemands(), DomainDemands()
    here.add(("q", PLAIN), domain(0, 1), place("ns/b"), 3)
    here.add(("r", PLAIN), domain(2), place("ns/d"), 1)
    there.add(("q", CLAIM), domain(0, 1), place("ns/e"), 2)
    there.add(("q", VOLUME), domain(3), place("ns/a"), 1)
    return here, there


def test_domains_come_in_the_order_of_their_first_pods() -> None:
    """Equal domains have one number, and what pods of a queue request there is added up."""
    found = NumberedDomains(numbered())
    assert [mask.tolist().index(True) for mask in found.masks] == [3, 0, 2]
    pairs = [("q", VOLUME), ("q", PLAIN), ("q", CLAIM), ("r", PLAIN), ("r", CLAIM)]
    assert [found.of(pair) for pair in pairs] == [0, 1, 1, 2, None]
    asked = {key: (each.pods, each.amounts) for key, each in found.requested.items()}
    assert asked == {
        ("q", 1): (5, {"cpu": 8, "pods": 5}),
        ("q", 0): (1, {"cpu": 1, "pods": 1}),
        ("r", 2): (1, {"cpu": 2, "pods": 1}),
    }


def test_domains_with_the_fewest_pods_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too many."""
    monkeypatch.setattr(node_domains, "DOMAINS_MAX", 2)
    found = NumberedDomains(numbered())
    assert found.merged
    assert [mask.tolist() for mask in found.masks] == [
        [True, True, False, False],
        [False, False, True, True],
    ]
    assert [found.of(("q", PLAIN)), found.of(("q", VOLUME)), found.of(("r", PLAIN))] == [0, 1, 1]
