"""States of jobs are made when asked for, and are complete for whoever goes through them."""

import pytest
from msgspec.structs import replace

from tests.unit.core import sessions
from vscheduler.core.config import cycle_rules
from vscheduler.core.memo.unchanged_jobs import UnchangedJobs
from vscheduler.core.session.job_states import JobStates
from vscheduler.model.jobs import GroupState, JobId, Phase
from vscheduler.model.jobs_by_id import JobsById


@pytest.fixture
def states() -> JobStates:
    """Return the states of two active jobs, and of an unschedulable one between them."""
    active, unschedulable = (
        {each.id: each for each in map(sessions.job, names)} for names in (("a", "c"), ("b",))
    )
    return JobStates(active, unschedulable, UnchangedJobs(), cycle_rules.DEFAULT)


def test_nothing_is_made_unasked(states: JobStates) -> None:
    """Neither by counting, nor by asking for a job's presence."""
    (first, *_), size = states._active, len(states)
    assert (size, first in states, "missing" in states, bool(states)) == (3, True, False, True)
    assert states.known(first) is None
    made = states[first]
    assert states.known(first) is made is states[first] is states.get(first)


def test_all_are_made_for_whoever_goes_through_them(states: JobStates) -> None:
    """In order of IDs, whatever was asked for first; and what is known stays the same."""
    last = max(states._active)
    made = states[last]
    names = [state.job.name for state in states.values()]
    assert names == ["a", "b", "c"]
    assert list(states) == list(states.keys()) == sorted(states)
    assert dict(states.items())[last] is made


def test_parked_jobs_are_admitted(states: JobStates) -> None:
    """Whatever phase is stored."""
    phases = {state.job.name: state.phase for state in states.values()}
    assert phases["b"] is Phase.INQUEUE
    assert phases["a"] is states[min(states)].job.phase


def test_unchanged_jobs_whose_phase_is_not_stored_are_admitted_and_request_nothing() -> None:
    """Others have the phase that is stored."""
    phases = Phase.PENDING, Phase.INQUEUE, Phase.RUNNING
    every = {
        name: replace(sessions.job(name), state=GroupState(phase=phase))
        for name, phase in zip("abc", phases, strict=True)
    }
    unchanged = UnchangedJobs(JobsById.of(every[name] for name in sorted(every)))
    states = JobStates({}, {}, unchanged, cycle_rules.DEFAULT)
    found = [states[each.id].phase for each in every.values()]
    assert found == [Phase.INQUEUE, Phase.INQUEUE, Phase.RUNNING]
    assert states.unfinished() == set()


def test_unchanged_jobs_were_promised_nothing_more() -> None:
    """Others with minResources may have been, whether or not they are unschedulable."""
    promised = {name: replace(sessions.job(name), min_resources={"cpu": 1}) for name in "dcba"}
    active, unschedulable = (
        {promised[name].id: promised[name] for name in each} for each in ("d", "b")
    )
    other = sessions.job("e")
    unchanged = UnchangedJobs(JobsById.of([promised["c"]]))
    states = JobStates(active | {other.id: other}, unschedulable, unchanged, cycle_rules.DEFAULT)
    assert [state.job.name for state in states.promised()] == ["b", "d"]


def test_jobs_that_do_not_exist_have_no_state(states: JobStates) -> None:
    """As in any dictionary."""
    with pytest.raises(KeyError):
        states[JobId("missing")]
    assert states.get(JobId("missing")) is None
