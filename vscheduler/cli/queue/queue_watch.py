"""`-w`: follows and shows changes of queues and PodGroups.

A thread per kind lists, watches, and lists again when a watch ends. The results meet in the
printing thread, which updates a terminal, appends to a log, or prints objects for programs.
"""

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import click
import msgspec
from msgspec.structs import replace
from rich import live, text

from vscheduler.cli import output, screen
from vscheduler.cli.output import Screen
from vscheduler.cli.queue import cluster_client, queue_figures, queue_tables
from vscheduler.cli.queue.cluster_client import (
    Change,
    ClusterError,
    Expired,
    Listing,
    NotServed,
    Object,
    Source,
    Unreachable,
)
from vscheduler.cli.queue.queue_figures import Figures, Group
from vscheduler.cli.queue.queue_tables import Columns, Row, Style
from vscheduler.mirror.wording import phrases
from vscheduler.model import jobs
from vscheduler.model.queues import QueueState

NEWS_MAX = 1000
"""How many results may wait to be printed; with more, the watching threads wait."""

TOGETHER_SECONDS = 0.2
"""Changes within this interval are shown together."""

TICK_SECONDS = 1.0
"""Redraw interval without changes, for growing ages."""

RETRY_SECONDS = 2.0

Kind = cluster_client.Kind

REFRESHES_PER_SECOND = 4

AGE = "AGE"

INDENT = 4
"""Indentation of JSON, as in kubectl."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A kind can't be listed. With `final`, nobody tries again."""

    error: ClusterError
    final: bool


Find: TypeAlias = Listing | Change | Failure
News: TypeAlias = tuple[Kind, Find]


class View(msgspec.Struct, kw_only=True):
    """The known state of the cluster."""

    queues: dict[str, Object] = msgspec.field(default_factory=dict)
    groups: dict[str, Group] | None = None
    """None where PodGroups can't be read, or aren't needed."""
    native_groups: dict[str, Group] = msgspec.field(default_factory=dict)
    """Those of Kubernetes' own API that are in a queue."""
    left_out: str = ""
    """Why needed PodGroups are missing."""
    troubles: dict[Kind, str] = msgspec.field(default_factory=dict)
    """Why updates of a kind are interrupted."""

    def figures(self) -> list[Figures]:
        """Return all queues by name."""
        every = self._every_group
        counted = None if every is None else queue_figures.count_groups(every)
        return [queue_figures.figures(self.queues[name], counted) for name in sorted(self.queues)]

    def waiting(self, name: str) -> list[Group] | None:
        """Return the waiting PodGroups of a queue; None where PodGroups can't be read."""
        every = self._every_group
        return None if every is None else queue_figures.waiting(name, every)

    @property
    def _every_group(self) -> list[Group] | None:
        """PodGroups of both APIs; None where Volcano's can't be read."""
        if self.groups is None:
            return None
        return [*self.groups.values(), *self.native_groups.values()]

    @property
    def notes(self) -> list[str]:
        """Notes for users beside the figures."""
        lost = dict.fromkeys(f"{trouble}; trying again" for trouble in self.troubles.values())
        return [self.left_out, *lost] if self.left_out else [*lost]

    def take(self, news: Sequence[News]) -> list[Object]:
        """Apply results; return the new and changed queues.

        Raises the ClusterError of a failure that leaves nothing to show.
        """
        before = dict(self.queues)
        for kind, find in news:
            match find:
                case Failure():
                    self._fail(kind, find)
                case Listing():
                    self.troubles.pop(kind, None)
                    self._replace(kind, find.items)
                case Change():
                    self._change(kind, find)
        return [each for name, each in sorted(self.queues.items()) if each != before.get(name)]

    def _fail(self, kind: Kind, failure: Failure) -> None:
        if not failure.final:
            self.troubles[kind] = str(failure.error)
            return
        if kind is Kind.QUEUE or isinstance(failure.error, Unreachable):
            raise failure.error
        self.troubles.pop(kind, None)
        if kind is Kind.NATIVE_POD_GROUP:  # where they aren't served, there are none
            self.native_groups = {}
            if isinstance(failure.error, NotServed):
                return
        else:
            self.groups = None
        self.left_out = f"PodGroups are left out: {failure.error}"

    def _replace(self, kind: Kind, items: Sequence[Object]) -> None:
        if kind is Kind.QUEUE:
            self.queues = {each["metadata"]["name"]: each for each in items}
        elif kind is Kind.NATIVE_POD_GROUP:
            found = filter(None, map(queue_figures.native_group, items))
            self.native_groups = {each.key: each for each in found}
        else:
            self.groups = {each.key: each for each in map(queue_figures.group, items)}

    def _change(self, kind: Kind, change: Change) -> None:
        if kind is Kind.QUEUE:
            name = change.item["metadata"]["name"]
            self.queues.pop(name, None)
            if not change.gone:
                self.queues[name] = change.item
        elif kind is Kind.NATIVE_POD_GROUP:
            metadata = change.item["metadata"]
            self.native_groups.pop(jobs.native_id(metadata["namespace"], metadata["name"]), None)
            native = queue_figures.native_group(change.item)
            if native is not None and not change.gone:
                self.native_groups[native.key] = native
        elif self.groups is not None:
            found = queue_figures.group(change.item)
            self.groups.pop(found.key, None)
            if not change.gone:
                self.groups[found.key] = found


def follow(source: Source, kind: Kind, tell: Callable[[Find], None]) -> None:
    """List and watch a kind until pointless: the first list fails, or a later list fails for a
    lasting reason.
    """
    listed = False
    while True:
        try:
            listing = source.list(kind)
            listed = True
            tell(listing)
            for change in source.watch(kind, listing.version):
                tell(change)
        except Expired:
            pass
        except ClusterError as error:
            lasting = not isinstance(error, Unreachable)
            tell(Failure(error=error, final=lasting or not listed))
            if lasting or not listed:
                return
            time.sleep(RETRY_SECONDS)


def news(source: Source, kinds: Sequence[Kind]) -> Iterator[list[News]]:
    """Iterate over batches of results; the first batch is complete, later batches may be empty."""
    found: queue.Queue[News] = queue.Queue(NEWS_MAX)

    def listener(kind: Kind) -> Callable[[Find], None]:
        return lambda find: found.put((kind, find))

    for kind in kinds:
        threading.Thread(
            target=follow, args=(source, kind, listener(kind)), name=f"watch {kind}", daemon=True
        ).start()
    batch: list[News] = []
    while {kind for kind, _ in batch} != set(kinds):
        batch.append(found.get())
    while True:
        yield batch
        batch = _next_batch(found)


def _next_batch(found: "queue.Queue[News]") -> list[News]:
    """Return the results of the next interval."""
    batch: list[News] = []
    wait = TICK_SECONDS
    until = time.monotonic() + TICK_SECONDS
    while wait > 0:
        try:
            batch.append(found.get(timeout=wait))
        except queue.Empty:
            break
        if len(batch) == 1:
            until = time.monotonic() + TOGETHER_SECONDS
        wait = until - time.monotonic()
    return batch


Lines: TypeAlias = Callable[[View, Style], list[str]]
Rows: TypeAlias = Callable[[View, Style], list[Row]]
Show: TypeAlias = Callable[[View, Sequence[Object]], None]
"""Receives the view, and the queues that changed."""


def style(*, wide: bool) -> Style:
    """Return the style suited to stdout."""
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    coloured = terminal and not os.environ.get("NO_COLOR")
    return Style(
        now=time.time(),
        width=shutil.get_terminal_size().columns if terminal else None,
        wide=wide,
        paint=paint if coloured else queue_tables.unpainted,
    )


def paint(title: str, cell: str) -> str:
    """Colour a cell: titles bold, unusual values in colour (a queue that isn't open, a share above
    1).
    """
    if not title:
        return click.style(cell, bold=True)
    if title == "STATE" and cell not in {"", QueueState.OPEN}:
        return click.style(cell, fg="yellow")
    if title == "SHARE" and _is_above(cell):
        return click.style(cell, fg="cyan")
    return cell


def _is_above(share: str) -> bool:
    """Whether a share, as printed, is above 1."""
    number = share.partition(" ")[0]
    return number == phrases.BORROWED or (number[:1].isdigit() and float(number) > 1)


@contextmanager
def terminal(lines: Lines, style: Style) -> Iterator[Show]:
    """Provide a display that is updated in place."""
    wide = Screen(sys.stdout)
    with live.Live(console=wide, refresh_per_second=REFRESHES_PER_SECOND) as shown:

        def show(view: View, _: Sequence[Object]) -> None:
            made = lines(view, replace(style, now=time.time(), width=wide.width))
            made = screen.cleaned(made, painted=True)
            made += ["", *screen.cleaned(view.notes)] if view.notes else []
            shown.update(text.Text.from_ansi("\n".join(made)))

        yield show


class _Notes:
    """Prints each note once while the note applies."""

    def __init__(self) -> None:
        self._shown: list[str] = []

    def __call__(self, view: View) -> None:
        for note in view.notes:
            if note not in self._shown:
                screen.say(note, err=True)
        self._shown = view.notes


class Log:
    """Output for files: a line for each changed queue, below fitting titles."""

    def __init__(self, rows: Rows, style: Style) -> None:
        self._rows = rows
        self._style = style
        self._columns: Columns | None = None
        self._shown: dict[str, Row] = {}
        self._print_notes = _Notes()

    def __call__(self, view: View, _: Sequence[Object]) -> None:
        """Print changed queues."""
        self._print_notes(view)
        made = self._rows(view, replace(self._style, now=time.time()))
        lasting: dict[str, Row] = {row["NAME"]: {**row, AGE: ""} for row in made}
        gone: list[Row] = [
            {**row, "STATE": "Deleted"} for name, row in self._shown.items() if name not in lasting
        ]
        news = [row for row in made if lasting[row["NAME"]] != self._shown.get(row["NAME"])]
        self._shown = lasting
        self._print(gone)
        if made and (self._columns is None or self._columns.widths.keys() != made[0].keys()):
            self._columns = Columns.of(made)
            screen.say(self._columns.heading(self._style.paint), painted=True)
            news = made
        self._print(news)

    def _print(self, rows: Sequence[Row]) -> None:
        for row in rows:
            assert self._columns is not None  # the first call printed all rows
            screen.say(*self._columns.lines(row, self._style.paint), painted=True)


class Pages:
    """Output for files where a change isn't a single line: everything is printed again."""

    def __init__(self, lines: Lines, style: Style) -> None:
        self._lines = lines
        self._style = style
        self._shown: list[str] = []
        self._print_notes = _Notes()

    def __call__(self, view: View, _: Sequence[Object]) -> None:
        """Print everything if anything except ages changed."""
        self._print_notes(view)
        made = self._lines(view, replace(self._style, now=0.0))
        if made != self._shown:
            if self._shown:
                screen.say("")
            self._shown = made
            screen.say(*self._lines(view, replace(self._style, now=time.time())), painted=True)


class Objects:
    """Output for programs: each new or changed object."""

    def __init__(self, output: str, names: Sequence[str]) -> None:
        self._output = output
        self._names = names
        self._print_notes = _Notes()

    def __call__(self, view: View, changed: Sequence[Object]) -> None:
        """Print changed objects."""
        self._print_notes(view)
        for each in changed:
            if not self._names or each["metadata"]["name"] in self._names:
                tree = queue_figures.without_bookkeeping(each)
                mark = "---" if self._output == "yaml" else ""
                output.show(tree, self._output, indent=INDENT, mark=mark)
