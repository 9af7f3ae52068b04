"""Statuses of HyperNodes: counts of nodes and what is wrong, written only if they differ."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from tests import patience
from tests.unit.controllers.queue_api import VERBS, Server
from vscheduler.controllers import hyper_node_controller
from vscheduler.controllers.hyper_node_controller import (
    Described,
    HyperNodeController,
    NodeCodec,
    Pace,
)
from vscheduler.controllers.ports import Api, RefusedError, Trouble
from vscheduler.mirror import paths
from vscheduler.testing import pictures

PACE = Pace(quiet_seconds=0.01, longest_seconds=0.1, rest_factor=0.0, retry_seconds=0.01)
NODES = ("a1", "a2", "a3")
CODEC = NodeCodec()


def node(name: str, **labels: str) -> bytes:
    """A node as an API server sends it."""
    return msgspec.json.encode({"metadata": {"name": name, "labels": labels}, "spec": {}})


class Running:
    """The controller, and HyperNodes in a server and in Kopf's index."""

    def __init__(self) -> None:
        self.server = Server()
        self.server.offers["hypernodes"] = VERBS
        self.index: dict[str, Sequence[Described]] = {}
        self.server.listeners.append(self._hear)
        self.outcomes: list[str] = []
        self.controller = HyperNodeController(
            cast("Api", self.server),
            self.index,
            observe=lambda _, outcome: self.outcomes.append(outcome),
            pace=PACE,
        )

    def draw(self, picture: str) -> None:
        """Create HyperNodes, or change them."""
        for document in pictures.documents(picture):
            name = document["metadata"]["name"]
            stored = self.server.objects.get(paths.HYPER_NODES.at(name), {})
            body = document | {"status": stored.get("status", {})}
            self.server.put(paths.HYPER_NODES.at(name), body)

    def list_nodes(self, *nodes: bytes) -> None:
        """The list of nodes has come."""
        self.controller.feed(CODEC.replace(CODEC.read(nodes)))

    def status(self, name: str) -> dict[str, Any]:
        """The status of a HyperNode."""
        stored = self.server.objects[paths.HYPER_NODES.at(name)]
        return cast("dict[str, Any]", stored.get("status") or {})

    def said(self, name: str) -> tuple[int, str, str]:
        """Count, reason and message of a HyperNode; a count below 0 without any status."""
        status = self.status(name)
        (ready,) = status.get("conditions") or ({"reason": "", "message": ""},)
        return status.get("nodeCount", -1), ready["reason"], ready["message"]

    @property
    def writes(self) -> list[str]:
        """The names of HyperNodes in the order of writes."""
        return [path.split("/")[-2] for _, path in self.server.writes]

    def _hear(self, path: str, stored: Any, gone: bool) -> None:
        name = path.rpartition("/")[2]
        self.index.pop(name, None)
        if not gone:
            self.index[name] = [hyper_node_controller.described(stored)]
        self.controller.changed()


@asynccontextmanager
async def running(picture: str, *nodes: bytes) -> AsyncIterator[Running]:
    """The controller at work on these HyperNodes, after its first writes."""
    made = Running()
    made.draw(picture)
    made.list_nodes(*(nodes or map(node, NODES)))
    task = asyncio.create_task(made.controller.run())
    try:
        await patience.until(lambda: all(made.said(name)[1] for name in made.index))
        yield made
    finally:
        task.cancel()


async def settle(made: Running) -> None:
    """Wait until a further HyperNode has its status: all that came before it has been seen."""
    made.draw("hypernode last nodes=elsewhere")
    await patience.until(lambda: made.said("last")[1] != "")


async def test_nodes_are_counted_with_those_of_members() -> None:
    """However they are selected."""
    picture = """
        hypernode r1 nodes=a1,a9   hypernode r2 pattern=^a[23]   hypernode s tier=2 children=r1,r2
        hypernode z tier=3 label=zone=z
    """
    nodes = [*map(node, NODES), node("b1", zone="z")]
    async with running(picture, *nodes) as made:
        assert {name: made.said(name) for name in made.index} == {
            "r1": (1, "Valid", ""),
            "r2": (2, "Valid", ""),
            "s": (3, "Valid", ""),
            "z": (1, "Valid", ""),
        }


async def test_what_is_wrong_is_said_until_it_is_mended() -> None:
    """The instant of the condition is that of the last change between true and false."""
    async with running("hypernode s tier=2 children=r1,r2   hypernode r1 nodes=a1") as made:
        assert made.said("s") == (1, "Contradiction", "its member r2 doesn't exist")
        (ready,) = made.status("s")["conditions"]
        assert ready["status"] == "False"
        ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        path = paths.HYPER_NODES.at("s")
        made.server.put(path, made.server.objects[path] | {"status": made.status("s")})
        made.draw("hypernode s tier=2 children=r1,r3")
        await patience.until(lambda: "r3" in made.said("s")[2])
        (ready,) = made.status("s")["conditions"]
        assert ready["lastTransitionTime"] == "2026-01-01T00:00:00Z"
        made.draw("hypernode r3 nodes=a2,a3")
        await patience.until(lambda: made.said("s") == (3, "Valid", ""))
        (ready,) = made.status("s")["conditions"]
        assert ready["status"] == "True"
        assert ready["lastTransitionTime"] != "2026-01-01T00:00:00Z"


async def test_one_that_can_not_be_read_says_why() -> None:
    """And nothing else is the worse for it."""
    async with running("hypernode r nodes=a1   hypernode s tier=2 children=r") as made:
        path = paths.HYPER_NODES.at("s")
        for spec, said in (
            ({"tier": 2, "members": [{"type": "Node"}]}, "spec.members[0].selector: must have"),
            ({"tier": "high", "members": []}, "spec.tier: Expected `int`"),
        ):
            made.server.put(path, made.server.objects[path] | {"spec": spec})
            await patience.until(lambda: made.said("s")[2].startswith(said))  # noqa: B023 - at once
            assert made.said("s")[:2] == (0, "Unreadable")
        assert made.said("r") == (1, "Valid", "")


async def test_nothing_is_written_that_stands_there_already() -> None:
    """Nor when nodes change what doesn't matter, or another controller counts differently."""
    async with running("hypernode r nodes=a1   hypernode s tier=2 children=r") as made:
        assert sorted(made.writes) == ["r", "s"]
        made.controller.feed(CODEC.change("MODIFIED", node("a1", zone="z")))
        made.controller.feed(CODEC.change("ADDED", node("b1")))
        status = made.status("s") | {"nodeCount": 7}
        path = paths.HYPER_NODES.at("s")
        made.server.put(path, made.server.objects[path] | {"status": status})
        await settle(made)
        assert sorted(made.writes) == ["last", "r", "s"]
        made.controller.feed(CODEC.change("DELETED", node("a1")))
        await patience.until(lambda: made.said("s")[0] == 0)


async def test_another_controller_finds_its_statuses() -> None:
    """After a restart nothing is written anew."""
    async with running("hypernode r nodes=a1   hypernode s tier=2 children=r") as made:
        pass
    again = Running()
    again.server.objects = made.server.objects
    again.index.update(made.index)
    again.list_nodes(*map(node, NODES))
    task = asyncio.create_task(again.controller.run())
    await settle(again)
    task.cancel()
    assert again.writes == ["last"]


async def test_what_comes_and_goes_at_once_is_not_written() -> None:
    """Many changes lead to one answer."""
    async with running("hypernode r nodes=a1") as made:
        for number in range(100):
            made.draw(f"hypernode x{number} nodes=a2")
            made.server.remove(paths.HYPER_NODES.at(f"x{number}"))
        await settle(made)
        assert made.writes == ["r", "last"]


async def test_what_kopf_has_not_heard_of_is_left_out() -> None:
    """A member went while there was no watch."""
    async with running("hypernode r nodes=a1   hypernode s tier=2 children=r") as made:
        gone = made.index["r"]
        made.server.remove(paths.HYPER_NODES.at("r"))
        made.index["r"] = gone
        made.controller.changed(listed=True)
        said = (0, "Contradiction", "its member r doesn't exist")
        await patience.until(lambda: made.said("s") == said)


async def test_what_is_found_to_be_gone_is_left_out() -> None:
    """A write tells it: one that went unnoticed had the member that another one has by now."""
    picture = "hypernode r nodes=a1   hypernode s tier=2 children=r   hypernode t tier=2 nodes=a2"
    async with running(picture) as made:
        gone = made.index["s"]
        made.server.remove(paths.HYPER_NODES.at("s"))
        made.index["s"] = gone
        made.draw("hypernode t tier=2 children=r")
        await patience.until(lambda: made.said("t") == (1, "Valid", ""))
        assert made.said("r") == (1, "Valid", "")


async def test_nodes_are_needed_from_the_first_hyper_node_on() -> None:
    """Clusters without any don't pay for a watch."""
    made = Running()
    task = asyncio.create_task(made.controller.run())
    await asyncio.sleep(0.05)
    assert not made.controller.needs_nodes.is_set()
    made.draw("hypernode r nodes=a1")
    await asyncio.wait_for(made.controller.needs_nodes.wait(), 5)
    assert made.writes == []
    made.list_nodes(node("a1"))
    await patience.until(lambda: made.said("r") == (1, "Valid", ""))
    task.cancel()


@pytest.mark.parametrize("trouble", [Trouble.FORBIDDEN, Trouble.UNANSWERED])
async def test_writes_that_fail_are_made_again(trouble: Trouble) -> None:
    """After a pause."""
    made = Running()
    failures = [3]

    def refuse(method: str, *_: object) -> None:
        if method == "patch" and failures[0]:
            failures[0] -= 1
            raise RefusedError(trouble, "no")

    made.server.refuse = refuse
    made.draw("hypernode r nodes=a1   hypernode s tier=2 children=r")
    made.list_nodes(*map(node, NODES))
    task = asyncio.create_task(made.controller.run())
    await patience.until(lambda: made.said("r")[0] == made.said("s")[0] == 1)
    task.cancel()
    assert made.outcomes.count(str(trouble)) == 3
