"""Reservations: what costs nothing while nothing is reserved."""

import pytest

from tests.unit.core import sessions
from vscheduler.core.placement.expected_ends import ExpectedEnds
from vscheduler.core.placement.reservations import Reservations


def test_without_reservations_nobody_asks_when_pods_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for a turn, nor for the reasons of jobs that wait."""

    def fail(*_: object) -> None:
        pytest.fail("a look at all running pods")

    monkeypatch.setattr(ExpectedEnds, "columns", fail)
    session = sessions.opened(sessions.job("a", sessions.task("a", 0)))
    reservations = Reservations(session)  # type: ignore[arg-type]  # what it asks is there
    state = session.job_state("a")
    with reservations.respected_by(state), reservations.respected_by_all():
        assert not reservations.keep_out(state)
