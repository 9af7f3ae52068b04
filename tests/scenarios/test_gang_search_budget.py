"""Searches for gangs in cycles whose budget is too small for them: the next cycle goes on."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests import running
from tests.properties import gang_manifests, gang_problems
from vscheduler.core.gangs import attempt
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import FRESH, SearchRoom
from vscheduler.testing import pictures

TREE: Mapping[str, Any] = {
    "actions": "allocate",
    "tiers": running.tiers("priority gang | predicates nodeorder binpack"),
}
GANG = JobId("default/g")
TIGHT = """
    node n1 cpu=4
    node n2 cpu=3
    queue q
    job q/g min=3 -@3 -@2 -@2
    """
"""Placed one by one, the pod of 3 cpu leaves no node for the second pod of 2."""
PLACES = {"g-0": "n2", "g-1": "n1", "g-2": "n1"}
SMALLER = TIGHT.replace("cpu=3", "cpu=2")
"""The gang doesn't fit."""
LARGER = TIGHT.replace("cpu=3", "cpu=5")
"""The gang fits one by one, too: the first pod goes to n2, where a search would put it anyway."""
BUDGET = 3_000
"""Enough to place pods one by one, and too little for a search as well."""
CYCLES_MAX = 6


def cycles(picture: str, budget: int | None) -> Sequence[CycleResult]:
    """The cycles of a cluster in which nothing happens, until one has finished or bound pods."""
    found: list[CycleResult] = []
    carried = FRESH
    while not found or not (found[-1].finished or found[-1].binds):
        assert len(found) < CYCLES_MAX
        result = running.run(pictures.documents(picture), TREE, budget=budget, carried=carried)
        found.append(result)
        carried = result.carried
    return found


def left(picture: str) -> CycleResult:
    """A cycle that leaves the search to the next one."""
    result = running.run(pictures.documents(picture), TREE, budget=BUDGET)
    assert result.carried.gang_searches[GANG, SearchRoom.IDLE].waits
    return result


def places(result: CycleResult) -> Mapping[str, str]:
    """The nodes of the pods that are bound."""
    return {bind.task.name: bind.node for bind in result.binds}


@pytest.mark.parametrize("budget", [1, 500, 1000, 1500, 2000, 5000, 20_000, 60_000])
def test_the_gang_is_bound_as_a_whole_whatever_the_budget_is(budget: int) -> None:
    """On the same nodes, in the second cycle at the latest."""
    found = cycles(TIGHT, budget)
    assert len(found) <= 2
    assert places(found[-1]) == PLACES
    assert not any(each.faults for each in found)


def test_a_search_that_is_left_begins_the_next_cycle() -> None:
    """Nothing is said of the gang meanwhile, and nothing is placed pod by pod again."""
    first = left(TIGHT)
    assert not first.finished
    assert not first.binds
    assert first.groups == ()
    assert GANG not in first.carried.attempted
    assert first.work["tasks"] == 3
    second = cycles(TIGHT, BUDGET)[1]
    assert places(second) == PLACES
    assert "tasks" not in second.work
    assert second.carried.gang_searches == {}


def test_no_gang_behind_takes_the_room_meanwhile() -> None:
    """It has its turn after the first one."""
    both = f"{TIGHT} job q/later min=1 -@1"
    first = left(both)
    assert not first.binds
    assert places(cycles(both, BUDGET)[-1]).items() >= PLACES.items()


def test_one_by_one_again_if_the_nodes_have_changed() -> None:
    """The nodes are those of a gang that has just come."""
    first = left(TIGHT)
    assert first.carried.gang_searches[GANG, SearchRoom.IDLE].waits
    documents = pictures.documents(LARGER)
    second = running.run(documents, TREE, carried=first.carried)
    assert second.work["tasks"] == 3
    assert places(second) == places(running.run(documents, TREE))


def test_a_search_is_not_left_twice_in_a_row() -> None:
    """However often the nodes change: the second cycle searches, whatever that costs."""
    first = running.run(pictures.documents(SMALLER), TREE, budget=BUDGET)
    assert not first.finished
    documents = pictures.documents(TIGHT)
    second = running.run(documents, TREE, budget=BUDGET, carried=first.carried)
    assert second.work["tasks"] == 3
    assert places(second) == PLACES


@pytest.mark.parametrize("budget", [1, 300, 2000, 20_000, 60_000])
def test_the_reason_of_a_gang_that_does_not_fit_is_the_same(budget: int) -> None:
    """It is told once placing one by one has counted the pods."""
    (status,) = (status for cycle in cycles(SMALLER, budget) for status in cycle.groups)
    (expected,) = running.run(pictures.documents(SMALLER), TREE).groups
    assert expected.reason is not None
    assert status.reason == expected.reason


def test_a_search_that_begins_a_cycle_ends_with_the_budget() -> None:
    """It takes no more steps than a search needs to begin, and goes on in a later cycle."""
    chance = random.Random("hidden/5120")
    world = gang_problems.draw_that_fits(
        chance, pods=chance.randint(2, 12), nodes=chance.randint(2, 8)
    )
    world.queue = [10**6] * 3  # the manifests have a Queue then
    carried, steps = FRESH, list[int]()
    for _ in range(CYCLES_MAX):
        result = running.run(gang_manifests.documents(world), TREE, budget=BUDGET, carried=carried)
        carried = result.carried
        if result.binds:
            break
        (search,) = carried.gang_searches.values()
        steps.append(search.steps)
    assert len(result.binds) == world.size()
    assert sorted(set(steps)) == [0, attempt.ENOUGH_STEPS]
