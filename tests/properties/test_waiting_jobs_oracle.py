"""What is kept and shared of waiting jobs, against deciding anew about each of them."""

import random

import msgspec
import pytest

from tests import running
from tests.properties.worlds import histories
from tests.properties.worlds.histories import Plan
from tests.running import Document
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.core.placement.explanations import RefusedNodes
from vscheduler.core.session import job_class
from vscheduler.core.session.session import Session
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult, GroupStatus
from vscheduler.model.jobs import Job
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.snapshot import FRESH, Snapshot
from vscheduler.testing import pictures

CYCLES = 8


class Compared:
    """Runs each cycle twice: as it is, and with nothing kept or shared. Counts statuses kept."""

    def __init__(self) -> None:
        self.kept = 0
        self._known: dict[str, GroupStatus] = {}

    def run(self, taken: Snapshot, configured: Policy, budget: int | None = None) -> CycleResult:
        """One cycle, whose result is the same both ways."""
        result = cycle.run_cycle(taken, configured, budget)
        anew = msgspec.structs.replace(taken, jobs=JobsById.of(map(as_new, taken.jobs)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job_class, "of_waiting", lambda _: None)
            patch.setattr(Session, "waiting_jobs", searched_again)
            patch.setattr(RefusedNodes, "counts", explained_again)
            slow = cycle.run_cycle(anew, configured, budget)
        assert shown(result) == shown(slow)
        for status in result.groups:
            waits = status.reason is not None
            self.kept += waits and self._known.get(status.job) is status
        self._known = {status.job: status for status in result.groups}
        return result


def as_new(job: Job) -> Job:
    """The same job, of which nothing is kept."""
    return msgspec.structs.replace(job)


def searched_again(of: Session) -> list[object]:
    """The unfinished jobs, looked for each time."""
    return [state for state in of.job_states.values() if not state.fully_scheduled]


EXPLAIN = RefusedNodes.counts


def explained_again(of: RefusedNodes, request: object) -> object:
    """What would be explained first."""
    of._by_shorts.clear()
    return EXPLAIN(of, request)  # type: ignore[arg-type]  # as it is


def shown(result: CycleResult) -> str:
    """A result, whatever it cost."""
    return running.digest(msgspec.structs.replace(result, work={}, costs={}, spent=0))


@pytest.mark.parametrize("configuration", ["built-in", "drf"])
def test_nothing_kept_of_waiting_jobs_changes_a_result(configuration: str) -> None:
    """In worlds that change all the time, statuses and reasons are those of a fresh decision."""
    compared = Compared()
    plan = Plan(seed=1, configuration=configuration, cycles=CYCLES)
    histories.live(plan, (), compared.run)
    assert compared.kept > 0


AROUND = """
    node n1 cpu=8   node n2 cpu=8
    queue q   queue r
    job r/there min=1 cpu=2 n1*4 n2*4
    job q/admitted min=1 cpu=5 minresources=cpu:5 phase=Inqueue -
    job q/pair min=2 cpu=4 phase=Inqueue - -
    job q/twin min=2 cpu=4 phase=Inqueue - -
    job q/pending min=1 cpu=7 minresources=cpu:7 phase=Pending -
    """
STEPS = 25


def shown_to(mirror: Mirror, document: Document) -> None:
    """Show the Mirror one object as it is now."""
    kind = events.kind_of(document)
    assert kind is not None
    mirror.apply(events.convert(kind, document))


def test_statuses_follow_what_changes_around_a_job() -> None:
    """Pods of others end and come back, time passes, rules change; the waiting jobs never do."""
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    documents = pictures.documents(AROUND)
    for document in documents:
        shown_to(mirror, document)
    others = [
        document for document in documents if document["metadata"]["name"].startswith("there-")
    ]
    ways = [
        running.policy_of({"actions": "enqueue, allocate", "tiers": running.TREE["tiers"], **way})
        for way in ({}, {"compatibility": "volcano"})
    ]
    chance, compared = random.Random(7), Compared()
    carried, now, seen = FRESH, pictures.NOW.timestamp(), set[object]()
    for _ in range(STEPS):
        pod = chance.choice(others)
        pod["status"] = {"phase": chance.choice(("Running", "Succeeded"))}
        shown_to(mirror, pod)
        now += chance.choice((0.0, 100.0, 400.0))
        result = compared.run(mirror.snapshot(now, carried), chance.choice(ways))
        carried = result.carried
        seen |= {
            (group.job, group.phase, group.reason and group.reason.holes) for group in result.groups
        }
    assert compared.kept > 0
    assert len(seen) > 2 * len(result.groups)
