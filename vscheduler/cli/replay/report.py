"""The report of `replay`: charts and tables as one page, without scripts or anything remote."""

import base64
import html
import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from vscheduler.cli.replay import tables
from vscheduler.cli.replay.tables import Section
from vscheduler.simulator.replay.figures import Replayed

COLOURS = ("#1f5fa8", "#c7522a")
"""Of the first and the second policy: they differ in lightness, too."""
GRID = "#d5dae0"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vscheduler",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
}
DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
INCHES = (11.0, 7.0)

POINTS = 400
"""Points of a line: more can't be told apart."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 sans-serif; color: #1b2430; max-width: 72rem; margin: 2rem auto; }}
img {{ width: 100%; height: auto; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin: 1.5rem 0; }}
th, td {{ padding: .2rem 1.2rem .2rem 0; text-align: left; border-bottom: 1px solid #d5dae0; }}
td {{ font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<img alt="{alt}" src="data:image/svg+xml;base64,{chart}">
{tables}
</body>
</html>"""


def page(trace: str, played: Sequence[Replayed]) -> str:
    """Return the report as HTML."""
    first = played[0].figures
    unit = tables.unit_of(first)
    policies = " and ".join(each.name for each in played)
    jobs = len(played[0].trace.jobs)
    summary = f"{jobs:,} jobs on {first.capacity:,g} {unit}s, under {policies}."
    alt = (
        f"Four charts: {unit}s in use over time, share error over time, the distribution of "
        "waits, and the 90th percentile of waits by size of job. The tables have the figures."
    )
    return PAGE.format(
        title=html.escape(f"Replay of {trace}"),
        summary=html.escape(summary),
        alt=html.escape(alt),
        chart=base64.b64encode(chart(played).encode()).decode(),
        tables="\n".join(map(_table, tables.sections(played))),
    )


def chart(played: Sequence[Replayed]) -> str:
    """Return the four charts as one SVG image."""
    unit = tables.unit_of(played[0].figures)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=INCHES, layout="constrained")
        FigureCanvasSVG(figure)
        (used, waits), (errors, sizes) = figure.subplots(2, 2)
        _over_time(used, played, "used", f"{unit}s in use, in % of all")
        _distribution(waits, played)
        _over_time(errors, played, "share_error", f"share error, in % of all {unit}s")
        _by_size(sizes, played, unit)
        handles, labels = used.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False)
        image = io.StringIO()
        figure.savefig(image, format="svg", metadata={"Date": None, "Creator": None})
    return image.getvalue()


def _over_time(axes: Axes, played: Sequence[Replayed], name: str, title: str) -> None:
    """Draw means of a series over equal times."""
    longest = max(each.figures.makespan for each in played)
    unit, word = (DAY, "days") if longest > 3 * DAY else (HOUR, "hours")
    for each, colour in zip(played, COLOURS, strict=False):
        series = each.figures.series
        times = np.array(series.times)
        values = 100 * np.array(getattr(series, name))
        parts = [np.mean(part) for part in np.array_split(values, POINTS)]
        begins = [part[0] for part in np.array_split(times, POINTS)]
        axes.plot(
            (np.array(begins) - times[0]) / unit,
            parts,
            color=colour,
            linewidth=1.1,
            label=each.name,
        )
    axes.set_title(title)
    axes.set_xlabel(f"{word} since the first submission")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)


def _distribution(axes: Axes, played: Sequence[Replayed]) -> None:
    """Draw which part of jobs waited at most so long."""
    for each, colour in zip(played, COLOURS, strict=False):
        waits = np.sort(
            [
                run.start - each.trace.jobs[run.job].submit
                for run in each.history.runs
                if not run.evicted
            ]
        )
        if not len(waits):
            continue
        parts = np.linspace(0, 1, POINTS)
        minutes = np.quantile(waits, parts, method="inverted_cdf") / MINUTE
        axes.plot(np.maximum(minutes, 1 / MINUTE), 100 * parts, color=colour, linewidth=1.4)
    axes.set_title("jobs that waited at most so long, in %")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlabel("wait in minutes")
    axes.set_ylim(0, 101)


def _by_size(axes: Axes, played: Sequence[Replayed], unit: str) -> None:
    """Draw the 90th percentile of waits by size of job."""
    names = list(dict.fromkeys(name for each in played for name in each.figures.by_size))
    width = 0.8 / len(played)
    for number, (each, colour) in enumerate(zip(played, COLOURS, strict=False)):
        by_size = each.figures.by_size
        heights = [by_size[name].p90 / MINUTE if name in by_size else 0.0 for name in names]
        places = np.arange(len(names)) + (number - (len(played) - 1) / 2) * width
        axes.bar(places, heights, width, color=colour)
    axes.set_title("wait in minutes, 90th percentile")
    axes.set_xticks(np.arange(len(names)), names)
    axes.set_xlabel(f"{unit}s of a job")
    axes.grid(visible=False, axis="x")


def _table(section: Section) -> str:
    """Return a table as HTML."""
    head = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in section.head)
    rows = "\n".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in section.rows
    )
    return (
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )
