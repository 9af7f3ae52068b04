"""Durations as Go writes them, which is how they stand in configurations and annotations."""

import re

_DURATION = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,  # micro sign
    "μs": 1e-6,  # Greek mu
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


def seconds(text: str) -> float:
    """A duration (`15s`, `1m30s`, `100ms`, `0`) in seconds; ValueError else."""
    if text == "0":
        return 0.0
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(f"{text!r} is no duration such as 15s, 1m30s or 100ms")
    return sum(float(part[1]) * _UNIT_SECONDS[part[2]] for part in parts)


def positive(text: str) -> float:
    """The same for a time-out, which must be longer than nothing."""
    found = seconds(text)
    if not found:
        raise ValueError(f"{text!r} must be longer than nothing")
    return found
