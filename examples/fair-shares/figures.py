"""What is measured, from the API server's objects only: who has how much, and who was evicted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tenants

Object = dict[str, Any]

FAIR = (25, 25, 25)
"""CPU of the tenants, once all three are there."""

HALVES = ((37, 37, 0), (37, 38, 0), (38, 37, 0))
"""CPU of the tenants while there are two: 37.5 each, of which 37 can be used by pods of one."""

PROMISE_SECONDS = 15.0
"""From the third tenant's arrival to fair shares."""

QUIET_SECONDS = 60.0
"""How long nobody is evicted after that."""


@dataclass(slots=True)
class Ledger:
    """The pods over time: look often, as a pod is known to be evicted when it was there before.

    Nothing else than an eviction takes a pod here: nobody scales down, no node fails.
    """

    cpu: tuple[int, ...] = (0,) * len(tenants.TENANTS)
    """CPU that each tenant's pods hold now; those that leave don't count."""
    running: tuple[int, ...] = (0,) * len(tenants.TENANTS)
    evicted: dict[str, float] = field(default_factory=dict)
    """When each evicted pod, by UID, was first missed."""
    _bound: set[str] = field(default_factory=set)

    def note(self, now: float, pods: Iterable[Object], events: Iterable[Object] = ()) -> None:
        """Take in a list of all pods, and the events that there are."""
        held: Counter[str] = Counter()
        running: Counter[str] = Counter()
        bound = set()
        for pod in pods:
            meta, spec = pod["metadata"], pod["spec"]
            if spec.get("nodeName") and "deletionTimestamp" not in meta:
                bound.add(meta["uid"])
                held[meta["namespace"]] += sum(
                    int(each["resources"]["requests"]["cpu"]) for each in spec["containers"]
                )
                running[meta["namespace"]] += pod["status"].get("phase") == "Running"
        # Who came and went between two looks has an event to show for it.
        told = {each["regarding"]["uid"] for each in events if _is_eviction(each)}
        for uid in (self._bound - bound) | told:
            self.evicted.setdefault(uid, now)
        self._bound |= bound
        self.cpu = tuple(held[tenant] for tenant in tenants.TENANTS)
        self.running = tuple(running[tenant] for tenant in tenants.TENANTS)

    def evicted_between(self, begin: float, end: float) -> int:
        """How many pods were evicted after `begin`, until `end`."""
        return sum(begin < when <= end for when in self.evicted.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one way."""

    way: str
    before: tuple[int, ...]
    """CPU of the tenants before the third arrives."""
    after: tuple[int, ...]
    running: tuple[int, ...]
    """Pods of the tenants that run in the end."""
    seconds: float | None
    """From the third's arrival to fair shares; None when it never came to that."""
    evicted: int
    """Pods, until shares were fair."""
    later: int
    """Pods evicted in the minute after that."""
    strayed: tuple[int, ...] | None = None
    """Shares that were seen in that minute and weren't fair."""
    says: str = ""
    """How the third tenant's share came about, in the words of its queue's status."""

    @property
    def least(self) -> int:
        """How many pods must go, as each has one CPU."""
        return sum(max(0, had - due) for had, due in zip(self.before, FAIR, strict=True))

    def problems(self) -> list[str]:
        """What isn't as promised."""
        found = []
        if self.before not in HALVES:
            found.append(f"two tenants had {cpu(self.before)} CPU instead of {cpu(HALVES[0])}")
        if self.seconds is None:
            return [*found, f"{cpu(self.after)} CPU instead of {cpu(FAIR)}"]
        if self.seconds > PROMISE_SECONDS:
            found.append(f"it took {self.seconds:.1f} s instead of {PROMISE_SECONDS:.0f}")
        if self.evicted > self.least:
            found.append(f"{self.evicted} pods were evicted where {self.least} would have done")
        if self.later:
            found.append(f"{self.later} pods were evicted in the minute after")
        if self.strayed is not None:
            found.append(f"{cpu(self.strayed)} CPU in the minute after")
        if self.running != FAIR:
            found.append(f"{cpu(self.running)} pods run")
        return found


def cpu(amounts: Iterable[int]) -> str:
    """Amounts of the tenants, in their order: `25/25/25`."""
    return "/".join(str(amount) for amount in amounts)


def table(results: Sequence[Result]) -> str:
    """One row for each way."""
    titles = ("way", "before", "after", "seconds", "evicted", "least", "next minute")
    rows = [
        (
            each.way,
            cpu(each.before),
            cpu(each.after),
            "-" if each.seconds is None else f"{each.seconds:.1f}",
            str(each.evicted),
            str(each.least),
            "-" if each.seconds is None else str(each.later),
        )
        for each in results
    ]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return "\n".join(_line(row, widths) for row in (titles, *rows))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *others = (
        cell.rjust(width) if number else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join((name, *others))


def _is_eviction(event: Object) -> bool:
    return bool(event["reason"] == "Evict" and event["regarding"]["kind"] == "Pod")
