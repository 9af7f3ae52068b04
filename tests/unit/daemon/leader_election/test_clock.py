import time

import pytest

from vscheduler.daemon.leader_election import elector


def test_the_election_does_not_go_by_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set back must not lengthen a term."""
    before = elector.clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert elector.clock() >= before
