"""`vscheduler`: all commands under a single name. Exit status: 0 done, 1 error, 2 usage.

Completion of `kubectl vscheduler` is here, too, in the format of kubectl's own completion (cobra).
"""

from collections.abc import Sequence

import click
from click import shell_completion

from vscheduler.cli import screen
from vscheduler.cli.lazy_commands import Commands, Lazily, Place

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMANDS = {
    "check": Place(
        "vscheduler.cli.check",
        short_help="Find problems in a configuration and in manifests.",
    ),
    "convert": Place(
        "vscheduler.cli.convert.command",
        short_help="Turn Kueue's objects into Queues.",
    ),
    "job": Place(
        "vscheduler.cli.job.command",
        short_help="Show jobs, their places in line, and why they wait.",
    ),
    "plugin": Place(
        "vscheduler.cli.plugin",
        short_help="Start a plugin of your own.",
    ),
    "queue": Place(
        "vscheduler.cli.queue.command",
        short_help="Show queues and their shares; create, change and delete queues.",
    ),
    "replay": Place(
        "vscheduler.cli.replay.command",
        short_help="Show how jobs of the past would have fared under a policy.",
    ),
    "report": Place(
        "vscheduler.cli.report",
        short_help="Sum up what queues, namespaces, users or jobs have used.",
    ),
    "run": Place(
        "vscheduler.cli.run",
        help="Schedule the pods of a cluster, until SIGTERM, SIGINT or SIGHUP.",
    ),
    "simulate": Place(
        "vscheduler.cli.simulate",
        short_help="Show what scheduling cycles would decide on manifests, and why.",
    ),
    "status": Place(
        "vscheduler.cli.status",
        short_help="Show who leads, and what is wrong.",
    ),
    "what-if": Place(
        "vscheduler.cli.what_if",
        short_help="Show what another setting of a queue would do.",
    ),
}
"""Commands by name, with the help line of each command repeated here for the list."""

ALIASES = {"jobs": "job", "pg": "job", "podgroup": "job", "podgroups": "job", "queues": "queue"}
"""Other names of commands, which the list doesn't show."""

NO_FILES = ":4"
"""cobra: ShellCompDirectiveNoFileComp; the last line of the answer."""


@click.group(
    cls=Commands,
    context_settings=CONTEXT,
    commands=Lazily(COMMANDS, ALIASES),
)
@click.version_option(package_name="vscheduler", message="vscheduler %(version)s")
def vscheduler() -> None:
    """A second scheduler for Kubernetes: gangs, queues and fair shares, with reasons."""


def suggest(words: Sequence[str]) -> None:
    """Print a suggestion per line for the last word, and the directive."""
    *before, typed = words or [""]
    complete = shell_completion.BashComplete(vscheduler, {}, "kubectl vscheduler", "")
    screen.say(
        *(completion.value for completion in complete.get_completions(list(before), typed)),
        NO_FILES,
    )
