"""Availability: starts that a table of instants and nodes shows are those found one by one."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from tests import running
from vscheduler.core.placement import availability
from vscheduler.core.placement.availability import Availability, Copies, Held
from vscheduler.core.placement.expected_ends import ExpectedEnds
from vscheduler.model.jobs import JobId
from vscheduler.model.resources import CPU
from vscheduler.model.snapshot import Reservation
from vscheduler.testing import pictures

REQUEST = np.array([2, 3, 0])
CORE = 1000
PICTURE = """
    node  n1 cpu=4   node n2 cpu=4
    queue q
    job   q/half scheduled=600 annotation=vscheduler.io/max-run-time=20m cpu=2 n1
"""
"""Half of the first node is busy for ten more minutes."""


class Table:
    """The table of a cycle on two nodes; times count from now."""

    def __init__(self) -> None:
        session = running.open_session(pictures.documents(PICTURE), running.TREE)
        self.now, self.cpu = session.snapshot.now, session.space.columns[CPU]
        self.width = session.space.size
        self.table = Availability(session, ExpectedEnds(session), [])

    def free(self) -> list[list[int]]:
        """Cores by node and instant."""
        found: list[list[int]] = (self.table._free[self.cpu] // CORE).tolist()
        return found

    def instants(self) -> list[float]:
        """Seconds from now."""
        found: list[float] = (self.table.instants - self.now).tolist()
        return found

    def held(self, start: float, until: float, cores: int, rows: Sequence[int] = (0,)) -> Held:
        """So many cores of each of these nodes."""
        amounts = np.zeros((len(rows), self.width), dtype=np.int64)
        amounts[:, self.cpu] = cores * CORE
        times = self.now + start, self.now + until
        reservation = Reservation(job=JobId("default/a"), start=times[0], until=times[1], nodes=())
        return Held(reservation, "q", np.array(rows), amounts)


def test_an_instant_that_is_added_changes_nothing_that_is_free() -> None:
    """It has what the one before it has, and isn't a start until something ends then."""
    made = Table()
    assert made.instants() == [0, 600]
    assert made.free() == [[2, 4], [4, 4]]
    assert made.table._include(made.now + 300) == 1
    assert made.instants() == [0, 300, 600]
    assert made.free() == [[2, 2, 4], [4, 4, 4]]
    assert made.table.releases.tolist() == [True, False, True]
    assert made.table._include(made.now + 900) == 3
    assert made.instants() == [0, 300, 600, 900]
    assert made.free() == [[2, 2, 4, 4], [4, 4, 4, 4]]


def test_an_instant_that_is_there_isnt_added_again() -> None:
    """Nor one before now, nor the end of a job whose run time isn't known."""
    made = Table()
    found = [made.table._include(made.now + at) for at in (-1, 0, 600, np.inf)]
    assert found == [0, 0, 1, 2]
    assert made.instants() == [0, 600]


def test_a_full_table_names_the_next_instant_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reserved counts until then."""
    monkeypatch.setattr(availability, "INSTANTS_MAX", 2)
    made = Table()
    assert made.table._include(made.now + 300) == 1
    held = made.held(0, 300, 1)
    made.table.take(held)
    assert made.instants() == [0, 600]
    assert made.free() == [[1, 4], [4, 4]]
    made.table.give_back(held)
    assert made.free() == [[2, 4], [4, 4]]


def test_known_copies_are_right_after_an_instant_is_added() -> None:
    """The end of what is reserved is a start from then on."""
    made = Table()
    request = np.zeros(made.width, dtype=np.int64)
    request[made.cpu] = 4 * CORE
    assert made.table.copies(request).candidates(2, 60).tolist() == [1]
    made.table.take(made.held(600, 1200, 1, rows=(0, 1)))
    assert made.instants() == [0, 600, 1200]
    assert made.table.releases.all()
    assert made.table.copies(request).candidates(2, 60).tolist() == [2]
    assert made.table.copies(request).candidates(1, 600).tolist() == [0, 2]


def test_the_least_that_is_free_while_a_pod_runs() -> None:
    """What ends first makes room for what is reserved; what starts after the pod doesn't count."""
    made = Table()
    made.table.take(made.held(600, 1200, 3))
    found = [made.table.least(made.now, made.now + at)[:, made.cpu] for at in (60, 600, 601)]
    assert [(each // CORE).tolist() for each in found] == [[2, 4], [2, 4], [1, 4]]


@pytest.mark.parametrize(
    ("start", "slack", "expected"), [(600, 0, True), (595, 5, True), (590, 5, False)]
)
def test_pods_may_end_a_little_later_than_assumed(
    start: float, slack: float, expected: bool
) -> None:
    """A reservation that needs what they release holds all the same."""
    made = Table()
    session = running.open_session(pictures.documents(PICTURE), running.TREE)
    held = made.held(start, 1200, 3)
    table = Availability(session, ExpectedEnds(session), [held])
    assert table.suffices == (start == 600)
    assert table.suffices_for(held, slack) is expected


def by_hand(free: list[list[list[int]]], start: int, last: int) -> int:
    """How many copies fit from one instant until before another one, on the same nodes."""
    nodes = range(len(free[0][0]))
    every = [
        [min(free[0][at][node] // 2, free[1][at][node] // 3) for at in range(start, last)]
        for node in nodes
    ]
    return sum(max(0, min(copies)) for copies in every)


@pytest.mark.parametrize("seed", range(30))
def test_the_first_start_is_that_of_a_search_one_by_one(seed: int) -> None:
    """With what nodes have free at any time, and nodes that may not be used."""
    draw = random.Random(seed)
    instants, nodes, limit = draw.randint(1, 12), draw.randint(1, 5), draw.choice((2, 5, 1e9))
    free = np.array([[[draw.randint(-2, 9) for _ in range(nodes)] for _ in range(instants)]] * 3)
    free[1] += np.array([[draw.randint(0, 6) for _ in range(nodes)] for _ in range(instants)])
    mask = np.array([draw.random() < 0.8 for _ in range(nodes)])
    times = np.cumsum([draw.choice((1.0, 2.0, 4.0)) for _ in range(instants)])
    needed = draw.randint(1, 6)
    table = free.transpose(0, 2, 1)
    copies = Copies(times, table, REQUEST, mask)
    rows, span = np.array([draw.randrange(nodes)]), slice(0, draw.randint(1, instants))
    table[:, rows, span] -= 3
    copies.follow([(rows, span)])
    usable = (free[:, :, mask]).tolist()
    expected = next(
        (
            start
            for start in range(instants)
            if by_hand(usable, start, sum(time < times[start] + limit for time in times)) >= needed
        ),
        None,
    )
    found = copies.first(copies.candidates(needed, limit), needed, limit)
    assert (None if found is None else found[0]) == expected
    if found is not None:
        assert found[1].sum() >= needed
        assert not found[1][~mask].any()


def test_of_many_instants_the_next_ones_and_the_last_are_chosen() -> None:
    """The starts of what is reserved are among them."""
    ends = np.arange(1.0, 101.0)
    chosen = availability._chosen(0.5, ends[:0], ends, 20)
    assert len(chosen) <= 20
    assert list(chosen[:10]) == [0.5, *ends[:9]]
    assert chosen[-1] == 100
    assert list(availability._chosen(50, ends[:0], ends, 100)) == [*ends[49:]]
