from tests.scenarios.deciding import bind, decide


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
    """A pod's own priority orders the pods of its job, and nothing else."""
    picture = """
        node  n1 cpu=2
        queue q
        job   q/a min=2 - -^7 -^9
        job   q/b       -^99
        """
    assert decide(picture, "allocate") == [bind("a-1", "n1"), bind("a-2", "n1")]


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
