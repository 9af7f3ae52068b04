"""Measurements from the API server's objects: the CPU of each tenant, and the evicted pods."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tenants

Object = dict[str, Any]

FAIR = (25, 25, 25)
"""CPU of the tenants after all three have arrived."""

HALVES = ((37, 37, 0), (37, 38, 0), (38, 37, 0))
"""CPU of the tenants while there are two: 37.5 each, of which pods of 1 CPU can use 37."""

PROMISE_SECONDS = 15.0
"""The maximum time from the third tenant's arrival to fair shares."""

QUIET_SECONDS = 60.0
"""The time without evictions after fair shares are reached."""


@dataclass(slots=True)
class Ledger:
    """The pods over time, from lists that are read often.

    A pod that disappears from the lists was evicted: in this example nothing else deletes pods.
    """

    cpu: tuple[int, ...] = (0,) * len(tenants.TENANTS)
    """CPU used by each tenant's pods now, without pods that are being deleted."""
    running: tuple[int, ...] = (0,) * len(tenants.TENANTS)
    evicted: dict[str, float] = field(default_factory=dict)
    """By UID of each evicted pod, when the pod was first missing."""
    _bound: set[str] = field(default_factory=set)

    def note(self, now: float, pods: Iterable[Object], events: Iterable[Object] = ()) -> None:
        """Record a list of all pods, and the events so far."""
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
        # A pod that started and was evicted between two lists has only an event.
        told = {event["regarding"]["uid"] for event in events if _is_eviction(event)}
        for uid in (self._bound - bound) | told:
            self.evicted.setdefault(uid, now)
        self._bound |= bound
        self.cpu = tuple(held[tenant] for tenant in tenants.TENANTS)
        self.running = tuple(running[tenant] for tenant in tenants.TENANTS)

    def evicted_between(self, begin: float, end: float) -> int:
        """Return the number of pods evicted after `begin` and not after `end`."""
        return sum(begin < when <= end for when in self.evicted.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one variant."""

    variant: str
    before: tuple[int, ...]
    """CPU of the tenants before the third one arrives."""
    after: tuple[int, ...]
    running: tuple[int, ...]
    """Running pods of the tenants at the end."""
    seconds: float | None
    """From the third tenant's arrival to fair shares; None if shares never became fair."""
    evicted: int
    """Pods evicted until shares were fair."""
    later: int
    """Pods evicted in the following minute."""
    strayed: tuple[int, ...] | None = None
    """Unfair shares seen in the following minute; None if there were none."""
    says: str = ""
    """The explanation of the third tenant's share in the status of its queue."""

    @property
    def least(self) -> int:
        """The minimum number of evictions; each pod has one CPU."""
        return sum(max(0, had - due) for had, due in zip(self.before, FAIR, strict=True))

    def problems(self, slowdown: float = 1.0) -> list[str]:
        """Return the broken promises, one sentence each, on a machine that is so much slower."""
        found = []
        if self.before not in HALVES:
            found.append(f"two tenants had {cpu(self.before)} CPU instead of {cpu(HALVES[0])}")
        if self.seconds is None:
            return [*found, f"{cpu(self.after)} CPU instead of {cpu(FAIR)}"]
        promised = PROMISE_SECONDS * slowdown
        if self.seconds > promised:
            found.append(f"it took {self.seconds:.1f} s instead of {promised:.0f}")
        if self.evicted > self.least:
            found.append(f"{self.evicted} pods were evicted instead of {self.least}")
        if self.later:
            found.append(f"{self.later} pods were evicted in the following minute")
        if self.strayed is not None:
            found.append(f"{cpu(self.strayed)} CPU in the following minute")
        if self.running != FAIR:
            found.append(f"{cpu(self.running)} pods run")
        return found


def cpu(amounts: Iterable[int]) -> str:
    """Return the amounts as text, in the order of the tenants: `25/25/25`."""
    return "/".join(str(amount) for amount in amounts)


def table(results: Sequence[Result]) -> str:
    """Return the results as a table, one row for each variant."""
    titles = ("variant", "before", "after", "seconds", "evicted", "least", "next minute")
    rows = [
        (
            result.variant,
            cpu(result.before),
            cpu(result.after),
            "-" if result.seconds is None else f"{result.seconds:.1f}",
            str(result.evicted),
            str(result.least),
            "-" if result.seconds is None else str(result.later),
        )
        for result in results
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
