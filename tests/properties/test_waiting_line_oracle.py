"""Places in line against whole cycles: whoever is first of the jobs that fit gets the only room."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests import running
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId
from vscheduler.simulator import run, waiting_line
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

TIERS = "priority gang | drf predicates proportion nodeorder"
TREE = {"actions": "enqueue, allocate", "tiers": running.tiers(TIERS)}
POLICY = running.policy_of(TREE)
WITHOUT_SHARES = running.policy_of({"actions": "allocate", "tiers": running.tiers("priority gang")})


def picture(chance: Random) -> str:
    """Queues of any weight and use, and jobs of one pod that wait; one more pod fits."""
    names = [f"q{number}" for number in range(chance.randint(1, 4))]
    lines = [f"queue {name} weight={chance.randint(1, 3)}" for name in names]
    used = 0
    for number in range(chance.randint(1, 6)):
        pods = chance.randint(1, 3)
        used += pods
        lines.append(f"job {chance.choice(names)}/runs{number} min=1 n1*{pods}")
    for number in range(chance.randint(2, 8)):
        phase = chance.choice(("Pending", "Inqueue"))
        settings = f"priority={chance.randint(1, 3)} age={chance.randint(0, 99)} phase={phase}"
        lines.append(f"job {chance.choice(names)}/waits{number} min=1 {settings} -")
    return "\n".join([f"node n1 cpu={used + 1}", *lines])


def has_share_left(result: CycleResult, queue: str, used: int) -> bool:
    """Whether the queue may have one pod more than the pods that it has."""
    (figures,) = (each for each in result.queues if each.name == queue)
    deserved = {} if figures.entitlement is None else figures.entitlement.deserved
    return not deserved or used * 1000 + 1000 <= deserved["cpu"]


def pods_on_nodes(documents: list[dict[str, Any]]) -> Counter[str]:
    """By queue; of one core each."""
    queues = {
        document["metadata"]["name"]: document["spec"]["queue"]
        for document in documents
        if document["kind"] == "PodGroup"
    }
    return Counter(
        queues[document["metadata"]["name"].rpartition("-")[0]]
        for document in documents
        if document["kind"] == "Pod" and document["spec"].get("nodeName")
    )


@pytest.mark.parametrize("policy", [POLICY, WITHOUT_SHARES], ids=["shares", "priorities"])
@pytest.mark.parametrize("seed", range(100))
def test_the_first_in_line_gets_the_room(seed: int, policy: Any) -> None:
    """Under whatever shares, priorities and ages: the first whose queue may have the pod. If no
    queue may, the room is lent.
    """
    documents = pictures.documents(picture(Random(seed)))
    places = waiting_line.places(documents, policy, Options())
    groups = [
        document["metadata"]["name"] for document in documents if document["kind"] == "PodGroup"
    ]
    assert len(places) == sum(name.startswith("waits") for name in groups)
    used = pods_on_nodes(documents)
    result = run.simulate(documents, policy, Options()).last
    line = sorted(places, key=lambda key: places[key].overall)
    eligible = [
        key for key in line if has_share_left(result, places[key].queue, used[places[key].queue])
    ]
    (started,) = (bind.task.job for bind in result.binds)
    assert started in (eligible[:1] or line)


@pytest.mark.parametrize("seed", range(30))
def test_a_line_has_no_gaps(seed: int) -> None:
    """Each place is taken once, in each queue and overall; and both orders agree."""
    documents = pictures.documents(picture(Random(seed)))
    places = waiting_line.places(documents, POLICY, Options())
    found = sorted(places.values(), key=lambda place: place.overall)
    assert [place.overall for place in found] == list(range(1, len(found) + 1))
    for queue in {place.queue for place in found}:
        inside = [place for place in found if place.queue == queue]
        assert [place.in_queue for place in inside] == list(range(1, len(inside) + 1))
        assert {place.of_queue for place in inside} == {len(inside)}
        first = next(job for job, place in places.items() if place is inside[0])
        assert [place.first for place in inside] == ["", *[first] * (len(inside) - 1)]
    assert {place.of_all for place in found} == {len(found)}


def test_the_order_of_the_input_does_not_matter() -> None:
    """Nor do jobs that run, and those of queues that don't exist."""
    chance = Random(7)
    documents = pictures.documents(f"{picture(chance)}\njob missing/lost min=1 -")
    places = waiting_line.places(documents, POLICY, Options())
    assert "default/lost" not in places
    chance.shuffle(documents)
    assert waiting_line.places(documents, POLICY, Options()) == places


def test_jobs_of_an_overused_queue_come_last() -> None:
    """Although they are older: such a queue has no turn."""
    documents = pictures.documents(
        """
        node n1 cpu=4
        queue greedy weight=1  queue poor weight=1
        job greedy/runs min=1 n1*3
        job greedy/old min=1 age=90 -
        job poor/new min=1 cpu=4 -
        """
    )
    places = waiting_line.places(documents, POLICY, Options())
    assert places[JobId("default/new")].overall == 1
    assert places[JobId("default/old")].overall == 2
    assert places[JobId("default/old")].in_queue == 1
