"""Why gangs wait that have to be in one domain of the network."""

import pytest

from tests import running
from tests.scenarios.test_network_topology_aware import nodes, policy
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import Reason
from vscheduler.testing import pictures

RACKS = nodes(("s", "a", 3, 2), ("s", "b", 2, 2), ("s", "c", 2, 2)) + "\n queue q\n"


def reason(picture: str) -> Reason | None:
    """Why job `late` waits."""
    result = running.run(pictures.documents(RACKS + picture), policy())
    (found,) = (each.reason for each in result.groups if each.job == "default/late")
    return found


SCENES = {
    "the best rack": (
        "job q/busy min=1 cpu=2 n1 n4   job q/late min=3 cpu=2 topology=hard:1 - - -",
        (
            "3 pods must start in one rack; the best, s/a, has room for 2 "
            "(of its 3 nodes: 1 Insufficient cpu); then s/c for 2 and s/b for 1"
        ),
    ),
    "by name": (
        "job q/busy min=1 cpu=2 n1 n4 n6   job q/late min=3 cpu=2 topology=hard:rack - - -",
        (
            "3 pods must start in one rack; the best, s/a, has room for 2 "
            "(of its 3 nodes: 1 Insufficient cpu); then s/b for 1 and s/c for 1"
        ),
    ),
    "never": (
        "job q/busy min=1 cpu=2 n1   job q/late min=4 cpu=2 topology=hard:1 -*4",
        (
            "4 pods must start in one rack; the largest, s/a, could hold 3 if it were empty; "
            "allow a higher tier, ask for less, or add nodes"
        ),
    ),
    "a lost pod": (
        "job q/busy min=1 cpu=2 n5   job q/late min=2 cpu=2 topology=hard:1 n4 -",
        "s/b is full for 1 of 2 pods (of its 2 nodes: 2 Insufficient cpu); s/c would hold all 2",
    ),
    "a lost pod, and no rack that holds all": (
        "job q/busy min=1 cpu=2 n5 n1 n2 n6   job q/late min=2 cpu=2 topology=hard:1 n4 -",
        "s/b is full for 1 of 2 pods (of its 2 nodes: 2 Insufficient cpu)",
    ),
    "anywhere": (
        "job q/busy min=1 cpu=2 n1 n4 n6   job q/late min=5 cpu=2 topology=soft -*5",
        ("needs 5 pods of 2 cpu; 4 of 5 fit; 0/7 nodes are available: 3 Insufficient cpu"),
    ),
}


@pytest.mark.parametrize(("picture", "expected"), SCENES.values(), ids=SCENES)
def test_the_sentence_names_domains(picture: str, expected: str) -> None:
    """The best ones, how many pods they have room for, and what blocks them."""
    found = reason(picture)
    assert found is not None
    assert sentences.sentence(found) == expected
