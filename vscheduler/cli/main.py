"""`vscheduler`: the commands under one name. Exit status: 0 done, 1 error, 2 usage."""

import click

from vscheduler.cli import lazy_commands

CONTEXT = {"max_content_width": 100}
COMMANDS = {
    "check": lazy_commands.Place(
        "vscheduler.cli.check",
        short_help="Say what is wrong with a configuration and with manifests.",
    ),
    "demo": lazy_commands.Place(
        "vscheduler.cli.demo", short_help="Show gangs and fair shares on this machine."
    ),
    "queue": lazy_commands.Place(
        "vscheduler.cli.queue.command",
        short_help="Show what queues have and wait for; open and close them.",
    ),
    "run": lazy_commands.Place(
        "vscheduler.cli.run",
        help="Schedule the pods of a cluster, until SIGTERM, SIGINT or SIGHUP.",
    ),
    "simulate": lazy_commands.Place(
        "vscheduler.cli.simulate",
        short_help="Say what cycles would decide on manifests, and why.",
    ),
}
"""By name: where the command is, and its line in the list, as the command itself has it."""


@click.group(
    cls=lazy_commands.Commands,
    context_settings=CONTEXT,
    commands=lazy_commands.Lazily(COMMANDS),
)
@click.version_option(package_name="vscheduler", message="vscheduler %(version)s")
def vscheduler() -> None:
    """A second scheduler for Kubernetes: gangs, queues and fair shares, with reasons."""
