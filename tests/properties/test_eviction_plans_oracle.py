"""Plans of preempt and reclaim for a gang of unequal pods, against an oracle that tries all."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests import running
from tests.properties import eviction_worlds
from tests.properties.eviction_worlds import Running, World
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

TIERS = {
    "preempt": "priority gang | predicates nodeorder",
    "reclaim": "priority gang | predicates proportion nodeorder",
}
TIMES = [120, pytest.param(3_000, marks=pytest.mark.at_length)]


def planned(world: World, action: str, arguments: Mapping[str, str] | None = None) -> CycleResult:
    """One cycle, with these arguments of the action."""
    settings = [{"name": action, "arguments": arguments or {}}]
    tiers = running.tiers(TIERS[action])
    tree = {"actions": f"allocate, {action}", "tiers": tiers, "configurations": settings}
    documents = pictures.documents(world.picture(reclaim=action == "reclaim"))
    return running.run(documents, tree)


def victims(result: CycleResult) -> Mapping[str, list[int]]:
    """By job, the numbers of the pods that go."""
    gone = defaultdict(list)
    for evict in result.evicts:
        job, _, number = evict.task.name.partition("-")
        gone[job].append(int(number))
    return gone


def spared(gone: Mapping[str, Sequence[int]]) -> list[Mapping[str, Sequence[int]]]:
    """The same victims, each time without another one of them."""
    return [
        {**gone, job: [other for other in pods if other != pod]}
        for job, pods in gone.items()
        for pod in pods
    ]


def fewer(world: World, gone: Mapping[str, Sequence[int]]) -> Iterator[Mapping[str, Sequence[int]]]:
    """The same victims, each time with fewer pods of one gang that loses all: the rest stays."""
    for job in world.jobs:
        if len(gone.get(job.name, ())) == len(job.nodes):
            for some in job.units():
                if len(some) < len(job.nodes):
                    yield {**gone, job.name: some}


def worlds(times: int, *, gangs: bool) -> list[World]:
    """Random worlds in which the gang doesn't fit without evictions."""
    drawn = (
        eviction_worlds.drawn(random.Random(f"plans/{number}"), gangs=gangs)
        for number in itertools.count()
    )
    lacking = (world for world in drawn if not world.fits_without({}))
    return list(itertools.islice(lacking, times))


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("gangs", [False, True], ids=["single pods", "gangs"])
def test_preempt_finds_a_plan_if_there_is_one(times: int, gangs: bool) -> None:
    """And no victim could be spared: not one pod by pod, however the gang is placed."""
    found = Counter[bool]()
    for world in worlds(times, gangs=gangs):
        result = planned(world, "preempt")
        gone = victims(result)
        assert bool(gone) == (world.cheapest(wholes=True) is not None), world
        if gone:
            assert world.fits_without(gone), world
            assert len(result.pipelined) == len(world.gang)
            least = world.cheapest(wholes=False) or world.cheapest(wholes=True)
            found[least == len(result.evicts)] += 1
            if not gangs:
                assert not any(map(world.fits_without, spared(gone))), world
    # Not always as few as possible: the cheapest node for one pod may not be that for the next.
    assert found[True] > 1.5 * found[False]


@pytest.mark.parametrize("times", TIMES)
def test_reclaim_finds_every_plan_within_shares(times: int) -> None:
    """And evicts nobody in vain."""
    for world in worlds(times, gangs=False):
        gone = victims(planned(world, "reclaim"))
        if gone:
            assert world.fits_without(gone), world
        assert gone or world.cheapest(wholes=False, kept=world.share()) is None, world


R = Running


@pytest.mark.parametrize(
    ("world", "gone"),
    [
        # A node where nothing needs to go, though it has as much in all as the other one.
        (
            World((5, 5), (R("a", 1, (0,), 1), R("b", 3, (0,), 1), R("c", 1, (0,), 1)), (2, 5)),
            1,
        ),
        # The small pod on what is free, and not where it fits best after evictions.
        (
            World(
                (4, 9),
                (R("a", 3, (1,), 1), R("b", 1, (1, 0, 0), 1), R("c", 1, (1, 1, 0), 1)),
                (1, 6),
            ),
            3,
        ),
        # Pods of 1 and 2 go, since the queue would lose too much with the younger one of 3.
        (
            World(
                (9, 8),
                (
                    R("a", 2, (0, 0, 1), 1),
                    R("b", 1, (0,), 1),
                    R("c", 1, (1, 1), 1),
                    R("d", 3, (1, 0), 1),
                ),
                (3, 2),
            ),
            2,
        ),
        # All that goes from a node is chosen together for the two pods that come there.
        (
            World(
                (5, 8, 6),
                (
                    R("a", 1, (2,), 1),
                    R("b", 1, (1, 0), 1),
                    R("c", 2, (0,), 1),
                    R("d", 1, (1,), 1),
                    R("e", 3, (2,), 1),
                    R("f", 3, (1, 1), 1),
                ),
                (5, 5, 1, 5),
            ),
            7,
        ),
        # Equal pods, each where nothing larger than necessary has to go.
        (
            World(
                (7, 3, 6),
                (R("a", 2, (1, 2), 1), R("b", 1, (2, 1, 0), 1), R("c", 3, (0, 2, 0), 1)),
                (4, 4),
            ),
            4,
        ),
        # All that the queue may lose, and no more: other choices of nodes need larger victims.
        (
            World(
                (5, 6, 4, 7),
                (R("a", 1, (3, 1, 1), 1), R("b", 1, (3, 1), 1), R("c", 3, (0, 2), 1)),
                (6, 2, 4, 3),
            ),
            2,
        ),
    ],
)
def test_reclaim_finds_victims_that_are_just_large_enough(world: World, gone: int) -> None:
    """The queue has little above its share to spare for larger ones."""
    result = planned(world, "reclaim")
    assert len(result.evicts) == gone
    assert world.fits_without(victims(result))


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("action", TIERS)
def test_no_gang_goes_whole_where_some_of_its_pods_are_enough(times: int, action: str) -> None:
    """Its other pods would come back to the same nodes."""
    wholes = 0
    for world in worlds(times, gangs=True):
        gone = victims(planned(world, action, {f"{action}.wholeGangs": "always"}))
        assert not any(map(world.fits_without, fewer(world, gone))), world
        wholes += any(len(gone[job.name]) == len(job.nodes) > job.least for job in world.jobs)
    assert wholes
