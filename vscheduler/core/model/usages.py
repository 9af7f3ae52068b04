"""Usage: what a queue has used over time, where the past counts less and less.

What was used at an instant has half its weight a half-life later. With a constant rate in use,
that is known for any later instant, so a record has to be written only when the rate changes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What somebody has used by an instant, and uses since."""

    used: float
    """Units of a resource times seconds, decayed to the instant."""
    rate: float
    """Units in use since then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a queue, and each namespace in it, has used."""

    time: float
    """The instant that all accounts are of: seconds since the epoch."""
    queue: Account
    namespaces: Mapping[str, Account] = field(default_factory=dict)


def decayed(account: Account, seconds: float, half_life_seconds: float) -> float:
    """What the account comes to so many seconds later, in unit-seconds.

    Half-life above 0; a negative time, of a clock that was put back, counts as none.
    """
    left: float = 0.5 ** (max(0.0, seconds) / half_life_seconds)
    most = account.rate * half_life_seconds / math.log(2)  # what the rate comes to in the end
    return account.used * left + most * (1.0 - left)
