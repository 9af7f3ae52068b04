"""`vscheduler simulate`: scheduling cycles on manifests, with no cluster."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
import yaml

from vscheduler.cli import reading, tables
from vscheduler.daemon import configuration, settings
from vscheduler.simulator import reporting, run

CYCLES_MAX = 10_000
USAGE_STATUS = 2


@click.command("simulate", short_help="Say what cycles would decide on manifests, and why.")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
)
@click.option("--scheduler-conf", metavar="FILE", default="", help="Scheduler configuration.")
@click.option(
    "--scheduler-name",
    multiple=True,
    default=("vscheduler",),
    show_default="vscheduler",
    help="Place pods that name this scheduler; repeatable.",
)
@click.option(
    "--node-selector",
    multiple=True,
    metavar="KEY=VALUE",
    help="Use only nodes with this label; repeatable, any of them.",
)
@click.option(
    "--default-queue", default="default", show_default=True, help="Queue of groups that name none."
)
@click.option(
    "--cycles", type=click.IntRange(1, CYCLES_MAX), default=1, help="Cycles to run, a second apart."
)
@click.option("--strict", is_flag=True, help="Fail if anything in the input can't be used.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)
def command(  # noqa: PLR0913 - one parameter per flag
    *,
    files: tuple[Path, ...],
    scheduler_conf: str,
    scheduler_name: tuple[str, ...],
    node_selector: tuple[str, ...],
    default_queue: str,
    cycles: int,
    strict: bool,
    output: str,
) -> None:
    """Say what scheduling cycles would decide on these manifests, and why; no cluster is needed.

    FILE is a file of manifests, a directory of such files, or - for stdin; what `kubectl get -o
    yaml` prints will do. The same objects give the same result, in whatever order they come.
    """
    given = settings.Given(
        scheduler_name=scheduler_name, node_selector=node_selector, default_queue=default_queue
    )
    try:
        checked = settings.check(given)
        loaded = configuration.load(scheduler_conf)
    except settings.SettingsError as error:
        _fail(error.problems, USAGE_STATUS)
    except configuration.ConfigurationError as error:
        _fail(error.problems)
    try:
        documents = reading.read(files)
    except reading.ReadError as error:
        _fail(error.problems)
    options = run.Options(
        scheduler_names=checked.scheduler_names,
        node_selector=checked.node_selector,
        claim_unowned=checked.claim_unowned,
        default_queue=checked.default_queue,
        cycles=cycles,
    )
    outcome = run.simulate(documents, loaded.policy, options)
    for line in (*loaded.warnings, *outcome.notes, *_faults(outcome)):
        click.echo(line, err=True)
    for problem in outcome.problems:
        click.echo(f"left out: {problem}", err=True)
    if strict and outcome.problems:
        _fail([f"{len(outcome.problems)} of the input's objects can't be used (--strict)"])
    _show(outcome, output)


def _show(outcome: run.Outcome, output: str) -> None:
    """Print the result, and nothing else, on stdout."""
    match output:
        case "json":
            click.echo(json.dumps(reporting.tree(outcome), indent=2, ensure_ascii=False))
        case "yaml":
            tree = reporting.tree(outcome)
            click.echo(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            tables.show(outcome, sys.stdout)


def _faults(outcome: run.Outcome) -> list[str]:
    """Plugins that failed, once each."""
    faults = [fault for result in outcome.results for fault in result.faults]
    lines = (f"plugin {each.plugin} failed in {each.hook}: {each.error}" for each in faults)
    return list(dict.fromkeys(lines))


def _fail(problems: Sequence[str], status: int = 1) -> NoReturn:
    """Say what is wrong, all of it, and end."""
    for problem in problems:
        click.echo(problem, err=True)
    sys.exit(status)
