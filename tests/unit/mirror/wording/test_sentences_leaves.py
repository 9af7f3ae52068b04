"""What a job in an inner queue is told: the leaf queues that it could go to, a few by name."""

import pytest

from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import Reason, ReasonCode


@pytest.mark.parametrize(
    ("leaves", "named"),
    [
        ("b", "b"),
        ("bc", "one of b and c"),
        ("bcdef", "one of b, c, d, e and f"),
        ("bcdefg", "one of b, c, d, e, f and others"),
    ],
)
def test_a_job_in_an_inner_queue_is_told_where_jobs_go(leaves: str, named: str) -> None:
    """By spec.queue."""
    reason = Reason(code=ReasonCode.NOT_LEAF, queue="a", leaves=tuple(leaves))
    assert sentences.sentence(reason) == (
        f"queue a has child queues, and jobs go to leaf queues: name {named} in spec.queue"
    )
