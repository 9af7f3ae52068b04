from tests import running
from vscheduler.core.eviction import victims
from vscheduler.core.model.jobs import JobId
from vscheduler.testing import pictures


def test_pods_placed_in_this_cycle_make_no_surplus() -> None:
    """Their binds may fail, and then the minimum would be split."""
    picture = "node n1 cpu=4 queue q job q/j min=2 n1 n1 -"
    session = running.open_session(pictures.documents(picture), running.TREE)
    state = session.job_states[JobId("default/j")]
    first, _, last = state.job.tasks
    with session.statement() as trial:
        trial.allocate(last, 0)
        assert state.ready_tasks == 3
        assert victims.surplus_pod(state, first) is None
