import pytest

from tests.scenarios.deciding import bind, decide

TABLE = {
    "the fullest node that has room": (
        """
        node  n1 cpu=8   node n2 cpu=8   node n3 cpu=8
        queue q
        job   q/old n2*4 n3*8
        job   q/new cpu=4 -
        """,
        [bind("new-0", "n2")],
    ),
    "a gang packs the node that its first pod made fuller": (
        """
        node  n1 cpu=2   node n2 cpu=2
        queue q
        job   q/gang min=3 -*3
        """,
        [bind("gang-0", "n1"), bind("gang-1", "n1"), bind("gang-2", "n2")],
    ),
    "resources that the pod doesn't ask for don't count": (
        """
        node  n1 cpu=8 memory=8Gi   node n2 cpu=8 memory=8Gi
        queue q
        job   q/old cpu=1 memory=8Gi n1
        job   q/mid cpu=2 memory=1Gi n2
        job   q/new cpu=1 -
        """,
        [bind("new-0", "n2")],
    ),
}


@pytest.mark.parametrize(("picture", "decisions"), TABLE.values(), ids=TABLE)
def test_pods_are_packed(picture: str, decisions: list[object]) -> None:
    """Full nodes fill up, so that empty ones stay whole for what is large."""
    assert decide(picture, "allocate", "gang | predicates binpack") == decisions


def test_weights_say_which_resource_is_packed() -> None:
    """With memory at ten times the weight, the node that is fuller in memory wins."""
    picture = """
        node  n1 cpu=8 memory=8Gi   node n2 cpu=8 memory=8Gi
        queue q
        job   q/cores cpu=4 memory=1Gi n1
        job   q/bytes cpu=1 memory=4Gi n2
        job   q/new   cpu=1 memory=1Gi -
        """
    tiers = "gang | predicates binpack"
    assert decide(picture, "allocate", tiers) == [bind("new-0", "n1")]
    assert decide(picture, "allocate", f"{tiers}:binpack.memory=10") == [bind("new-0", "n2")]
