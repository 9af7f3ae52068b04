"""The benchmark of forecasts, small: a job in the middle of the line is told about."""

from pathlib import Path

import pytest

from tests.benchmarks.core import forecast


def test_a_waiting_job_is_told_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has all pods, of running and of waiting jobs, and the job is one that waits."""
    monkeypatch.setattr(forecast, "JOB", "default/late-00003")
    path = tmp_path / "cluster.json"
    running, waiting = 8 * 6, 1 + 3 + 5 + 2
    assert forecast.write(path, 6, 4, 5) == running + waiting
    assert all(taken > 0 for taken in forecast.seconds(path))
