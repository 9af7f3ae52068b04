"""How much of what all visitors share one visitor may hold, and one tenant, and how often they may
ask for what costs much.

A tenant is a namespace with all its service accounts, which who may create them has in any number;
or any other user. So whoever floods the page meets the limit of the own namespace first, and
others still find room.
"""

import time
from collections import Counter
from collections.abc import Callable

import msgspec

ACCOUNT = "system:serviceaccount:"

BURST = 20
PER_SECOND = 1.0
ADDRESSES_MAX = 1000
"""How many addresses are told apart; with more, the first one is forgotten."""


class TooManyError(Exception):
    """The visitor, the tenant or all together hold as much as they may."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """How many there may be at once."""

    visitor: int
    tenant: int
    everybody: int


class Holders:
    """Counts what visitors hold of one kind."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._by_visitor: Counter[str] = Counter()
        self._by_tenant: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many are held in all."""
        return self._by_visitor.total()

    def has_all(self, visitor: str) -> bool:
        """Whether the visitor holds as many as one visitor may."""
        return self._by_visitor[visitor] >= self._allowance.visitor

    def take(self, visitor: str) -> None:
        """Count one more. Raises TooManyError."""
        tenant = tenant_of(visitor)
        if (
            self.has_all(visitor)
            or self._by_tenant[tenant] >= self._allowance.tenant
            or self.count >= self._allowance.everybody
        ):
            raise TooManyError
        self._by_visitor[visitor] += 1
        self._by_tenant[tenant] += 1

    def give_back(self, visitor: str) -> None:
        """Count one less."""
        for counts, key in ((self._by_visitor, visitor), (self._by_tenant, tenant_of(visitor))):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]


def tenant_of(user: str) -> str:
    """Return whom a user's share is counted for."""
    namespace = namespace_of(user)
    return f"{ACCOUNT}{namespace}" if namespace else user


def namespace_of(user: str) -> str:
    """Return the namespace of a service account; empty for other users."""
    namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
    return namespace if user.startswith(ACCOUNT) and name else ""


class Attempts:
    """A token bucket for each address, or for each tenant."""

    def __init__(
        self,
        *,
        burst: float = BURST,
        per_second: float = PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._per_second = float(burst), per_second
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """Attempts that are left, as of a time."""

    def allows(self, address: str) -> bool:
        """Whether another attempt is left. Nothing is counted."""
        return self._now_left(address, self._clock()) >= 1.0

    def spend(self, address: str) -> bool:
        """Count an attempt; return False for one too many."""
        now = self._clock()
        left = self._now_left(address, now)
        allowed = left >= 1.0
        self._left.pop(address, None)
        self._left[address] = (left - allowed, now)
        if len(self._left) > ADDRESSES_MAX:
            del self._left[next(iter(self._left))]
        return allowed

    def _now_left(self, address: str, now: float) -> float:
        left, since = self._left.get(address, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second)
