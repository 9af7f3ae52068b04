"""`vscheduler`: all commands under a single name. Exit status: 0 done, 1 error, 2 usage."""

import click

from vscheduler.cli import lazy_commands

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMANDS = {
    "check": lazy_commands.Place(
        "vscheduler.cli.check",
        short_help="Find problems in a configuration and in manifests.",
    ),
    "demo": lazy_commands.Place(
        "vscheduler.cli.demo.command", short_help="Show gangs and fair shares on this machine."
    ),
    "job": lazy_commands.Place(
        "vscheduler.cli.job.command",
        short_help="Show jobs, their places in line, and why they wait.",
    ),
    "queue": lazy_commands.Place(
        "vscheduler.cli.queue.command",
        short_help="Show queues and their shares; create, change and delete queues.",
    ),
    "run": lazy_commands.Place(
        "vscheduler.cli.run",
        help="Schedule the pods of a cluster, until SIGTERM, SIGINT or SIGHUP.",
    ),
    "simulate": lazy_commands.Place(
        "vscheduler.cli.simulate",
        short_help="Show what scheduling cycles would decide on manifests, and why.",
    ),
}
"""Commands by name, with the help line of each command repeated here for the list."""

ALIASES = {"jobs": "job", "pg": "job", "podgroup": "job", "podgroups": "job", "queues": "queue"}
"""Other names of commands, which the list doesn't show."""


@click.group(
    cls=lazy_commands.Commands,
    context_settings=CONTEXT,
    commands=lazy_commands.Lazily(COMMANDS, ALIASES),
)
@click.version_option(package_name="vscheduler", message="vscheduler %(version)s")
def vscheduler() -> None:
    """A second scheduler for Kubernetes: gangs, queues and fair shares, with reasons."""
