"""Hierarchical DRF with nothing kept: every share is worked out anew for every comparison.

The rule is that of Volcano's drf (enableHierarchy), from its description: nodes with jobs as
leaves; parts that still want something are scaled to the smallest of them.
"""

import functools
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

Amounts = tuple[int, ...]
"""cpu, memory and pod slots."""

Part = tuple[bool, tuple[Fraction, ...]]
"""Whether it is saturated, and what it counts as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Pods alike."""

    queue: str
    pod: Amounts
    pods: int

    @property
    def request(self) -> Amounts:
        """Of all of them."""
        return tuple(self.pods * each for each in self.pod)


@dataclass(slots=True, kw_only=True)
class Case:
    """One node, and jobs without a minimum; queues by name, which is the order of their age."""

    total: Amounts
    paths: dict[str, tuple[str, ...]]
    weights: dict[tuple[str, ...], int]
    """By path, nodes without one have 1."""
    jobs: dict[str, Job]
    volcano: bool = False
    has: Counter[str] = field(default_factory=Counter)
    """Pods placed, by job."""

    def held(self, job: str) -> Amounts:
        """What the job has."""
        return tuple(self.has[job] * each for each in self.jobs[job].pod)

    def used(self) -> Amounts:
        """What all jobs have."""
        return tuple(map(sum, zip(*map(self.held, self.jobs), strict=True)))

    def share(self, amounts: tuple[Fraction | int, ...]) -> Fraction:
        """The largest part of anything."""
        pairs = zip(amounts, self.total, strict=True)
        return max(Fraction(each) / whole if whole else Fraction(each > 0) for each, whole in pairs)

    def is_saturated(self, job: str) -> bool:
        """It has all that it asks for of something, or asks for what is used up."""
        rows = zip(self.held(job), self.jobs[job].request, self.used(), self.total, strict=True)
        return any(asked and (has >= asked or used >= whole) for has, asked, used, whole in rows)

    def node(self, path: tuple[str, ...]) -> Part:
        """A node with all below it: in Volcano's way the jobs of its queues side by side, else
        each queue a part of its own.
        """
        own = [queue for queue, place in self.paths.items() if place == path]
        below = {each[: len(path) + 1] for each in self.paths.values() if len(each) > len(path)}
        parts = [self.node(each) for each in sorted(below) if each[: len(path)] == path]
        if self.volcano:
            return self.together(parts + [leave for queue in own for leave in self.leaves(queue)])
        return self.together(parts + [self.together(self.leaves(queue)) for queue in own])

    def leaves(self, queue: str) -> list[Part]:
        """The jobs of a queue."""
        names = [name for name, job in self.jobs.items() if job.queue == queue]
        return [(self.is_saturated(name), tuple(map(Fraction, self.held(name)))) for name in names]

    def together(self, parts: list[Part]) -> Part:
        """Their sum: each counts as much as the smallest that wants something and has something."""
        shares = [self.share(amounts) for done, amounts in parts if not done]
        least = min([Fraction(1), *filter(None, shares)])
        summed = [Fraction(0)] * len(self.total)
        for done, amounts in parts:
            share = self.share(amounts)
            scale = least / share if share and not done else Fraction(1)
            summed = [has + scale * more for has, more in zip(summed, amounts, strict=True)]
        return all(done for done, _ in parts), tuple(summed)

    def compare(self, queue: str, other: str) -> int:
        """From the root down: saturated later, then the smaller share by weight; then the older
        queue. Where one has no more nodes, nothing is compared with those of the other.
        """
        ways = (self.way(queue), self.way(other))
        for one, another in itertools.zip_longest(*ways, fillvalue=(False, Fraction(0))):
            if one != another:
                return -1 if one < another else 1
        return -1 if queue < other else 1

    def way(self, queue: str) -> list[tuple[bool, Fraction]]:
        """Whether each node is saturated, and its share by weight, outermost first."""
        path, found = self.paths[queue], []
        for depth in range(1, len(path) + 1):
            done, amounts = self.node(path[:depth])
            found.append((done, self.share(amounts) / self.weights.get(path[:depth], 1)))
        if not self.volcano:
            done, amounts = self.together(self.leaves(queue))
            found.append((done, self.share(amounts)))
        return found

    def fits(self, job: str) -> bool:
        """Whether one more of its pods does."""
        if self.has[job] == self.jobs[job].pods:
            return False
        rows = zip(self.used(), self.jobs[job].pod, self.total, strict=True)
        return all(used + more <= whole or not more for used, more, whole in rows)

    def fill(self) -> Counter[str]:
        """One pod after the other: the first queue, and in it the job with the smallest share."""
        while waiting := [name for name in self.jobs if self.fits(name)]:
            queues = sorted({self.jobs[name].queue for name in waiting})
            first = min(queues, key=functools.cmp_to_key(self.compare))
            own = [name for name in waiting if self.jobs[name].queue == first]
            self.has[min(own, key=lambda name: (self.share(self.held(name)), name))] += 1
        return self.has


def drawn(chance: random.Random) -> Case:
    """Two or three branches, some of which have queues below them."""
    paths: dict[str, tuple[str, ...]] = {}
    weights: dict[tuple[str, ...], int] = {}
    for branch in range(chance.randint(2, 3)):
        below = chance.randint(0, 3)
        root = (f"b{branch}",)
        ends: list[tuple[str, ...]] = [(*root, f"e{each}") for each in range(below)] or [root]
        weights[root] = chance.choice((1, 1, 2, 3))
        for path in ends:
            weights[path] = weights.get(path, chance.choice((1, 1, 2)))
            for _ in range(chance.choice((1, 1, 1, 2))):
                paths[f"q{len(paths)}"] = path
    jobs: dict[str, Job] = {}
    for queue in paths:
        for _ in range(chance.randint(1, 2)):
            pod = chance.choice(((1, 0, 1), (0, 1, 1), (1, 1, 1), (2, 1, 1), (1, 2, 1), (3, 0, 1)))
            jobs[f"j{len(jobs)}"] = Job(queue=queue, pod=pod, pods=chance.randint(1, 9))
    total = (chance.randint(4, 12), chance.randint(4, 12), 100)
    return Case(total=total, paths=paths, weights=weights, jobs=jobs)


def picture(case: Case) -> str:
    """The same for scenarios, without the paths."""
    lines = [f"node n1 cpu={case.total[0]} memory={case.total[1]}Gi pods={case.total[2]}"]
    lines += [f"queue {name}" for name in case.paths]
    for name, job in case.jobs.items():
        cpu, memory, _ = job.pod
        lines.append(f"job {job.queue}/{name} min=0 cpu={cpu} memory={memory}Gi -*{job.pods}")
    return "\n".join(lines)


def annotations(case: Case, queue: str) -> dict[str, str]:
    """Where the queue stands."""
    path = case.paths[queue]
    weights = [case.weights.get(path[:depth], 1) for depth in range(1, len(path) + 1)]
    return {
        "volcano.sh/hierarchy": "/".join(("root", *path)),
        "volcano.sh/hierarchy-weights": "/".join(map(str, (1, *weights))),
    }
