"""`vscheduler demo`: the command."""

import sys

import click

from vscheduler.cli import lazy_commands


@click.command("demo", short_help="Show gangs and fair shares on this machine.")
@click.option("--keep", is_flag=True, help="Keep everything running until Ctrl-C.")
@click.option("--no-browser", is_flag=True, help="Print the page's address only, and end.")
def command(*, keep: bool, no_browser: bool) -> None:
    """Show gangs and fair shares on a real control plane on this machine.

    Five workers of 15 CPU, three tenants of equal weight, 13 gangs that fit and an oversized gang.
    The first run takes some minutes, to build the programs of the control plane; the programs are
    kept. In a terminal, a browser opens the scheduler's page, and the demo goes on until Ctrl-C;
    without a browser, the address is printed.
    """
    with lazy_commands.importing():
        from sandbox import errors
        from sandbox.demo import demo_stage
    try:
        browse = sys.stderr.isatty() and not no_browser
        whole = demo_stage.run(keep=keep, browse=browse)
    except errors.SandboxError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if whole else 1)
