"""Random clusters, written as pictures, so that a failing one can be read and drawn again."""

import random
from dataclasses import dataclass

from hypothesis import settings, strategies

ZONES = ("a", "b", "c")
TAINT = "dedicated=lab:NoSchedule"
SOFT_TAINT = "spot=yes:PreferNoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large clusters may grow."""

    nodes: int
    queues: int
    jobs: int
    pods: int
    """Per job, running ones included."""


SMALL = Size(nodes=12, queues=5, jobs=20, pods=8)
LARGE = Size(nodes=30, queues=8, jobs=60, pods=12)


EXAMPLES_SHARE = 0.13
"""The share of the examples that `make test` tries; with --at-length, all are tried."""


def bounded(examples: int) -> settings:
    """So many examples at length."""
    return settings(max_examples=max(1, round(examples * EXAMPLES_SHARE)))


@dataclass(slots=True)
class Room:
    """What is free on a node while the picture is drawn."""

    name: str
    cpu: int
    memory: int
    gpu: int
    pods: int


@strategies.composite
def pictures(draw: strategies.DrawFn, size: Size = SMALL) -> str:
    """A cluster that can exist: nodes of several kinds, queues with limits, gangs half placed."""
    # Drawn figure by figure, hypothesis prefers the extremes: every node cordoned, every queue
    # closed. A seed gives clusters in which things happen; only their sizes shrink.
    chance = random.Random(draw(strategies.integers(0, 2**32)))
    part = draw(strategies.sampled_from((8, 4, 2, 1)))
    rooms = []
    lines = []
    for number in range(chance.randint(0, size.nodes // part)):
        room = Room(
            name=f"n{number:02}",
            cpu=chance.choice((2, 8, 16, 32)),
            memory=chance.choice((16, 32, 64)),
            gpu=chance.choice((0, 0, 2, 8)),
            pods=chance.choice((2, 110, 110, 110)),
        )
        rooms.append(room)
        marks = [f"label=zone={chance.choice(ZONES)}"]
        marks += [f"taint={TAINT}"] * (chance.random() < 0.15)
        marks += [f"taint={SOFT_TAINT}"] * (chance.random() < 0.15)
        marks += ["cordoned"] * (chance.random() < 0.1)
        marks += [f"cpu={room.cpu} memory={room.memory}Gi gpu={room.gpu} pods={room.pods}"]
        lines.append(f"node {room.name} {' '.join(marks)}")
    queues = [f"q{number}" for number in range(chance.randint(1, max(1, size.queues // part)))]
    for name in queues:
        limits = [f"weight={chance.choice((1, 1, 2, 4))}"]
        limits += [f"capability=cpu:{chance.randint(1, 32)}"] * (chance.random() < 0.3)
        limits += [f"guarantee=cpu:{chance.randint(1, 8)}"] * (chance.random() < 0.2)
        limits += ["state=Closed"] * (chance.random() < 0.1)
        limits += [f"priority={chance.randint(0, 1)}"] * (chance.random() < 0.2)
        lines.append(f"queue {name} {' '.join(limits)}")
    busy = chance.uniform(0.0, 0.4)
    for number in range(chance.randint(0, size.jobs // part)):
        queue = chance.choice([*queues, *queues, *queues, "missing"])
        lines.append(_job(chance, f"{queue}/j{number:02}", rooms, (busy, size.pods)))
    return "\n".join(lines)


def _job(chance: random.Random, name: str, rooms: list[Room], load: tuple[float, int]) -> str:
    """load: the part of the pods that are on nodes already, and how many there are at most."""
    busy, pods_max = load
    count = chance.randint(1, pods_max)
    cpu = chance.choice((1, 1, 2, 3))
    memory = chance.choice((1, 1, 2, 4))
    gpu = chance.choice((0, 0, 0, 1))
    words = []
    for _ in range(count):
        place = _take(chance, rooms, (cpu, memory, gpu, 1)) if chance.random() < busy else None
        if place is None:
            words.append(chance.choice("---------!"))
        else:
            words.append(chance.choice(("", "", "", "+", "~")) + place)
    settings = [
        f"min={chance.randint(1, count + (chance.random() < 0.1))}",
        f"cpu={cpu} memory={memory}Gi",
    ]
    settings += [f"gpu={gpu}"] * bool(gpu)
    settings += [f"priority={chance.choice((5, 10))}"] * (chance.random() < 0.3)
    settings += [f"select=zone={chance.choice(ZONES)}"] * (chance.random() < 0.2)
    settings += ["tolerate=dedicated"] * (chance.random() < 0.2)
    settings += [f"port={chance.choice((80, 81))}"] * (chance.random() < 0.1)
    settings += [f"age={60 * chance.randint(0, 3)}"] * (chance.random() < 0.5)
    settings += ["phase=Pending"] * (chance.random() < 0.1)
    return f"job {name} {' '.join(settings)} {' '.join(words)}"


def _take(
    chance: random.Random, rooms: list[Room], wanted: tuple[int, int, int, int]
) -> str | None:
    """A node with that much cpu, memory, gpu and pods left, which then has less; None: nowhere."""
    fitting = [
        room
        for room in rooms
        if all(map(int.__ge__, (room.cpu, room.memory, room.gpu, room.pods), wanted))
    ]
    if not fitting:
        return None
    room = chance.choice(fitting)
    cpu, memory, gpu, pods = wanted
    room.cpu, room.memory, room.gpu = room.cpu - cpu, room.memory - memory, room.gpu - gpu
    room.pods -= pods
    return room.name
