from collections import Counter

import pytest

from tests.scenarios.admitting import cycles
from tests.scenarios.deciding import decide
from tests.scenarios.sharing import losers
from vscheduler.mirror.wording.sentences import sentence

TABLE = {
    "queues share by weight": (
        """
        node  n1 cpu=6
        queue gold weight=2   queue lead weight=1
        job   gold/g -*6      job   lead/l -*6
        """,
        {"g": 4, "l": 2},
    ),
    "what one queue doesn't ask for goes to those who do": (
        """
        node  n1 cpu=6
        queue gold weight=2   queue lead weight=1
        job   gold/g -*1      job   lead/l -*6
        """,
        {"g": 1, "l": 5},
    ),
    "what runs counts": (
        """
        node  n1 cpu=6
        queue gold            queue lead
        job   gold/g n1*2 -*4 job   lead/l -*4
        """,
        {"g": 1, "l": 3},
    ),
    "a gang takes its minimum at once, the rest comes pod by pod": (
        """
        node  n1 cpu=8
        queue gold            queue lead
        job   gold/g min=3 -*8
        job   lead/l       -*8
        """,
        {"g": 4, "l": 4},
    ),
    "capability is a hard limit": (
        """
        node  n1 cpu=6
        queue gold capability=cpu:2
        job   gold/g -*6
        """,
        {"g": 2},
    ),
    "a gang larger than its queue's capability isn't started": (
        """
        node  n1 cpu=6
        queue gold capability=cpu:2   queue lead
        job   gold/g min=3 -*3        job   lead/l -*2
        """,
        {"l": 2},
    ),
    "a guarantee is kept for a queue without jobs": (
        """
        node  n1 cpu=4
        queue gold guarantee=cpu:2   queue lead
        job   lead/l -*4
        """,
        {"l": 2},
    ),
    "a guarantee above the capability promises no more than that": (
        """
        node  n1 cpu=6
        queue gold capability=cpu:2 guarantee=cpu:3
        job   gold/g -*6
        """,
        {"g": 2},
    ),
    "the queue of higher priority comes first": (
        """
        node  n1 cpu=4   node n2 cpu=4
        queue gold priority=1         queue lead
        job   gold/g cpu=3 -          job   lead/l cpu=4 -
        """,
        {"g": 1, "l": 1},
    ),
    "a closed queue gets nothing": (
        """
        node  n1 cpu=4
        queue shut state=Closed   queue lead
        job   shut/s -            job   lead/l -
        """,
        {"l": 1},
    ),
    "a closing queue gets nothing more": (
        """
        node  n1 cpu=4
        queue shut state=Closing   queue lead
        job   shut/s n1 -          job   lead/l -
        """,
        {"l": 1},
    ),
    "above root's capability nothing starts, though a queue has less than its share": (
        """
        node  n1 cpu=8   node n2 cpu=8
        queue root capability=cpu:8
        queue gold            queue lead
        job   gold/g n1*8     job   lead/l -*4
        """,
        {},
    ),
    "below it, no more than is left": (
        """
        node  n1 cpu=8   node n2 cpu=8
        queue root capability=cpu:8
        queue gold            queue lead
        job   gold/g n1*6     job   lead/l -*4
        """,
        {"l": 2},
    ),
    "nor does a gang that root may not have whole": (
        """
        node  n1 cpu=8   node n2 cpu=8
        queue root capability=cpu:8
        queue gold            queue lead
        job   gold/g n1*6     job   lead/l min=3 -*3
        """,
        {},
    ),
    "a resource that nobody gives is nobody's share": (
        """
        node  n1 cpu=4
        queue gold            queue lead
        job   gold/g gpu=1 -  job   lead/l -
        """,
        {"l": 1},
    ),
}


@pytest.mark.parametrize(("picture", "bound"), TABLE.values(), ids=TABLE)
def test_queues_get_what_they_deserve(picture: str, bound: dict[str, int]) -> None:
    """How many pods of each job start."""
    decisions = decide(picture, "allocate")
    assert {decision.what for decision in decisions} <= {"bind"}
    assert Counter(decision.pod.partition("-")[0] for decision in decisions) == bound


def test_who_is_above_its_part_of_roots_capability_gives_back() -> None:
    """Root has no more than 8 cpu at any moment, and the reason of those that wait names it."""
    picture = """
        node  n1 cpu=8   node n2 cpu=8
        queue root capability=cpu:8
        queue gold            queue lead
        job   gold/g n1*8 -   job   lead/l -*4
        """
    (alone,) = cycles(picture, actions="allocate")
    told = {group.job.partition("/")[2]: group.reason for group in alone.groups}
    assert told["l"] is not None
    assert sentence(told["l"]) == "queue root has 8 cpu of the 8 it may have; this pod needs 1"
    results = cycles(picture, 4, actions="allocate, reclaim")
    assert losers(results[0]) == {"gold": 4}
    held = [sum(queue.allocated.get("cpu", 0) for queue in result.queues) for result in results]
    assert max(held) == 8000
    assert {bind.task.name for result in results for bind in result.binds} == {
        f"l-{number}" for number in range(4)
    }
