"""What all actors have in common: a client, a clock, chance of their own, and timers."""

import random
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from sandbox.errors import ApiError
from tests.simulation.api_server.client import Client

Object: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

Result = TypeVar("Result")

TRANSIENT = (401, 429, 500, 503, 504)
"""Answers after which the same request may succeed."""

RETRY_SECONDS = 2.0


class Clock(Protocol):
    """Virtual time."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def after(self, seconds: float, call: Callable[[], None], /) -> Callable[[], None]:
        """Call something later; returns what cancels that."""


class Actor:
    """A named unit of the world. Leaving it out doesn't change what the others draw."""

    restless: ClassVar[bool] = False
    """Whether it stops when the world is to calm down."""

    def __init__(self, client: Client, clock: Clock, chance: random.Random) -> None:
        self.client = client
        self.clock = clock
        self.chance = chance
        self.active = False
        self.refused = 0
        """The status with which the API server refused the last attempt; 0 if it didn't."""

    def start(self) -> None:
        """Begin."""
        self.active = True

    def stop(self) -> None:
        """Do nothing any more."""
        self.active = False

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something later, unless this actor has stopped by then."""
        self.clock.after(seconds, lambda: call() if self.active else None)

    def attempt(self, call: Callable[[], Result]) -> Result | None:
        """Make a request that the API server may refuse; None if it does."""
        self.refused = 0
        try:
            return call()
        except ApiError as error:
            self.refused = error.status
            return None

    def insist(self, call: Callable[[], object]) -> None:
        """Make a request, again and again while the API server fails, even if the actor stops."""
        self.attempt(call)
        if self.refused in TRANSIENT:
            self.clock.after(RETRY_SECONDS, lambda: self.insist(call))


class Habit(Actor):
    """Does something again and again, at random moments."""

    restless = True

    def __init__(
        self, client: Client, clock: Clock, chance: random.Random, *, every: float
    ) -> None:
        super().__init__(client, clock, chance)
        self._every = every

    def start(self) -> None:
        """Begin with a pause."""
        super().start()
        self._pause()

    def act(self) -> None:
        """Do it once."""
        raise NotImplementedError

    def _pause(self) -> None:
        self.later(self.chance.expovariate(1 / self._every), self._turn)

    def _turn(self) -> None:
        self.act()
        self._pause()
