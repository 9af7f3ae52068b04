"""Nodes on which pods wait for their volumes: who may take them."""

import pytest

from tests import volume_labs
from tests.volume_labs import Lab, binds, waits
from vscheduler.core.model import claim_decisions, decisions

CLAIMS = [volume_labs.claim(f"data-{number}") for number in range(3)]
SLOW = volume_labs.storage_class()
WAITS = decisions.ReasonCode.WAITS_FOR_VOLUMES
RIVALS = """
    node  n1 cpu=2
    queue q
    job   q/low  min=2 cpu=1 -@1 -@1
    job   q/high min=1 cpu=2 priority={} {}
"""


@pytest.mark.parametrize(("priority", "takes"), [(5, True), (0, False), (-5, False)])
def test_a_more_important_job_takes_nodes_where_pods_wait_for_volumes(
    priority: int, takes: bool
) -> None:
    """Nobody is evicted for it; the requests are withdrawn."""
    uses = {f"low-{n}": [f"data-{n}"] for n in range(2)}
    lab = Lab(RIVALS.format(priority, "!"), SLOW, *CLAIMS[:2], uses=uses)
    assert len(waits(lab.cycle())) == 2
    lab.put(Lab(RIVALS.format(priority, "-"), uses={}).get("Pod", "high-0"))
    result = lab.cycle()
    assert binds(result) == ({"high-0": "n1"} if takes else {})
    assert len(result.releases) == (2 if takes else 0)
    (low,) = (each for each in result.groups if each.job == "default/low")
    assert low.reason is not None
    assert low.reason.code == (decisions.ReasonCode.NO_ROOM if takes else WAITS)
    after = lab.cycle()
    assert (after.binds, after.claims, after.releases) == ((), (), ())


def test_only_jobs_that_stand_in_the_way_give_up_their_nodes() -> None:
    """Of three that wait, the one on the large node."""
    picture = """
        node  n1 cpu=1
        node  n2 cpu=1
        node  n3 cpu=3
        queue q
        job   q/a min=1 cpu=1 select=host=n1 -
        job   q/b min=1 cpu=1 select=host=n2 -
        job   q/c min=1 cpu=1 select=host=n3 -
        job   q/high min=1 cpu=3 priority=5 {}
    """
    for number in (1, 2, 3):
        picture = picture.replace(f"n{number} cpu", f"n{number} label=host=n{number} cpu")
    uses = {f"{name}-0": [f"data-{n}"] for n, name in enumerate("abc")}
    lab = Lab(picture.format("!"), SLOW, *CLAIMS, uses=uses)
    assert len(waits(lab.cycle())) == 3
    lab.put(Lab(picture.format("-"), uses={}).get("Pod", "high-0"))
    result = lab.cycle()
    assert (binds(result), set(waits(result))) == ({"high-0": "n3"}, {"a-0", "b-0"})
    (release,) = result.releases
    assert isinstance(release, claim_decisions.ReleaseClaim)
    assert release.key == "default/data-2"
