"""The figures of the documentation are those that their script draws."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures"


def script() -> ModuleType:
    """Import the script, which is in no package."""
    spec = importlib.util.spec_from_file_location("draw", FOLDER / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_is_drawn_by_the_script() -> None:
    """No file is left behind, and none is missing."""
    assert {path.name for path in FOLDER.glob("*.svg")} == set(script().FIGURES)


@pytest.mark.parametrize("name", sorted(script().FIGURES))
def test_figures_are_up_to_date(name: str) -> None:
    """`python docs/figures/draw.py` would change nothing."""
    assert (FOLDER / name).read_text() == script().FIGURES[name]().svg()


def test_the_chart_shows_the_figures_of_the_table() -> None:
    """Bars and table of docs/benchmarks.md don't contradict each other."""
    table = (ROOT / "docs" / "benchmarks.md").read_text()
    measured = re.findall(
        r"^\| .*\| (kube-scheduler|vscheduler) \| ([\d,]+) \(", table, re.MULTILINE
    )
    picture = (FOLDER / "throughput.svg").read_text()
    drawn = re.findall(
        r">(kube-scheduler|vscheduler)</text>\s*<rect [^>]*>\s*<text [^>]*>([\d,]+) pods/s<",
        picture,
    )
    assert drawn == measured
