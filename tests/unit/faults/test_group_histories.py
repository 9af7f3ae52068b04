from tests.integration import histories
from tests.integration.histories import GroupSeen, Harm, PodSeen, Seen, Verdict


def group(version: int, *, there: bool = True, uid: str = "u1") -> GroupSeen:
    """PodGroup g."""
    return GroupSeen(version=version, name="g", uid=uid, there=there)


def pod(version: int, named: str = "g", *, lives: bool = True) -> PodSeen:
    """Pod p."""
    return PodSeen(version=version, name="p", there=True, group=named, lives=lives)


def harm(version: int) -> Harm:
    """Group g and pod p at this version."""
    return Harm(version=version, group="g", pods=("p",))


def test_a_delete_under_a_live_pod_is_a_hit() -> None:
    """In whatever order the two watches told of it."""
    found = histories.judge([group(3, there=False), pod(2), group(1)])
    assert found == Verdict(hits=(harm(3),), strays=(), made=1, deleted=1)


def test_a_delete_after_the_pod_is_none() -> None:
    """A pod that is being deleted or has finished lives no more, and a group may come back."""
    seen: list[Seen] = [
        group(1),
        pod(2),
        pod(3, lives=False),
        group(4, there=False),
        group(5, uid="u2"),
        pod(6),
        group(7, uid="u2"),
    ]
    assert histories.judge(seen) == Verdict(hits=(), strays=(), made=2, deleted=1)


def test_a_pod_that_is_made_to_name_nothing_is_a_stray() -> None:
    """Once, not with each later version; a pod that names no group is fine."""
    found = histories.judge([pod(1, ""), pod(2), pod(3)])
    assert (found.hits, found.strays) == ((), (harm(2),))


def test_a_pod_whose_group_was_hit_is_no_stray() -> None:
    """One fault is counted once."""
    found = histories.judge([group(1), pod(2), group(3, there=False), pod(4)])
    assert (found.hits, found.strays) == ((harm(3),), ())
