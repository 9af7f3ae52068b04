"""Usage: what a queue has used over time, where the past counts less and less.

What was used at an instant has half its weight a half-life later. With a constant rate in use,
that is known for any later instant, so a record has to be written only when the rate changes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

OURS = ""
"""The name under which a queue has the record that we keep ourselves; other schedulers' have
theirs."""

NAMESPACES_MAX = 1000
"""Of one queue: with names of full length about 110 kB, of the 256 kB that annotations may have."""

NEGLIGIBLE = 1e-4
"""The part of its queue's usage below which a namespace that uses nothing is forgotten."""

NUMBER_MAX = 1e30
"""No usage and no rate is as large; what claims to be isn't ours."""


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


NOTHING = Account(used=0.0, rate=0.0)
"""Of whom nothing is known."""


def decayed(account: Account, seconds: float, half_life_seconds: float) -> float:
    """What the account comes to so many seconds later, in unit-seconds.

    Half-life above 0; a negative time, of a clock that was put back, counts as none.
    """
    exponent = -math.log(2) * max(0.0, seconds) / half_life_seconds
    most = account.rate * half_life_seconds / math.log(2)  # what the rate comes to in the end
    return account.used * math.exp(exponent) - most * math.expm1(exponent)


def followed(
    past: Usage | None, rates: Mapping[str, float], rate: float, now: float, half_life: float
) -> Usage | None:
    """The record that holds from now on: the same object where only time has passed.

    rates are those of namespaces, all above 0, and rate is the queue's. None: nothing is known,
    and nothing is in use. A record of a time that is still to come, by a clock that was wrong, is
    taken for one of now. half_life is in seconds.
    """
    if past is None:
        if not rate:
            return None
        past = Usage(time=now, queue=NOTHING)
    elif past.time <= now and _unchanged(past, rates, rate):
        return past
    seconds = now - past.time
    queue = Account(used=decayed(past.queue, seconds, half_life), rate=rate)
    found = {
        name: Account(
            used=decayed(past.namespaces.get(name, NOTHING), seconds, half_life),
            rate=rates.get(name, 0.0),
        )
        for name in past.namespaces.keys() | rates.keys()
    }
    return Usage(time=now, queue=queue, namespaces=_lasting(found, queue))


def _unchanged(past: Usage, rates: Mapping[str, float], rate: float) -> bool:
    known = past.namespaces
    if past.queue.rate != rate or any(
        account.rate != rates.get(name, 0.0) for name, account in known.items()
    ):
        return False
    # What has found no room in a full record is left out until the record is made anew.
    return len(known) >= NAMESPACES_MAX or rates.keys() <= known.keys()


def _lasting(found: Mapping[str, Account], queue: Account) -> dict[str, Account]:
    """The accounts that still matter, by name: those in use, then the largest."""
    matter = {
        name: account
        for name, account in found.items()
        if account.rate or account.used > NEGLIGIBLE * queue.used
    }
    by_weight = sorted(matter, key=lambda name: (not matter[name].rate, -matter[name].used, name))
    return {name: matter[name] for name in sorted(by_weight[:NAMESPACES_MAX])}
