"""What cycles with the action enqueue make of groups, in a few words."""

from typing import Any

from tests import running
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

CLOSED, QUEUE_FULL, CLUSTER_FULL = (
    ReasonCode.QUEUE_CLOSED,
    ReasonCode.QUEUE_FULL,
    ReasonCode.CLUSTER_FULL,
)
TIERS = "priority gang | overcommit drf predicates proportion"


def cycles(
    picture: str, count: int = 1, actions: str = "enqueue, allocate", **more: Any
) -> list[CycleResult]:
    """What so many cycles decide, a second apart; more: keys of the configuration."""
    tree = {"actions": actions, "tiers": running.tiers(TIERS), **more}
    options = Options(cycles=count, claim_unowned=True, now=pictures.NOW.timestamp())
    documents = pictures.documents(picture)
    return list(run.simulate(documents, running.policy_of(tree), options).results)


def phases(result: CycleResult) -> dict[str, str]:
    """By job."""
    return {status.job.partition("/")[2]: str(status.phase) for status in result.groups}


def reasons(result: CycleResult) -> dict[str, ReasonCode]:
    """By job that waits."""
    return {
        status.job.partition("/")[2]: status.reason.code
        for status in result.groups
        if status.reason is not None
    }
