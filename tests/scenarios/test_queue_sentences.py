"""Pictures of clusters and what queues say of their shares there."""

import pytest

from tests import running
from vscheduler.core.config.policy import BUILT_IN
from vscheduler.mirror import queue_status
from vscheduler.mirror.queue_status import Explanation
from vscheduler.testing import pictures

CASES: dict[str, tuple[str, str]] = {
    "by weight, and a node that nobody can use": (
        """
        node w1 cpu=60   node w2 cpu=15   node cp cpu=14 taint=control-plane=:NoSchedule
        queue q   queue r weight=2
        job q/a min=1 cpu=10 - - - -   job r/b min=1 cpu=10 - - - - - - -
        """,
        "25 of 75 usable CPU: weight 1 of 3 that want more; cp not usable: taint control-plane",
    ),
    "what another leaves": (
        """
        node w1 cpu=60
        queue q   queue r
        job q/a min=1 cpu=20 - - - -   job r/b min=1 cpu=10 -
        """,
        "50 of 60 usable CPU: all that others leave",
    ),
    "all that it asks for": (
        """
        node w1 cpu=60 cordoned   node w2 cpu=60
        queue q   queue r
        job q/a min=1 cpu=20 -   job r/b min=1 cpu=10 - - - - - - -
        """,
        "20 of 60 usable CPU: all that it asks for; w1 not usable: cordoned",
    ),
    "its capability": (
        """
        node w1 cpu=60
        queue q capability=cpu:30
        job q/a min=1 cpu=20 - -
        """,
        "30 of 60 usable CPU: its capability",
    ),
    "root's capability": (
        """
        node w1 cpu=60
        queue q   queue r   queue root capability=cpu:40
        job q/a min=1 cpu=20 - - -   job r/b min=1 cpu=10 - - - - - - -
        """,
        "20 of 60 usable CPU: root's capability is shared by weight 1 of 2 that want more",
    ),
    "a pool of its own, below root's capability": (
        """
        node w1 cpu=10 label=pool=q   node w2 cpu=60
        queue q   queue r   queue s   queue root capability=cpu:60
        job q/a select=pool=q min=1 cpu=10 - - -   job r/b min=1 cpu=10 - - - - - - -
        job s/c select=pool=q min=1 cpu=10 - - -
        """,
        "5 of 10 usable CPU: weight 1 of 2 that want more",
    ),
    "its guarantee": (
        """
        node w1 cpu=60
        queue q guarantee=cpu:40   queue r
        job q/a min=1 cpu=20 - - -   job r/b min=1 cpu=10 - - - - - - -
        """,
        "40 of 60 usable CPU: its guarantee",
    ),
    "more than it asks for": (
        """
        node w1 cpu=60
        queue q guarantee=cpu:40
        job q/a min=1 cpu=20 -
        """,
        "40 of 60 usable CPU: its guarantee, more than it asks for",
    ),
    "nothing": (
        """
        node w1 cpu=60 memory=64Gi
        queue q
        """,
        "asks for nothing",
    ),
    "a guarantee for nobody": (
        """
        node w1 cpu=60 memory=64Gi
        queue q guarantee=cpu:10,memory:16Gi   queue r
        job r/b min=1 cpu=10 -
        """,
        "10 CPU and 16Gi memory are kept for it: its guarantee",
    ),
    "a guarantee that nobody can keep": (
        """
        node w1 cpu=60 memory=64Gi
        queue q guarantee=cpu:1000   queue r
        job r/b min=1 cpu=10 -
        """,
        (
            "asks for nothing; its guarantee of 1000 CPU can't be kept, 0 counts: "
            "guarantees are more than there is"
        ),
    ),
    "a guarantee of which a part can be kept": (
        """
        node w1 cpu=60
        queue q guarantee=cpu:70   queue r
        job q/a min=1 cpu=20 - - -   job r/b min=1 cpu=10 - - - - - - -
        """,
        (
            "50 of 60 usable CPU: its guarantee; its guarantee of 70 CPU can't be kept, "
            "50 counts: guarantees are more than there is"
        ),
    ),
    "a guarantee that its pods can't use": (
        """
        node w1 cpu=8 memory=8Gi gpu=2
        queue q guarantee=cpu:1   queue r
        job q/a min=1 cpu=0.5 gpu=1 -   job q/b min=1 cpu=3 select=no=such -
        job r/c min=1 cpu=1 gpu=1 - -
        """,
        "1 of 2 usable nvidia.com/gpu: all that it asks for",
    ),
    "a guarantee beside one that nobody can keep": (
        """
        node w1 cpu=60
        queue q guarantee=cpu:40   queue r guarantee=cpu:1000   queue s
        job q/a min=1 cpu=10 - - - - - - -   job s/b min=1 cpu=10 - - - - - - -
        """,
        "40 of 60 usable CPU: its guarantee",
    ),
    "pods on a node that takes no more": (
        """
        node w1 cpu=60 cordoned   node w2 cpu=60
        queue q   queue r
        job q/a min=1 cpu=20 w1 - - - -   job r/b min=1 cpu=10 - - - - - - -
        """,
        (
            "40 of 80 usable CPU: weight 1 of 2 that want more; "
            "20 of it on nodes that take no more pods; "
            "w1 not usable: cordoned"
        ),
    ),
    "a resource that is nowhere": (
        """
        node w1 cpu=60
        queue q
        job q/a min=1 cpu=20 gpu=1 - -
        """,
        (
            "no CPU on any node that its pods could use; "
            "no nvidia.com/gpu on any node that its pods could use; "
            "w1 not usable: too small for any pod that may go there"
        ),
    ),
    "a node that is too small for some, and closed to the others": (
        """
        node w1 cpu=4 taint=lab:NoSchedule   node w2 cpu=4 gpu=1
        queue q
        job q/a min=1 gpu=1 tolerate=lab w2   job q/b min=1 w2
        """,
        (
            "1 of 1 usable nvidia.com/gpu: all that it asks for; "
            "w1 not usable: too small for any pod that may go there"
        ),
    ),
    "a closed queue": (
        """
        node w1 cpu=4
        queue q state=Closed   queue r
        job q/a min=1 w1 -
        """,
        "1 of 4 usable CPU: all that its pods that could start ask for",
    ),
    "memory that is short": (
        """
        node w1 cpu=60 memory=60Gi
        queue q   queue r
        job q/a min=1 cpu=1 memory=20Gi - - -   job r/b min=1 cpu=10 memory=20Gi - - - - - - -
        """,
        "30Gi of 60Gi usable memory: weight 1 of 2 that want more",
    ),
}


@pytest.mark.parametrize(("picture", "sentence"), CASES.values(), ids=CASES)
def test_a_queue_says_how_its_share_came_about(picture: str, sentence: str) -> None:
    """Queue q does, in one sentence."""
    result = running.run(pictures.documents(picture), dict(BUILT_IN))
    (queue,) = [queue for queue in result.queues if queue.name == "q"]
    found = queue_status.explanation(queue, result.excluded)
    assert found is not None
    assert found.message == sentence


@pytest.mark.parametrize("plugin", ["capacity", "capacity:enableHierarchy=true"])
def test_a_queue_that_owns_more_than_there_is_says_so(plugin: str) -> None:
    """One without jobs, too, and none beside it."""
    picture = """
        node  n1 cpu=10
        queue q guarantee=cpu:1000   queue r guarantee=cpu:12   queue s   job s/b min=1 -*12
        """
    tree = {"actions": "allocate", "tiers": running.tiers(f"priority gang | predicates {plugin}")}
    result = running.run(pictures.documents(picture), tree)
    found = {queue.name: queue_status.explanation(queue) for queue in result.queues}
    for name, amount in (("q", 1000), ("r", 12)):
        explained = found[name]
        assert explained is not None
        assert explained.message == (
            f"its guarantee of {amount} CPU can't be kept, 0 counts: "
            "guarantees are more than there is"
        )
    assert found["s"] is None
    assert len(result.binds) == 10


@pytest.mark.parametrize("volcano", [False, True])
def test_a_guarantee_above_the_cluster_evicts_nobody(volcano: bool) -> None:
    """Who runs stays, and more of its pods start; in Volcano's way they don't."""
    picture = """
        node  n1 cpu=8
        queue greedy guarantee=cpu:1000   queue lead   job lead/b min=1 n1*5 -*3
        """
    tree = {**BUILT_IN, **({"compatibility": "volcano"} if volcano else {})}
    result = running.run(pictures.documents(picture), tree)
    assert (len(result.binds), result.evicts) == (0 if volcano else 3, ())


def test_a_queue_that_owns_amounts_says_so() -> None:
    """With plugin capacity nothing is divided; who owns nothing has nothing to say."""
    picture = """
        node  n1 cpu=10 memory=10Gi
        queue q deserved=cpu:4,memory:2Gi guarantee=cpu:5   queue r
        job   q/a min=1 memory=1Gi -   job r/b min=1 -
        """
    tree = {"actions": "allocate", "tiers": running.tiers("priority gang | predicates capacity")}
    result = running.run(pictures.documents(picture), tree)
    found = {queue.name: queue_status.explanation(queue) for queue in result.queues}
    message = "5 of 10 usable CPU: its guarantee; memory 2Gi of 10Gi: its own; more is borrowed"
    assert found["q"] == Explanation(reason="Quota", message=message)
    assert found["r"] is None
