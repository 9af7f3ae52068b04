"""Sessions of browsers that have signed in, and one-time codes to sign in with.

A browser can't put a token into the requests of an EventSource, and what a script can read another
script could steal. So the token stays in this process, and the browser has a random identifier in a
cookie that no script can read. A session ends when unused for a while, when its visitor signs in
too often, and with the process; never because of another visitor.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vscheduler.web.allowances import Allowance, Holders

IDLE_SECONDS = 3600.0
LIFE_SECONDS = 8 * 3600.0
SESSIONS = Allowance(visitor=10, tenant=100, everybody=2000)
CODE_SECONDS = 600.0
CODES = Allowance(visitor=5, tenant=50, everybody=1000)


@dataclass(slots=True, kw_only=True)
class Session:
    """A browser that has signed in."""

    token: str = field(repr=False)
    visitor: str
    namespaces: tuple[str, ...] = ()
    """Namespaces to ask about first."""
    began: float
    used: float

    @property
    def until(self) -> float:
        """When it ends unless it is used."""
        return min(self.used + IDLE_SECONDS, self.began + LIFE_SECONDS)


@dataclass(slots=True, kw_only=True)
class _Code:
    """A token in place of which a code may be given, once."""

    token: str = field(repr=False)
    visitor: str
    until: float


class Sessions:
    """The sessions and codes of a process. Of too many of a visitor, the oldest go."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: _Shelf[Session] = _Shelf(SESSIONS)
        self._codes: _Shelf[_Code] = _Shelf(CODES)

    def open(self, token: str, visitor: str, namespaces: tuple[str, ...] = ()) -> str:
        """Return the identifier of a new session; `visitor` is who the token stands for.

        Raises allowances.TooManyError for one too many of the visitor's tenant, or of all.
        """
        identifier, now = secrets.token_urlsafe(32), self._clock()
        made = Session(token=token, visitor=visitor, namespaces=namespaces, began=now, used=now)
        self._sessions.add(_digest(identifier), made, now)
        return identifier

    def find(self, identifier: str) -> Session | None:
        """Return a session, which counts as used; None if there is none, or none any more."""
        digest, now = _digest(identifier), self._clock()
        session = self._sessions.kept.get(digest)
        if session is None:
            return None
        if now > session.until:
            self.close(identifier)
            return None
        session.used = now
        self._sessions.kept.move_to_end(digest)
        return session

    def close(self, identifier: str) -> None:
        """End a session."""
        self._sessions.remove(_digest(identifier))

    def code(self, token: str, visitor: str) -> str:
        """Return a code with which a browser can sign in once, in place of the visitor's token.

        Raises allowances.TooManyError for one too many of the visitor's tenant, or of all.
        """
        code, now = secrets.token_urlsafe(16), self._clock()
        made = _Code(token=token, visitor=visitor, until=now + CODE_SECONDS)
        self._codes.add(_digest(code), made, now)
        return code

    def redeem(self, code: str) -> str | None:
        """Return the token for a code, once."""
        found = self._codes.remove(_digest(code))
        return found.token if found is not None and self._clock() < found.until else None


_T = TypeVar("_T", Session, _Code)


class _Shelf(Generic[_T]):
    """What visitors have, by digest, the least recently used first."""

    def __init__(self, allowance: Allowance) -> None:
        self.kept: OrderedDict[bytes, _T] = OrderedDict()
        self._holders = Holders(allowance)

    def add(self, digest: bytes, item: _T, now: float) -> None:
        """Add one; what is over goes, and the visitor's oldest one if there are too many.

        Raises allowances.TooManyError.
        """
        for known in [key for key, each in self.kept.items() if each.until < now]:
            self.remove(known)
        if self._holders.has_all(item.visitor):
            self.remove(
                next(key for key, each in self.kept.items() if each.visitor == item.visitor)
            )
        self._holders.take(item.visitor)
        self.kept[digest] = item

    def remove(self, digest: bytes) -> _T | None:
        """Remove and return one, if it is there."""
        found = self.kept.pop(digest, None)
        if found is not None:
            self._holders.give_back(found.visitor)
        return found


def _digest(secret: str) -> bytes:
    """Digests are compared instead of secrets, so that no timing tells how much was right."""
    return hashlib.sha256(secret.encode()).digest()
