"""Where searches begin: pods that have room, counted by free resources."""

import random

import pytest

from tests import running
from vscheduler.explain import remedies, wording
from vscheduler.explain.estimates import Estimates
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import Snapshot
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

LATE = JobId("default/late")

POLICY = running.policy_of(
    {"actions": "enqueue, allocate, backfill", "tiers": running.tiers(running.STANDARD)}
)

PICTURE = """
    node n1 cpu=4   node n2 cpu=8 taint=dedicated=lab:NoSchedule   node n3 cpu=8 cordoned
    queue q
    job q/busy min=1 cpu=3 n1
    job q/idle min=1 cpu=1 n2
    job q/late min=6 cpu=2 -*6
"""


@pytest.fixture
def taken() -> Snapshot:
    """The cluster of PICTURE."""
    given = run.read(pictures.documents(PICTURE), POLICY, Options())
    return given.mirror.snapshot(given.now)


def test_pods_without_room_are_counted_on_usable_nodes(taken: Snapshot) -> None:
    """Of 6 pods none has room on n1, and the other nodes refuse them."""
    found = Estimates(taken, LATE)
    assert found.usable.tolist() == [True, False, False]
    assert found.lacking == 6
    assert found.fewer_pods() == 6
    assert found.more_nodes({"cpu": 5000, "pods": 110}) == 3
    assert found.more_nodes({"cpu": 1000, "pods": 110}) == 1
    assert found.nodes_of(["n3", "n2"]) == 2
    assert found.smaller_pods("cpu", [1000, 500, 100]) == 3


def test_the_end_of_a_job_frees_what_it_holds_on_usable_nodes(taken: Snapshot) -> None:
    """Two pods would have room after the end of `busy`."""
    held = {job.name: job.tasks for job in taken.jobs}
    found = Estimates(taken, LATE)
    assert not found.suffices(held["busy"])
    found.__dict__["lacking"] = 2
    assert found.suffices(held["busy"])
    assert not found.suffices(held["idle"])


def test_what_a_job_holds_bounds_the_pods_that_its_end_makes_room_for() -> None:
    """Never below what counting finds: on each node another resource may be scarce."""
    chance = random.Random(5)
    for _ in range(60):
        nodes = " ".join(f"node n{at} cpu={chance.randint(3, 9)}" for at in range(4))
        held = f"cpu={chance.choice((0.5, 1, 1.5, 3))} {' '.join(f'n{at}' for at in range(4))}"
        picture = f"{nodes} queue q\njob q/busy min=1 {held}\njob q/late min=40 cpu=2 -*40"
        given = run.read(pictures.documents(picture), POLICY, Options())
        before = given.mirror.snapshot(given.now)
        tasks = next(job.tasks for job in before.jobs if job.name == "busy")
        for lacking in range(1, 14):
            found = Estimates(before, LATE)
            found.__dict__["lacking"] = lacking
            rows = [before.nodes.layout.rows[task.node or ""] for task in tasks]
            free = (before.nodes.allocatable - before.nodes.used)[:, before.space.columns["cpu"]]
            each = tasks[0].pod_class.request["cpu"]
            gained = sum(int((free[row] + each) // 2000 - free[row] // 2000) for row in rows)
            assert found.suffices(tasks) == (gained >= lacking), picture


def test_a_large_cluster_takes_few_trials() -> None:
    """The number of nodes, and the size of pods, are found by trials next to the estimate."""
    nodes = " ".join(f"node n{number:03} cpu=4" for number in range(120))
    busy = "\n".join(f"job q/b{number} min=1 cpu=3 n{number:03}" for number in range(120))
    documents = pictures.documents(f"{nodes} queue q\n{busy}\njob q/late min=40 cpu=2 -*40")
    given = run.read(documents, POLICY, Options())
    found = remedies.explain(given, POLICY, str(LATE), budget=150_000)
    assert [wording.sentence(remedy) for remedy in found.remedies] == [
        "let its pods ask for 1 cpu instead of 2",
        "add 20 more nodes like n000 (4 cpu)",
    ]
    assert [remedy.minimal for remedy in found.remedies] == [True, True]
    assert found.cut == ()
    assert found.trials <= 16
