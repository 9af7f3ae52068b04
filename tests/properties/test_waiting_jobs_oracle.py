"""What is kept and shared of waiting jobs, against deciding anew about each of them."""

import dataclasses

import pytest

from tests import running
from tests.properties.worlds import histories
from vscheduler.core import cycle
from vscheduler.core.config import policy
from vscheduler.core.model import decisions, jobs, snapshot
from vscheduler.core.placement import explanations
from vscheduler.core.session import job_likeness, session

CYCLES = 8


class Compared:
    """Runs each cycle twice: as it is, and with nothing kept or shared. Counts statuses kept."""

    def __init__(self) -> None:
        self.kept = 0
        self._known: dict[str, decisions.GroupStatus] = {}

    def run(
        self, taken: snapshot.Snapshot, configured: policy.Policy, budget: int | None = None
    ) -> decisions.CycleResult:
        """One cycle, whose result is the same both ways."""
        result = cycle.run_cycle(taken, configured, budget)
        anew = dataclasses.replace(taken, jobs=tuple(map(as_new, taken.jobs)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job_likeness, "of_waiting", lambda _: None)
            patch.setattr(session.Session, "unfinished_jobs", searched_again)
            patch.setattr(explanations.RefusedNodes, "explain", explained_again)
            slow = cycle.run_cycle(anew, configured, budget)
        assert shown(result) == shown(slow)
        for status in result.groups:
            waits = status.reason is not None
            self.kept += waits and self._known.get(status.job) is status
        self._known = {status.job: status for status in result.groups}
        return result


def as_new(job: jobs.Job) -> jobs.Job:
    """The same job, of which nothing is kept."""
    return dataclasses.replace(job)


def searched_again(of: session.Session) -> list[object]:
    """The unfinished jobs, looked for each time."""
    return [state for state in of.job_states.values() if not state.fully_scheduled]


EXPLAIN = explanations.RefusedNodes.explain


def explained_again(of: explanations.RefusedNodes, request: object) -> object:
    """What would be explained first."""
    of._explained.clear()
    return EXPLAIN(of, request)  # type: ignore[arg-type]  # as it is


def shown(result: decisions.CycleResult) -> str:
    """A result, whatever it cost."""
    return running.digest(dataclasses.replace(result, work={}, costs={}, spent=0))


@pytest.mark.parametrize("configuration", ["built-in", "drf"])
def test_nothing_kept_of_waiting_jobs_changes_a_result(configuration: str) -> None:
    """In worlds that change all the time, statuses and reasons are those of a fresh decision."""
    compared = Compared()
    plan = histories.Plan(seed=1, configuration=configuration, cycles=CYCLES)
    histories.live(plan, (), compared.run)
    assert compared.kept > 0
