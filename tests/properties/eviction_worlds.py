"""Small clusters where a gang fits only after evictions, and an oracle that tries all of them.

The oracle shares no code with the planner. Its rules: a pod above the minimum of its job, or the
only one, may go by itself; other gangs go whole. Queues lose no more than their surplus.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs: the node of each pod, all of one size."""

    name: str
    size: int
    nodes: tuple[int, ...]
    least: int

    def units(self) -> Iterator[tuple[int, ...]]:
        """Yield the sets of pods that may go together, by number of pod."""
        every = range(len(self.nodes))
        # The last pod of a job may go by itself.
        spare = len(every) - self.least if self.least > 1 else len(every)
        for count in range(spare + 1):
            yield from itertools.combinations(every, count)
        if spare < len(every):
            yield tuple(every)

    def is_whole(self, gone: tuple[int, ...]) -> bool:
        """Whether a gang of several pods goes whole."""
        return self.least > 1 and len(gone) > len(self.nodes) - self.least


@dataclass(frozen=True, slots=True)
class World:
    """Nodes with so many cores, jobs that run, and the sizes of the pods that a gang needs."""

    nodes: tuple[int, ...]
    jobs: tuple[Running, ...]
    gang: tuple[int, ...]

    def picture(self, *, reclaim: bool) -> str:
        """The world as a picture."""
        lines = [f"node n{row} cpu={cores}" for row, cores in enumerate(self.nodes)]
        lines += ["queue rich weight=1", "queue poor weight=1000000"] if reclaim else ["queue poor"]
        owner = "rich" if reclaim else "poor"
        for job in self.jobs:
            pods = " ".join(f"n{row}" for row in job.nodes)
            lines.append(f"job {owner}/{job.name} min={job.least} priority=1 cpu={job.size} {pods}")
        pods = " ".join(f"-@{size}" for size in self.gang)
        lines.append(f"job poor/g min={len(self.gang)} priority=9 {pods}")
        return "\n".join(lines)

    def free(self) -> list[int]:
        """What is free on each node."""
        left = list(self.nodes)
        for job in self.jobs:
            for row in job.nodes:
                left[row] -= job.size
        return left

    def share(self) -> int:
        """Return what is left for the jobs that run, if the gang gets all that it asks for."""
        return sum(self.nodes) - sum(self.gang)

    def fits_without(self, gone: Mapping[str, Sequence[int]]) -> bool:
        """Whether the gang fits after these pods have gone."""
        left = self.free()
        for job in self.jobs:
            for pod in gone.get(job.name, ()):
                left[job.nodes[pod]] += job.size
        return fits(sorted(self.gang, reverse=True), left)

    def cheapest(self, *, wholes: bool, kept: int = 0) -> int | None:
        """Return the least number of victims, or None if no set of them is enough.

        With `wholes`, gangs may go whole. So many cores must be `kept` by all jobs together.
        """
        choices = [
            [gone for gone in job.units() if wholes or not job.is_whole(gone)] for job in self.jobs
        ]
        free, best = self.free(), None
        for chosen in itertools.product(*choices):
            count = sum(map(len, chosen))
            if best is not None and count >= best:
                continue
            stay = (
                job.size * (len(job.nodes) - len(gone))
                for job, gone in zip(self.jobs, chosen, strict=True)
            )
            if sum(stay) < kept:
                continue
            left = list(free)
            for job, gone in zip(self.jobs, chosen, strict=True):
                for pod in gone:
                    left[job.nodes[pod]] += job.size
            if fits(sorted(self.gang, reverse=True), left):
                best = count
        return best


def fits(sizes: Sequence[int], left: list[int]) -> bool:
    """Whether pods of these sizes fit into what is left on nodes."""
    if not sizes:
        return True
    for row in {has: row for row, has in enumerate(left)}.values():
        if left[row] >= sizes[0]:
            left[row] -= sizes[0]
            found = fits(sizes[1:], left)
            left[row] += sizes[0]
            if found:
                return True
    return False


def drawn(chance: random.Random, *, gangs: bool) -> World:
    """Draw two to four nodes that are nearly full; with `gangs`, some jobs need several pods."""
    nodes = tuple(chance.randint(3, 9) for _ in range(chance.randint(2, 4)))
    left = list(nodes)
    jobs = []
    for number in range(chance.randint(3, 7)):
        size = chance.choice((1, 1, 2, 3))
        places = []
        for _ in range(chance.randint(1, 3)):
            rows = [row for row, has in enumerate(left) if has >= size]
            if rows:
                places.append(chance.choice(rows))
                left[places[-1]] -= size
        if places:
            least = chance.randint(1, len(places)) if gangs else 1
            jobs.append(Running(f"j{number}", size, tuple(places), least))
    gang = tuple(chance.randint(1, 6) for _ in range(chance.randint(2, 4)))
    return World(nodes, tuple(jobs), gang)
