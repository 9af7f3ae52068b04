"""Gangs on nodes that are near to each other: racks within spines, by labels of nodes."""

from typing import Any

import pytest

from tests import running
from vscheduler.testing import pictures

LEVELS = {"topologies": [{"name": "fabric", "levels": ["spine", "rack"]}]}


def policy(actions: str = "allocate", tiers: str = "gang | predicates") -> dict[str, Any]:
    """A configuration with the plugin."""
    found = running.tiers(tiers)
    found[-1]["plugins"].append({"name": "network-topology-aware", "arguments": LEVELS})
    return {"actions": actions, "tiers": found}


def nodes(*racks: tuple[str, str, int, int]) -> str:
    """Nodes of so many racks: spine, rack, number of nodes, cpu of each."""
    names = iter(range(1, 1000))
    return "\n".join(
        f"node n{next(names)} cpu={cpu} label=spine={spine} label=rack={rack}"
        for spine, rack, count, cpu in racks
        for _ in range(count)
    )


T4 = nodes(("s", "a", 2, 2), ("s", "b", 2, 2))


def starts(picture: str) -> dict[str, str]:
    """Pods that are bound in the first cycle, with their nodes."""
    result = running.run(pictures.documents(picture), policy())
    return {bind.task.name: bind.node for bind in result.binds}


def test_a_hard_gang_that_fits_no_rack_waits() -> None:
    """Three pods of a node each, and racks have two."""
    assert starts(T4 + "\n queue q \n job q/j min=3 cpu=2 topology=hard:1 -*3") == {}


def test_a_gang_starts_in_one_rack() -> None:
    """The first by name of two that are alike."""
    found = starts(T4 + "\n queue q \n job q/j min=2 cpu=2 topology=hard:1 -*2")
    assert found == {"j-0": "n1", "j-1": "n2"}


def test_a_wider_gang_starts_in_a_spine() -> None:
    """No rack holds it, and it may use two."""
    found = starts(T4 + "\n queue q \n job q/j min=3 cpu=2 topology=hard:2 -*3")
    assert len(found) == 3


def test_the_fullest_rack_that_suffices_is_taken() -> None:
    """The larger one stays whole."""
    picture = nodes(("s", "a", 4, 2), ("s", "b", 2, 2))
    found = starts(picture + "\n queue q \n job q/j min=2 cpu=2 topology=soft -*2")
    assert found == {"j-0": "n5", "j-1": "n6"}


def test_few_racks_are_filled() -> None:
    """Exactly two of three racks."""
    picture = nodes(("s", "a", 2, 4), ("s", "b", 2, 4), ("s", "c", 2, 4))
    found = starts(picture + "\n queue q \n job q/j min=4 cpu=4 topology=hard:2 -*4")
    assert sorted(found.values()) == ["n1", "n2", "n3", "n4"]


TWO_RACKS = nodes(("s", "a", 2, 2), ("s", "b", 2, 2))


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize(("first", "second"), [(2, 1), (1, 2)])
def test_evictions_come_where_they_cost_least(action: str, first: int, second: int) -> None:
    """One rack would lose pods of priority 2, the other one of priority 1."""
    victims = "victim" if action == "preempt" else "lender"
    queue = "q" if action == "preempt" else "lender"
    picture = f"""{TWO_RACKS}
        queue q   queue lender
        job {queue}/{victims}-a min=1 cpu=1 priority={first}  n1 n1 n2 n2
        job {queue}/{victims}-b min=1 cpu=1 priority={second} n3 n3 n4 n4
        job q/j min=2 cpu=1 priority=9 topology=hard:1 - -
        """
    result = running.run(
        pictures.documents(picture),
        policy(f"enqueue, allocate, {action}", "priority gang | predicates proportion"),
    )
    gone = {evict.task.job.rpartition("-")[2] for evict in result.evicts}
    assert gone == {"a" if first < second else "b"}
    assert len(result.evicts) == 2
    rack = {"n1", "n2"} if first < second else {"n3", "n4"}
    assert {each.node for each in result.pipelined} <= rack
