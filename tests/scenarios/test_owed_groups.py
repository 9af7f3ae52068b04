from collections.abc import Sequence

import pytest

from tests import pictures, running
from tests.scenarios.admitting import CLUSTER_FULL, cycles, phases, reasons
from vscheduler.core import compat, cycle
from vscheduler.core.actions import ACTIONS
from vscheduler.core.api import contracts
from vscheduler.core.config import policy
from vscheduler.core.model import jobs, queues
from vscheduler.core.plugins import overcommit

OWED = """
    node  n1 cpu=10
    queue greedy   queue poor
    job   greedy/g n1*10
    job   poor/p phase=Pending minresources=cpu:4 min=4 {pods}
    """


@pytest.mark.parametrize("pods", ["", "-*4"])
@pytest.mark.parametrize("actions", ["enqueue", "enqueue, reclaim"])
def test_what_a_queue_is_owed_is_admitted_where_it_can_be_reclaimed(
    actions: str, pods: str
) -> None:
    """The cluster is full, two cpus can be promised; half of it is the poor queue's."""
    (result,) = cycles(OWED.format(pods=pods), actions=actions)
    owed = "reclaim" in actions
    assert phases(result)["p"] == ("Inqueue" if owed else "Pending")
    assert (reasons(result).get("p") is CLUSTER_FULL) is not owed


def test_more_than_is_owed_is_not_admitted() -> None:
    """Six of ten cpus, where half is deserved."""
    picture = OWED.replace("cpu:4", "cpu:6").format(pods="")
    (result,) = cycles(picture, actions="enqueue, reclaim")
    assert reasons(result) == {"p": CLUSTER_FULL}


def test_what_its_queue_has_promised_to_others_is_not_owed() -> None:
    """Six of ten cpus; five more is more than any queue can have here."""
    picture = """
        node  n1 cpu=10
        queue q
        job   q/a phase=Inqueue minresources=cpu:6
        job   q/b phase=Pending minresources=cpu:5
        """
    (result,) = cycles(picture, actions="enqueue, reclaim")
    assert reasons(result)["b"] is CLUSTER_FULL


class Sated(contracts.Plugin):
    """Says that every queue is owed all, and has had enough."""

    name = "sated"

    def preemptive(self, queue: queues.Queue, tasks: Sequence[jobs.Task]) -> bool:
        """All."""
        del queue, tasks
        return True

    def overused(self, queue: queues.Queue) -> bool:
        """Enough, where it may say so."""
        del queue
        return True


@pytest.mark.parametrize("sated", [False, True])
def test_a_queue_that_has_had_enough_is_owed_nothing(sated: bool) -> None:
    """As in reclaim."""
    flags = {"enabledOverused": sated}
    tiers = [{"plugins": [{"name": "overcommit"}, {"name": "sated", **flags}]}]
    parsed = policy.parse(
        {"actions": "enqueue, reclaim", "tiers": tiers},
        [overcommit.Overcommit, Sated],
        ACTIONS,
        compat.VOLCANO,
    )
    assert parsed.policy is not None
    picture = "node n1 cpu=1 queue q job q/a phase=Pending minresources=cpu:4 -"
    result = cycle.run_cycle(running.snapshot_of(pictures.documents(picture)), parsed.policy)
    assert phases(result) == {"a": "Pending" if sated else "Inqueue"}
