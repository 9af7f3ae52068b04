"""Levers: what the API server does wrong, or refuses, when it is told to."""

import random
from collections.abc import Collection

from tests.simulation.api_server import wire
from tests.simulation.api_server.routes import Place
from tests.simulation.api_server.wire import Clock, Object, RefusedError, Request

BUSY = "Too many requests, please try again later."
LOST = "etcdserver: request timed out"
ANY = "*"


class Faults:
    """The state of the levers. All are off at first, and then no chance is drawn."""

    def __init__(self, clock: Clock, chance: random.Random) -> None:
        self._clock = clock
        self._chance = chance
        self._throttled = 0.0
        self._throttled_users: Collection[str] = ()
        self._retry_after = 1
        self._lost = 0.0
        self._down_until = 0.0
        self._revoked: set[str] = set()
        self._garbled: set[str] = set()
        self._oldest: dict[str, int] = {}
        self._denied: set[tuple[str, str, str]] = set()

    def throttle(self, share: float, *, retry_after: int = 1, users: Collection[str] = ()) -> None:
        """Answer 429 to this share of all requests, or of these users' requests; 0 ends it."""
        self._throttled, self._throttled_users = share, users
        self._retry_after = retry_after

    def lose_answers(self, share: float) -> None:
        """Answer 500 to this share of all writes although they are carried out; 0 ends it."""
        self._lost = share

    def go_down(self, seconds: float) -> None:
        """Answer 503 to everything for some time."""
        self._down_until = self._clock.now() + seconds

    def revoke(self, user: str) -> None:
        """Answer 401 to this user from now on."""
        self._revoked.add(user)

    def accept(self, user: str) -> None:
        """Know this user again."""
        self._revoked.discard(user)

    def outdate(self, user: str, number: int) -> None:
        """From now on, this user's tokens with smaller numbers are unknown."""
        self._oldest[user] = number

    def user_of(self, token: str) -> str:
        """Who has a token, which is `USER` or `USER#NUMBER`; empty for one that is outdated."""
        user, _, number = token.partition("#")
        return user if int(number or 0) >= self._oldest.get(user, 0) else ""

    def garble(self, user: str) -> None:
        """Spoil the next line of a watch of this user."""
        self._garbled.add(user)

    def spoil(self, user: str, line: bytes) -> bytes:
        """A line of a watch, as it is sent."""
        if user not in self._garbled:
            return line
        self._garbled.discard(user)
        return line[: len(line) // 2] + b"\n"

    def deny(self, user: str, verb: str, resource: str) -> None:
        """Answer 403; `*` stands for everything. A resource is `pods` or `pods/binding`."""
        self._denied.add((user, verb, resource))

    def permit(self, user: str, verb: str, resource: str) -> None:
        """Take a denial back."""
        self._denied.discard((user, verb, resource))

    def admit(self, request: Request) -> None:
        """Raise RefusedError for a request that gets no further."""
        if self._clock.now() < self._down_until:
            text = "the server is currently unable to handle the request"
            raise RefusedError(503, "ServiceUnavailable", text, details={})
        if not request.user or request.user in self._revoked:
            raise RefusedError(401, "Unauthorized", "Unauthorized")
        users = self._throttled_users
        if self._throttled and (not users or request.user in users):
            self._throttle()

    def _throttle(self) -> None:
        if self._chance.random() < self._throttled:
            headers = {"retry-after": str(self._retry_after)}
            details = {"retryAfterSeconds": self._retry_after}
            raise RefusedError(429, "TooManyRequests", BUSY, details=details, headers=headers)

    def authorize(self, user: str, verb: str, place: Place) -> None:
        """Raise RefusedError for what this user may not do."""
        if not self._denied:
            return
        plural = place.kind.plural
        resource = f"{plural}/{place.subresource}" if place.subresource else plural
        if self._is_denied(user, verb, resource):
            where = f' in the namespace "{place.namespace}"' if place.namespace else ""
            why = (
                f'User "{user}" cannot {verb} resource "{resource}" in API group '
                f'"{place.kind.group}"{where or " at the cluster scope"}'
            )
            raise wire.forbidden(place.kind, place.name, why)

    def allows(self, user: str, review: Object) -> bool:
        """The answer to a SelfSubjectAccessReview."""
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        resource = asked.get("resource", "")
        if asked.get("subresource"):
            resource = f"{resource}/{asked['subresource']}"
        return not self._is_denied(user, asked.get("verb", ""), resource)

    def _is_denied(self, user: str, verb: str, resource: str) -> bool:
        return any(
            (one, other, third) in self._denied
            for one in (user, ANY)
            for other in (verb, ANY)
            for third in (resource, ANY)
        )

    def lose_answer(self) -> None:
        """Raise RefusedError after a write that was carried out, perhaps."""
        if self._lost and self._chance.random() < self._lost:
            raise RefusedError(500, "", LOST)
