"""Jobs that are told together that there is no room for them, against each one's own turn."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.placement import unschedulable_classes
from vscheduler.core.placement.unschedulable_classes import UnschedulableClasses
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs_by_id import NO_JOBS
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

EVERYTHING = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "tiers": running.TREE["tiers"],
}

CYCLES = 3


@contextmanager
def one_by_one() -> Iterator[None]:
    """No two jobs share a turn, nor what became of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnschedulableClasses, "_member", lambda *_: None)
        patch.setattr(Preemptor, "class_key", lambda *_: None)
        yield


@contextmanager
def together() -> Iterator[None]:
    """Even a job that is like no other is told apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unschedulable_classes, "JOBS_MIN", 1)
        yield


@strategies.composite
def crowds(draw: strategies.DrawFn) -> str:
    """A cluster, and some more jobs of few kinds that may be too large for it, in its queues."""
    picture = draw(clusters.pictures())
    queues = [line.split()[1] for line in picture.splitlines() if line.split()[:1] == ["queue"]]
    sizes = strategies.tuples(
        strategies.sampled_from(queues), strategies.sampled_from((1, 2, 3, 5, 6))
    )
    lines = [picture]
    for number, (queue, cpu) in enumerate(draw(strategies.lists(sizes, max_size=14))):
        pods, least = draw(strategies.sampled_from([(1, 1), (2, 1), (2, 2)]))
        lines.append(f"job {queue}/crowd{number} min={least} cpu={cpu} {' -' * pods}")
    return "\n".join(lines)


def history(picture: str) -> list[CycleResult]:
    """Some cycles, each after what the one before decided."""
    documents, carried, results = pictures.documents(picture), FRESH, []
    for _ in range(CYCLES):
        results.append(running.run(documents, EVERYTHING, carried=carried))
        documents = running.obey(documents, results[-1])
        carried = results[-1].carried
    return results


@clusters.bounded(40)
@given(crowds())
def test_jobs_told_together_fare_as_they_would_one_by_one(picture: str) -> None:
    """The same binds, evictions, promises and statuses in every cycle; the same reasons, too, but
    where a queue has used up its share in this very cycle.
    """
    with together():
        fast = history(picture)
    with one_by_one():
        slow = history(picture)
    for quick, each in zip(fast, slow, strict=True):
        quiet = not (each.binds or each.pipelined)
        assert shown(quick, reasons=quiet) == shown(each, reasons=quiet)


def shown(result: CycleResult, *, reasons: bool) -> str:
    """A result, whatever it cost."""
    groups = result.groups
    if not reasons:
        groups = tuple(msgspec.structs.replace(group, reason=None) for group in groups)
    return running.digest(
        msgspec.structs.replace(
            result, work={}, costs={}, spent=0, changeable=groups, others=NO_JOBS
        )
    )
