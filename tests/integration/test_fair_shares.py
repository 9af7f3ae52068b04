"""The example on fair shares, as users run it: each variant on its own control plane."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "fair-shares" / "run.py"
DEADLINE_SECONDS = 900.0
"""For all of it; it takes two minutes, and longer where something is amiss."""

SLOWDOWN = "--slowdown=8"
"""What else the machine does is no fault of the scheduler's."""
VARIANTS = (
    "single-pod jobs",
    "single-pod jobs, --node-selector",
    "elastic Deployments",
    "elastic Deployments, --node-selector",
)
ROW = re.compile(r"(?P<name>.+?) +(37/37|37/38|38/37)/0 +25/25/25 +([\d.]+) +(\d+) +(\d+) +(\d+)")


@pytest.mark.parametrize(
    "variants",
    [
        pytest.param(VARIANTS[2:3], id="one"),
        pytest.param(VARIANTS, id="all", marks=pytest.mark.at_length),
    ],
)
def test_shares_are_fair(variants: Sequence[str], tmp_path: Path) -> None:
    """25/25/25 with the fewest evictions that do, then none; and nothing is left behind."""
    done = subprocess.run(  # noqa: S603 - our own example
        [sys.executable, EXAMPLE, SLOWDOWN, *(f"--variant={variant}" for variant in variants)],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    shown = f"{done.stdout}\n{done.stderr}"
    rows = [row for line in done.stdout.splitlines() if (row := ROW.fullmatch(line.rstrip()))]
    assert [row["name"].rstrip() for row in rows] == list(variants), shown
    for row in rows:
        evicted, least, later = (float(row[number]) for number in range(4, 7))
        assert evicted == least in (24, 25), shown
        assert later == 0, shown
    assert done.returncode == 0, shown
    assert list(tmp_path.iterdir()) == []
