"""What judges read: changes of the API server's history, in the order in which it served them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Object: TypeAlias = Mapping[str, Any]


class Change(Protocol):
    """A request that wanted to write, served or refused."""

    @property
    def at(self) -> float:
        """When it was served, in seconds since the epoch, by the API server's clock."""

    @property
    def user(self) -> str:
        """Who asked."""

    @property
    def verb(self) -> str:
        """What was asked: create, update, patch, apply, delete, bind or evict."""

    @property
    def resource(self) -> str:
        """The plural of the kind, or its alias."""

    @property
    def subresource(self) -> str:
        """The part of the object, such as `status`; empty for the whole."""

    @property
    def namespace(self) -> str:
        """Empty for kinds of the whole cluster."""

    @property
    def name(self) -> str:
        """The object's name."""

    @property
    def uid(self) -> str:
        """The object's UID."""

    @property
    def code(self) -> int:
        """The HTTP status of the answer."""

    @property
    def before(self) -> Object | None:
        """The object as it was."""

    @property
    def after(self) -> Object | None:
        """The object as it is now; None where it is gone, or the request was refused."""

    @property
    def origin(self) -> str:
        """The process that asked; empty for those that aren't the daemon."""

    @property
    def manager(self) -> str:
        """The field manager, if the request names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that was broken."""

    at: float
    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What judges must know about a run, and how patient they are."""

    schedulers: Sequence[str] = ("volcano",)
    """Names of the schedulers that the daemon acts for; each has a Lease of its name."""
    controllers_lease: str = "vscheduler-controllers"
    default_queue: str = "default"
    news_seconds: float = 5.0
    """How long something that others did may be unknown to the daemon."""
    transit_seconds: float = 0.0
    """How long a request may be under way at most."""
    skew_seconds: float = 1.0
    """For how long an instance may act after its Lease has expired."""
    edit_seconds: float = 8.0
    """For how long an instance may act after somebody else has edited or deleted its Lease."""
    renewal_seconds: float = float("inf")
    """For how long a holder may leave its Lease alone."""
    first_wait_seconds: float = 16.0
    """How long whoever creates a Lease may wait before it acts: the term of an earlier Lease, and a
    second."""
    expiry_seconds: float = 600.0
    """How long an admission may keep resources from others that aren't used: `enqueue.timeout`,
    which begins anew when another instance leads."""
    alone: bool = False
    """Whether pods that need no PodGroup start without one."""
    soon_seconds: float = 22.0
    """How long something may be wrong that nobody has broken: longer than any pause after a
    refusal, or than it takes a successor to begin."""
    partial_seconds: float = 120.0
    """How long a gang may be bound in part: its timeout, and the time that an eviction takes."""
    calm_seconds: float = 60.0
    """How long after the last change by others the daemon may still write."""
    late_write_seconds: float = float("inf")
    """One write in so many seconds of rest is no endless loop."""
    turn_seconds: float = 15.0
    """How long after a PodGroup was admitted, or lost its admission, others are told other figures:
    longer than the pause between two writes to a pod."""
    admission_seconds: float = 590.0
    """For how long at least an admission lasts that nobody uses, and a group waits for the next:
    somewhat less than the default of enqueue.timeout."""
    faults: Sequence[tuple[float, float]] = ()
    """When something was broken, from and until. This time doesn't count towards any bound."""

    def elapsed(self, start: float, end: float) -> float:
        """Seconds between two moments in which nothing was broken."""
        total, seen = end - start, start
        for begin, over in sorted(fault for fault in self.faults if fault[1] > start):
            first, last = max(begin, seen), min(over, end)
            if last > first:
                total -= last - first
                seen = last
        return total

    def exceeds(self, start: float, end: float, seconds: float) -> bool:
        """Whether more than so many seconds passed in which nothing was broken."""
        return end - start > seconds and self.elapsed(start, end) > seconds

    def unknown(self, then: float, now: float) -> bool:
        """Whether the daemon may not know yet what others did then."""
        return not self.exceeds(then, now, self.news_seconds)


def served(change: Change) -> bool:
    """Whether the request had an effect."""
    return change.code < 300


def ours(change: Change) -> bool:
    """Whether an instance of the daemon sent the request."""
    return bool(change.origin)
