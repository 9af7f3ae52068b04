"""The parts of the search for gangs, each against something simpler."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from tests.properties import clusters, gang_columns, gang_problems
from tests.properties.gang_problems import World
from vscheduler.core.gangs.solver import bounds, strategy
from vscheduler.core.gangs.solver.bounds import QueueRoom
from vscheduler.core.gangs.solver.depth_first import Waste
from vscheduler.core.gangs.solver.problem import (
    Apart,
    EqualPods,
    Found,
    Impossible,
    Problem,
    Requirement,
    Spread,
)
from vscheduler.core.gangs.solver.state import State
from vscheduler.core.gangs.solver.strategy import Outcome

TIMES = round(300 * clusters.EXAMPLES_SHARE)


def worlds(*, limited: bool = False) -> Iterator[tuple[random.Random, World]]:
    """Random worlds with rules between pods."""
    for number in range(TIMES):
        chance = random.Random(f"parts/{number}")
        world = gang_problems.draw(
            chance, pods=chance.randint(2, 9), nodes=chance.randint(2, 5), rich=True
        )
        yield chance, gang_problems.limit(chance, world) if limited else world


def walk(chance: random.Random, now: State) -> Iterator[None]:
    """Place pods where they may go, and take them back, at random."""
    depth = 0
    for _ in range(30):
        kinds = [kind for kind in np.flatnonzero(now.left) if now.candidates(int(kind)).size]
        if depth and (not kinds or chance.random() < 0.4):
            now.take_back()
            depth -= 1
        elif kinds:
            kind = int(chance.choice(kinds))
            if chance.random() < 0.1:
                now.give_up(kind)
            else:
                now.place(kind, int(chance.choice(now.candidates(kind))))
            depth += 1
        yield


def test_what_is_kept_of_nodes_is_what_would_be_worked_out_anew() -> None:
    """The waste, the places and the seats, after pods have come and gone in any order."""
    for chance, world in worlds():
        now = State(gang_columns.given(world))
        kept, rows = Waste(now), np.arange(len(world.nodes))
        first = {name: getattr(now, name).copy() for name in ("free", "left", "placed", "places")}
        for _ in walk(chance, now):
            assert (now.seats(now.places) == now.seats(now.places.copy())).all()
            for kind in np.flatnonzero(now.left).tolist():
                asked = np.array(
                    sorted(chance.sample(range(rows.size), chance.randint(1, rows.size)))
                )
                fits = asked[now.places[kind, asked] > 0]
                expected = [wasted(now, kind, row) for row in fits.tolist()]
                assert kept.of(kind, fits) == pytest.approx(expected, abs=1e-8)
        now.rewind()
        for name, value in first.items():
            assert (getattr(now, name) == value).all(), name


def wasted(now: State, kind: int, row: int) -> float:
    """What no other pod could use of a node, resource by resource."""
    largest = now.problem.free.max(axis=0)
    total = 0.0
    for resource, free in enumerate(now.free[row] - now.requests[kind]):
        used = 0
        for other, request in enumerate(now.requests):
            rest = now.free[row] - now.requests[kind]
            fits = min(int(has // asks) for has, asks in zip(rest, request, strict=True) if asks)
            fits = fits if now.places[other, row] else 0
            used += min(fits, int(now.left[other]) - (other == kind)) * int(request[resource])
        total += max(0, int(free) - used) / max(1, int(largest[resource]))
    return total


def test_nodes_alike_are_tried_once() -> None:
    """Each node that takes the pod is one that is tried, or like one in all that matters."""
    for chance, world in worlds():
        now = State(gang_columns.given(world))
        for _ in walk(chance, now):
            for kind in np.flatnonzero(now.left).tolist():
                tried = now.candidates(kind).tolist()
                on = Counter(now.order)
                looks = Counter(look(world, on, row) for row in tried)
                for row in np.flatnonzero(now.places[kind]).tolist():
                    placed = list(now.order)
                    if gang_problems.takes(world, placed, kind, row):
                        assert looks[look(world, on, row)] == 1


def look(world: World, on: Counter[tuple[int, int]], row: int) -> tuple[object, ...]:
    """All that may tell two nodes apart for this gang."""
    pods = tuple(on[kind, row] for kind in range(len(world.pods)))
    node = world.nodes[row]
    usable = tuple(pods.disk in ("", node.disk) for pods in world.pods)
    zones = Counter(node.zone for node in world.nodes)
    by_zone = any("zone" in (pod.apart_by, pod.near_by, pod.spread_by) for pod in world.pods)
    alone = by_zone and node.zone >= 0 and zones[node.zone] == 1
    zone = ("alone" if alone else node.zone) if by_zone else None
    # A zone of one node is like another one, but only with equal pods.
    return (tuple(node.free), usable, zone, pods)


def test_the_least_that_a_gang_asks_for() -> None:
    """For each resource, what the cheapest choice of pods asks for that meets all minimums."""
    for _, world in worlds(limited=True):
        given = gang_columns.given(world)
        counts = np.array([pods.count for pods in world.pods])
        room = QueueRoom(given)
        for placed in itertools.islice(
            itertools.product(*(range(n + 1) for n in counts)), 0, 40, 7
        ):
            before = np.array(placed, dtype=np.int64)
            left = counts - before
            choices = [
                choice
                for choice in itertools.product(*(range(n + 1) for n in left))
                if enough(world, [a + b for a, b in zip(placed, choice, strict=True)])
            ]
            asked = [
                (before + choice) @ np.array([pods.request for pods in world.pods])
                for choice in choices
            ]
            assert (room.least(before, left) == np.min(asked, axis=0)).all()


def enough(world: World, counts: Sequence[int]) -> bool:
    """Whether so many pods of each kind are enough."""
    return sum(counts) >= world.least and all(
        counts[kind] >= least for kind, least in world.roles.items()
    )


def apart(
    counts: Sequence[int], nodes: int, *, zones: int = 0, alone: bool = True, least: int = 0
) -> Problem:
    """Kinds that keep apart, by node or zone, from each other and perhaps from themselves."""
    size = len(counts)
    pairs = np.ones((size, size), dtype=np.bool_)
    np.fill_diagonal(pairs, alone)
    codes = np.arange(nodes) % zones if zones else np.arange(nodes)
    return Problem(
        kinds=tuple(
            EqualPods(
                count=count,
                request=np.array([1 + kind, 1]),
                usable=np.ones(nodes, dtype=np.bool_),
                scores=np.zeros(nodes),
            )
            for kind, count in enumerate(counts)
        ),
        free=np.tile([4, 110], (nodes, 1)),
        requirements=(Requirement(kinds=tuple(range(size)), least=least or sum(counts)),),
        apart=(Apart(codes=codes, pairs=pairs),),
    )


CROWDS = {
    "one too many for the nodes": (apart([4, 4, 4], 11), False),
    "just enough nodes": (apart([4, 4, 4], 12), True),
    "one too many for the zones": (apart([2, 3], 30, zones=4), False),
    "just enough zones": (apart([2, 3], 30, zones=5), True),
    "equal pods, too many for the zones": (apart([3], 30, zones=2), False),
    "equal pods, just enough zones": (apart([3], 30, zones=3), True),
    "kinds that share no node": (apart([4, 2, 1], 2, alone=False), False),
    "a node for each kind": (apart([4, 2, 1], 3, alone=False), True),
    "some are enough, but too many": (apart([4, 4, 4], 10, least=11), False),
    "some are enough": (apart([4, 4, 4], 11, least=11), True),
}


@pytest.mark.parametrize(("given", "fits"), CROWDS.values(), ids=CROWDS)
def test_pods_that_keep_apart_need_a_domain_each(given: Problem, fits: bool) -> None:
    """That there are too few is known before anything is tried, and names the pods."""
    outcome = strategy.solve(given, None)
    assert isinstance(outcome.answer, Found if fits else Impossible)
    if not fits:
        assert outcome.steps == 0


def test_nodes_outside_all_domains_take_any_pods() -> None:
    """Two zones of one node each, and a node without the label, which takes four small pods."""
    given = apart([2, 2], 3)
    rule = replace(given.apart[0], codes=np.array([0, 1, -1]))
    given = replace(given, apart=(rule,), free=np.array([[4, 110], [4, 110], [3, 110]]))
    assert isinstance(strategy.solve(given, None).answer, Found)
    smaller = replace(given, free=np.array([[4, 110], [4, 110], [1, 110]]))
    assert strategy.solve(smaller, None) == Outcome(answer=Impossible(), steps=0)


@pytest.mark.parametrize(("count", "fits"), [(5, True), (6, False)])
def test_the_fullest_zone_bounds_a_spread(count: int, fits: bool) -> None:
    """One zone takes a single pod, so the other two take two each, whatever room they have."""
    free = np.array([[1, 110], [100, 110], [100, 110]])
    kind = EqualPods(
        count=count, request=np.array([1, 1]), usable=np.ones(3, dtype=np.bool_), scores=None
    )
    rule = Spread(
        kind=0,
        codes=np.arange(3),
        eligible=np.ones(3, dtype=np.bool_),
        present=np.zeros(4, dtype=np.int64),
        domains=np.arange(3),
        few=False,
        counted=np.array([True]),
        counts_itself=True,
        max_skew=1,
    )
    given = Problem(
        kinds=(kind,),
        free=free,
        requirements=(Requirement(kinds=(0,), least=count),),
        spread=(rule,),
    )
    outcome = strategy.solve(given, None)
    assert isinstance(outcome.answer, Found if fits else Impossible)
    assert fits or outcome.steps == 0


AMOUNTS = {
    "all in all": ([[3, 1]], [2], [[5, 9]], False),
    "and exactly": ([[3, 1]], [2], [[6, 9]], True),
    "on the nodes that some may use": ([[2, 1], [1, 1]], [1, 2], [[3, 9], [0, 9]], False),
    "of each of two resources": ([[2, 1], [1, 2]], [1, 1], [[3, 2]], False),
}


@pytest.mark.parametrize(("requests", "left", "free", "fits"), AMOUNTS.values(), ids=AMOUNTS)
@pytest.mark.parametrize("more", [0, 6])
def test_amounts_that_nodes_can_give(
    requests: list[list[int]], left: list[int], free: list[list[int]], fits: bool, more: int
) -> None:
    """By few kinds, and among many: six more that ask for nothing scarce."""
    asked = np.array(requests + [[0, 0]] * more)
    wanted = np.array(left + [1] * more)
    places = np.min(
        np.where(
            asked[:, np.newaxis] > 0, np.array(free) // np.maximum(asked, 1)[:, np.newaxis], 9
        ),
        axis=2,
    )
    assert bounds.too_much(wanted, asked, places, np.array(free)) is not fits
