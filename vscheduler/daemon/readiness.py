"""What /readyz says: what this instance waits for, and what it does without."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vscheduler.cluster.http import connection
from vscheduler.daemon.leader_election import api
from vscheduler.mirror.decode import events

NEEDED = frozenset({events.Kind.NODE, events.Kind.POD, events.Kind.POD_GROUP, events.Kind.QUEUE})
"""Kinds without which nothing can be decided. All others may be missing: an older cluster doesn't
serve them, or a smaller role doesn't let us read them."""

REFUSED_SECONDS = 10.0
"""How long a kind is refused before we go on without it: a server that starts refuses, too."""

FAILING_SECONDS = 10.0
"""How long a kind may fail to be followed while others are, before that counts."""

MESSAGE_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """How it stands with a kind that is followed."""

    kind: events.Kind
    listed: bool
    """Whether its first list is in."""
    problem: connection.ApiError | None = None
    """Why nothing comes in at present."""
    seconds: float = 0.0
    """For how long."""

    @property
    def refused(self) -> bool:
        """Whether the server knows us, and has no such kind or doesn't show it to us."""
        match self.problem:
            case connection.NotFound():
                return True
            case connection.Forbidden(status=status):
                return status == 403
        return False

    @property
    def absent(self) -> bool:
        """Whether we go on without it."""
        lasting = self.refused and self.seconds >= REFUSED_SECONDS
        return lasting and self.kind not in NEEDED and not self.listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Sentences; nothing to wait for is ready."""

    waits: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def report(followed: Sequence[Followed], standings: Iterable[api.Standing] = ()) -> Report:
    """What to say of what is followed, and of Leases."""
    waits = []
    unreachable = _unreachable(followed, standings)
    if unreachable:
        waits.append(f"the API server can't be reached: {_clean(unreachable)}")
    for each in followed:
        if each.problem is None or each.kind not in NEEDED:
            continue
        if each.refused:
            waits.append(f"{each.kind} is needed, and refused: {_clean(str(each.problem))}")
        elif not unreachable and each.seconds >= FAILING_SECONDS:
            waits.append(f"{each.kind} can't be followed: {_clean(str(each.problem))}")
    missing = [each.kind.value for each in followed if not (each.listed or each.absent)]
    if missing:
        waits.append(f"the first lists aren't in yet: {', '.join(missing)}")
    without = [
        f"without {each.kind}: {_clean(str(each.problem))}"
        for each in followed
        if each.refused and each.kind not in NEEDED
    ]
    return Report(waits=tuple(waits), without=tuple(without))


def _unreachable(followed: Sequence[Followed], standings: Iterable[api.Standing]) -> str:
    """What is known of why nothing gets through; empty where something does.

    The thread that stands for election asks every other second, and is first to know.
    """
    for standing in standings:
        if not standing.reachable:
            return standing.problem
    failing = [each for each in followed if each.problem is not None and not each.refused]
    return str(failing[0].problem) if failing and len(failing) == len(followed) else ""


def _clean(message: str) -> str:
    """In one line, and not too long."""
    return "".join(each if each.isprintable() else " " for each in message)[:MESSAGE_MAX]
