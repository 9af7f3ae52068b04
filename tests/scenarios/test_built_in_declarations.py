"""What built-in plugins declare is what their answers depend on: where one would forget something.

Each cycle is compared with one that knows nothing of earlier ones (Around).
"""

import pytest

from tests import running
from tests.scenarios.deciding import decide, evict, pipeline
from tests.unit.core.placement.unschedulable_cluster import Around
from vscheduler.core.eviction import victim_columns
from vscheduler.model.decisions import Reason, ReasonCode

HOUR = 3600.0


def around(picture: str, tiers: str, later: str = "") -> Around:
    """A cluster after its first cycle, to which a pod comes later."""
    tree = {"actions": "enqueue, allocate", "tiers": running.tiers(tiers)}
    cluster = Around(picture, tree)
    if later:
        cluster.remove("Pod", later)
    cluster.cycle()
    return cluster


def reason(cluster: Around, job: str) -> Reason | None:
    """Why the job waits after another cycle."""
    found = {str(group.job): group.reason for group in cluster.cycle().groups}
    return found[f"default/{job}"]


def test_zones_of_tdm_open_with_time() -> None:
    """Nothing but time passes, and the pod starts."""
    cluster = around(
        """
        node  n1 cpu=2 label=volcano.sh/revocable-zone=night
        queue q
        job   q/batch preemptable=true min=1 phase=Inqueue -
        """,
        "gang | tdm:tdm.revocable-zone.night=12:30-21:00 predicates",
    )
    cluster.now += HOUR
    assert [bind.node for bind in cluster.cycle().binds] == ["n1"]


def test_what_a_queue_has_decides_in_capacity() -> None:
    """Another job starts on a node that the reason doesn't name; the queue has too much then."""
    cluster = around(
        """
        node  n1 cpu=8   node n2 cpu=8 label=kubernetes.io/hostname=n2
        queue q capability=cpu:6   queue other
        job   other/one min=1 cpu=4 phase=Running n1
        job   other/two min=1 cpu=6 phase=Running n2
        job   q/late min=1 cpu=6 phase=Inqueue -
        job   q/small min=1 cpu=1 select=kubernetes.io/hostname=n2 phase=Inqueue -
        """,
        "gang | capacity predicates",
        later="small-0",
    )
    assert cluster.unschedulable == {"default/late"}
    cluster.show(cluster.documents["Pod", "small-0"])
    found = reason(cluster, "late")
    assert found is not None
    assert found.code is ReasonCode.QUEUE_OVER_SHARE


@pytest.mark.parametrize(
    ("tiers", "lender"),
    [
        ("gang | capacity predicates", "deserved=cpu:1 guarantee=cpu:2"),
        ("gang drf:enableHierarchy=true | predicates", ""),
    ],
    ids=["capacity", "drf"],
)
def test_amounts_of_victims_decide(
    tiers: str, lender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large pod, which is asked about first, may not go; the small one may.

    Groups of equal pods are left out of account, as where there are too many.
    """
    monkeypatch.setattr(victim_columns, "GROUPS_MAX", 0)
    picture = f"""
        node  n1 cpu=2   node n2 cpu=2
        queue lender {lender}   queue poor deserved=cpu:2
        job   lender/large min=0 cpu=2 n1
        job   lender/small min=0 cpu=1 n2
        job   poor/there min=1 cpu=1 n2
        job   poor/needy min=1 cpu=1 -
        """
    found = decide(picture, "allocate, reclaim", tiers)
    assert found == [evict("small-0", for_="needy"), pipeline("needy-0", "n2")]
