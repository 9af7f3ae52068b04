"""`vscheduler job history`, and where it and `vscheduler report` have the past from: the page of
the scheduler, or a file.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from vscheduler.cli import lazy_commands, screen
from vscheduler.cli.queue import cluster_client, queue_watch
from vscheduler.cli.queue.cluster_client import ClusterError
from vscheduler.mirror.wording import plain_text

with lazy_commands.importing():
    from vscheduler.cli import output as documents
    from vscheduler.cli.job import page_client, past_tables

Command = TypeVar("Command", bound=Callable[..., None])
Document = dict[str, Any]
Asked = Mapping[str, Sequence[str]]

LIMIT = 100
"""How many jobs a table has, unless more are asked for."""

AT_ONCE = 1000
"""How many jobs one answer has."""

NOWHERE = (
    "The past is known to the scheduler that keeps it: give the address of its page with --server, "
    "or its file with --history."
)

STATES = ("Waiting", "Running", "Completed", "Deleted")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that say where the past is told."""

    kubeconfig: str
    context: str
    server: str
    server_ca: str
    token_file: str
    history: Path | None


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """Answers questions about the past."""

    ask: Callable[[str, Asked], Document]
    namespace: str | None = None
    """The namespace of the kubeconfig's context; None: there is none."""
    notes: Callable[[], list[str]] = list
    """Returns what the user isn't shown, and why."""


def source(command: Command) -> Command:
    """Add the flags of Source."""
    for add in (
        *cluster_client.ACCESS,
        *cluster_client.PAGE_ACCESS,
        click.option(
            "--history",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Read this file, as `vscheduler run --history-file` keeps it, or a copy of it.",
        ),
        click.option(
            "--server",
            metavar="URL",
            default="",
            envvar="VSCHEDULER_SERVER",
            help="Ask the scheduler's page, such as https://vscheduler.example.",
        ),
    ):
        command = add(command)
    return command


def window(default: str) -> Callable[[Command], Command]:
    """Return a decorator that adds --since and --until."""

    def decorate(command: Command) -> Command:
        for add in (
            click.option("--until", metavar="TIME", default="", help="The same; now by default."),
            click.option(
                "--since",
                metavar="TIME",
                default=default,
                show_default=True,
                help="An age such as 30d or 12h, or a time such as 2026-11-01.",
            ),
        ):
            command = add(command)
        return command

    return decorate


@contextmanager
def told(given: Source) -> Iterator[Past]:
    """Provide the past; errors become sentences."""
    try:
        with cluster_client.tidy_end():
            if given.history is not None:
                yield Past(ask=_in_file(given.history))
                return
            if not given.server:
                screen.fail([NOWHERE], screen.USAGE_STATUS)
            with page_client.signed_in(
                given.server, given.server_ca, given.token_file, given.kubeconfig, given.context
            ) as page:
                yield Past(ask=page.past, namespace=page.namespace, notes=page.notes)
    except ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    except KeyboardInterrupt:
        sys.exit(cluster_client.INTERRUPTED_STATUS)


def _in_file(path: Path) -> Callable[[str, Asked], Document]:
    """Return how a file is asked, as the page is."""
    with lazy_commands.importing():
        import sqlite3  # noqa: PLC0415 - as for the next three

        from vscheduler.history import answers  # noqa: PLC0415 - numpy is for these only
        from vscheduler.history.queries import EVERYTHING, Reader  # noqa: PLC0415
        from vscheduler.history.schema import HistoryError  # noqa: PLC0415

    reader = Reader(path)
    ways = {"jobs": answers.jobs, "report": answers.report}

    def ask(what: str, asked: Asked) -> Document:
        try:
            return ways[what](reader, EVERYTHING, asked, time.time())
        except sqlite3.Error as error:
            raise ClusterError(f"{path} can't be read: {error}") from error
        except (answers.BadQueryError, HistoryError, TimeoutError) as error:
            raise ClusterError(str(error)) from error

    return ask


@click.command("history", short_help="List jobs of the past, also those that are gone.")
@click.argument("names", metavar="[JOB...]", nargs=-1)
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "csv", "trace"]),
    default="table",
    show_default=True,
    help="Output format; trace: a table of jobs for `vscheduler replay`.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="At most so many jobs, the latest first; 0: all "
    f"[default: {LIMIT} in tables, otherwise all].",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only jobs in this state; repeatable.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME",
    help="Only jobs of this user, as their label says; repeatable.",
)
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue; repeatable."
)
@window("30d")
@source
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default="",
    help="Jobs of this namespace [default: with --server, that of the kubeconfig's context].",
)
def history_command(  # noqa: PLR0913 - one parameter per flag
    *,
    names: tuple[str, ...],
    output: str,
    no_headers: bool,
    limit: int | None,
    states: tuple[str, ...],
    users: tuple[str, ...],
    queues: tuple[str, ...],
    since: str,
    until: str,
    all_namespaces: bool,
    namespace: str,
    **flags: Any,
) -> None:
    """List jobs of the past, the latest first: when they came, how long they waited and ran, with
    which resources, and for whom pods were evicted.

    JOB names a workload, such as job/train, or a PodGroup. The scheduler keeps the past with `run
    --history-file`. Times are UTC.
    """
    with told(Source(**flags)) as past:
        where = namespace or ("" if all_namespaces else past.namespace or "")
        asked = {
            "name": names,
            "state": states,
            "user": users,
            "queue": queues,
            "since": [since],
            "until": [until] if until else [],
            "namespace": [where] if where else [],
        }
        tabular = output in {"table", "wide"}
        most = limit if limit is not None else LIMIT * tabular
        found = list(islice(_jobs(past, asked, most), most or None))
        _show(found, output, headers=not no_headers, namespaces=not where)
        notes = past.notes()
        if tabular and most and len(found) == most:
            notes.append(f"These are the latest {most}; --limit shows more.")
        screen.say(*notes, err=True)


def _jobs(past: Past, asked: Asked, most: int) -> Iterator[Document]:
    """Iterate over all jobs that are asked for, the latest first."""
    before: str | None = ""
    size = str(min(AT_ONCE, most or AT_ONCE))
    while before is not None:
        page = past.ask("jobs", {**asked, "limit": [size], "before": [before] if before else []})
        yield from page["jobs"]
        before = page["next"]


def _show(found: Sequence[Document], output: str, *, headers: bool, namespaces: bool) -> None:
    if output in {"json", "yaml"}:
        documents.show({"jobs": list(found)}, output)
    elif output == "csv":
        screen.say(*past_tables.job_values(found).splitlines())
    elif output == "trace":
        unfinished = sum(not past_tables.has_ended(job) for job in found)
        screen.say(*past_tables.trace(found).splitlines())
        if unfinished:
            left = f"{unfinished} job{'s' * (unfinished > 1)}"
            screen.say(f"{left} that didn't run or haven't finished left out.", err=True)
    elif found:
        style = queue_watch.style(wide=output == "wide")
        lines = past_tables.listed(found, style, namespaces=namespaces)
        screen.say(*lines[0 if headers else 1 :], painted=True)
    else:
        screen.say("No jobs found.", err=True)
