from tests import running
from tests.scenarios.deciding import bind, decide, evict, pipeline
from vscheduler.testing import pictures


def test_the_more_important_job_comes_first() -> None:
    """Priority decides before age and name."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/a age=60             -*2
        job   q/b priority=10 min=2  -*2
        """
    assert decide(picture, "allocate") == [bind("b-0", "n1"), bind("b-1", "n1")]


def test_the_more_important_pod_of_a_job_comes_first() -> None:
    """A pod's own priority orders the pods of its job; jobs of a class are ordered by that."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/a priority=5 min=2 - -^7 -^9
        job   q/b priority=5       -^99
        """
    assert decide(picture, "allocate") == [bind("a-1", "n1"), bind("a-2", "n1")]


def test_without_a_class_of_its_own_a_job_is_as_important_as_its_pods() -> None:
    """It comes first, and preempts; with pods of several priorities it has the lowest of them."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/a age=60  n1*2
        job   q/b         -^9
        """
    assert decide(picture, "allocate, preempt") == [
        evict("a-1", "n1", for_="b"),
        pipeline("b-0", "n1"),
    ]
    lowest = picture.replace("-^9", "-^9 -")
    assert decide(lowest, "allocate, preempt", "priority gang | predicates") == []


def test_in_volcanos_way_priorities_of_pods_mean_nothing_between_jobs() -> None:
    """A job without a class has the priority of the default class, whatever its pods say."""
    picture = """
        node  n1 cpu=1
        queue q
        job   q/a age=60 -
        job   q/b        -^9
        """
    tree = {"actions": "allocate", "tiers": running.tiers(running.STANDARD)}
    documents = pictures.documents(picture)
    assert [bind.task.name for bind in running.run(documents, tree).binds] == ["b-0"]
    volcano = {**tree, "compatibility": "volcano"}
    assert [bind.task.name for bind in running.run(documents, volcano).binds] == ["a-0"]


def test_priority_ends_at_the_queue() -> None:
    """An important job doesn't take another queue's share."""
    picture = """
        node  n1 cpu=4
        queue rich   queue poor
        job   rich/urgent priority=100 n1 n1 -*4
        job   poor/modest              -*4
        """
    assert decide(picture, "allocate") == [bind("modest-0", "n1"), bind("modest-1", "n1")]


def test_without_the_plugin_priorities_mean_nothing() -> None:
    """The tie is broken by name."""
    picture = """
        node  n1 cpu=1
        queue q
        job   q/a             -
        job   q/b priority=10 -
        """
    assert decide(picture, "allocate", "gang | predicates") == [bind("a-0", "n1")]
