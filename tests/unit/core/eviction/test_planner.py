"""The order in which a planner tries to make room."""

from typing import Any

import pytest

from tests import running
from vscheduler.core.actions.reclaim import Reclaim
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import planner
from vscheduler.core.eviction.planner import Planner
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.relocations import Relocation
from vscheduler.core.eviction.rules import Scope
from vscheduler.core.eviction.search import VictimSearch
from vscheduler.model.jobs import JobId
from vscheduler.testing import pictures

TREE: dict[str, Any] = {
    "actions": "allocate, reclaim",
    "tiers": running.tiers("priority gang | predicates proportion nodeorder"),
}


def test_mild_plans_are_tried_before_pods_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole gangs as well, although the first attempt has met pods that could be moved; last come
    evictions in favour of those that move.
    """
    tried = []

    class Fruitless(VictimSearch):
        def succeeds(self) -> bool:
            rules = self._pool.rules
            moves = rules.relocation
            exchanges = isinstance(moves, Relocation) and moves._exchange is not None
            tried.append(((moves is not None) + exchanges, rules.whole))
            return False

        @property
        def might_move(self) -> bool:
            return True

    monkeypatch.setattr(planner, "STRATEGIES", (Fruitless,))
    picture = "node n1 cpu=4 queue q queue lender job lender/l n1*4 job q/g min=2 - -"
    session = running.open_session(pictures.documents(picture), TREE)
    state = session.job_states[JobId("default/g")]
    whole = {"reclaim.wholeGangs": "always"}
    subject = Planner(session, Reclaim(whole), AllHooks.reclaimable)
    preemptor = Preemptor(session.dispatch, state)
    scope = Scope(queues=frozenset({"lender"}))
    assert not subject.plan(session.queues["q"], preemptor, scope)
    assert tried == [(0, False), (0, True), (1, False), (1, True), (2, False), (2, True)]
