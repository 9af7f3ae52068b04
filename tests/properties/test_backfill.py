"""Backfill on random traces: promises are kept, and EASY starts are those that counts tell."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from vscheduler.core import actions, compat, plugins
from vscheduler.core.config import policy as policies
from vscheduler.core.config.policy import Policy
from vscheduler.core.placement import availability, reservations
from vscheduler.core.placement.start_proofs import StartProofs
from vscheduler.mirror.state import Mirror
from vscheduler.model.decisions import CycleResult
from vscheduler.model.resources import CPU
from vscheduler.model.snapshot import Carried
from vscheduler.simulator.replay import clusters, virtual_time
from vscheduler.simulator.replay.clusters import NodeShape
from vscheduler.simulator.replay.traces import CORE, Trace, TraceJob
from vscheduler.simulator.replay.virtual_time import History, Options

FIFO = "gang, predicates"


def seeds(first: int, few: int, many: int) -> list[Any]:
    """Seeds from the first one on, of which all but a few are for long runs."""
    marks = [() if at < few else pytest.mark.at_length for at in range(many)]
    return [pytest.param(first + at, marks=mark) for at, mark in enumerate(marks)]


def policy(backfill: str, names: str = FIFO) -> Policy:
    """A configuration with these plugins."""
    tree = {
        "actions": "enqueue, allocate",
        "tiers": [{"plugins": [{"name": name} for name in names.split(", ")]}],
        "configurations": [{"name": "allocate", "arguments": {"allocate.backfill": backfill}}],
    }
    parsed = policies.parse(tree, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None, parsed.problems
    return parsed.policy


def a_trace(seed: int, *, queues: int = 1) -> tuple[Trace, int]:
    """Jobs of one CPU a pod that keep their limits, and a number of CPUs."""
    draw = random.Random(seed)
    cores = draw.randint(2, 12)
    submits = sorted(draw.randint(0, 60) for _ in range(draw.randint(5, 30)))
    jobs = []
    for at, submit in enumerate(submits):
        duration = draw.randint(1, 30)
        known = draw.random() < 0.9
        limit = duration + draw.choice((0, 0, draw.randint(1, 40)))
        jobs.append(
            TraceJob(
                id=str(at),
                submit=float(submit),
                duration=float(duration),
                limit=float(limit) if known else None,
                pods=min(cores, draw.choice((1, 1, 2, 3, draw.randint(1, cores)))),
                request={CPU: CORE},
                queue=f"q{draw.randrange(queues)}",
            )
        )
    return Trace(jobs=tuple(jobs)), cores


def played(trace: Trace, cores: int, rules: Policy, nodes: int | None = None) -> History:
    """What becomes of the jobs on nodes of one CPU, or on fewer nodes."""
    mirror = clusters.of_shape(NodeShape(nodes=nodes or cores, cores=cores), rules.reads)
    clusters.add_queues(mirror, {job.queue for job in trace.jobs})
    return virtual_time.replay(trace, mirror, rules, Options())


def starts(found: History) -> list[float]:
    """When the jobs start, in the order of the trace."""
    return [run.start for run in sorted(found.runs, key=lambda run: run.job)]


class Easy:
    """EASY backfill on counts of CPUs: the first job that waits has a shadow time."""

    def __init__(self, jobs: Sequence[TraceJob], cores: int) -> None:
        self.jobs, self.cores = jobs, cores
        self.began: dict[int, float] = {}
        self.now = 0.0

    def run(self) -> list[float]:
        """Return when the jobs start."""
        self.now = self.jobs[0].submit
        while True:
            self._decide()
            later = [
                *(self.began[at] + self.jobs[at].duration for at in self._running()),
                *(job.submit for job in self.jobs if job.submit > self.now),
            ]
            if not later:
                return [self.began[at] for at in range(len(self.jobs))]
            self.now = min(later)

    def _running(self) -> list[int]:
        return [at for at, t in self.began.items() if t + self.jobs[at].duration > self.now]

    def _end(self, at: int) -> float:
        """When a running job ends, as far as known: one that outlives its limit isn't drawn."""
        limit = self.jobs[at].limit
        return math.inf if limit is None else self.began[at] + limit

    def _free(self) -> int:
        return self.cores - sum(self.jobs[at].pods for at in self._running())

    def _decide(self) -> None:
        waiting = [
            at
            for at, job in enumerate(self.jobs)
            if at not in self.began and job.submit <= self.now
        ]
        while waiting and self.jobs[waiting[0]].pods <= self._free():
            self.began[waiting.pop(0)] = self.now
        if not waiting:
            return
        shadow, extra = self._shadow(self.jobs[waiting[0]].pods)
        for at in waiting[1:]:
            job = self.jobs[at]
            if job.pods > self._free():
                continue
            in_time = job.limit is not None and self.now + job.limit <= shadow
            if in_time or job.pods <= extra:
                self.began[at] = self.now
                extra -= 0 if in_time else job.pods

    def _shadow(self, pods: int) -> tuple[float, float]:
        free = self._free()
        ends = sorted((self._end(at), self.jobs[at].pods) for at in self._running())
        for end, count in ends:
            if end == math.inf:
                break
            free += count
            if free >= pods:
                together = sum(n for other, n in ends if other <= end)
                return end, self._free() + together - pods
        return math.inf, math.inf


@pytest.mark.parametrize("seed", seeds(0, 24, 150))
def test_easy_starts_are_those_of_an_oracle(seed: int) -> None:
    """On equal nodes of one CPU, nothing but counts matters."""
    trace, cores = a_trace(seed)
    assert starts(played(trace, cores, policy("easy"))) == Easy(trace.jobs, cores).run()


@pytest.mark.parametrize("mode", ["easy", "conservative"])
@pytest.mark.parametrize("seed", seeds(2000, 8, 60))
def test_arrays_say_what_the_core_says(
    seed: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If pods are placed one by one where others have ended, and no job is kept from its turn."""
    trace, cores = a_trace(seed, queues=3)
    nodes = random.Random(seed).randint(1, cores)
    found = played(trace, cores, policy(mode), nodes)
    monkeypatch.setattr(StartProofs, "_are_alike", lambda *_: False)
    monkeypatch.setattr(reservations, "PROOFS_MAX", 1000)
    assert played(trace, cores, policy(mode), nodes).runs == found.runs


@pytest.mark.parametrize("mode", ["easy", "conservative"])
@pytest.mark.parametrize("names", [FIFO, "gang, predicates, proportion"])
@pytest.mark.parametrize("seed", seeds(1000, 5, 50))
def test_no_job_starts_later_than_promised(
    seed: int, names: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes after it, and each job starts in the end."""
    trace, cores = a_trace(seed, queues=3)
    promised: dict[str, float] = {}
    decide = virtual_time._decide

    def recorded(mirror: Mirror, rules: Policy, now: float, carried: Carried) -> CycleResult:
        result = decide(mirror, rules, now, carried)
        for each in result.carried.reservations:
            before = promised.setdefault(each.job, each.start)
            assert each.start <= before
            promised[each.job] = each.start
        return result

    monkeypatch.setattr(virtual_time, "_decide", recorded)
    found = played(trace, cores, policy(mode, names))
    assert found.unstarted == {}
    names_of = {trace.jobs[run.job].id: run.start for run in found.runs}
    late = {
        job: (names_of[_id(job)], at) for job, at in promised.items() if names_of[_id(job)] > at
    }
    assert late == {}


@pytest.mark.parametrize("seed", seeds(3000, 6, 40))
def test_promises_are_kept_if_few_instants_are_looked_at(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends or is reserved between them counts as if it took all of that time."""
    monkeypatch.setattr(availability, "INSTANTS_MAX", 6)
    test_no_job_starts_later_than_promised(seed, FIFO, "conservative", monkeypatch)


def _id(job: str) -> str:
    return job.rpartition("/")[2].rpartition("-")[2]
