import threading
import time
from typing import Any

import msgspec
import pytest

from tests import patience, running
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from tests.unit.daemon.worlds import World
from vscheduler.core.actions.reclaim import Reclaim
from vscheduler.core.session.session import Session
from vscheduler.daemon.pacing import Pace
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

RECLAIM = {"actions": "allocate, reclaim", "tiers": running.tiers(running.STANDARD)}
BORROWED = """
    node  n1 cpu=2           node n2 cpu=2
    queue gold weight=1      queue lead weight=1
    job   lead/greedy min=1  n1 n1 n2 n2
    job   gold/needy  min=2 phase=Inqueue  - -
"""

LENIENT = msgspec.structs.replace(worlds.PACE, retry_seconds=10.0)
"""A pod that may not go is left out for long enough."""


def evictions(made: World, *, rehearsal: bool) -> list[str]:
    """Pods whose eviction was asked for, in the order in which it was."""
    return [
        path.split("/")[-2]
        for _, path, body in made.calls
        if path.endswith("/eviction") and ("dryRun" in body["deleteOptions"]) is rehearsal
    ]


def victims() -> list[str]:
    """Whom the first plan chooses, in the order in which they are sent."""
    result = running.run(pictures.documents(BORROWED), RECLAIM)
    return [evict.task.name for evict in result.evicts]


def nominations(made: World) -> list[tuple[str, Any]]:
    """What was written to status.nominatedNodeName, by pod."""
    return [
        (path.split("/")[-2], body["status"]["nominatedNodeName"])
        for _, path, body in made.calls
        if "nominatedNodeName" in body.get("status", {})
    ]


def pods(picture: str, *names: str) -> list[Document]:
    """The pods of these names, as manifests."""
    return [
        document
        for document in pictures.documents(picture)
        if document["metadata"]["name"] in names
    ]


async def test_room_is_made_once_and_given_to_whom_it_was_made_for(serve: Serve) -> None:
    """Rehearsed, done, marked; the pods say where they wait, and start when the room is free."""
    async with worlds.world(serve, BORROWED, tree=RECLAIM) as made:
        await patience.until(lambda: len(nominations(made)) == 2)
        await worlds.rest(made)
        chosen = evictions(made, rehearsal=False)
        assert evictions(made, rehearsal=True) == chosen
        assert len(chosen) == 2
        marked = [path for _, path, body in made.calls if "DisruptionTarget" in str(body)]
        assert len(marked) == 2
        assert not made.bound()
        for victim in pods(BORROWED, *chosen):
            made.feed([worlds.event_of(victim, "DELETED")])
        await patience.until(lambda: made.bound() == {"needy-0": 1, "needy-1": 1})
        exposition = made.observed.exposition().decode()
        assert 'vscheduler_evictions_total{outcome="evicted"} 2.0' in exposition
        assert 'volcano_eviction_transactions_total{action="reclaim"} 1.0' in exposition
        assert "volcano_total_preemption_attempts 1.0" in exposition
        assert "volcano_pod_preemption_victims 2.0" in exposition


async def test_another_pod_goes_where_one_is_refused(serve: Serve) -> None:
    """Nobody is evicted of the refused plan; the next one leaves that pod out."""
    kept, _ = victims()
    answers = {f"{kept}/eviction": [403] * 99}
    async with worlds.world(serve, BORROWED, tree=RECLAIM, answers=answers, pace=LENIENT) as made:
        await patience.until(lambda: len(evictions(made, rehearsal=False)) == 2)
        await worlds.rest(made)
        assert evictions(made, rehearsal=True)[0] == kept
        assert evictions(made, rehearsal=True).count(kept) == 1
        assert kept not in evictions(made, rehearsal=False)
        assert len(evictions(made, rehearsal=False)) == 2
        exposition = made.observed.exposition().decode()
        assert 'vscheduler_evictions_total{outcome="refused"} 1.0' in exposition
        assert 'vscheduler_evictions_total{outcome="spared"} 1.0' in exposition


async def test_who_is_always_refused_asks_later_and_later(serve: Serve) -> None:
    """No one is evicted, the pauses double, and the room that was promised is kept for nobody."""
    pace = Pace(debounce_seconds=0.001, tick_seconds=0.005, retry_seconds=0.1)
    answers = {"/eviction": [403] * 999}
    async with worlds.world(serve, BORROWED, tree=RECLAIM, answers=answers, pace=pace) as made:
        started = time.monotonic()
        await patience.until(lambda: len(evictions(made, rehearsal=True)) >= 4)
        assert time.monotonic() - started > 0.1 + 0.2
        assert evictions(made, rehearsal=False) == []
        assert nominations(made) == []
        made.show(*pictures.documents("node n3 cpu=2\nqueue gold\nqueue lead")[:1])
        await patience.until(lambda: made.bound() == {"needy-0": 1, "needy-1": 1})


async def test_a_job_that_was_refused_twice_asks_nobody_for_a_while(serve: Serve) -> None:
    """Two other pods could go; what it was promised is there for others."""
    answers = {"/eviction": [403] * 999}
    picture = BORROWED.replace("node n2 cpu=2", "node n2 cpu=3")
    async with worlds.world(serve, picture, tree=RECLAIM, answers=answers, pace=LENIENT) as made:
        await patience.until(lambda: len(evictions(made, rehearsal=False)) == 2)
        await worlds.rest(made)
        assert len(set(evictions(made, rehearsal=False))) == 2
        assert evictions(made, rehearsal=True) == []  # each plan is one eviction
        made.show(*pictures.documents(f"{picture}\njob gold/small min=1 -")[-2:])
        await patience.until(lambda: made.bound() == {"small-0": 1})


async def test_a_failure_half_way_leaves_the_others_alone(serve: Serve) -> None:
    """What the rehearsal didn't foresee: one pod went, and a third one goes for the second."""
    gone, kept = victims()
    answers = {f"{kept}/eviction": [201, 403]}
    async with worlds.world(serve, BORROWED, tree=RECLAIM, answers=answers, pace=LENIENT) as made:
        await patience.until(lambda: len(nominations(made)) >= 2)
        await worlds.rest(made)
        first, second, third = evictions(made, rehearsal=False)
        assert (first, second) == (gone, kept)
        assert third not in (gone, kept)
        assert made.mirror.snapshot(0.0).nodes.releasing[:, 0].sum() == 2000


async def test_nothing_is_evicted_for_a_pod_that_went_meanwhile(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preemptor was deleted while the cycle ran."""
    decided, seen = threading.Event(), threading.Event()
    execute = Reclaim.execute

    def slow(self: Reclaim, session: Session) -> None:
        execute(self, session)
        decided.set()
        assert seen.wait(40)

    monkeypatch.setattr(Reclaim, "execute", slow)
    async with worlds.world(serve, BORROWED, tree=RECLAIM) as made:
        await patience.until(decided.is_set)
        made.feed([worlds.event_of(pod, "DELETED") for pod in pods(BORROWED, "needy-0")])
        seen.set()
        await patience.until(lambda: made.statuses("needy"))
        await worlds.rest(made)
        assert not [path for _, path, _ in made.calls if path.endswith("/eviction")]
        assert made.mirror.snapshot(0.0).nodes.releasing.sum() == 0


async def test_a_gang_that_the_server_binds_in_part_does_not_stay(serve: Serve) -> None:
    """One bind is refused for ever: when its time is over the other pod goes, too."""
    gang = {"name": "gang", "arguments": {"gang.bindTimeout": "300ms"}}
    tree = {"actions": "allocate", "tiers": [{"plugins": [gang, {"name": "predicates"}]}]}
    picture = "node n1 cpu=4\nqueue default\njob default/a min=2 cpu=1 - -"
    answers = {"a-1/binding": [403] * 999}
    async with worlds.world(serve, picture, tree=tree, answers=answers) as made:
        await patience.until(lambda: made.bound()["a-1"] >= 1)
        made.show(*pods(picture.replace("- -", "n1 -"), "a-0"))
        await patience.until(lambda: made.bound()["a-1"] > 1)
        assert evictions(made, rehearsal=True) == []
        await patience.until(lambda: evictions(made, rehearsal=False) == ["a-0"])
