from collections import Counter

import pytest

from tests.scenarios.deciding import decide, evict, pipeline

FLAT = "gang | capacity predicates nodeorder"
TREE = "gang | capacity:enableHierarchy=true predicates nodeorder"


def started(picture: str, tiers: str) -> dict[str, int]:
    """How many pods of each job start."""
    found = decide(picture, "allocate", tiers)
    assert {decision.what for decision in found} <= {"bind"}
    return dict(Counter(decision.pod.partition("-")[0] for decision in found))


SIDE_BY_SIDE = {
    "what nobody else uses is lent, up to everything": (
        """
        node  n1 cpu=6
        queue gold deserved=cpu:4   queue lead deserved=cpu:2
        job   lead/l -*6
        """,
        {"l": 6},
    ),
    "both get what they deserve": (
        """
        node  n1 cpu=6
        queue gold deserved=cpu:4   queue lead deserved=cpu:2
        job   gold/g -*6            job   lead/l -*6
        """,
        {"g": 4, "l": 2},
    ),
    "what nobody deserves goes to those who deserve something first": (
        """
        node  n1 cpu=4
        queue best                  queue gold deserved=cpu:2
        job   best/b -*4            job   gold/g -*2
        """,
        {"g": 2, "b": 2},
    ),
    "a capability is a hard limit": (
        """
        node  n1 cpu=6
        queue gold deserved=cpu:1 capability=cpu:2
        job   gold/g -*6
        """,
        {"g": 2},
    ),
    "a capability of pods counts them": (
        """
        node  n1 cpu=6
        queue gold capability=pods:2
        job   gold/g -*6
        """,
        {"g": 2},
    ),
    "a guarantee is kept while its queue is idle, from all others together": (
        """
        node  n1 cpu=6
        queue idle deserved=cpu:2 guarantee=cpu:2
        queue gold deserved=cpu:2   queue lead deserved=cpu:2
        job   gold/g -*4            job   lead/l -*4
        """,
        {"g": 2, "l": 2},
    ),
    "and what its queue uses of it already isn't kept twice": (
        """
        node  n1 cpu=6
        queue half deserved=cpu:2 guarantee=cpu:2   queue gold deserved=cpu:2
        job   half/h n1                             job   gold/g -*6
        """,
        {"g": 4},
    ),
    "its own queue may use it": (
        """
        node  n1 cpu=6
        queue gold deserved=cpu:6 guarantee=cpu:6   queue lead
        job   gold/g -*6                            job   lead/l -
        """,
        {"g": 6},
    ),
    "guarantees that a cluster has become too small for are there as far as it goes": (
        """
        node  n1 cpu=4
        queue gold deserved=cpu:3 guarantee=cpu:3   queue lead deserved=cpu:3 guarantee=cpu:3
        job   gold/g -*4                            job   lead/l n1
        """,
        {"g": 3},
    ),
    "a guarantee of something else is in nobody's way": (
        """
        node  n1 cpu=6 gpu=2
        queue idle deserved=gpu:2 guarantee=gpu:2   queue gold
        job   gold/g -*6
        """,
        {"g": 6},
    ),
    "the queue of higher priority comes first": (
        """
        node  n1 cpu=4
        queue gold deserved=cpu:4   queue lead priority=1
        job   gold/g cpu=3 -        job   lead/l cpu=4 -
        """,
        {"l": 1},
    ),
    "a closed queue gets nothing": (
        """
        node  n1 cpu=4
        queue shut state=Closed deserved=cpu:4   queue lead
        job   shut/s -                           job   lead/l -
        """,
        {"l": 1},
    ),
}


@pytest.mark.parametrize(("picture", "bound"), SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_queues_borrow_and_keep_their_limits(picture: str, bound: dict[str, int]) -> None:
    """How many pods of each job start."""
    assert started(picture, FLAT) == bound


IN_A_TREE = {
    "a queue without a parent hangs below root, which needs no object": (
        """
        node  n1 cpu=4
        queue gold deserved=cpu:4
        job   gold/g -*4
        """,
        {"g": 4},
    ),
    "children share their parent's capability": (
        """
        node  n1 cpu=9
        queue team capability=cpu:3
        queue a parent=team deserved=cpu:1   queue b parent=team deserved=cpu:2
        job   a/a -*5                        job   b/b -*5
        """,
        {"a": 1, "b": 2},
    ),
    "a grandparent's counts as well": (
        """
        node  n1 cpu=9
        queue org capability=cpu:2   queue team parent=org   queue a parent=team
        job   a/a -*5
        """,
        {"a": 2},
    ),
    "a sibling's guarantee is kept within the parent's capability": (
        """
        node  n1 cpu=9
        queue team capability=cpu:4   queue idle parent=team deserved=cpu:3 guarantee=cpu:3
        queue a parent=team           queue b parent=team
        job   a/a -*5                 job   b/b -*5
        """,
        {"a": 1},
    ),
    "a parent's guarantee is kept for whichever child comes": (
        """
        node  n1 cpu=6
        queue team deserved=cpu:4 guarantee=cpu:4   queue a parent=team   queue other
        job   other/o -*6
        """,
        {"o": 2},
    ),
    "and a child may use it": (
        """
        node  n1 cpu=6
        queue team deserved=cpu:4 guarantee=cpu:4   queue a parent=team   queue other
        job   other/o n1*2 -*4                      job   a/a -*6
        """,
        {"a": 4},
    ),
    "branches are compared where they part, not leaves": (
        """
        node  n1 cpu=6
        queue big deserved=cpu:4     queue a parent=big deserved=cpu:1
        queue small deserved=cpu:2   queue b parent=small deserved=cpu:9
        job   a/a -*6                job   b/b -*6
        """,
        {"a": 4, "b": 2},
    ),
}


@pytest.mark.parametrize(("picture", "bound"), IN_A_TREE.values(), ids=IN_A_TREE)
def test_what_holds_for_a_queue_holds_for_all_above_it(picture: str, bound: dict[str, int]) -> None:
    """How many pods of each job start."""
    assert started(picture, TREE) == bound


def test_what_is_owed_is_given_back() -> None:
    """A queue below what it deserves gets pods of one above it, and no more than that."""
    picture = """
        node  n1 cpu=4
        queue gold deserved=cpu:2   queue lead deserved=cpu:2
        job   lead/l n1*4           job   gold/g -*4
        """
    assert decide(picture, "allocate, reclaim", FLAT) == [
        evict("l-2", "n1", "g"),
        evict("l-3", "n1", "g"),
        pipeline("g-0", "n1"),
        pipeline("g-1", "n1"),
    ]


NOTHING_OWED = {
    "nobody is owed what it doesn't deserve": """
        node  n1 cpu=4
        queue gold                  queue lead deserved=cpu:2
        job   lead/l n1*4           job   gold/g -
        """,
    "nobody is owed more than its capability": """
        node  n1 cpu=4
        queue gold deserved=cpu:2 capability=cpu:1   queue lead deserved=cpu:2
        job   gold/old n1   job   lead/l n1*3        job   gold/g -
        """,
    "one resource below makes no claim to another above": """
        node  n1 cpu=4 memory=8Gi
        queue gold deserved=cpu:1,memory:8Gi      queue lead deserved=cpu:1,memory:8Gi
        job   gold/old n1   job   lead/l n1*3     job   gold/g memory=1Gi -
        """,
    "who lends one resource doesn't lose another": """
        node  n1 cpu=4 gpu=4
        queue gold deserved=cpu:2                 queue lead deserved=cpu:4,gpu:1
        job   lead/l gpu=1 n1*4                   job   gold/g -
        """,
    "a guarantee isn't taken": """
        node  n1 cpu=4
        queue gold deserved=cpu:2                 queue lead deserved=cpu:4 guarantee=cpu:4
        job   lead/l n1*4                         job   gold/g -
        """,
}


@pytest.mark.parametrize("picture", NOTHING_OWED.values(), ids=NOTHING_OWED)
def test_nothing_is_taken_that_is_not_owed(picture: str) -> None:
    """The others' pods stay."""
    assert decide(picture, "allocate, reclaim", FLAT) == []


def test_a_guarantee_of_something_else_protects_nothing() -> None:
    """A queue that is guaranteed GPUs and has none gives back cpu that it borrowed all the same."""
    picture = """
        node  n1 cpu=4 gpu=2
        queue gold deserved=cpu:2   queue lead deserved=cpu:2,gpu:2 guarantee=gpu:2
        job   lead/l n1*4           job   gold/g -
        """
    expected = [evict("l-3", "n1", "g"), pipeline("g-0", "n1")]
    assert decide(picture, "allocate, reclaim", FLAT) == expected


def test_relations_lend_before_strangers() -> None:
    """What a sibling has borrowed goes back first, whatever its priority."""
    picture = """
        node  n1 cpu=4
        queue team deserved=cpu:2   queue a parent=team deserved=cpu:1
        queue b parent=team         queue far deserved=cpu:1
        job   b/near priority=9 n1*2   job   far/far n1*2   job   a/a -
        """
    expected = [evict("near-1", "n1", "a"), pipeline("a-0", "n1")]
    assert decide(picture, "allocate, reclaim", TREE) == expected


LEVELS = {
    0: [],
    1: [evict("l-1", "n1", "p"), pipeline("p-0", "n1")],
}


@pytest.mark.parametrize(("level", "expected"), LEVELS.items())
def test_a_parent_may_claim_for_its_child(level: int, expected: list[object]) -> None:
    """With ancestorReclaimLevel, a child that deserves nothing gets what its parent deserves."""
    picture = """
        node  n1 cpu=2
        queue team deserved=cpu:1   queue poor parent=team
        queue other deserved=cpu:1   queue lent parent=other
        job   lent/l n1*2           job   poor/p -
        """
    tiers = TREE.replace("=true", f"=true,ancestorReclaimLevel={level}")
    assert decide(picture, "allocate, reclaim", tiers) == expected


def test_children_that_deserve_nothing_take_nothing_from_each_other() -> None:
    """They borrow from the same parent."""
    picture = """
        node  n1 cpu=2
        queue team deserved=cpu:3   queue a parent=team   queue b parent=team
        job   a/a n1*2              job   b/b -
        """
    tiers = TREE.replace("=true", "=true,ancestorReclaimLevel=1")
    assert decide(picture, "allocate, reclaim", tiers) == []


def test_promised_room_counts() -> None:
    """Pods that are promised room count against the queue's limit."""
    picture = """
        node  n1 cpu=4
        queue gold capability=cpu:2
        job   gold/leaves cpu=3 ~n1   job   gold/large cpu=2 age=60 -   job   gold/small -
        """
    assert decide(picture, "allocate", FLAT) == [pipeline("large-0", "n1")]
