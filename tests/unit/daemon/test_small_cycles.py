"""Small cycles: which ones run in the event loop, and that the thread takes over the others."""

import dataclasses
import threading
from typing import ClassVar

import pytest

from tests import patience, running
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from vscheduler.core.actions import allocate
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.config.policy import ActionSetting, PluginSetting
from vscheduler.core.session.session import Session
from vscheduler.daemon import cycle_thread
from vscheduler.daemon.cycle_thread import SmallCycles
from vscheduler.testing import pictures

POLICY = running.policy_of(running.TREE)


class Foreign(Allocate):
    """An action of another package, which may do anything."""


class ForeignPlugin(Plugin):
    """A plugin of another package."""

    name = "foreign"


def test_a_cycle_is_expected_to_be_as_small_as_the_last_one() -> None:
    """The first one isn't: it sees everything for the first time."""
    cycles = SmallCycles(lambda _: None)
    assert not cycles.expects(POLICY)
    cycles.ended(cycle_thread.UNITS_MAX, cycle_thread.SECONDS_MAX)
    assert cycles.expects(POLICY)
    cycles.ended(cycle_thread.UNITS_MAX + 1, 0.0)
    assert not cycles.expects(POLICY)
    cycles.ended(0, 2 * cycle_thread.SECONDS_MAX)
    assert not cycles.expects(POLICY)


def test_with_code_of_others_no_cycle_is_small() -> None:
    """It may wait, or never end; known for each policy anew."""
    cycles = SmallCycles(lambda _: None)
    cycles.ended(0, 0.0)
    foreign = dataclasses.replace(POLICY, actions=(ActionSetting(action=Foreign),))
    assert [cycles.expects(each) for each in (POLICY, foreign, POLICY)] == [True, False, True]
    plugin = PluginSetting(plugin=ForeignPlugin)
    other = dataclasses.replace(POLICY, tiers=(*POLICY.tiers, (plugin,)))
    assert not cycles.expects(other)


async def test_small_cycles_run_in_the_event_loop_and_others_in_their_thread(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that turns out to be large when it is under way; its pods are bound once."""
    monkeypatch.setattr(cycle_thread, "SECONDS_MAX", 60.0)  # this machine may be slow

    class Noting(Allocate):
        """Notes where it runs; counts as ours."""

        __module__ = allocate.__name__
        places: ClassVar[list[bool]] = []

        def execute(self, session: Session) -> None:
            self.places.append(threading.get_ident() == here)
            super().execute(session)

    here = threading.get_ident()
    async with worlds.world(
        serve, "node n1 cpu=999\nqueue default\njob default/first -", action=Noting
    ) as made:
        await patience.until(lambda: len(made.bound()) == 1)
        await worlds.rest(made, 0.05)
        assert not Noting.places[0]
        made.show(*pictures.documents("queue default job default/small -")[1:])
        await patience.until(lambda: len(made.bound()) == 2)
        await worlds.rest(made, 0.05)
        assert all(Noting.places[1:])
        before = len(Noting.places)
        made.show(*pictures.documents(f"queue default job default/large min=1{' -' * 90}")[1:])
        await patience.until(lambda: len(made.bound()) == 92)
        assert Noting.places[before : before + 2] == [True, False]
        assert set(made.bound().values()) == {1}
