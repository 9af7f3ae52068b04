"""Limits: what the queue of a gang lets its pods ask for, whatever plugins say."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import pytest

from tests import running
from vscheduler.core import plugins
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.gangs.assembly import Limits
from vscheduler.core.gangs.solver.problem import EqualPods, Problem, Requirement
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import QueueLimit
from vscheduler.model.jobs import JobId, Task
from vscheduler.model.queues import Queue
from vscheduler.testing import pictures

PICTURE = "node n1 cpu=9 node n2 cpu=9 queue q job q/g min=2 -@2 -@1"
FIRST, BOTH = np.array([True, False]), np.array([True, True])


class One(Plugin):
    """Says of each pod what the test wants."""

    name = "one"
    says: ClassVar[dict[str, list[QueueLimit]]] = {}

    def queue_limits(self, queue: Queue, task: Task) -> Iterable[QueueLimit] | None:
        """Return the limits for this pod."""
        del queue
        return self.says.get(f"{self.name} {task.name}", self.says.get(self.name))


class Other(One):
    """Another plugin that has limits."""

    name = "other"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session with two plugins that have limits."""
    monkeypatch.setattr(plugins, "PLUGINS", (*plugins.PLUGINS, One, Other))
    monkeypatch.setattr(One, "says", {})
    tiers = running.tiers("priority gang | predicates one other")
    return running.open_session(
        pictures.documents(PICTURE), {"actions": "allocate", "tiers": tiers}
    )


def limit(room: float, resource: str = "cpu", **rest: object) -> QueueLimit:
    """A limit of which only the room matters, in milli cores."""
    return QueueLimit(resource=resource, room=room, allocated=0, limit=room, **rest)  # type: ignore[arg-type]  # names of fields


def of(session: Session) -> Limits:
    """The limits of the gang."""
    return Limits(session, session.job_states[JobId("default/g")].job.tasks)


def kinds(session: Session) -> list[EqualPods]:
    """Its pods: 3 cores in all."""
    every = np.ones(2, dtype=np.bool_)
    tasks = session.job_states[JobId("default/g")].job.tasks
    return [EqualPods(count=1, request=session.request(task), usable=every) for task in tasks]


def cpu_for(session: Session) -> int | None:
    """How much cpu all pods may have, if that isn't enough for all of them."""
    room = of(session).room_for(kinds(session))
    return None if room is None else int(room[session.space.columns["cpu"]])


def test_the_narrowest_limit_counts(session: Session) -> None:
    """Of one plugin's and of several plugins' limits, in any order."""
    for wide, narrow in ((2500, 2000), (2000, 2500)):
        One.says = {"one": [limit(wide), limit(narrow)]}
        assert cpu_for(session) == 2000
        One.says = {"one": [limit(wide)], "other": [limit(narrow)]}
        assert cpu_for(session) == 2000


def test_limits_are_rounded_to_whole_amounts(session: Session) -> None:
    """Sums of fractions may be a little below; anything else isn't there."""
    for room, whole in ((2000 - 1e-9, 2000), (2000.6, 2000), (-0.5, -1)):
        One.says = {"one": [limit(room)]}
        assert cpu_for(session) == whole


def test_the_pod_with_the_widest_limit_counts(session: Session) -> None:
    """What a queue refuses to others is refused when they are placed."""
    for first, second in (("g-0", "g-1"), ("g-1", "g-0")):
        One.says = {f"one {first}": [limit(2500)], f"one {second}": [limit(1000)]}
        assert cpu_for(session) == 2500


def test_a_limit_that_all_pods_keep_is_none(session: Session) -> None:
    """All of them together; and what none of them asks for may be exceeded already."""
    for room, known in ((2999, 2999), (3000, None)):
        One.says = {"one": [limit(room), limit(-1, "memory")]}
        assert cpu_for(session) == known


def test_limits_on_some_nodes_are_pools(session: Session) -> None:
    """Each set of nodes with its narrowest limit; they say nothing about other nodes."""
    One.says = {
        "one": [limit(900, nodes=FIRST), limit(800, nodes=FIRST), limit(700, nodes=BOTH)],
        "other": [limit(600, "no-such-resource"), limit(2500)],
    }
    found = of(session)
    cpu = session.space.columns["cpu"]
    assert cpu_for(session) == 2500
    pools = found.pools(np.array([0, 1]))
    assert [(pool.rows.tolist(), pool.room[cpu]) for pool in pools] == [
        ([True, False], 800),
        ([True, True], 700),
    ]
    (pool,) = found.pools(np.array([1]))
    assert (pool.rows.tolist(), pool.room[cpu]) == ([True], 700)


def test_shortages_are_of_the_topmost_queue(session: Session) -> None:
    """A limit that the smallest pods just keep is none, and neither is one that nobody asks for."""
    requirement = Requirement(kinds=(0, 1), least=2)
    given = Problem(
        kinds=tuple(kinds(session)),
        free=np.zeros((2, 1), dtype=np.int64),
        requirements=(requirement,),
    )
    cases = ((2999, [("top", "cpu")]), (3000, [("below", "cpu"), ("below", "pods")]))
    for room, expected in cases:
        One.says = {
            "one": [
                limit(1000, owner="below"),
                limit(1, "pods", owner="below"),
                limit(-1, "memory", owner="below"),
                limit(room, owner="top"),
                limit(-1, "memory", owner="top"),
            ]
        }
        shortages = of(session).shortages(given)
        assert [(shortage.owner, shortage.resource) for shortage in shortages] == expected
        assert shortages[0].requested == 3000


def test_limits_on_nodes_are_those_of_one_pod(session: Session) -> None:
    """The narrower limits of another pod, which may have no nominations, don't add to them."""
    One.says = {"one g-0": [limit(100, nodes=FIRST)], "one g-1": [limit(800, nodes=FIRST)]}
    (pool,) = of(session).pools(np.array([0]))
    assert pool.room[session.space.columns["cpu"]] == 800
