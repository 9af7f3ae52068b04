"""Where queues are shown as they change: a terminal, a log, or a program that reads objects."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import click
from rich import live, text

from vscheduler.cli import consoles, output, screen
from vscheduler.cli.queue import cluster_client, queue_figures, queue_tables, queue_watch
from vscheduler.core.model import queues

REFRESHES_PER_SECOND = 4
AGE = "AGE"
INDENT = 4
"""Of JSON, as kubectl's."""

Lines: TypeAlias = Callable[[queue_watch.View, queue_tables.Style], list[str]]
Rows: TypeAlias = Callable[[queue_watch.View, queue_tables.Style], list[queue_tables.Row]]
Show: TypeAlias = Callable[[queue_watch.View, Sequence[cluster_client.Object]], None]
"""Is told what there is, and which queues have changed."""


def paint(title: str, cell: str) -> str:
    """Titles in bold; what isn't as usual in colour: a queue that isn't open, a share above 1."""
    if not title:
        return click.style(cell, bold=True)
    if title == "STATE" and cell not in {"", queues.QueueState.OPEN}:
        return click.style(cell, fg="yellow")
    if title == "SHARE" and cell not in {"", queue_tables.ABSENT} and float(cell) > 1:
        return click.style(cell, fg="cyan")
    return cell


@contextmanager
def terminal(lines: Lines, style: queue_tables.Style) -> Iterator[Show]:
    """Lines that change in place."""
    wide = consoles.Screen(sys.stdout)
    with live.Live(console=wide, refresh_per_second=REFRESHES_PER_SECOND) as shown:

        def show(view: queue_watch.View, _: Sequence[cluster_client.Object]) -> None:
            made = lines(view, replace(style, now=time.time(), width=wide.width))
            made = screen.cleaned(made, painted=True)
            made += ["", *screen.cleaned(view.notes)] if view.notes else []
            shown.update(text.Text.from_ansi("\n".join(made)))

        yield show


class _Notes:
    """Says each once, for as long as it is so."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def __call__(self, view: queue_watch.View) -> None:
        for note in view.notes:
            if note not in self._said:
                screen.say(note, err=True)
        self._said = view.notes


class Log:
    """For a file: a line for each queue that looks different, below titles that fit."""

    def __init__(self, rows: Rows, style: queue_tables.Style) -> None:
        self._rows = rows
        self._style = style
        self._columns: queue_tables.Columns | None = None
        self._said: dict[str, queue_tables.Row] = {}
        self._tell_notes = _Notes()

    def __call__(self, view: queue_watch.View, _: Sequence[cluster_client.Object]) -> None:
        """Print what is new."""
        self._tell_notes(view)
        made = self._rows(view, replace(self._style, now=time.time()))
        lasting: dict[str, queue_tables.Row] = {row["NAME"]: {**row, AGE: ""} for row in made}
        gone: list[queue_tables.Row] = [
            {**row, "STATE": "Deleted"} for name, row in self._said.items() if name not in lasting
        ]
        news = [row for row in made if lasting[row["NAME"]] != self._said.get(row["NAME"])]
        self._said = lasting
        self._print(gone)
        if made and (self._columns is None or self._columns.widths.keys() != made[0].keys()):
            self._columns = queue_tables.Columns.of(made)
            screen.say(self._columns.heading(self._style.paint), painted=True)
            news = made
        self._print(news)

    def _print(self, rows: Sequence[queue_tables.Row]) -> None:
        for row in rows:
            assert self._columns is not None  # a row has been printed before it changes or goes
            screen.say(*self._columns.lines(row, self._style.paint), painted=True)


class Pages:
    """For a file, where a change is more than a line: everything anew."""

    def __init__(self, lines: Lines, style: queue_tables.Style) -> None:
        self._lines = lines
        self._style = style
        self._said: list[str] = []
        self._tell_notes = _Notes()

    def __call__(self, view: queue_watch.View, _: Sequence[cluster_client.Object]) -> None:
        """Print all of it if any of it but the ages has changed."""
        self._tell_notes(view)
        said = self._lines(view, replace(self._style, now=0.0))
        if said != self._said:
            if self._said:
                screen.say("")
            self._said = said
            screen.say(*self._lines(view, replace(self._style, now=time.time())), painted=True)


class Objects:
    """For programs: each object as it is now, when it is new or different."""

    def __init__(self, output: str, names: Sequence[str]) -> None:
        self._output = output
        self._names = names
        self._tell_notes = _Notes()

    def __call__(self, view: queue_watch.View, changed: Sequence[cluster_client.Object]) -> None:
        """Print what has changed."""
        self._tell_notes(view)
        for each in changed:
            if not self._names or each["metadata"]["name"] in self._names:
                tree = queue_figures.without_bookkeeping(each)
                mark = "---" if self._output == "yaml" else ""
                output.show(tree, self._output, indent=INDENT, mark=mark)
