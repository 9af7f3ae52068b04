"""`vscheduler`: the commands under one name. Exit status: 0 done, 1 error, 2 usage."""

from importlib import metadata

import click

from vscheduler.cli import demo, run, simulate

CONTEXT = {"max_content_width": 100}


@click.group(context_settings=CONTEXT)
@click.version_option(metadata.version("vscheduler"), message="vscheduler %(version)s")
def vscheduler() -> None:
    """A second scheduler for Kubernetes: gangs, queues and fair shares, with reasons."""


for command in (run.command, simulate.command, demo.command):
    vscheduler.add_command(command)
