"""Sums of history against an oracle that counts each pod by itself."""

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from tests.unit.history.clusters import QUEUES, START, Cluster, group, pod
from vscheduler.history.queries import By, Filter, Reader, Row

MILLI = {"cpu": 1000, "memory": 1, "nvidia.com/gpu": 1, "pods": 1}
SEEDS = range(40)


@dataclass
class Known:
    """A pod, as the test itself made it."""

    name: str
    job: str
    queue: str
    user: str
    requests: dict[str, str]
    bound: int | None = None
    ended: int | None = None
    evicted: bool = False
    exists: bool = True


class Oracle:
    """Plays a random cluster, and remembers what it did."""

    def __init__(self, chance: random.Random, path: Path) -> None:
        self.chance = chance
        self.cluster = Cluster(path)
        self.pods: list[Known] = []
        self.jobs: dict[str, tuple[str, str]] = {}
        self.leads = False

    def document(self, known: Known) -> dict:  # type: ignore[type-arg]  # a manifest
        """The pod as it is now."""
        return pod(
            known.name,
            known.job,
            bound=known.bound,
            ended=known.ended,
            failed=known.evicted,
            requests=known.requests,
            labels={"vscheduler.io/user": known.user},
        )

    def step(self) -> None:
        """Let something happen."""
        cluster, chance = self.cluster, self.chance
        cluster.now += chance.choice([0, 1, 1, 7, 300])
        now = int(cluster.now)
        waiting = [each for each in self.pods if each.exists and each.bound is None]
        running = [each for each in self.pods if each.exists and each.bound is not None]
        running = [each for each in running if each.ended is None]
        over = [each for each in self.pods if each.exists and each.ended is not None]
        what = chance.random()
        if what < 0.15:
            self.submit()
        elif what < 0.5 and waiting:
            known = chance.choice(waiting)
            known.bound = max(0, now - chance.choice([0, 0, 1]))
            cluster.show(self.document(known))
        elif what < 0.75 and running:
            self.end(chance.choice(running), now)
        elif what < 0.85 and over and self.leads:
            known = chance.choice(over)
            known.exists = False
            cluster.remove(self.document(known))
        elif what < 0.9:
            self.change_leader()
        else:
            cluster.turn()

    def submit(self) -> None:
        """A job with a few pods."""
        name, chance = f"job-{len(self.jobs)}", self.chance
        self.jobs[name] = queue, user = chance.choice(QUEUES), chance.choice(["ann", "bob", ""])
        requests = {
            "cpu": chance.choice(["1", "1500m", "7m"]),
            "memory": chance.choice(["1", "3Gi"]),
        }
        if chance.random() < 0.5:
            requests["nvidia.com/gpu"] = "2"
        for at in range(chance.randint(1, 4)):
            self.pods.append(Known(f"{name}-{at}", name, queue, user, requests))
            self.cluster.show(self.document(self.pods[-1]))
        self.cluster.show(group(name, queue, labels={"vscheduler.io/user": user}))

    def end(self, known: Known, now: int) -> None:
        """A pod ends: by itself, by an eviction, or it is gone at once while somebody looks."""
        assert known.bound is not None
        if self.leads and self.chance.random() < 0.3:
            known.ended, known.exists = max(now, known.bound), False
            alive = Known(known.name, known.job, known.queue, known.user, known.requests)
            alive.bound = known.bound
            self.cluster.remove(self.document(alive))
            return
        if self.leads and self.chance.random() < 0.3:
            known.evicted = True
            self.cluster.writer.evicted([f"{known.name}-uid"], "reclaim", "ns/x")  # type: ignore[list-item]
        known.ended = max(known.bound, now - self.chance.choice([0, 0, 1]))
        self.cluster.show(self.document(known))

    def change_leader(self) -> None:
        """This instance leads, stands by, or dies and starts anew."""
        if not self.leads:
            self.cluster.begin()
        elif self.chance.random() < 0.5:
            self.cluster.end()
        else:
            self.cluster.turn()
            self.cluster.crash()
        self.leads = not self.leads

    def sums(self, by: str, since: int, until: int) -> dict[str, Counter[str]]:
        """Pod-seconds by name, one pod after the other."""
        found: dict[str, Counter[str]] = {}
        for known in self.pods:
            if known.bound is None:
                continue
            end = int(self.cluster.now) if known.ended is None else known.ended
            seconds = len(range(max(since, known.bound), min(until, end)))
            if not seconds:
                continue
            names = {"queue": known.queue, "user": known.user, "job": f"ns/podgroup/{known.job}"}
            sums = found.setdefault(names[by], Counter())
            for resource, text in {**known.requests, "pods": "1"}.items():
                sums[resource] += seconds * _amount(resource, text)
        return found


def _amount(resource: str, text: str) -> int:
    known = {"1500m": Fraction(3, 2), "7m": Fraction(7, 1000), "3Gi": Fraction(3 * 2**30)}
    number = known[text] if text in known else Fraction(text)
    return int(number * MILLI[resource])


def a_past(seed: int, folder: Path) -> Oracle:
    """A random history, all of which is written."""
    world = Oracle(random.Random(seed), folder / "history.db")
    for _ in range(300):
        world.step()
    if not world.leads:
        world.cluster.begin()
    world.cluster.turn()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_exactly_those_of_each_pod_by_itself(seed: int, tmp_path: Path) -> None:
    """Whoever leads when, and however often the process dies: by queue, user and job, in all and
    in any part of the time.
    """
    world = a_past(seed, tmp_path)
    last = int(world.cluster.now)
    windows = [(0, last)] + [sorted(world.chance.sample(range(last + 1), 2)) for _ in range(4)]
    for since, until in windows:
        for by in (By.QUEUE, By.USER, By.JOB):
            rows = world.cluster.report(by, since, until)
            found = {
                name: {each: sum_ for each, sum_ in row.pod_seconds.items() if sum_}
                for name, row in rows.items()
                if any(row.pod_seconds.values())
            }
            assert found == world.sums(by, since, until), (since, until)
    evicted = sum(known.evicted for known in world.pods)
    for by in By:
        rows = world.cluster.report(by)
        assert sum(row.evicted_pods for row in rows.values()) == evicted


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_jobs_without_a_row_of_their_own_are_summed_up(seed: int, tmp_path: Path) -> None:
    """However few have one, the sums are the same, and so are those of all rows."""
    world = a_past(seed, tmp_path)
    until = START + int(world.cluster.now)
    wanted = Filter(since=START, until=until)
    reader = Reader(world.cluster.path)
    every = reader.report(By.JOB, wanted, until)
    assert not any(row.others for row in every)
    assert summed(every) == summed(reader.report(By.QUEUE, wanted, until))
    for limit in (1, 2, len(every) - 1, len(every)):
        *named, last = [*reader.report(By.JOB, wanted, until, limit), None]
        rest = named.pop() if limit < len(every) else last
        assert named == every[:limit]
        if rest is not None:
            assert (rest.name, rest.others) == ("", len(every) - limit)
            assert summed([rest]) == summed(every[limit:])


def summed(rows: Iterable[Row]) -> tuple[object, ...]:
    """All figures that can be added."""
    used, lost, counts = Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        used.update(row.pod_seconds)
        lost.update(row.evicted_pod_seconds)
        counts["finished"] += row.finished
        counts["pods"] += row.evicted_pods
        counts["jobs"] += row.evicted_jobs
        counts["waits"] += 0 if row.waits is None else row.waits.jobs
        counts["waited"] += 0 if row.waits is None else round(row.waits.jobs * row.waits.mean)
    return +used, +lost, +counts


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_the_parts_of_a_series_are_the_sums_of_its_steps(seed: int, tmp_path: Path) -> None:
    """Each step by itself, the last one being shorter."""
    world = a_past(seed, tmp_path)
    last = int(world.cluster.now)
    wanted = Filter(since=START + 3, until=START + last - 2)
    found = Reader(world.cluster.path).usage(By.QUEUE, wanted, 217, START + last)
    edges = [edge - START for edge in found.edges]
    for at, (since, until) in enumerate(itertools.pairwise(edges)):
        expected = world.sums("queue", since, until)
        for queue in QUEUES:
            for resource in MILLI:
                steps = found.used.get(queue, {}).get(resource, [0.0] * len(edges))
                wanted_sum = expected.get(queue, Counter())[resource]
                assert steps[at] == pytest.approx(wanted_sum, abs=1e-3, rel=1e-9)
