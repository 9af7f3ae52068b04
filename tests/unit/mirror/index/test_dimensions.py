"""Resources that pods name and nobody has are no columns without end."""

import pytest

from tests.unit.mirror import manifests
from vscheduler.core.model import resources
from vscheduler.mirror.index import dimensions


def waiting(number: int, **amounts: str) -> manifests.Document:
    """A pod that asks for a resource of its own."""
    requests = {f"example.com/r{number:03}": "2", **amounts}
    return manifests.pod(f"p{number}", group="g", requests=requests)


def test_so_many_are_told_apart_and_the_rest_is_one() -> None:
    """The first by name; nobody has any of the rest, whatever it is called."""
    most = dimensions.NOWHERE_MAX
    pods = [waiting(number) for number in range(most)]
    seen = manifests.mirror(manifests.node("n"), manifests.group("g"), *pods)
    assert seen.snapshot(0.0).space.size == 3 + most
    for number in (most, most + 1):
        seen.apply(manifests.event_of(waiting(number)))
    found = seen.snapshot(0.0)
    assert found.space.size == 3 + most + 1
    assert found.space.names[-1] == resources.OTHERS
    for task in found.jobs[0].tasks:
        vector = found.space.vector(task.kind.request)
        assert vector.sum() == 3
        assert not resources.fits(vector, found.nodes.allocatable).any()
        assert found.space.amounts(vector)
    both = found.space.vector({"example.com/r064": 1, "example.com/r065": 2})
    assert both[-1] == 3
    assert "example.com/r064" not in found.space.amounts(both)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("amount", [1, 2**62, 2**70])
def test_many_rows_are_those_of_each(folded: bool, amount: int) -> None:
    """What an array can't hold included, and no row at all."""
    space = resources.ResourceSpace.of(["gpu"], folded=folded)
    amounts = [{"cpu": 5, "gpu": amount}, {}, {"memory": 3, **({"odd": amount} if folded else {})}]
    found = space.vectors(amounts)
    assert found.tolist() == [space.vector(each).tolist() for each in amounts]
    assert space.vectors([]).shape == (0, space.size)


def test_what_a_node_or_a_queue_names_has_its_column() -> None:
    """However many names there are."""
    most = dimensions.NOWHERE_MAX
    pods = [waiting(number) for number in range(most + 5)]
    last, limited = f"example.com/r{most + 4:03}", f"example.com/r{most + 3:03}"
    seen = manifests.mirror(
        manifests.node("n", {"cpu": "4", "pods": "10", last: "2"}),
        manifests.queue("q", {"capability": {limited: "1"}}),
        manifests.group("g", {"minResources": {"example.com/zzz": "1"}}),
        *pods,
    )
    found = seen.snapshot(0.0)
    assert {last, limited} <= set(found.space.names)
    assert "example.com/zzz" not in found.space.names
    assert resources.fits(found.space.vector({last: 2}), found.nodes.allocatable).all()
    for number in range(2):
        seen.apply(manifests.removal_of(waiting(number)))
    assert resources.OTHERS in seen.snapshot(0.0).space.names
    for number in range(2, 5):
        seen.apply(manifests.removal_of(waiting(number)))
    assert resources.OTHERS not in seen.snapshot(0.0).space.names
