import math

import pytest

from vscheduler.mirror.wording import phrases

GI = 2**30


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 24000, "24"),
        ("cpu", 100.4, "0.1"),
        ("cpu", 17700, "17.7"),
        ("memory", 512, "512"),
        ("memory", 2048, "2Ki"),
        ("memory", 1.5 * GI, "1536Mi"),
        ("memory", 100.5 * GI, "102912Mi"),
        ("memory", 2**70, "1024Ei"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        ("ephemeral-storage", GI, "1Gi"),
        ("nvidia.com/gpu", 3.0, "3"),
        ("nvidia.com/gpu", 1 / 3, "0.33"),
        ("example.com/many", 10**9, "1000000000"),
    ],
)
def test_amounts_are_short_quantities(resource: str, value: float, text: str) -> None:
    """A person reads three digits and a unit."""
    assert phrases.amount(resource, value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1m"),
        (400, "7m"),
        (1290, "20m"),
        (3590, "1h"),
        (8900, "2h30m"),
        (12.4 * 3600, "12h"),
        (47.2 * 3600, "47h"),
        (80 * 3600, "3d"),
    ],
)
def test_forecasts_have_no_more_digits_than_are_known(seconds: float, text: str) -> None:
    """Minutes below ten, then five of them, ten of them, hours and days."""
    assert phrases.roughly(seconds) == text


def test_a_likely_start_says_from_what_it_is_known() -> None:
    """As a range, as one time, or without an end."""
    days = "by run times of the last 30 days."
    assert phrases.likely(7300, 18_100, by_past=True) == f"Likely to start in 2h to 5h, {days}"
    assert phrases.likely(61, 70, by_past=True) == f"Likely to start in about 1m, {days}"
    endless = phrases.likely(7300, math.inf, by_past=True)
    assert endless == f"Likely to start in 2h or much later, {days}"
    limits = phrases.likely(7300, 7300, by_past=False)
    assert limits == "Starts in about 2h, if all pods run for as long as they may."


@pytest.mark.parametrize(
    ("unknown", "count", "said"),
    [
        (1, 1, "1 pod on nodes has"),
        (1, 2, "1 of 2 pods on nodes have"),
        (2, 2, "2 pods on nodes have"),
    ],
)
def test_what_is_missing_for_a_forecast_is_said(unknown: int, count: int, said: str) -> None:
    """How many pods may run for ever."""
    assert f": {said} no vscheduler.io/max-run-time, and" in phrases.unknown_start(unknown, count)
