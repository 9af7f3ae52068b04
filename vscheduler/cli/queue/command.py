"""`vscheduler queue list|get|tree`: the queues of a cluster, their shares and waiting jobs.

`open` and `close` are in queue_requests.
"""

import difflib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import click
import msgspec

from vscheduler.cli import output, screen
from vscheduler.cli.queue import (
    cluster_client,
    completion,
    queue_changes,
    queue_figures,
    queue_requests,
    queue_settings,
    queue_tables,
    queue_watch,
)
from vscheduler.cli.queue.cluster_client import ClusterError, Forbidden, Kind, Object, Source
from vscheduler.cli.queue.queue_figures import Figures
from vscheduler.cli.queue.queue_tables import Row, Style
from vscheduler.cli.queue.queue_watch import (
    Failure,
    Find,
    Lines,
    Log,
    Objects,
    Pages,
    Rows,
    Show,
    View,
)
from vscheduler.mirror.wording import plain_text

OBJECTS = ("json", "yaml")
NAME = "name"
GROUPS = (Kind.POD_GROUP, Kind.NATIVE_POD_GROUP)
NAME_PREFIX = "queue.scheduling.volcano.sh/"
"""What kubectl prints before a name with `-o name`."""

Command = TypeVar("Command", bound=Callable[..., None])


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of list, get and tree."""

    output: str
    watch: bool
    kubeconfig: str
    context: str

    @property
    def style(self) -> Style:
        """The style suited to stdout."""
        return queue_watch.style(wide=self.output == "wide")


class Presentation(msgspec.Struct, frozen=True, kw_only=True):
    """How a command presents a cluster."""

    lines: Lines
    rows: Rows | None
    """Rows for commands that print changes line by line; None: print everything again."""
    order: Callable[[View], list[str]]
    """Returns the names of the queues in display order."""
    kinds: Sequence[Kind]


def options(command: Command) -> Command:
    """Add the flags of list, get and tree."""
    for add in (
        *cluster_client.ACCESS,
        click.option("-w", "--watch", is_flag=True, help="Keep showing changes until Ctrl-C."),
        click.option(
            "-o",
            "--output",
            type=click.Choice(["table", "wide", *OBJECTS, NAME]),
            default="table",
            show_default=True,
            help="Output format.",
        ),
    ):
        command = add(command)
    return command


@click.group("queue", short_help="Show queues and their shares; create, change and delete queues.")
def command() -> None:
    """Show the queues of a cluster with their shares, and how the shares came about; create,
    change, delete, open and close queues.

    Figures are taken from the queues' status, as written by a scheduler. In tables, 24/25 means
    allocated/deserved.
    """


command.add_command(queue_requests.open_command)
command.add_command(queue_requests.close_command)
command.add_command(queue_changes.create_command)
command.add_command(queue_settings.set_command)
command.add_command(queue_changes.delete_command)


@command.command("list", short_help="List queues, one per line.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completion.queues)
@click.option(
    "--sort-by",
    type=click.Choice(["name", "share", "weight"]),
    default="name",
    show_default=True,
    help="Sort order; largest share or weight first.",
)
@options
def list_command(*, names: tuple[str, ...], sort_by: str, **flags: object) -> None:
    """List all queues, or these, one per line: state, weight, allocated/deserved, share and
    PodGroups.
    """
    wanted = list(dict.fromkeys(names))

    def ordered(view: View) -> list[Figures]:
        shown = [figure for figure in view.figures() if not wanted or figure.name in wanted]
        return sorted(shown, key=lambda each: _rank(each, sort_by))

    _show(
        Flags(**flags),  # type: ignore[arg-type]  # the flags are its fields
        Presentation(
            lines=lambda view, style: queue_tables.listed(ordered(view), style),
            rows=lambda view, style: queue_tables.list_rows(ordered(view), style),
            order=lambda view: [each.name for each in ordered(view)],
            kinds=(Kind.QUEUE, *GROUPS),
        ),
        wanted,
    )


@command.command("tree", short_help="Show queues below their parents.")
@options
def tree_command(**flags: object) -> None:
    """Show queues below their parents, with allocated/deserved and share."""
    _show(
        Flags(**flags),  # type: ignore[arg-type]  # the flags are its fields
        Presentation(
            lines=lambda view, style: queue_tables.tree(view.figures(), style),
            rows=None,
            order=_in_tree,
            kinds=(Kind.QUEUE,),
        ),
    )


@command.command("get", short_help="Show details of some queues.")
@click.argument(
    "names", metavar="NAME...", nargs=-1, required=True, shell_complete=completion.queues
)
@options
def get_command(*, names: tuple[str, ...], **flags: object) -> None:
    """Show details of these queues: figures, how deserved came about, and waiting PodGroups with
    their reasons.

    With `-o wide` the output is like that of `list`.
    """
    given = Flags(**flags)  # type: ignore[arg-type]  # the flags are its fields
    wanted = list(dict.fromkeys(names))

    def chosen(view: View) -> list[Figures]:
        found = {figure.name: figure for figure in view.figures()}
        return [found[name] for name in wanted if name in found]

    def lines(view: View, style: Style) -> list[str]:
        if style.wide:
            return queue_tables.listed(chosen(view), style)
        blocks = [queue_tables.block(each, view.waiting(each.name), style) for each in chosen(view)]
        return [line for at, each in enumerate(blocks) for line in ([""] if at else []) + each]

    def rows(view: View, style: Style) -> list[Row]:
        return queue_tables.list_rows(chosen(view), style)

    presentation = Presentation(
        lines=lines,
        rows=rows if given.style.wide else None,
        order=lambda view: [each.name for each in chosen(view)],
        kinds=(Kind.QUEUE, *GROUPS),
    )
    _show(given, presentation, wanted)


def _show(given: Flags, presentation: Presentation, names: Sequence[str] = ()) -> None:
    """Show the queues once, or until Ctrl-C; `names` are queues that must exist."""
    try:
        with (
            cluster_client.tidy_end(),
            cluster_client.opened(given.kubeconfig, given.context) as cluster,
        ):
            if not given.watch:
                view, missing = look(cluster, _kinds(given, presentation), names)
                _print(view, given, presentation, names)
                _say(missing, view)
                sys.exit(1 if missing else 0)
            _watch(cluster, given, presentation, names)
    except ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    except KeyboardInterrupt:
        sys.exit(cluster_client.INTERRUPTED_STATUS)


def look(source: Source, kinds: Sequence[Kind], names: Sequence[str]) -> tuple[View, list[str]]:
    """Return the cluster as of now, and a sentence for each missing queue.

    All queues are requested, because what is below a queue counts as what it has; if the user may
    not list them, those with `names`. PodGroups are requested only if needed for waiting jobs or
    counts. Raises cluster_client.ClusterError.
    """
    view, known = View(), list[str]()
    try:
        view.take([(Kind.QUEUE, source.list(Kind.QUEUE))])
        known = list(view.queues)
    except Forbidden:
        if not names:
            raise
        found = {name: source.queue(name) for name in names}
        view.queues = {name: each for name, each in found.items() if each is not None}
    missing = [_not_there(name, known) for name in names if name not in view.queues]
    if (
        set(names) & view.queues.keys()
        if names
        else any(figure.counts is None for figure in view.figures())
    ):
        for kind in GROUPS:
            if kind in kinds:
                view.take([(kind, _listed(source, kind))])
    return view, missing


def _listed(source: Source, kind: Kind) -> Find:
    """Return all objects of a kind, or why they can't be listed."""
    try:
        return source.list(kind)
    except ClusterError as error:
        return Failure(error=error, final=True)


def _not_there(name: str, known: Sequence[str]) -> str:
    """Return that the queue doesn't exist, with similar names."""
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.75)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"there is no queue {name}{hint}"


def _print(view: View, given: Flags, presentation: Presentation, names: Sequence[str]) -> None:
    """Print queues in the requested format: a single named object as is, several objects in a
    List.
    """
    if given.output == NAME:
        screen.say(*(f"{NAME_PREFIX}{name}" for name in presentation.order(view)))
        return
    if given.output not in OBJECTS:
        made = presentation.lines(view, given.style)
        if made:
            screen.say(*made, painted=True)
        elif not names:
            screen.say("No queues found.", err=True)
        return
    items = [
        queue_figures.without_bookkeeping(view.queues[name])
        for name in presentation.order(view)
        if name in view.queues
    ]
    if len(names) != 1:
        items = [{"apiVersion": "v1", "items": items, "kind": "List"}]
    for each in items:
        output.show(each, given.output, indent=queue_watch.INDENT)


def _say(missing: Sequence[str], view: View) -> None:
    screen.say(*view.notes, *missing, err=True)


def _watch(cluster: Source, given: Flags, presentation: Presentation, names: Sequence[str]) -> None:
    view = View()
    changes = queue_watch.news(cluster, _kinds(given, presentation))
    first = view.take(next(changes))
    missing = [_not_there(name, list(view.queues)) for name in names if name not in view.queues]
    if missing:
        raise ClusterError("; ".join(missing))
    with _screen(given, presentation, names) as show:
        show(view, first)
        for portion in changes:
            show(view, view.take(portion))


@contextmanager
def _screen(given: Flags, presentation: Presentation, names: Sequence[str]) -> Iterator[Show]:
    style = given.style
    if given.output == NAME:
        yield _names
    elif given.output in OBJECTS:
        yield Objects(given.output, names)
    elif style.width is not None:
        with queue_watch.terminal(presentation.lines, style) as show:
            yield show
    elif presentation.rows is not None:
        yield Log(presentation.rows, style)
    else:
        yield Pages(presentation.lines, style)


def _names(_view: View, changed: Sequence[Object]) -> None:
    """Print the names of changed queues."""
    screen.say(*(f"{NAME_PREFIX}{each['metadata']['name']}" for each in changed))


def _kinds(given: Flags, presentation: Presentation) -> Sequence[Kind]:
    """Return the kinds to request: output for programs needs no PodGroups."""
    return (Kind.QUEUE,) if given.output in {*OBJECTS, NAME} else presentation.kinds


def _in_tree(view: View) -> list[str]:
    grown, problems = queue_tables.grow(view.figures())
    return [*(name for _, name in grown), *problems]


def _rank(figures: Figures, sort_by: str) -> tuple[float, str]:
    """Return a sort key."""
    match sort_by:
        case "share":
            return (-(figures.share or 0.0), figures.name)
        case "weight":
            return (-figures.weight, figures.name)
    return (0, figures.name)
