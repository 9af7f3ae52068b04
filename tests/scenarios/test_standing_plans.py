"""What a plan of evictions rests on stays until its job has started."""

import pytest

from tests import running
from vscheduler.model.snapshot import Carried
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

TREE = {"actions": "allocate, reclaim", "tiers": running.tiers(running.STANDARD)}
NEAR = """
    node  n0 cpu=2 label=zone=a    node  n1 cpu=2 label=zone=b
    queue rich weight=1         queue poor weight=1000
    job   rich/f0 label=app=db  n0      job rich/f1 n0
    job   rich/f2 label=app=db  n1      job rich/f3 n1
    job   poor/first  {label} near=app=db@zone select=zone=a age=9  -
    job   poor/second select=zone=a age=1 -
    """
SPREAD = """
    node  n0 cpu=3 label=zone=a    node  n1 cpu=1 label=zone=b
    queue rich weight=1            queue poor weight=1000
    job   rich/f0 label=app=db  n0      job rich/f1 cpu=2 n0
    job   rich/f2 label=app=db  n1
    job   poor/first  label=app=db cpu=2 spread=app=db@zone:1 age=9  -
    job   poor/second select=zone=b age=1 -
    """


@pytest.mark.parametrize(
    "picture",
    [NEAR.format(label=""), NEAR.format(label="label=app=db"), SPREAD],
    ids=["affinity", "affinity to pods like itself", "spread"],
)
def test_what_a_planned_pod_needs_elsewhere_is_not_evicted_for_another_job(picture: str) -> None:
    """Once the first job runs, the second one takes what the first one needed to get there."""
    outcome = run.simulate(pictures.documents(picture), running.policy_of(TREE), Options(cycles=9))
    evicted = [[evict.task.name for evict in result.evicts] for result in outcome.results]
    assert evicted[0] == ["f1-0"]
    assert sum(map(len, evicted)) == 2
    bound = [bind.task.name for result in outcome.results for bind in result.binds]
    assert bound == ["first-0", "second-0"]


def test_pods_that_come_leave_a_nominated_pod_its_place() -> None:
    """Two more pods of the zone would start first, and the spread refuses the one that waits."""
    picture = """
        node  n1 cpu=1 label=zone=a     node n2 cpu=3 label=zone=b
        queue rich weight=1             queue poor weight=1000
        job   rich/other label=app=db   n1
        job   rich/going ~n2            job  rich/f min=1 n2*2
        job   poor/waits label=app=db spread=app=db@zone:1 nominated=n2 -
        job   poor/comes label=app=db min=2 select=zone=b -*2
        """
    documents = pictures.documents(picture)
    carried = Carried(nominations={"waits-00000": "n2"})  # type: ignore[dict-item]
    result = running.run(documents, TREE, carried=carried)
    assert result.evicts == ()
    assert result.carried.nominations == {"waits-00000": "n2"}


def test_nominated_pods_of_a_gang_wait_on_whatever_order_they_come_in() -> None:
    """The first one is to be near the second one, and both are nominated."""
    documents = pictures.documents(
        """
        node  n1 cpu=2 label=zone=a
        queue q
        job   q/gang min=2 -*2     job q/going ~n1*2
        """
    )
    first, second = (
        document for document in documents if document["metadata"]["name"] in ("gang-0", "gang-1")
    )
    second["metadata"]["labels"] = {"app": "db"}
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    first["spec"]["affinity"] = {"podAffinity": required}
    named = {first["metadata"]["uid"]: "n1", second["metadata"]["uid"]: "n1"}
    result = running.run(documents, running.TREE, carried=Carried(nominations=named))
    assert result.carried.nominations == named
