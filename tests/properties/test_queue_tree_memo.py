"""The queue tree keeps what it has worked out; here every key is worked out anew, job by job."""

import random
from typing import Any

import numpy as np
import pytest

from vscheduler.core.shares import hierarchical_drf
from vscheduler.core.shares.hierarchical_drf import JobUsage, Tree

PATHS = ("root/a", "root/a/b", "root/a/c", "root/d/e", "root/d/e", "root/d", "")
WEIGHTS = "1/2/3/1"
Amounts = list[int]


class Plain:
    """The same queues and jobs, with nothing kept."""

    def __init__(self, chance: random.Random, *, flat: bool) -> None:
        self.flat = flat
        self.total = [*chance.choices((0, 9, 30), k=2), 100, chance.choice((0, 4))]
        places = [hierarchical_drf.place(path, WEIGHTS) for path in chance.sample(PATHS, k=5)]
        self.places = {f"q{number}": place for number, place in enumerate(places)}
        self.requests: dict[str, dict[str, Amounts]] = {}
        for queue in self.places:
            names = [f"{queue}-{number}" for number in range(chance.randint(0, 4))]
            self.requests[queue] = {
                name: [chance.choice((0, chance.randint(0, 9))) for _ in self.total]
                for name in names
            }
        self.held = {job: [0] * len(self.total) for jobs in self.requests.values() for job in jobs}

    def planted(self) -> Tree:
        """The tree of these queues as they are now."""
        usages = {
            queue: [
                JobUsage(job=job, allocated=np.array(self.held[job]), request=np.array(request))
                for job, request in jobs.items()
            ]
            for queue, jobs in self.requests.items()
        }
        total = np.array(self.total, dtype=np.int64)
        return Tree(total, self.places, usages, flat=self.flat)

    def share(self, amounts: list[Any]) -> float:
        """The largest part of anything."""
        pairs = zip(amounts, self.total, strict=True)
        return max(has / whole if whole else float(has > 0) for has, whole in pairs)

    def saturated(self, queue: str, job: str) -> bool:
        """Volcano: resourceSaturated."""
        used = [sum(column) for column in zip(*self.held.values(), strict=True)]
        for column, asked in enumerate(self.requests[queue][job]):
            has, left = self.held[job][column], used[column] < self.total[column]
            if asked and ((has and has >= asked) or ((has or column < 2) and not left)):
                return True
        return False

    def together(self, parts: list[tuple[bool, list[Any]]]) -> tuple[bool, list[Any]]:
        """Their sum: parts that want more count as much as the smallest of them."""
        wanting = [self.share(amounts) for done, amounts in parts if not done]
        least = min([1.0, *filter(None, wanting)])
        summed: list[Any] = [0.0] * len(self.total)
        for done, amounts in parts:
            factor = 1.0 if done or not self.share(amounts) else least / self.share(amounts)
            summed = [has + more * factor for has, more in zip(summed, amounts, strict=True)]
        return all(done for done, _ in parts), summed

    def node(self, path: tuple[str, ...]) -> tuple[bool, list[Any]]:
        """A node with all that is below it."""
        parts: dict[object, tuple[bool, list[Any]]] = {}
        for queue, place in self.places.items():
            if place.path[: len(path)] != path:
                continue
            below = place.path[: len(path) + 1]
            if len(place.path) > len(path) and below not in parts:
                parts[below] = self.node(below)
            elif len(place.path) == len(path) and ("own" if self.flat else queue) not in parts:
                parts["own" if self.flat else queue] = self.own(queue)
        return self.together(list(parts.values()))

    def own(self, queue: str) -> tuple[bool, list[Any]]:
        """The jobs of a queue; flat: and of those of the same path."""
        path = self.places[queue].path
        same = [place for place in self.places if self.flat and self.places[place].path == path]
        jobs = [(each, job) for each in same or [queue] for job in self.requests[each]]
        return self.together([(self.saturated(*job), self.held[job[1]]) for job in jobs])

    def key(self, queue: str) -> tuple[float, ...]:
        """Whether each node on the way is saturated, and its share by weight."""
        place = self.places[queue]
        weights: dict[tuple[str, ...], float] = {}
        for each in self.places.values():
            for depth, weight in enumerate(each.weights, start=1):
                weights.setdefault(each.path[:depth], weight)
        ways = [place.path[:depth] for depth in range(1, len(place.path) + 1)]
        nodes = [(self.node(way), weights[way]) for way in ways]
        nodes += [] if self.flat else [(self.own(queue), 1.0)]
        found = [
            part
            for (done, amounts), weight in nodes
            for part in (float(done), round(self.share(amounts) / weight, 9))
        ]
        depth = max(len(place.path) for place in self.places.values()) + (not self.flat)
        return (*found, *[0.0] * (2 * depth - len(found)))


@pytest.mark.parametrize("memo", [3, hierarchical_drf.MEMO_MAX])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_remembered_is_what_would_be_worked_out(
    seed: int, flat: bool, memo: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether steps are undone in reverse order, in another one, in a trial or not at all."""
    monkeypatch.setattr(hierarchical_drf, "MEMO_MAX", memo)
    chance = random.Random(seed)
    plain = Plain(chance, flat=flat)
    tree = plain.planted()
    jobs = [(queue, job) for queue, names in plain.requests.items() for job in names]

    def shift(queue: str, job: str, amounts: Amounts) -> None:
        pairs = zip(plain.held[job], amounts, strict=True)
        plain.held[job] = [has + more for has, more in pairs]
        tree.shift(queue, job, np.array(amounts, dtype=np.int64))

    def compare() -> None:
        assert {place: tree.key(place) for place in plain.places} == {
            place: plain.key(place) for place in plain.places
        }

    def steps() -> list[tuple[str, str, Amounts]]:
        taken = []
        for queue, job in chance.choices(jobs, k=chance.randint(1, 3)):
            amounts = [chance.randint(-min(has, 2), 2) for has in plain.held[job]]
            shift(queue, job, amounts)
            taken.append((queue, job, [-amount for amount in amounts]))
        return taken

    for _ in range(25 if jobs else 0):
        kind = chance.choice(("forward", "back", "around", "trial"))
        if kind == "trial":
            with tree.trial():
                taken = steps()
                compare()
                for step in reversed(taken):
                    shift(*step)
        else:
            taken = steps()
            compare()
            if kind == "around":
                chance.shuffle(taken)
            for step in reversed(taken if kind != "forward" else []):
                shift(*step)
        compare()
