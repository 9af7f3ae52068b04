"""Flags of `vscheduler job list|get|why`."""

from collections.abc import Callable
from typing import TypeVar

import click
import msgspec

from vscheduler.cli import lazy_commands, screen
from vscheduler.cli.queue import cluster_client

with lazy_commands.importing():
    from vscheduler.daemon import settings

Command = TypeVar("Command", bound=Callable[..., None])


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """Flags of all three commands."""

    kubeconfig: str
    context: str
    namespace: str
    all_namespaces: bool
    scheduler_conf: str
    node_selector: tuple[str, ...]
    server: str
    server_ca: str
    token_file: str

    @property
    def nodes(self) -> tuple[tuple[str, str], ...]:
        """The labels of --node-selector. Ends the command if they can't be read."""
        try:
            return settings.check(settings.Given(node_selector=self.node_selector)).node_selector
        except settings.SettingsError as error:
            screen.fail(error.problems, screen.USAGE_STATUS)


def options(command: Command) -> Command:
    """Add the flags of all three commands."""
    for add in (
        *cluster_client.ACCESS,
        click.option(
            "--scheduler-conf",
            metavar="FILE",
            default="",
            help="The scheduler's configuration, which decides the order of jobs [default: the "
            "built-in one].",
        ),
        click.option(
            "--node-selector",
            multiple=True,
            metavar="KEY=VALUE",
            help="The scheduler's own --node-selector, if it has any; repeatable.",
        ),
        click.option(
            "--token-file",
            metavar="FILE",
            default="",
            help="With --server: a file with a token [default: the kubeconfig's].",
        ),
        click.option(
            "--server-ca",
            metavar="FILE",
            default="",
            envvar="VSCHEDULER_SERVER_CA",
            help="With --server: certificates to trust [default: the system's].",
        ),
        click.option(
            "--server",
            metavar="URL",
            default="",
            envvar="VSCHEDULER_SERVER",
            help="Ask the scheduler's page, such as https://vscheduler.example, not the cluster.",
        ),
        click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces."),
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            default="",
            help="Jobs of this namespace [default: that of the kubeconfig's context].",
        ),
    ):
        command = add(command)
    return command
