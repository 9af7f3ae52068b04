import random

import pytest

from vscheduler.cluster.writes import windows


def answer(window: windows.Window, number: int) -> None:
    """So many calls have ended."""
    for _ in range(number):
        window.answered()


@pytest.mark.parametrize("most", [1, 3, 8, 16, 64])
def test_it_stays_between_its_bounds(most: int) -> None:
    """Whatever the answers are, and with less room than the least."""
    chance = random.Random(7)
    window = windows.Window(most)
    for _ in range(10_000):
        if chance.random() < 0.02:
            window.throttled()
        window.answered()
        assert min(windows.LEAST, most) <= window.size <= most


def test_it_is_wide_open_until_the_server_is_too_busy() -> None:
    """A server that can is given all that there may be."""
    window = windows.Window(64)
    answer(window, 1000)
    assert window.size == 64


def test_a_server_that_is_too_busy_closes_it_once_for_calls_of_one_moment() -> None:
    """Sixty-four refusals of as many calls are one piece of news; the next is another."""
    window = windows.Window(64)
    for _ in range(64):
        window.throttled()
        window.answered()
    assert window.size == 48
    window.throttled()
    assert window.size == 36


def test_it_opens_again_by_one_a_round() -> None:
    """When answers to calls that were made before it closed are in."""
    window = windows.Window(64)
    window.throttled()
    answer(window, 64 + 47)
    assert window.size == 48
    answer(window, 1)
    assert window.size == 49
    answer(window, 49 + 50)
    assert window.size == 51


def test_a_server_that_goes_on_being_too_busy_gets_the_least() -> None:
    """From there it opens as soon as answers come that are none of that kind."""
    window = windows.Window(64)
    for _ in range(1000):
        window.throttled()
        window.answered()
    assert window.size == windows.LEAST
    answer(window, 64)
    assert window.size > windows.LEAST
