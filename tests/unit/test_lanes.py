from itertools import islice

import pytest

from tests import lanes

TESTS = tuple(f"{letter}{number}" for number in range(3) for letter in "abcpqrstuvwx")


def company(test: str) -> str | None:
    """Tests a, b and c are on control planes, and a shares one with c."""
    return {"a": "own", "c": "own", "b": "shared"}.get(test[0])


@pytest.mark.parametrize("processes", [2, 3, 4, 5, 8])
def test_no_test_is_lost_or_run_twice(processes: int) -> None:
    """Whatever the shares are."""
    assert sorted(lanes.ordered(TESTS, processes, company)) == sorted(TESTS)


def test_half_of_the_processes_begin_with_control_planes() -> None:
    """Four processes with nine tests each: the first has those of one, the second those of the
    other.
    """
    found = iter(lanes.ordered(TESTS, 4, company))
    one, two, three, four = (list(islice(found, size)) for size in lanes.shares(len(TESTS), 4))
    assert one[:6] == ["a0", "c0", "a1", "c1", "a2", "c2"]
    assert two[:3] == ["b0", "b1", "b2"]
    rest = [*one[6:], *two[3:], *three, *four]
    assert rest == [test for test in TESTS if company(test) is None]


def test_shares_are_those_of_xdist() -> None:
    """As whole numbers, the larger ones last."""
    assert list(lanes.shares(10, 4)) == [2, 2, 3, 3]


def test_control_planes_alone_are_shared_out_too() -> None:
    """Where there are no other tests, nothing fills the shares up."""
    tests = [f"{letter}{number}" for letter in "ab" for number in range(5)]
    assert lanes.ordered(tests, 4, company) == tests
