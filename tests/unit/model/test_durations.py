import pytest

from vscheduler.model import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1m30s", 90),
        ("100ms", 0.1),
        ("1h0.5m", 3630),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        (".5s", 0.5),
        ("0", 0),
    ],
)
def test_durations_are_those_of_go(text: str, seconds: float) -> None:
    """Every unit, and sums of them."""
    assert durations.seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "3", "s", "1 s", "-1s", "1s2", "1d", "1ss", "٣s"])
def test_other_durations_are_refused(text: str) -> None:
    """A number without a unit is no duration in Go, either."""
    with pytest.raises(ValueError, match="is no duration"):
        durations.seconds(text)


@pytest.mark.parametrize("text", ["0", "0s", "0h0m"])
def test_some_must_be_longer_than_nothing(text: str) -> None:
    """Time-outs and waiting times."""
    assert durations.positive("1s") == 1
    with pytest.raises(ValueError, match="must be longer than nothing"):
        durations.positive(text)
