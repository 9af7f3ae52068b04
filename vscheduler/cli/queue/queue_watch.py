"""`-w`: follows and shows changes of queues and PodGroups.

A thread per kind lists, watches, and lists again when a watch ends. The results meet in the
printing thread, which updates a terminal, appends to a log, or prints objects for programs.
"""

import queue
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
from vscheduler.cli.queue import cluster_client, queue_figures, queue_tables
from vscheduler.core.model import queues

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

    error: cluster_client.ClusterError
    final: bool


Find: TypeAlias = cluster_client.Listing | cluster_client.Change | Failure
News: TypeAlias = tuple[Kind, Find]


class View(msgspec.Struct, kw_only=True):
    """The known state of the cluster."""

    queues: dict[str, cluster_client.Object] = msgspec.field(default_factory=dict)
    groups: dict[str, queue_figures.Group] | None = None
    """None where PodGroups can't be read, or aren't needed."""
    left_out: str = ""
    """Why needed PodGroups are missing."""
    troubles: dict[Kind, str] = msgspec.field(default_factory=dict)
    """Why updates of a kind are interrupted."""

    def figures(self) -> list[queue_figures.Figures]:
        """Return all queues by name."""
        counted = None if self.groups is None else queue_figures.count_groups(self.groups.values())
        return [queue_figures.figures(self.queues[name], counted) for name in sorted(self.queues)]

    def waiting(self, name: str) -> list[queue_figures.Group] | None:
        """Return the waiting PodGroups of a queue; None where PodGroups can't be read."""
        if self.groups is None:
            return None
        return queue_figures.waiting(name, self.groups.values())

    @property
    def notes(self) -> list[str]:
        """Notes for users beside the figures."""
        lost = dict.fromkeys(f"{trouble}; trying again" for trouble in self.troubles.values())
        return [self.left_out, *lost] if self.left_out else [*lost]

    def take(self, news: Sequence[News]) -> list[cluster_client.Object]:
        """Apply results; return the new and changed queues.

        Raises the ClusterError of a failure that leaves nothing to show.
        """
        before = dict(self.queues)
        for kind, find in news:
            match find:
                case Failure():
                    self._fail(kind, find)
                case cluster_client.Listing():
                    self.troubles.pop(kind, None)
                    self._replace(kind, find.items)
                case cluster_client.Change():
                    self._change(kind, find)
        return [each for name, each in sorted(self.queues.items()) if each != before.get(name)]

    def _fail(self, kind: Kind, failure: Failure) -> None:
        if not failure.final:
            self.troubles[kind] = str(failure.error)
            return
        if kind is Kind.QUEUE or isinstance(failure.error, cluster_client.Unreachable):
            raise failure.error
        self.groups = None
        self.troubles.pop(kind, None)
        self.left_out = f"PodGroups are left out: {failure.error}"

    def _replace(self, kind: Kind, items: Sequence[cluster_client.Object]) -> None:
        if kind is Kind.QUEUE:
            self.queues = {each["metadata"]["name"]: each for each in items}
        else:
            self.groups = {each.key: each for each in map(queue_figures.group, items)}

    def _change(self, kind: Kind, change: cluster_client.Change) -> None:
        if kind is Kind.QUEUE:
            name = change.item["metadata"]["name"]
            self.queues.pop(name, None)
            if not change.gone:
                self.queues[name] = change.item
        elif self.groups is not None:
            found = queue_figures.group(change.item)
            self.groups.pop(found.key, None)
            if not change.gone:
                self.groups[found.key] = found


def follow(source: cluster_client.Source, kind: Kind, tell: Callable[[Find], None]) -> None:
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
        except cluster_client.Expired:
            pass
        except cluster_client.ClusterError as error:
            lasting = not isinstance(error, cluster_client.Unreachable)
            tell(Failure(error=error, final=lasting or not listed))
            if lasting or not listed:
                return
            time.sleep(RETRY_SECONDS)


def news(source: cluster_client.Source, kinds: Sequence[Kind]) -> Iterator[list[News]]:
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


Lines: TypeAlias = Callable[[View, queue_tables.Style], list[str]]
Rows: TypeAlias = Callable[[View, queue_tables.Style], list[queue_tables.Row]]
Show: TypeAlias = Callable[[View, Sequence[cluster_client.Object]], None]
"""Receives the view, and the queues that changed."""


def paint(title: str, cell: str) -> str:
    """Colour a cell: titles bold, unusual values in colour (a queue that isn't open, a share above
    1).
    """
    if not title:
        return click.style(cell, bold=True)
    if title == "STATE" and cell not in {"", queues.QueueState.OPEN}:
        return click.style(cell, fg="yellow")
    if (
        title == "SHARE"
        and cell not in {"", queue_tables.ABSENT}
        and float(cell.partition(" ")[0]) > 1
    ):
        return click.style(cell, fg="cyan")
    return cell


@contextmanager
def terminal(lines: Lines, style: queue_tables.Style) -> Iterator[Show]:
    """Provide a display that is updated in place."""
    wide = output.Screen(sys.stdout)
    with live.Live(console=wide, refresh_per_second=REFRESHES_PER_SECOND) as shown:

        def show(view: View, _: Sequence[cluster_client.Object]) -> None:
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

    def __init__(self, rows: Rows, style: queue_tables.Style) -> None:
        self._rows = rows
        self._style = style
        self._columns: queue_tables.Columns | None = None
        self._shown: dict[str, queue_tables.Row] = {}
        self._print_notes = _Notes()

    def __call__(self, view: View, _: Sequence[cluster_client.Object]) -> None:
        """Print changed queues."""
        self._print_notes(view)
        made = self._rows(view, replace(self._style, now=time.time()))
        lasting: dict[str, queue_tables.Row] = {row["NAME"]: {**row, AGE: ""} for row in made}
        gone: list[queue_tables.Row] = [
            {**row, "STATE": "Deleted"} for name, row in self._shown.items() if name not in lasting
        ]
        news = [row for row in made if lasting[row["NAME"]] != self._shown.get(row["NAME"])]
        self._shown = lasting
        self._print(gone)
        if made and (self._columns is None or self._columns.widths.keys() != made[0].keys()):
            self._columns = queue_tables.Columns.of(made)
            screen.say(self._columns.heading(self._style.paint), painted=True)
            news = made
        self._print(news)

    def _print(self, rows: Sequence[queue_tables.Row]) -> None:
        for row in rows:
            assert self._columns is not None  # the first call printed all rows
            screen.say(*self._columns.lines(row, self._style.paint), painted=True)


class Pages:
    """Output for files where a change isn't a single line: everything is printed again."""

    def __init__(self, lines: Lines, style: queue_tables.Style) -> None:
        self._lines = lines
        self._style = style
        self._shown: list[str] = []
        self._print_notes = _Notes()

    def __call__(self, view: View, _: Sequence[cluster_client.Object]) -> None:
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

    def __call__(self, view: View, changed: Sequence[cluster_client.Object]) -> None:
        """Print changed objects."""
        self._print_notes(view)
        for each in changed:
            if not self._names or each["metadata"]["name"] in self._names:
                tree = queue_figures.without_bookkeeping(each)
                mark = "---" if self._output == "yaml" else ""
                output.show(tree, self._output, indent=INDENT, mark=mark)
