"""Starts under backfill are those that Batsim published: 801 jobs on 32 machines of one CPU."""

import csv

import numpy as np
import pytest

from tests import published_traces
from tests.properties.test_backfill import played, policy, starts
from vscheduler.core.placement.availability import Copies
from vscheduler.core.placement.reservations import Reservations
from vscheduler.model.resources import CPU
from vscheduler.simulator.replay.traces import CORE, Trace, TraceJob

pytestmark = pytest.mark.at_length

MACHINES = 32
NEAR_SECONDS = 0.001
"""Their times are rounded to microseconds."""


def published(mode: str) -> tuple[Trace, list[float]]:
    """The jobs, and when they start under this mode of backfill."""
    try:
        folder = published_traces.folder()
    except published_traces.UnavailableError as error:
        pytest.skip(str(error))
    text = (folder / published_traces.BATSIM / mode / "out_jobs.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    rows.sort(key=lambda row: (float(row["submission_time"]), int(row["job_id"])))
    jobs = tuple(
        TraceJob(
            id=row["job_id"],
            submit=float(row["submission_time"]),
            duration=float(row["execution_time"]),
            limit=float(row["requested_time"]),
            pods=int(row["requested_number_of_resources"]),
            request={CPU: CORE},
        )
        for row in rows
    )
    return Trace(jobs=jobs), [float(row["starting_time"]) for row in rows]


def mean_wait(trace: Trace, found: list[float]) -> float:
    """In seconds."""
    return sum(at - job.submit for at, job in zip(found, trace.jobs, strict=True)) / len(found)


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_starts_are_those_published_on_the_same_nodes(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs always reserves the nodes with the lowest numbers that are free then."""
    trace, theirs = published(mode)
    monkeypatch.setattr(Copies, "busy_until", lambda *_: np.zeros(MACHINES))
    monkeypatch.setattr(Reservations, "_may_improve", lambda *_: True)
    ours = starts(played(trace, MACHINES, policy(mode)))
    assert ours == pytest.approx(theirs, abs=NEAR_SECONDS)


@pytest.mark.parametrize(
    ("mode", "count", "their_wait", "our_wait"),
    [("easy", 76, 9.516, 8.673), ("conservative", 76, 9.852, 9.639)],
)
def test_waits_are_shorter_than_those_published(
    mode: str, count: int, their_wait: float, our_wait: float
) -> None:
    """Nodes that are busy for longest are reserved first, so that free ones stay for others."""
    trace, theirs = published(mode)
    ours = starts(played(trace, MACHINES, policy(mode)))
    differ = [pair for pair in zip(ours, theirs, strict=True) if abs(pair[0] - pair[1]) > 0.01]
    assert len(differ) == count
    assert mean_wait(trace, theirs) == pytest.approx(their_wait, abs=NEAR_SECONDS)
    assert mean_wait(trace, ours) == pytest.approx(our_wait, abs=NEAR_SECONDS)
