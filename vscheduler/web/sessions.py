"""Sessions of browsers that have signed in, and one-time codes to sign in with.

A browser can't put a token into the requests of an EventSource, and what a script can read another
script could steal. So the token stays in this process, and the browser has a random identifier in a
cookie that no script can read. A session ends when unused for a while, and with the process.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

IDLE_SECONDS = 3600.0
LIFE_SECONDS = 8 * 3600.0
SESSIONS_MAX = 1000
CODE_SECONDS = 600.0
CODES_MAX = 200


@dataclass(slots=True, kw_only=True)
class Session:
    """A browser that has signed in."""

    token: str = field(repr=False)
    namespaces: tuple[str, ...] = ()
    """Namespaces to ask about first."""
    began: float
    used: float


class Sessions:
    """The sessions and codes of a process. The oldest go when there are too many."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._codes: OrderedDict[bytes, tuple[str, float]] = OrderedDict()

    def open(self, token: str, namespaces: tuple[str, ...] = ()) -> str:
        """Return the identifier of a new session."""
        identifier, now = secrets.token_urlsafe(32), self._clock()
        self._sessions[_digest(identifier)] = Session(
            token=token, namespaces=namespaces, began=now, used=now
        )
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return identifier

    def find(self, identifier: str) -> Session | None:
        """Return a session, which counts as used; None if there is none, or none any more."""
        digest, now = _digest(identifier), self._clock()
        session = self._sessions.get(digest)
        if session is None:
            return None
        if now > min(session.used + IDLE_SECONDS, session.began + LIFE_SECONDS):
            self.close(identifier)
            return None
        session.used = now
        self._sessions.move_to_end(digest)
        return session

    def close(self, identifier: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(identifier), None)

    def code(self, token: str) -> str:
        """Return a code with which a browser can sign in once, in place of the token."""
        code = secrets.token_urlsafe(16)
        self._codes[_digest(code)] = (token, self._clock() + CODE_SECONDS)
        while len(self._codes) > CODES_MAX:
            self._codes.popitem(last=False)
        return code

    def redeem(self, code: str) -> str | None:
        """Return the token for a code, once."""
        token, until = self._codes.pop(_digest(code), ("", 0.0))
        return token if token and self._clock() < until else None


def _digest(secret: str) -> bytes:
    """Digests are compared instead of secrets, so that no timing tells how much was right."""
    return hashlib.sha256(secret.encode()).digest()
