"""What statements leave behind."""

from tests import pictures, running

PICTURE = """
    node n1 cpu=4
    queue q
    job q/a min=1 cpu=1 phase=Inqueue -
"""
TREE = {"actions": "allocate", "tiers": running.tiers("gang | predicates")}


def test_only_what_lasts_counts_as_decided() -> None:
    """What was undone leaves the session as it was; what is held lasts until the cycle ends."""
    opened = running.open_session(pictures.documents(PICTURE), TREE)
    (state,) = opened.waiting_jobs()
    (task,) = state.job.tasks
    with opened.statement() as undone:
        undone.pipeline(task, 0)
    with opened.statement() as empty:
        empty.hold()
    assert not opened.touched
    with opened.statement() as held:
        held.pipeline(task, 0)
        held.hold()
    assert opened.touched
