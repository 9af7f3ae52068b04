from tests.scenarios.deciding import bind, decide


def test_the_job_that_has_less_comes_first() -> None:
    """Jobs of one queue grow towards the same share, whatever their names."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/has   n1 n1 -*2
        job   q/hasnt -*3
        """
    expected = [bind("hasnt-0", "n1"), bind("hasnt-1", "n1")]
    assert decide(picture, "allocate", "drf | predicates") == expected


def test_the_dominant_resource_counts() -> None:
    """A job that holds half of the GPUs has more than one that holds 43 % of the cores."""
    picture = """
        node  n1 cpu=7 gpu=2
        queue q
        job   q/devices cpu=1 gpu=1 n1 -
        job   q/numbers cpu=3       n1 -
        """
    assert decide(picture, "allocate", "drf | predicates") == [bind("numbers-1", "n1")]


def test_shares_change_while_a_cycle_runs() -> None:
    """Pod by pod, each turn goes to the job that has least by then."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/a -*4
        job   q/b -*4
        """
    expected = [bind("a-0", "n1"), bind("a-1", "n1"), bind("b-0", "n1"), bind("b-1", "n1")]
    assert decide(picture, "allocate", "drf | predicates") == expected
