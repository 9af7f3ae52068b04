"""Durations in Go's syntax, used in configurations and annotations."""

import functools
import re

SHOWN_MAX = 40
"""Maximum length of user input quoted in an error message, in characters."""

LENGTH_MAX = 100
"""Maximum length of a duration, in characters. User input may have any length."""

KNOWN_MAX = 256
"""How many durations are kept: plugins read those of the configuration in every cycle."""

_DURATION = re.compile(r"([0-9]++\.?[0-9]*+|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)")
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


SECONDS_MAX = 2.0**63 / 1e9
"""The longest duration in Go: 292 years."""


class RangeError(ValueError):
    """A duration with valid syntax, but out of range."""


@functools.lru_cache(maxsize=KNOWN_MAX)
def seconds(text: str) -> float:
    """Return a duration (`15s`, `1m30s`, `100ms`, `0`) in seconds.

    Raises ValueError for invalid text.
    """
    if text == "0":
        return 0.0
    if len(text) > LENGTH_MAX:
        raise RangeError(f"{shown(text)} has {len(text)} characters: no duration has so many")
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(f"{shown(text)} is no duration such as 15s, 1m30s or 100ms")
    found = sum(float(part[1]) * _UNIT_SECONDS[part[2]] for part in parts)
    if found >= SECONDS_MAX:
        raise RangeError(f"{shown(text)} is longer than any duration can be (292 years)")
    return found


def positive(text: str) -> float:
    """Return a duration above zero in seconds, for time-outs.

    Raises ValueError for invalid text and for 0.
    """
    found = seconds(text)
    if not found:
        raise ValueError(f"{shown(text)} must be longer than nothing")
    return found


def shown(text: str) -> str:
    """Return the text in quotes, shortened for an error message."""
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…")
