"""`vscheduler convert`: reads objects of Kueue, and prints ours."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from vscheduler.cli import flags, lazy_commands, screen


@click.command("convert", short_help="Turn Kueue's objects into Queues.")
@flags.files("FILE...", required=True)
@click.option(
    "--write-conf",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the scheduler configuration that these Queues are meant for.",
)
@click.option("--strict", is_flag=True, help="Exit with status 1 if anything has no counterpart.")
def command(*, files: tuple[Path, ...], write_conf: Path | None, strict: bool) -> None:
    """Turn Kueue's ClusterQueues, Cohorts, LocalQueues and WorkloadPriorityClasses into Queues,
    annotations of namespaces, and PriorityClasses, as YAML on stdout. What has no counterpart is
    listed on stderr, with the object and the field.

    FILE is a file of manifests, a directory of such files, or - for stdin; output of `kubectl get
    -o yaml` is accepted, too.
    """
    with lazy_commands.importing():
        from vscheduler.cli import output, reading
        from vscheduler.cli.convert import kueue
        from vscheduler.simulator import manifests
    trees = [each.tree for each in manifests.expanded(reading.read(files))]
    found = [each for each in trees if isinstance(each, dict) and kueue.is_kueues(each)]
    if not found:
        screen.fail([f"there is no object of {kueue.GROUP} in these files"])
    converted = kueue.convert(found)
    for each in converted.objects:
        output.show(each, "yaml", mark="---")
    if write_conf is not None:
        try:
            write_conf.write_text(converted.configuration, encoding="utf-8")
        except OSError as error:
            screen.fail([f"--write-conf: {error}"])
    screen.say(*(f"no counterpart: {each}" for each in converted.lost), err=True)
    sys.exit(1 if strict and converted.lost else 0)
