"""How many PodGroups each queue holds: counted as they move, as if all were counted each time."""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.controllers.podgroups.podgroup_lister import StatusEvidence
from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_cache import Item, QueueCache
from vscheduler.controllers.queues.queue_objects import Group, Queue
from vscheduler.core.model.jobs import JobId, TaskId
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Remove, Upsert
from vscheduler.mirror.index.entries import Replace
from vscheduler.mirror.state import Mirror, Options

Counts = Mapping[str, Mapping[str, int]]
NAMES = ("a", "b", "c", "d")
PHASES = ("", "Pending", "Inqueue", "Running", "Unknown", "Completed", "Whatever")


@dataclass
class World:
    """What is known of PodGroups and their pods, and how often a group was looked at."""

    mirror: Mirror = field(
        default_factory=lambda: Mirror(Options(scheduler_names=(manifests.OURS,)))
    )
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.evidence = StatusEvidence(self.mirror)
        self.known = QueueCache("default", self._witness)
        self.end = self.mirror.subscribe(lambda key: self.known.show(key, None))

    def _witness(self, group: Group) -> str:
        self.asked.append(group.uid)
        return self.evidence.counter(group)

    def show(self, document: Document) -> None:
        """Let a watch show a pod."""
        self.mirror.apply(events.convert(Kind.POD, document))

    def by_hand(self) -> Counts:
        """The counts, taken over everything that is known."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for item in self.known._items.values():
            if isinstance(item, Group):
                found[item.queue or "default"][self.evidence.counter(item)] += 1
        return plain(found)


def plain(counts: Counts) -> Counts:
    """As it can be compared: a Counter equals another that has zeros."""
    return {queue: dict(held) for queue, held in counts.items()}


def a_group(name: str, **rest: Any) -> Group:
    """A PodGroup of queue `q` that says that it runs; `rest`: its other fields."""
    fields: dict[str, Any] = {
        "uid": name, "version": "1", "queue": "q", "counter": "running", "key": f"ns/{name}"
    }  # fmt: skip
    return Group(**fields | rest)


def some_group(chance: random.Random) -> Group:
    """One of four names, each of two lives, in any phase and queue."""
    name = chance.choice(NAMES)
    return a_group(
        name,
        uid=f"{name}-{chance.randrange(2)}",
        version=str(chance.randrange(100)),
        queue=chance.choice(("", "default", "q", "r")),
        counter=queue_objects.PHASES.get(chance.choice(PHASES), "unknown"),
    )


def some_item(chance: random.Random) -> Item:
    """Mostly PodGroups."""
    if chance.random() < 0.1:
        return Queue(name="q", uid="q", version=str(chance.randrange(100)))
    return some_group(chance)


def some_pod(chance: random.Random) -> Document:
    """One of eight pods of these groups or of none, anywhere, whoever schedules it."""
    node = chance.choice(("", "n1"))
    pod = manifests.pod(
        f"p{chance.randrange(8)}",
        group=chance.choice((*NAMES, "")),
        node=node,
        phase=chance.choice(("Running", "Succeeded", "Failed") if node else ("Pending", "Failed")),
        scheduler=chance.choice((manifests.OURS, manifests.OURS, "other")),
    )
    if chance.random() < 0.2:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if chance.random() < 0.1:
        pod["spec"]["tolerations"] = [{"value": "no key"}]
    return pod


def some_task(chance: random.Random) -> TaskId:
    """Of one of the pods, there or not."""
    return TaskId(f"p{chance.randrange(8)}")


def listed(world: World, chance: random.Random) -> None:
    """All pods are listed anew: some of them are others, some have gone."""
    found = [world.mirror.read(upsert) for upsert in map(_upsert, _some_pods(chance))]
    world.mirror.apply(Replace(kind=Kind.POD, found=dict(found)))


def _some_pods(chance: random.Random) -> list[Document]:
    return [some_pod(chance) for _ in range(chance.randrange(6))]


def _upsert(document: Document) -> Upsert | DecodeFailed:
    event = events.convert(Kind.POD, document)
    assert isinstance(event, Upsert | DecodeFailed)
    return event


def gone(chance: random.Random) -> Remove:
    """A pod is no more."""
    event = events.removal(events.convert(Kind.POD, some_pod(chance)))
    assert isinstance(event, Remove)
    return event


HAPPENS: tuple[Callable[[World, random.Random], object], ...] = (
    lambda world, chance: world.known.see(some_item(chance)),
    lambda world, chance: world.known.see(some_item(chance)),
    lambda world, chance: world.known.refresh(some_item(chance)),
    lambda world, chance: world.known.forget(some_item(chance).uid),
    lambda world, _: world.known.begin(),
    lambda world, chance: world.known.replace(
        [some_item(chance) for _ in range(chance.randrange(6))]
    ),
    lambda world, chance: world.show(some_pod(chance)),
    lambda world, chance: world.show(some_pod(chance)),
    lambda world, chance: world.show(some_pod(chance)),
    lambda world, chance: world.mirror.apply(gone(chance)),
    listed,
    lambda world, chance: world.mirror.assume(some_task(chance), "n2", 0.0),
    lambda world, chance: world.mirror.forget(some_task(chance)),
    lambda world, chance: world.mirror.evicting(some_task(chance), 0.0),
    lambda world, chance: world.mirror.forget_eviction(some_task(chance)),
    lambda world, _: world.mirror.expire(1000.0),
)
"""What may come, change or go. A bind that was sent counts as a node."""


@pytest.mark.parametrize("seed", range(24))
def test_counts_are_those_taken_over_everything(seed: int) -> None:
    """Whatever moves; looked at after each thing, or after several, as the seed has it."""
    world, chance = World(), random.Random(seed)
    moods = Counter[str]()
    for _ in range(400):
        chance.choice(HAPPENS)(world, chance)
        if seed % 2 or chance.random() < 0.3:
            assert plain(world.known.counts) == world.by_hand()
            for held in world.known.counts.values():
                moods.update(held.keys())
    assert moods.keys() == set(queue_objects.COUNTERS)


def test_nothing_is_kept_of_what_has_gone() -> None:
    """Queues and groups of any name come and go for as long as the process lives."""
    world = World()
    for number in range(50):
        name = f"g{number}"
        world.known.see(a_group(name, queue=f"q{number}"))
        world.show(manifests.pod("p", group=name, node="n1"))
        assert plain(world.known.counts) == {f"q{number}": {"running": 1}}
        world.known.forget(name)
        world.show(manifests.pod("p", group=name))
        assert not world.known.counts
    tally = world.known._tally
    assert not any((tally._groups, tally._uids, tally._doubtful, tally._places))


@pytest.mark.parametrize("moves", ["nothing", "a pod", "a stranger's pod", "a status", "a bind"])
def test_a_look_costs_what_has_moved(moves: str) -> None:
    """Not what is there: the same for a hundred groups and for two thousand."""
    assert cost_of(100, moves) == cost_of(2000, moves)


def cost_of(groups: int, moves: str) -> tuple[int, list[str]]:
    """Lines of Python that a look takes, and the groups that it looks at."""
    world = World()
    for number in range(groups):
        world.known.see(a_group(f"g{number}", queue=f"q{number % 3}"))
        world.show(manifests.pod(f"p{number}", group=f"g{number}", node="n1" if number else ""))
    counts = world.known.counts
    assert sum(sum(held.values()) for held in counts.values()) == groups
    assert len(world.asked) == groups
    world.asked.clear()
    match moves:
        case "a pod":
            world.show(manifests.pod("p7", group="g7"))
        case "a stranger's pod":
            world.show(manifests.pod("x", group="nobody's", node="n1", scheduler="other"))
        case "a status":
            world.known.see(replace(a_group("g7"), version="2", counter="completed"))
        case "a bind":
            assert world.mirror.assume(TaskId("p0"), "n1", 0.0)
    cost = lines_of(lambda: world.known.counts)
    assert plain(world.known.counts) == world.by_hand()
    expected = {"a pod": ["g7"], "a status": ["g7"], "a bind": ["g0"]}
    assert world.asked == expected.get(moves, [])
    return cost, world.asked


def lines_of(call: Callable[[], object]) -> int:
    """How many lines of ours it takes, turns of loops included; not what a collection of garbage
    runs meanwhile.
    """
    lines, before = 0, sys.gettrace()

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if not frame.f_globals.get("__name__", "").startswith("vscheduler."):
            return None
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def test_a_group_that_cannot_be_judged_is_asked_about_again() -> None:
    """And no count is lost or doubled by that."""
    world, broken = World(), True
    real = world.evidence.counter

    def fail(group: Group) -> str:
        if broken and group.uid == "b":
            raise ValueError
        return real(group)

    world.evidence.counter = fail  # type: ignore[method-assign]  # what fails is ours
    for name in NAMES:
        world.known.see(a_group(name))
    for _ in range(2):
        with pytest.raises(ValueError):  # noqa: PT011 - the one above
            world.known.counts  # noqa: B018 - it is read
    broken = False
    assert plain(world.known.counts) == {"q": {"pending": 4}}


def test_a_subscription_has_an_end() -> None:
    """Whoever keeps Queues in the next tenure has one of its own."""
    world, others = World(), list[JobId]()
    end = world.mirror.subscribe(others.append)
    world.show(manifests.pod("p", group="a"))
    world.end()
    world.show(manifests.pod("p", group="b"))
    end()
    world.show(manifests.pod("p", group="c"))
    assert others == ["ns/a", "ns/a", "ns/b"]
    assert world.mirror._job_index._listeners == []
