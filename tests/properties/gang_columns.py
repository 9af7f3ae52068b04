"""A random gang problem as the search sees it."""

from collections.abc import Iterator, Mapping

import numpy as np

from tests.properties.gang_problems import World
from vscheduler.core.gangs.solver.problem import (
    Apart,
    EqualPods,
    Ints,
    Near,
    Pool,
    Problem,
    Requirement,
    Spread,
)


def given(world: World) -> Problem:
    """Return the world as plain columns."""
    size, kinds = len(world.nodes), len(world.pods)
    codes = {
        "host": np.arange(size),
        "zone": np.array([node.zone for node in world.nodes], dtype=np.int64),
    }
    requirements = [Requirement(kinds=tuple(range(kinds)), least=world.least)]
    requirements += [Requirement(kinds=(kind,), least=least) for kind, least in world.roles.items()]
    return Problem(
        kinds=tuple(
            EqualPods(
                count=pods.count,
                request=np.array(pods.request, dtype=np.int64),
                usable=np.array([pods.disk in ("", node.disk) for node in world.nodes]),
                scores=np.zeros(size),
            )
            for pods in world.pods
        ),
        free=np.array([node.free for node in world.nodes], dtype=np.int64),
        requirements=tuple(requirements),
        pools=tuple(
            Pool(
                rows=np.array([node.zone == zone for node in world.nodes]),
                room=np.array(most, dtype=np.int64),
            )
            for zone, most in world.pools.items()
        ),
        queue_room=None if world.queue is None else np.array(world.queue, dtype=np.int64),
        apart=tuple(_apart(world, codes)),
        near=tuple(_near(world, codes)),
        spread=tuple(_spread(world, codes)),
    )


Codes = Mapping[str, Ints]


def _apart(world: World, codes: Codes) -> Iterator[Apart]:
    kinds = len(world.pods)
    for by in ("host", "zone"):
        pairs = np.zeros((kinds, kinds), dtype=np.bool_)
        for kind, pods in enumerate(world.pods):
            if pods.apart_by == by:
                pairs[kind, list(pods.apart_from)] = True
        if pairs.any():
            yield Apart(codes=codes[by], pairs=pairs | pairs.T)
    ports = np.array([pods.port for pods in world.pods])
    pairs = (ports[:, np.newaxis] == ports) & (ports > 0)
    if pairs.any():
        yield Apart(codes=codes["host"], pairs=pairs)


def _near(world: World, codes: Codes) -> Iterator[Near]:
    for kind, pods in enumerate(world.pods):
        if pods.near_by:
            where = codes[pods.near_by]
            yield Near(
                kind=kind,
                codes=(where,),
                present=(np.zeros(int(where.max(initial=-1)) + 2, dtype=np.int64),),
                counted=np.isin(np.arange(len(world.pods)), list(pods.near_to)),
                first_anywhere=kind in pods.near_to,
            )


def _spread(world: World, codes: Codes) -> Iterator[Spread]:
    for kind, pods in enumerate(world.pods):
        if pods.spread_by:
            where = codes[pods.spread_by]
            usable = np.array([pods.disk in ("", node.disk) for node in world.nodes])
            eligible = usable & (where >= 0)
            yield Spread(
                kind=kind,
                codes=where,
                eligible=eligible,
                present=np.zeros(int(where.max(initial=-1)) + 2, dtype=np.int64),
                domains=np.unique(where[eligible]),
                few=not eligible.any(),
                counted=np.arange(len(world.pods)) == kind,
                counts_itself=True,
                max_skew=pods.skew,
            )
