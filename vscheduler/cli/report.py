"""`vscheduler report`: what queues, namespaces, users or jobs have used."""

from typing import Any

import click

from vscheduler.cli import lazy_commands, screen
from vscheduler.cli.job import past
from vscheduler.cli.job.past import Source
from vscheduler.cli.queue import queue_watch

with lazy_commands.importing():
    from vscheduler.cli import output as documents
    from vscheduler.cli.job import past_tables


@click.command("report", short_help="Sum up what queues, namespaces, users or jobs have used.")
@click.option(
    "--by",
    type=click.Choice(["queue", "namespace", "user", "job"]),
    default="queue",
    show_default=True,
    help="Whose sums; users are those that a label of jobs names, jobs are workloads.",
)
@past.window("30d")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "csv"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue; repeatable."
)
@click.option(
    "--user", "users", multiple=True, metavar="NAME", help="Only jobs of this user; repeatable."
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Only jobs of this namespace; repeatable [default: all that you may see].",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    metavar="N",
    help="With --by job: at most so many, those that used most; a last row sums up all others.",
)
@past.source
def command(  # noqa: PLR0913 - one parameter per flag
    *,
    by: str,
    since: str,
    until: str,
    output: str,
    queues: tuple[str, ...],
    users: tuple[str, ...],
    namespaces: tuple[str, ...],
    limit: int,
    **flags: Any,
) -> None:
    """Sum up what queues, namespaces, users or jobs have used: hours of each resource, from the
    binds of pods to their ends, how long jobs waited, and what evictions cost.

    Hours are those of what pods request. In CSV and JSON they are exact pod-seconds.
    """
    with past.told(Source(**flags)) as told:
        asked = {
            "by": [by],
            "since": [since],
            "until": [until] if until else [],
            "queue": queues,
            "user": users,
            "namespace": namespaces,
            "limit": [str(limit)],
        }
        found = told.ask("report", asked)
        if output in {"json", "yaml"}:
            documents.show(found, output)
        elif output == "csv":
            screen.say(*past_tables.report_values(found).splitlines())
        elif found["rows"]:
            style = queue_watch.style(wide=False)
            screen.say(*past_tables.report(found, style), painted=True)
        else:
            screen.say("Nothing ran in this time.", err=True)
        screen.say(*told.notes(), err=True)
