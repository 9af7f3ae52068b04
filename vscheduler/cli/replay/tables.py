"""Result tables of `replay`: figures, and waits by size and queue, of one policy or two."""

from collections.abc import Callable, Mapping, Sequence
from typing import TextIO, TypeAlias

import msgspec

from vscheduler.cli import tables
from vscheduler.cli.output import Screen
from vscheduler.mirror.wording import phrases
from vscheduler.model.resources import CPU
from vscheduler.simulator.replay.figures import Figures, Replayed, Waits

UNSTARTED_SHOWN = 10


class Section(msgspec.Struct, frozen=True):
    """A table: its head, and its rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


Row: TypeAlias = tuple[str, Callable[[Figures], float], Callable[[float], str]]
"""What a figure is, its number, and how it is written."""


def show(played: Sequence[Replayed], stream: TextIO) -> None:
    """Print the figures of one policy, or of two side by side."""
    terminal = Screen(stream)
    for number, section in enumerate(sections(played)):
        if number:
            terminal.print()
        shown = tables.columns(*section.head)
        for row in section.rows:
            shown.add_row(*row)
        terminal.print(shown)


def sections(played: Sequence[Replayed]) -> list[Section]:
    """Return the tables that have rows."""
    unit = unit_of(played[0].figures)
    found = [
        _figures(played),
        _waits(played, f"{unit}s of a job", lambda figures: figures.by_size),
        _waits(played, "queue", lambda figures: figures.by_queue),
        _unstarted(played),
    ]
    return [section for section in found if section.rows]


def unit_of(figures: Figures) -> str:
    """Return `CPU` or `GPU`."""
    return "CPU" if figures.resource == CPU else "GPU"


def _rows(unit: str) -> Sequence[Row]:
    return (
        ("jobs that ended", lambda of: of.waits.jobs, _count),
        ("jobs that never started", lambda of: len(of.unstarted), _count),
        ("wait, mean", lambda of: of.waits.mean, phrases.duration),
        ("wait, P50", lambda of: of.waits.p50, phrases.duration),
        ("wait, P90", lambda of: of.waits.p90, phrases.duration),
        ("wait, P99", lambda of: of.waits.p99, phrases.duration),
        ("wait, longest", lambda of: of.waits.most, phrases.duration),
        ("slowdown, mean", lambda of: of.slowdown, _decimal),
        (f"{unit}s in use", lambda of: of.utilisation, _percent),
        (f"{unit}s in use, without lost runs", lambda of: of.useful, _percent),
        ("share error, mean", lambda of: of.share_error, _percent),
        ("share error, P90", lambda of: of.share_error_p90, _percent),
        ("evictions of jobs", lambda of: of.evictions, _count),
        ("evictions of pods", lambda of: of.evicted_pods, _count),
        (f"{unit} hours lost", lambda of: of.lost_hours, _decimal),
        ("jobs promised a start", lambda of: of.promises.jobs, _count),
        ("promises missed", lambda of: of.promises.missed, _count),
        ("earlier than first promised, P50", lambda of: of.promises.early_p50, phrases.duration),
        ("earlier than first promised, P90", lambda of: of.promises.early_p90, phrases.duration),
        ("first submission to last end", lambda of: of.makespan, phrases.duration),
        ("cycles", lambda of: of.cycles, _count),
    )


def _figures(played: Sequence[Replayed]) -> Section:
    both = len(played) > 1
    head = ("figure", *(each.name for each in played), *["difference"] * both)
    rows = []
    shown = list(_rows(unit_of(played[0].figures)))
    if any(each.history.expected for each in played):
        shown += _FORECASTS
    for name, number, written in shown:
        values = [number(each.figures) for each in played]
        difference = _signed(written, values[-1] - values[0])
        rows.append((name, *map(written, values), *[difference] * both))
    return Section(head, rows)


def _waits(
    played: Sequence[Replayed], title: str, of: Callable[[Figures], Mapping[str, Waits]]
) -> Section:
    both = len(played) > 1
    head = (title, *["policy"] * both, "jobs", "mean wait", "P50", "P90", "P99", "longest")
    rows = []
    for name in dict.fromkeys(name for each in played for name in of(each.figures)):
        said = name
        for each in played:
            waits = of(each.figures).get(name)
            if waits is not None:
                numbers = (waits.mean, waits.p50, waits.p90, waits.p99, waits.most)
                written = (f"{waits.jobs:,}", *map(phrases.duration, numbers))
                rows.append((said, *[each.name] * both, *written))
                said = ""
    return Section(head, rows)


def _unstarted(played: Sequence[Replayed]) -> Section:
    rows = [
        (name, each.name, reason)
        for each in played
        for name, reason in list(each.figures.unstarted.items())[:UNSTARTED_SHOWN]
    ]
    return Section(("never started", "policy", "because"), rows)


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _decimal(number: float) -> str:
    return f"{number:,.2f}"


def _percent(number: float) -> str:
    return f"{100 * number:.1f} %"


def _signed(written: Callable[[float], str], number: float) -> str:
    """Return a difference with its sign; without one if it is written as nothing."""
    text = written(abs(number))
    return text if text == written(0.0) else f"{'-' if number < 0 else '+'}{text}"


_FORECASTS: Sequence[Row] = (
    ("starts that were forecast", lambda of: of.forecasts.jobs, _count),
    ("forecasts that weren't possible", lambda of: of.forecasts.unknown, _count),
    ("started between the times forecast", lambda of: of.forecasts.within, _count),
    ("started before", lambda of: of.forecasts.before, _count),
    ("started after", lambda of: of.forecasts.after, _count),
    ("before or after, P50", lambda of: of.forecasts.error_p50, phrases.duration),
    ("before or after, P90", lambda of: of.forecasts.error_p90, phrases.duration),
)
"""Rows of replays with forecasts."""
