"""What would start a gang that has to be in one domain of the network."""

from typing import Any

import pytest

from tests import running
from tests.properties import edited_manifests
from tests.properties.edited_manifests import Cluster
from vscheduler.explain import remedies, wording
from vscheduler.explain.remedies import Explanation
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

RACKS = """
    node a1 cpu=2 label=spine=s label=rack=a   node a2 cpu=2 label=spine=s label=rack=a
    node b1 cpu=2 label=spine=s label=rack=b   node b2 cpu=2 label=spine=s label=rack=b
    queue q
"""
NAME = "set highestTierName: spine instead of {} in the network topology of the PodGroup"
NUMBER = "set highestTierAllowed: 2 (spine) instead of 1 in the network topology of the PodGroup"
SOFT = "set mode: soft in the network topology of the PodGroup"
PATIENCE = {
    "volcano.sh/network-topology-patience": "10m",
    "volcano.sh/network-topology-preferred-tier": "rack",
}


def cluster(picture: str) -> Cluster:
    """Two racks of two nodes below one spine, and jobs."""
    tiers = running.tiers("priority gang | predicates proportion")
    levels = {"topologies": [{"name": "fabric", "levels": ["spine", "rack"]}]}
    tiers[-1]["plugins"].append({"name": "network-topology-aware", "arguments": levels})
    tree = {"actions": "enqueue, allocate, backfill", "tiers": tiers}
    return Cluster(documents=pictures.documents(RACKS + picture), configuration=tree)


def explained(there: Cluster) -> Explanation:
    """The explanation of job `late`."""
    given = run.read(there.documents, there.policy, Options())
    return remedies.explain(given, there.policy, "default/late")


def lines(there: Cluster) -> list[str]:
    """The remedies of job `late`, each carried out on the manifests by other means, too."""
    found = explained(there)
    assert found.starts is None
    assert found.cut == ()
    for remedy in found.remedies:
        assert edited_manifests.starts(there, "default/late", remedy.change)
    return [wording.sentence(remedy) for remedy in found.remedies]


JOBS = {
    "by number": ("job q/late min=3 cpu=2 topology=hard:1 - - -", [NUMBER, SOFT]),
    "by name": ("job q/late min=3 cpu=2 topology=hard:rack - - -", [NAME.format("rack"), SOFT]),
    "no such name": ("job q/late min=3 cpu=2 topology=hard:row - - -", [NAME.format("row"), SOFT]),
    "lost pod": (
        "job q/busy min=1 cpu=2 a1   job q/late min=2 cpu=2 topology=hard:1 a2 -",
        [NUMBER, SOFT],
    ),
}


@pytest.mark.parametrize(("job", "expected"), JOBS.values(), ids=JOBS)
def test_a_wider_domain_is_tried(job: str, expected: list[str]) -> None:
    """The tier above, in the form in which the PodGroup names its tier, and a soft topology."""
    assert [each for each in lines(cluster(job)) if "topology" in each] == expected


def test_the_lowest_tier_that_helps_is_shown() -> None:
    """Nothing between the racks and the row is wide enough."""
    there = cluster("job q/late min=5 cpu=1 topology=hard:1 -*5")
    for document in there.documents:
        if document["kind"] == "Node":
            labels = document["metadata"]["labels"]
            labels["row"], labels["spine"] = "r", f"s{labels['rack']}"
    (plugin,) = (
        each
        for tier in there.configuration["tiers"]
        for each in tier["plugins"]
        if each["name"] == "network-topology-aware"
    )
    plugin["arguments"]["topologies"][0]["levels"].insert(0, "row")
    assert NUMBER.replace("2 (spine)", "3 (row)") in lines(there)


def test_sub_groups_are_widened() -> None:
    """The job may use the spine, and its sub-groups a rack each."""
    there = cluster("job q/late min=3 cpu=2 topology=hard:2 label=group=x - - -")
    group = _group(there)
    group["spec"]["subGroupPolicy"] = [
        {
            "name": "workers",
            "subGroupSize": 3,
            "matchLabelKeys": ["group"],
            "labelSelector": {},
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
    ]
    assert NUMBER in lines(there)


def test_what_can_not_help_is_not_shown() -> None:
    """No domain holds five pods of a node each."""
    found = lines(cluster("job q/late min=5 cpu=2 topology=hard:1 -*5"))
    assert not [each for each in found if "topology" in each]


def test_a_patient_gang_starts_when_its_patience_ends() -> None:
    """The spine that it may use has room by then."""
    there = cluster("job q/late min=3 cpu=2 topology=hard:2 - - -")
    _group(there)["metadata"]["annotations"] = PATIENCE
    (found,) = [each for each in lines(there) if "patience" in each]
    assert found == "wait until 11:10:00, when its patience ends"


def test_a_node_is_added_where_the_fewest_are_needed() -> None:
    """In the rack with most room, though four other racks come before it."""
    racks = "\n".join(
        f"node {rack}{number} cpu=2 label=spine=s label=rack={rack}"
        for rack in "cdefg"
        for number in (1, 2)
    )
    busy = " ".join(f"{rack}1 {rack}1 {rack}2" for rack in "abcdef")
    jobs = f"job q/busy min=1 {busy} g1   job q/late min=4 topology=hard:1 -*4"
    found = next(each for each in lines(cluster(f"{racks}   {jobs}")) if "add" in each)
    assert found == "add 1 more node like g1 (2 cpu)"


RESTART = "restart it: delete its 1 running pod"


@pytest.mark.parametrize(("busy", "helps"), [("a1", True), ("a1 b1", False)])
def test_a_gang_that_lost_a_pod_may_be_restarted(busy: str, helps: bool) -> None:
    """If another rack has room for all of it."""
    there = cluster(f"job q/busy min=1 cpu=2 {busy}   job q/late min=2 cpu=2 topology=hard:1 a2 -")
    assert (RESTART in lines(there)) is helps


def test_the_best_domains_are_named() -> None:
    """With what blocks each of them, in words and for programs."""
    there = cluster("job q/busy min=1 cpu=2 a1 b1   job q/late min=2 cpu=2 topology=hard:1 - -")
    found = explained(there)
    best = [
        "s/a has room for 1 of 2 pods (of its 2 nodes: 1 Insufficient cpu)",
        "s/b has room for 1 of 2 pods (of its 2 nodes: 1 Insufficient cpu)",
    ]
    assert wording.tree(found)["domains"] == best
    lines = wording.lines(found)[1:4]
    assert lines == ["The domains with most room:", *(f"  - {each}" for each in best)]


def _group(there: Cluster) -> dict[str, Any]:
    return next(each for each in there.documents if each["kind"] == "PodGroup")
