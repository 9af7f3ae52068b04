"""Binds that were right when they were decided, and aren't when they are to be sent."""

import threading
from typing import Any

from structlog import testing

from tests import patience
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from tests.unit.daemon.worlds import World
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.session.session import Session
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

GANG = """
    node  n1 cpu=4
    queue default
    job   default/whole min=3 cpu=1   - - -
"""


def strangers(node: str, count: int) -> list[Document]:
    """Pods of one cpu that another scheduler has bound to this node."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"other-{n}", "namespace": "ns", "uid": f"other-{n}"},
            "spec": {
                "schedulerName": "other",
                "nodeName": node,
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        for n in range(count)
    ]


class Pauser:
    """Makes an action that decides, and then waits until it is let go."""

    def __init__(self) -> None:
        self.decided = threading.Event()
        self.seen = threading.Event()
        outer = self

        class Slow(Allocate):
            """Decides, and then takes its time."""

            def execute(self, session: Session) -> None:
                super().execute(session)
                outer.decided.set()
                assert outer.seen.wait(40)

        self.action = Slow


async def test_a_gang_is_not_bound_where_others_took_its_room_while_the_cycle_ran(
    serve: Serve,
) -> None:
    """Not even the pods that would still fit: it starts whole, elsewhere, as soon as it can."""
    pauser = Pauser()
    async with worlds.world(serve, GANG, action=pauser.action) as made:
        await patience.until(pauser.decided.is_set)
        made.show(*strangers("n1", 2))
        with testing.capture_logs() as logs:
            pauser.seen.set()
            await patience.until(lambda: made.statuses("whole"))
        assert [log["binds"] for log in logs if log["event"] == "job.changed"] == [3]
        assert (made.bound(), made.mirror.assumed) == ({}, 0)
        made.show(*pictures.documents("node n2 cpu=1"))
        await patience.until(lambda: sum(made.bound().values()) == 3)
        assert made.bound() == {"whole-0": 1, "whole-1": 1, "whole-2": 1}


async def test_a_gang_is_bound_where_others_left_room_enough(serve: Serve) -> None:
    """What came onto the node while the cycle ran holds up nobody whom it leaves room."""
    pauser = Pauser()
    async with worlds.world(serve, GANG, action=pauser.action) as made:
        await patience.until(pauser.decided.is_set)
        made.show(*strangers("n1", 1))
        pauser.seen.set()
        await patience.until(lambda: sum(made.bound().values()) == 3)


async def test_a_gang_is_not_bound_to_a_node_that_was_cordoned_while_the_cycle_ran(
    serve: Serve,
) -> None:
    """The API server would take the bind."""
    pauser = Pauser()
    async with worlds.world(serve, GANG, action=pauser.action) as made:
        await patience.until(pauser.decided.is_set)
        made.show(*pictures.documents("node n1 cpu=4 cordoned"))
        pauser.seen.set()
        await patience.until(lambda: made.statuses("whole"))
        assert made.bound() == {}


async def test_a_bind_that_is_overtaken_on_its_way_finds_another_node_at_once(
    serve: Serve,
) -> None:
    """No call is made for it, and no time is lost: its room is given back."""
    picture = """
        node n1 cpu=4   node n2 cpu=1
        queue default
        job default/large min=1 cpu=4 -
        """
    pauser = Pauser()
    async with worlds.world(serve, picture, action=pauser.action) as made:
        await patience.until(pauser.decided.is_set)
        overtake_after_assuming(made)
        with testing.capture_logs() as logs:
            pauser.seen.set()
            await patience.until(lambda: made.statuses("large"))
        (failed,) = [log for log in logs if log["event"] == "bind.failed"]
        assert (failed["pod"], failed["outcome"]) == ("default/large-0", "overtaken")
        assert (made.bound(), made.mirror.assumed) == ({}, 0)
        made.show(*pictures.documents("node n3 cpu=4"))
        await patience.until(lambda: made.bound() == {"large-0": 1})


def overtake_after_assuming(made: World) -> None:
    """Let a pod of another scheduler come onto n1 right after the first bind was handed on."""
    loop: Any = made.loop
    bind = loop._committer.bind

    def overtaken(*given: Any) -> None:
        bind(*given)
        made.show(*strangers("n1", 1))

    loop._committer.bind = overtaken


async def test_what_a_cycle_decided_while_the_lease_was_lost_is_dropped(serve: Serve) -> None:
    """Nothing is sent then, and nothing assumed; the next cycle decides again."""
    pauser = Pauser()
    async with worlds.world(serve, GANG, action=pauser.action) as made:
        await patience.until(pauser.decided.is_set)
        made.leads = False
        with testing.capture_logs() as logs:
            pauser.seen.set()
            await patience.until(lambda: [log for log in logs if log["event"] == "cycle.withheld"])
        assert (made.bound(), made.mirror.assumed) == ({}, 0)
        made.leads = True
        await patience.until(lambda: sum(made.bound().values()) == 3)
