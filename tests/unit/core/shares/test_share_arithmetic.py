import numpy as np
import pytest

from vscheduler.core.shares import share_arithmetic

INF = np.inf


def pour(
    total: float,
    *queues: tuple[float, float, float],
    capability: tuple[float, ...] | None = None,
) -> list[float]:
    """One resource; a queue is (weight, request, guarantee)."""
    weights, request, guarantee = (np.array(column) for column in zip(*queues, strict=True))
    limits = np.array(capability or [INF] * len(queues))[:, np.newaxis]
    poured = share_arithmetic.water_fill(
        np.array([total]), weights, request[:, np.newaxis], limits, guarantee[:, np.newaxis]
    )
    found: list[float] = poured[:, 0].tolist()
    return found


EXAMPLES = {
    "by weight, up to the request": ([(1, 2, 0), (3, 20, 0), (1, 20, 0)], None, [2, 6, 2]),
    "what one leaves is shared by weight": (
        [(1, 1, 0), (3, 20, 0), (1, 20, 0)],
        None,
        [1, 6.75, 2.25],
    ),
    "a guarantee is given unasked": ([(1, 0, 4), (1, 20, 0)], None, [4, 6]),
    "nobody has more than it can have": ([(1, 20, 0), (1, 20, 0)], (2, INF), [2, 8]),
    "a guarantee of a queue without jobs isn't kept": ([(1, 20, 0), (1, 20, 0)], (6, 6), [5, 5]),
    "enough for all": ([(1, 2, 0), (7, 3, 0)], None, [2, 3]),
    "nobody asks": ([(1, 0, 0), (1, 0, 0)], None, [0, 0]),
    "a queue without weight takes only its guarantee": ([(0, 9, 1), (1, 20, 0)], (10, 9), [1, 9]),
    "no queue has weight": ([(0, 9, 0)], None, [0]),
    "a guarantee above the share comes on top in the first round": (
        [(1, 20, 4), (1, 20, 0), (1, 20, 0)],
        None,
        [4, 10 / 3, 10 / 3],
    ),
}


@pytest.mark.parametrize(("queues", "capability", "deserved"), EXAMPLES.values(), ids=EXAMPLES)
def test_ten_units_are_poured_out(
    queues: list[tuple[float, float, float]],
    capability: tuple[float, ...] | None,
    deserved: list[float],
) -> None:
    """One resource, ten units of it."""
    assert pour(10.0, *queues, capability=capability) == pytest.approx(deserved)


def test_resources_are_poured_apart() -> None:
    """A queue that wants only cpu leaves all memory, though its weight counts in round one."""
    poured = share_arithmetic.water_fill(
        np.array([10.0, 100.0]),
        np.array([1.0, 1.0]),
        np.array([[20.0, 0.0], [20.0, 90.0]]),
        np.full((2, 2), INF),
        np.zeros((2, 2)),
    )
    assert poured.tolist() == [[5.0, 0.0], [5.0, 90.0]]


def test_shares_by_weight_are_whole_where_they_can_be() -> None:
    """Six cores by one to two are 2000 and 4000 milli, to the last bit."""
    assert pour(6000.0, (1, 9000, 0), (2, 9000, 0)) == [2000.0, 4000.0]


def test_what_is_promised_to_others_is_out_of_reach() -> None:
    """Own guarantee, capability, and a total that is less than what was promised."""
    guarantee = np.array([[4.0], [0.0], [0.0]])
    capability = np.array([[INF], [INF], [3.0]])
    for total, expected in ((10.0, [10.0, 6.0, 3.0]), (2.0, [4.0, 0.0, 0.0])):
        found = share_arithmetic.real_capability(
            np.array([total]), np.array([4.0]), guarantee, capability
        )
        assert found[:, 0].tolist() == expected


@pytest.mark.parametrize(
    ("allocated", "deserved", "share"),
    [
        ([2, 1], [4.0, 10.0], 0.5),
        ([0, 0], [0.0, 0.0], 0.0),
        ([1, 0], [0.0, 1.0], 1.0),
        ([3, 1], [2.0, 1.0], 1.5),
        ([], [], 0.0),
    ],
)
def test_the_largest_part_is_the_share(
    allocated: list[float], deserved: list[float], share: float
) -> None:
    """Nothing of nothing is none, something of nothing is all."""
    assert share_arithmetic.share(allocated, deserved) == share


def test_slack_is_less_than_anyone_asks_for() -> None:
    """Half a milli or byte, but not half a device."""
    names = ["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"]
    assert share_arithmetic.slack(names) == [0.5, 0.5, 0.0005, 0.5, 0.5, 0.0005]
