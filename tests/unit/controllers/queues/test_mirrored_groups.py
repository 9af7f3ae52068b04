"""PodGroups that the Mirror shows, beside those that Kopf tells of and lists."""

import random
from collections import Counter, deque
from typing import Any

import pytest

from tests import patience
from tests.unit.controllers import queue_api
from tests.unit.controllers.queue_api import Server
from tests.unit.controllers.queues import test_queue_controller
from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.controllers.podgroups.podgroup_lister import StatusEvidence
from vscheduler.controllers.queues import queue_objects
from vscheduler.controllers.queues.queue_cache import AsWritten, MovedGroups, QueueCache, Unusable
from vscheduler.controllers.queues.queue_controller import Pace
from vscheduler.controllers.queues.queue_objects import Group, Seen
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Event
from vscheduler.mirror.state import Mirror, Options

PHASES = ("", "Pending", "Inqueue", "Completed")


class World:
    """A server, a Mirror and a Kopf that hear of it late, and the cache that hears of both."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.there: dict[str, Document] = {}
        self.version = 0
        self.mirror = Mirror(Options(scheduler_names=(manifests.OURS,)))
        self.evidence = StatusEvidence(self.mirror)
        self.known = QueueCache("default", self.evidence.counter)
        self.mirror.subscribe(lambda key: self.known.show(key, self.evidence.group(key)))
        self.to_mirror: deque[Event] = deque()
        self.to_kopf: deque[tuple[bool, Group]] = deque()
        self.kopf_knows: set[str] = set()
        self.listed: list[Group] | None = None

    def write(self) -> None:
        """Somebody creates, changes or deletes a PodGroup; of changes, Kopf is told of some."""
        name, self.version = self.chance.choice("abcd"), self.version + 1
        before = self.there.pop(name, None)
        uid = before["metadata"]["uid"] if before else f"{name}-{self.version}"
        spec = {"queue": self.chance.choice(("q", "r", ""))}
        group = manifests.group(name, spec)
        group["metadata"] |= {"uid": uid, "resourceVersion": str(self.version)}
        group["status"] = {"phase": self.chance.choice(PHASES)}
        event, gone = manifests.event_of(group), before and self.chance.random() < 0.4
        if not gone:
            self.there[name] = group
        self.to_mirror.append(events.removal(event) if gone else event)
        if uid in self.kopf_knows if gone else self.chance.random() < 0.3:
            self.to_kopf.append((not gone, queue_objects.group(group)))
            (self.kopf_knows.discard if gone else self.kopf_knows.add)(uid)

    def show(self) -> None:
        """The Mirror's watch goes on."""
        if self.to_mirror:
            self.mirror.apply(self.to_mirror.popleft())

    def tell(self) -> None:
        """Kopf's watch goes on."""
        if self.to_kopf:
            there, group = self.to_kopf.popleft()
            if there:
                self.known.see(group)
            else:
                self.known.forget(group.uid)

    def list(self) -> None:
        """A list is requested, is answered, or arrives."""
        if self.listed is None:
            self.known.begin()
            self.listed = []
        elif self.chance.random() < 0.5:
            self.listed = [*map(queue_objects.group, self.there.values())]
            self.known.replace(self.listed)
            self.listed = None

    def counts(self) -> dict[str, dict[str, int]]:
        """What is there, by queue and phase."""
        found: dict[str, Counter[str]] = {}
        for group in self.there.values():
            queue, phase = group["spec"]["queue"] or "default", group["status"]["phase"]
            found.setdefault(queue, Counter())[queue_objects.PHASES[phase]] += 1
        return {queue: dict(held) for queue, held in found.items()}


@pytest.mark.parametrize("seed", range(40))
def test_all_is_right_once_everything_was_heard(seed: int) -> None:
    """In whatever order Mirror, Kopf and lists tell of it, and though Kopf tells of a part."""
    world = World(random.Random(seed))
    for _ in range(200):
        steps = (world.write, world.show, world.show, world.tell, world.tell, world.list)
        world.chance.choice(steps)()
    while world.to_mirror or world.to_kopf:
        world.chance.choice((world.show, world.tell))()
    counts = world.known.counts
    assert {queue: dict(held) for queue, held in counts.items()} == world.counts()
    assert world.known._shown.keys() == {f"ns/{name}" for name in world.there}


def test_a_group_that_was_made_anew_counts_once() -> None:
    """A list of the Mirror's shows the new one in place of the old one."""
    world = World(random.Random(0))
    for version, uid in enumerate("ab"):
        group = manifests.group("g", {"queue": "q"})
        group["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
        world.mirror.apply(manifests.event_of(group))
    assert {queue: dict(held) for queue, held in world.known.counts.items()} == {
        "q": {"pending": 1}
    }


def test_a_group_that_only_kopf_has_told_of_stays() -> None:
    """The Mirror may be late: its pods come first, and then it hears of it, too."""
    world = World(random.Random(0))
    world.known.see(Group(uid="u", version="1", queue="q", counter="running", key="ns/g"))
    world.mirror.apply(manifests.event_of(manifests.pod("p", group="g", node="n1")))
    assert {queue: dict(held) for queue, held in world.known.counts.items()} == {
        "q": {"running": 1}
    }


def test_a_group_that_moves_often_is_looked_at_once() -> None:
    """A pod that starts moves it some five times."""
    asked: list[str] = []

    class Noting(AsWritten):
        def group(self, key: str) -> None:
            asked.append(key)

    groups = Noting()
    moved = MovedGroups(QueueCache("default", groups.counter), groups)
    for key in ("ns/a", "ns/b", "ns/a", "ns/a"):
        moved.note(key)
    assert moved.apply()
    assert moved.apply()
    assert asked == ["ns/a", "ns/b"]


@pytest.mark.usefixtures("virtual_time")
async def test_a_group_that_the_mirror_cannot_use_is_counted() -> None:
    """A list tells of it: soon, and not for each of its changes."""
    server = Server()
    queue_api.a_queue(server, "red")
    pace = Pace(audit_unusable_seconds=1.0, counts_seconds=0.0)
    unusable = Unusable(uid="u")

    def lists() -> int:
        return sum(call == "list" and path.endswith("podgroups") for call, path in server.calls)

    async with test_queue_controller.keeping(
        server, pace, deaf=True, group=lambda _: unusable
    ) as keeper:
        await patience.until(lambda: queue_api.state_of(server, "red") == "Open")
        assert lists() == 1
        queue_api.a_group(server, "g", "red", "Inqueue")
        for _ in range(50):
            keeper.moved("default/g")
        await patience.until(lambda: queue_api.status_of(server, "red").get("inqueue") == 1)
        assert lists() == 2


@pytest.mark.usefixtures("virtual_time")
async def test_what_becomes_unusable_during_a_list_is_listed_again() -> None:
    """The list may have been read before."""
    server = Server()
    queue_api.a_queue(server, "red")
    pace = Pace(audit_unusable_seconds=1.0, counts_seconds=0.0)

    def change(method: str, path: str, _: Any) -> None:
        if method == "list" and path.endswith("podgroups") and not changed:
            changed.append(path)
            keeper.moved("default/g")

    changed: list[str] = []
    unusable = Unusable(uid="u")
    async with test_queue_controller.keeping(
        server, pace, deaf=True, group=lambda _: unusable
    ) as keeper:
        server.refuse = change
        await patience.until(lambda: queue_api.state_of(server, "red") == "Open")
        queue_api.a_group(server, "g", "red", "Inqueue")
        await patience.until(lambda: queue_api.status_of(server, "red").get("inqueue") == 1)


@pytest.mark.usefixtures("virtual_time")
async def test_what_kopf_lists_during_a_list_is_listed_again() -> None:
    """No event tells of what went before Kopf's list, and the own one may have been read before."""
    server = Server()
    path = queue_api.a_queue(server, "red")
    pace = Pace(settle_seconds=1.0, counts_seconds=0.0)

    def change(method: str, path: str, _: Any) -> None:
        if method == "list" and path.endswith("podgroups") and not changed:
            changed.append(path)
            keeper.feed(told)

    changed: list[str] = []
    async with test_queue_controller.keeping(server, pace, deaf=True) as keeper:
        await patience.until(lambda: queue_api.state_of(server, "red") == "Open")
        queue = queue_objects.queue(server.objects[path])
        told = Seen(item=queue, listed=True)
        server.refuse = change
        keeper.feed(told)
        await patience.until(lambda: bool(changed))
        queue_api.a_group(server, "g", "red", "Inqueue")
        await patience.until(lambda: queue_api.status_of(server, "red").get("inqueue") == 1)


def test_a_status_is_the_mirrors() -> None:
    """Not what Kopf was told of when the PodGroup was new."""
    mirror = manifests.mirror(manifests.group("g", {"queue": "q"}), manifests.queue("q"))
    evidence = StatusEvidence(mirror)
    shown = evidence.group("ns/g")
    assert isinstance(shown, Group)
    assert (shown.queue, shown.counter, shown.key) == ("q", "pending", "ns/g")
    running: dict[str, Any] = manifests.group("g", {"queue": "q"}) | {
        "status": {"phase": "Running"}
    }
    mirror.apply(manifests.event_of(running))
    shown = evidence.group("ns/g")
    assert isinstance(shown, Group)
    assert shown.counter == "running"
    bad = manifests.group("g", {"queue": "q", "minMember": -1})
    mirror.apply(manifests.event_of(bad))
    assert evidence.group("ns/g") == Unusable(uid=bad["metadata"]["uid"])
    assert evidence.group("ns/h") is None
