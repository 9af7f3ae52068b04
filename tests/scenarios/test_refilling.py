"""A gang that lost a pod below its minimum gets one back before jobs that haven't started."""

from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import Decision, bind, decide, written
from vscheduler.testing import pictures

TABLE = {
    "a fresh job holds less, and is behind all the same": (
        """
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/broken min=2 n1 -
        job   q/fresh  min=1 -
        """,
        [bind("broken-1", "n2")],
    ),
    "nor does age matter": (
        """
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/broken min=2 n1 -
        job   q/fresh  min=1 age=90 -
        """,
        [bind("broken-1", "n2")],
    ),
    "a gang that lacks one role is broken, too": (
        """
        node  n1 cpu=3
        queue q
        job   q/broken min=2 roles=m:1,w:1 w:n1*2 m:-
        job   q/fresh  min=1 age=90 -
        """,
        [bind("broken-2", "n1")],
    ),
    "what it has no room for holds nobody up": (
        """
        node  n1 cpu=2   node n2 cpu=1
        queue q
        job   q/broken min=2 cpu=2 n1 -
        job   q/fresh  min=1 -
        """,
        [bind("fresh-0", "n2")],
    ),
    "a job that matters more comes first": (
        """
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/broken min=2 n1 -
        job   q/fresh  min=1 priority=5 -
        """,
        [bind("fresh-0", "n2")],
    ),
    "a queue that has less of its share comes first": (
        """
        node  n1 cpu=1   node n2 cpu=1
        queue a          queue b
        job   a/broken min=2 n1 -
        job   b/fresh  min=1 -
        """,
        [bind("fresh-0", "n2")],
    ),
    "above its minimum a job stands behind those that haven't started": (
        """
        node  n1 cpu=1   node n2 cpu=1
        queue q
        job   q/whole min=1 n1 -
        job   q/fresh min=1 -
        """,
        [bind("fresh-0", "n2")],
    ),
}


@pytest.mark.parametrize(("picture", "decisions"), TABLE.values(), ids=TABLE)
def test_a_broken_gang_refills_before_others_start(picture: str, decisions: list[Decision]) -> None:
    """In its queue's line, among jobs of its priority."""
    assert decide(picture, "allocate") == decisions


def test_as_in_volcano_the_smaller_share_decides() -> None:
    """With compatibility, jobs below their minimum are all alike."""
    picture, _ = TABLE["a fresh job holds less, and is behind all the same"]
    tree = running.TREE | {"compatibility": "volcano"}
    assert written(running.run(pictures.documents(picture), tree)) == [bind("fresh-0", "n2")]


def test_a_gang_that_has_to_be_let_in_anew_is_let_in_first() -> None:
    """Its only pod isn't running yet, so that it is Pending again."""
    picture = """
        node  n1 cpu=4
        queue q capability=cpu:3
        job   q/fresh  phase=Pending min=2 minresources=cpu:2 age=90 -*2
        job   q/broken phase=Pending min=3 minresources=cpu:3 +n1 -*2
        """
    tree: dict[str, Any] = {**running.TREE, "actions": "enqueue, allocate"}
    assert written(running.run(pictures.documents(picture), tree)) == [
        bind("broken-1", "n1"),
        bind("broken-2", "n1"),
    ]
