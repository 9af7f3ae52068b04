"""Every pod that a cycle places is judged where it is, with all others in place, by filters that
share no code with ours; and nobody waits who could be placed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters, crowds, journals
from tests.properties.filters_by_hand import judging, worlds
from tests.properties.filters_by_hand.judging import Step
from tests.running import Tree
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH

Document = running.Document
CYCLES_MAX = 30
GANGS = 500

EVEN = "leastrequested.weight=0,balancedresource.weight=0"
PACKS = f"priority gang | predicates nodeorder:{EVEN} binpack:binpack.weight=10"
TREES: dict[str, dict[str, Any]] = {
    "packs": {"actions": "allocate, backfill", "tiers": running.tiers(PACKS)},
    "spreads": {
        "actions": "allocate, backfill",
        "tiers": running.tiers("gang | predicates nodeorder"),
    },
    "evicts": {"actions": "allocate, backfill, preempt", "tiers": running.tiers(PACKS)},
    "standard": {
        "actions": "enqueue, allocate, backfill, preempt, reclaim",
        "tiers": running.tiers(running.STANDARD),
    },
}
VOLCANO = {
    f"{name}, as Volcano": {**tree, "compatibility": "volcano"} for name, tree in TREES.items()
}
POLICIES = TREES | VOLCANO
SHARED = "standard, as Volcano"
"""Here a queue may be above its share with room left: what nodes have that aren't ready is no part
of the total there, what pods hold on them is. Who waits for that is no matter of filters."""

policies = pytest.mark.parametrize("policy", POLICIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One of a cluster's cycles."""

    before: Sequence[Document]
    result: CycleResult
    steps: Sequence[Step]

    @property
    def after(self) -> list[Document]:
        """The cluster that obeyed."""
        return journals.after(self.before, self.result)

    @property
    def rests(self) -> bool:
        """Whether nothing is decided, and nobody leaves: then the next cycle is the same."""
        leaving = any("deletionTimestamp" in each["metadata"] for each in self.before)
        return not (self.result.binds or self.result.evicts or leaving)


def live(documents: Sequence[Document], tree: Tree) -> Iterator[Cycle]:
    """Cycle after cycle until nothing moves; who leaves is gone in the cycle after."""
    now, carried = documents, FRESH
    for _ in range(CYCLES_MAX):
        result, steps = journals.run(now, tree, carried)
        cycle = Cycle(before=now, result=result, steps=steps)
        yield cycle
        if cycle.rests:
            return
        now, carried = cycle.after, result.carried


def broken(cycle: Cycle) -> list[str]:
    """All rules that the decisions of a cycle break, one by one and together."""
    result = cycle.result
    return judging.in_order(cycle.before, cycle.steps) + judging.judge(
        cycle.before,
        {bind.task.key: bind.node for bind in result.binds},
        waiting={each.task.key: each.node for each in result.pipelined},
        evicted=[evict.task.key for evict in result.evicts],
    )


def gangs_in(cycle: Cycle) -> list[int]:
    """Sizes of the gangs of which this cycle bound two pods or more."""
    sizes = Counter(bind.task.job for bind in cycle.result.binds)
    return [size for size in sizes.values() if size > 1]


def alone(documents: Sequence[Document]) -> list[str]:
    """Pods that wait and need nobody else of their group to start."""
    least = {
        worlds.key_of(document): document["spec"]["minMember"]
        for document in documents
        if document["kind"] == "PodGroup"
    }
    return [
        worlds.key_of(document)
        for document in documents
        if document["kind"] == "Pod"
        and not document["spec"].get("nodeName")
        and least[
            f"{document['metadata']['namespace']}/{document['metadata']['annotations'][crowds.GROUP]}"
        ]
        == 1
    ]


@policies
@pytest.mark.parametrize("draw", [crowds.alike, crowds.documents])
def test_every_pod_may_be_where_it_is_placed(
    policy: str, draw: Callable[[int], list[Document]]
) -> None:
    """With all pods of its gang there, and when its turn came; in the cycles that follow, too."""

    @clusters.bounded(6)
    @given(strategies.integers(0, 2**32))
    def judged(seed: int) -> None:
        for cycle in live(draw(seed), POLICIES[policy]):
            assert broken(cycle) == []

    judged()


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {SHARED}))
def test_nobody_waits_who_could_be_placed(policy: str) -> None:
    """Once nothing moves any more, no node would take a pod of a group that one pod is enough for.

    Not earlier: company that comes late in a cycle opens nodes to who was refused before.
    """

    @clusters.bounded(6)
    @given(strategies.integers(0, 2**32))
    def judged(seed: int) -> None:
        *_, last = live(crowds.documents(seed), POLICIES[policy])
        assert last.rests
        for key in alone(last.before):
            assert judging.feasible(last.before, key) == [], key

    judged()


@pytest.mark.at_length
@policies
def test_hundreds_of_gangs_are_placed_by_the_rules(policy: str) -> None:
    """As many gangs of 2 to 30 as GANGS says, each pod judged; and who waits at the end."""
    seed = gangs = 0
    while gangs < GANGS:
        for draw in (crowds.alike, crowds.documents):
            cycle = None
            for cycle in live(draw(seed), POLICIES[policy]):
                assert broken(cycle) == [], (draw.__name__, seed)
                gangs += len(gangs_in(cycle))
            assert cycle is not None
            assert cycle.rests, (draw.__name__, seed)
            for key in alone(cycle.before) if policy != SHARED else ():
                assert judging.feasible(cycle.before, key) == [], (draw.__name__, seed, key)
        seed += 1
