"""What a seed decides about a whole run: which faults strike, how often, and how busy the world is.

Few kinds of faults that strike often show what all kinds together hide: a restart, for one, heals
whatever a silent watch has done, and a busy cluster whatever a lost timer has (swarm testing).
"""

import random
from dataclasses import dataclass, field

from tests.simulation import actors, faults
from vscheduler.daemon import process

ALL_FAULTS = 0.25
"""The part of the seeds for which any fault may strike."""
FEW_FAULTS = 4
PAUSES = (6.0, 20.0, 60.0)
"""Mean seconds between two strikes of any of the faults, if few kinds strike."""

ALONE = 0.6
"""The part of the seeds in which pods start alone, as by default; in the others, as in Volcano, all
have PodGroups."""

DENIED_MANY = 0.2
"""So many that gangs which start in part are no rare event."""

WORKERS_FEW = 2
"""So few calls at once that others wait whenever a fault strikes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """A run as usual, unless said otherwise."""

    nodes: int = 10
    jobs: int = 20
    job_seconds: float = 300.0
    """How long a pod of a Job runs, on average."""
    pauses: float = 1.0
    """Pauses of editors, tenants and accidents are so many times as long."""
    lease_seconds: float = actors.LEASE_SECONDS
    """How often somebody touches a Lease by hand."""
    denied: float = actors.DENIED_PART
    """The part of the pods whose bindings an admission policy denies for a while."""
    workers: int = process.WORKERS
    """How many calls the daemon makes at once."""
    storage: actors.Storage = field(default_factory=actors.Storage)
    """How much uses volumes, and what goes wrong with these; nothing unless asked for."""
    devices: actors.Devices = field(default_factory=actors.Devices)
    """How much uses devices; nothing unless asked for."""
    alone: bool = False
    """Whether pods that need no PodGroup start without one."""
    network: float = 0.0
    """The part of the workloads that must be near each other; none unless asked for."""
    faults: tuple[str, ...] = field(default=tuple(faults.KINDS))
    often: float = 1.0
    """How many times as often as usual faults strike."""


def draw(seed: str) -> Knobs:
    """The knobs of a seed."""
    chance = random.Random(f"{seed}/knobs")
    kinds, often = tuple(faults.KINDS), chance.choice((1.0, 2.0, 6.0))
    if chance.random() > ALL_FAULTS:
        kinds = tuple(chance.sample(kinds, chance.randint(1, FEW_FAULTS)))
        each_second = sum(1 / faults.KINDS[name].every_seconds for name in kinds)
        often = 1 / (chance.choice(PAUSES) * each_second)
    return Knobs(
        nodes=chance.choice((3, 10, 10)),
        jobs=chance.choice((3, 8, 20, 20)),
        job_seconds=chance.choice((40.0, 120.0, 300.0)),
        pauses=chance.choice((0.3, 1.0, 1.0, 10.0)),
        workers=chance.choice((WORKERS_FEW, process.WORKERS)),
        faults=kinds,
        often=often,
        lease_seconds=chance.choice((60.0, actors.LEASE_SECONDS)),
        denied=chance.choice((actors.DENIED_PART, actors.DENIED_PART, DENIED_MANY)),
        alone=random.Random(f"{seed}/podgroups").random() < ALONE,
    )


def draw_storage(seed: str) -> actors.Storage:
    """The knobs of a seed in a world with volumes. Chance of their own keeps all others as they
    are.
    """
    chance = random.Random(f"{seed}/storage")
    return actors.Storage(
        part=chance.choice((0.3, 0.6, 0.9)),
        seconds=chance.choice((0.3, 3.0, 30.0)),
        failing=chance.choice((0.0, 0.0, 0.3)),
        refusing=chance.choice((0.0, 0.1, 0.5)),
        stuck=chance.choice((0.0, 0.0, 0.1)),
        limit=chance.choice((None, 2, 4)),
        local=chance.choice((1, 2, 4)),
        delete_seconds=chance.choice((30.0, 300.0)),
    )


def draw_devices(seed: str) -> actors.Devices:
    """The knobs of a seed in a world with devices. Chance of their own, likewise."""
    chance = random.Random(f"{seed}/devices")
    return actors.Devices(
        part=chance.choice((0.6, 0.9)),
        each=chance.choice((4, 8)),
        change_seconds=chance.choice((30.0, 300.0)),
        tainted=chance.choice((0.0, 0.1, 0.3)),
        split=chance.choice((0.0, 0.3)),
        slow_seconds=chance.choice((1.0, 30.0)),
    )
