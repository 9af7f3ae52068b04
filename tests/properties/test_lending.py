"""Nothing stays idle that a waiting job could use, and what is borrowed goes back, for good.

The judges count manifests. They divide the cluster themselves, and share nothing with the code.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec
import pytest

from tests import running
from tests.properties.lives import Life
from vscheduler.testing import pictures

TREE = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": running.tiers("priority gang conformance pdb | predicates proportion binpack"),
}
CYCLES, LATE, CALM = 60, 4, 30
"""How many cycles a world lives, when its other half comes, and when evictions have ended."""


class Tenant(msgspec.Struct):
    """A queue, in cpus."""

    weight: int
    capability: int
    guarantee: int


class Work(msgspec.Struct):
    """A job of equal pods that start together."""

    queue: str
    pods: int
    size: int
    late: bool

    @property
    def need(self) -> int:
        """Return what all pods request."""
        return self.pods * self.size


class World(msgspec.Struct):
    """A cluster without constraints."""

    nodes: Mapping[str, int]
    tenants: Mapping[str, Tenant]
    work: Mapping[str, Work]

    @property
    def total(self) -> int:
        """Return what all nodes have."""
        return sum(self.nodes.values())

    def picture(self) -> str:
        """Return the world as a picture; all jobs wait."""
        lines = [f"node {name} cpu={size}" for name, size in self.nodes.items()]
        for name, each in self.tenants.items():
            limits = f"weight={each.weight}"
            limits += f" capability=cpu:{each.capability}" if each.capability < self.total else ""
            limits += f" guarantee=cpu:{each.guarantee}" if each.guarantee else ""
            lines.append(f"queue {name} {limits}")
        for age, (name, job) in enumerate(self.work.items()):
            head = f"job {job.queue}/{name} min={job.pods} cpu={job.size} age={99 - age}"
            lines.append(f"{head} {' '.join('-' * job.pods)}")
        return "\n".join(lines)


def made(seed: int) -> World:
    """A world of this seed: more is asked for than there is."""
    chance = random.Random(seed)
    nodes = {f"n{place}": chance.randint(1, 6) for place in range(chance.randint(1, 4))}
    total, left = sum(nodes.values()), sum(nodes.values()) // 2
    tenants: dict[str, Tenant] = {}
    work: dict[str, Work] = {}
    for place in range(chance.randint(2, 9)):
        guarantee = min(left, chance.choice([0, 0, 0, 1, 2]))
        capability = max(guarantee, chance.choice([total, total, chance.randint(1, total)]))
        left -= guarantee
        tenants[f"q{place}"] = Tenant(chance.randint(1, 3), capability, guarantee)
        late = chance.random() < 0.5
        for _ in range(chance.randint(0, 4)):
            pods = chance.choice([1, 1, 2, 3, chance.randint(1, 6)])
            job = Work(f"q{place}", pods, chance.randint(1, 3), late)
            work[f"j{len(work):02}"] = job
    return World(nodes, tenants, work)


def deserved(world: World) -> dict[str, Fraction]:
    """Max-min fair shares by weight, of what pods ask for that fit on a node; guarantees first."""
    largest = max(world.nodes.values())
    most: dict[str, Fraction] = {}
    for name, each in world.tenants.items():
        asked = sum(
            job.need for job in world.work.values() if job.queue == name and job.size <= largest
        )
        most[name] = Fraction(max(each.guarantee, min(each.capability, asked)))
    levels = sorted(
        {
            bound / world.tenants[name].weight
            for name in most
            for bound in (most[name], Fraction(world.tenants[name].guarantee))
        }
    )

    def at(level: Fraction) -> dict[str, Fraction]:
        return {
            name: max(Fraction(each.guarantee), min(most[name], level * each.weight))
            for name, each in world.tenants.items()
        }

    low = Fraction(0)
    for level in levels:
        if sum(at(level).values()) > world.total:
            rising = sum(
                each.weight
                for name, each in world.tenants.items()
                if at(level)[name] > at(low)[name]
            )
            left = world.total - sum(at(low).values(), start=Fraction(0))
            return at(low + left / rising)
        low = level
    return at(low)


class Moment:
    """What runs after a cycle."""

    def __init__(self, world: World, life: Life) -> None:
        self.world = world
        self.free = Counter(world.nodes)
        self.held: Counter[str] = Counter()
        placed: Counter[str] = Counter()
        self.places: dict[str, Counter[str]] = {}
        for document in life.documents:
            if document["kind"] == "Pod" and document["spec"].get("nodeName"):
                job = document["metadata"]["name"].partition("-")[0]
                placed[job] += 1
                node = document["spec"]["nodeName"]
                self.free[node] -= world.work[job].size
                self.held[world.work[job].queue] += world.work[job].size
                self.places.setdefault(job, Counter())[node] += world.work[job].size
        assert all(placed[name] in (0, job.pods) for name, job in world.work.items())
        assert min(self.free.values()) >= 0
        self.waiting = [name for name in world.work if not placed[name]]

    def fits(self, job: Work, more: Mapping[str, int]) -> bool:
        """Whether free nodes have room for the job, once so much more is free."""
        places = ((self.free[node] + more.get(node, 0)) // job.size for node in self.world.nodes)
        return sum(places) >= job.pods

    def idle(self) -> Iterator[str]:
        """Jobs that could run on what is free, within capabilities and guarantees of others."""
        for name in self.waiting:
            job = self.world.work[name]
            tenants = self.world.tenants.items()
            kept = sum(
                max(0, each.guarantee - self.held[queue])
                for queue, each in tenants
                if queue != job.queue
            )
            if (
                self.fits(job, {})
                and self.held[job.queue] + job.need <= self.world.tenants[job.queue].capability
                and job.need + kept <= sum(self.free.values())
            ):
                yield name

    def owed(self) -> Iterator[tuple[str, str]]:
        """Jobs within their share, and single victims that would make room for them.

        The victim's queue is above its share. It keeps its share, or a part of it as large as the
        preemptor gets; or the victim alone is larger than the share.
        """
        shares, world = deserved(self.world), self.world
        for name in self.waiting:
            job = world.work[name]
            mine = self.held[job.queue] + job.need
            if mine > shares[job.queue]:
                continue
            for victim, freed in self.places.items():
                other = world.work[victim]
                share = shares[other.queue]
                if other.queue == job.queue or self.held[other.queue] <= share:
                    continue
                if not self.fits(job, freed):
                    continue
                borrowed = other.need > share
                by_weight = share * world.tenants[job.queue].weight
                due = max(shares[job.queue], by_weight / world.tenants[other.queue].weight)
                left = self.held[other.queue] - other.need
                fair = left * due >= min(due, Fraction(mine)) * share
                small = other.pods == 1 or other.need <= 2 * job.need
                if borrowed or (fair and small):
                    yield name, victim


def lived(world: World) -> Moment:
    """The last of many cycles, in which owners create evicted pods again."""
    documents = pictures.documents(world.picture())
    late = [
        document
        for document in documents
        if document["kind"] in ("Pod", "PodGroup")
        and world.work[document["metadata"]["name"].partition("-")[0]].late
    ]
    life = Life([document for document in documents if document not in late])
    for cycle in range(CYCLES):
        if cycle == LATE:
            life.add(late)
        result = life.cycle(TREE)
        if cycle > CALM:
            assert not result.evicts, "evictions come to rest"
    assert not result.binds
    return Moment(world, life)


def check(seed: int) -> bool:
    """Whether any queue of the world is above its share."""
    world = made(seed)
    if not world.work:
        return False
    moment = lived(world)
    assert list(moment.idle()) == [], world.picture()
    assert list(moment.owed()) == [], world.picture()
    shares = deserved(world)
    return any(moment.held[queue] > shares[queue] for queue in world.tenants)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_idles_and_nobody_keeps_what_is_owed(seed: int) -> None:
    """Few worlds, each for sixty cycles."""
    check(seed)


@pytest.mark.at_length
def test_many_worlds_come_to_rest_with_nothing_idle() -> None:
    """Many more, of which most lend something."""
    assert sum(check(seed) for seed in range(100, 400)) > 100
