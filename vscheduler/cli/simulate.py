"""`vscheduler simulate`: scheduling cycles on manifests, with no cluster."""

import sys
from functools import partial
from pathlib import Path

import click

from vscheduler.cli import offline, reading, tables
from vscheduler.daemon import configuration, settings
from vscheduler.simulator import reporting, run

CYCLES_MAX = 10_000


@click.command("simulate", short_help="Say what cycles would decide on manifests, and why.")
@offline.files("FILE...", required=True)
@offline.SCHEDULER_CONF
@offline.scheduler_names("Place pods that name this scheduler; repeatable.")
@click.option(
    "--node-selector",
    multiple=True,
    metavar="KEY=VALUE",
    help="Use only nodes with this label; repeatable, any of them.",
)
@offline.DEFAULT_QUEUE
@click.option(
    "--cycles", type=click.IntRange(1, CYCLES_MAX), default=1, help="Cycles to run, a second apart."
)
@click.option("--strict", is_flag=True, help="Fail if anything in the input can't be used.")
@offline.output("table")
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
        offline.fail(error.problems, offline.USAGE_STATUS)
    except configuration.ConfigurationError as error:
        offline.fail(error.problems)
    try:
        documents = reading.read(files)
    except reading.ReadError as error:
        offline.fail(error.problems)
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
        offline.fail([f"{len(outcome.problems)} of the input's objects can't be used (--strict)"])
    offline.show(
        output, partial(reporting.tree, outcome), partial(tables.show, outcome, sys.stdout)
    )


def _faults(outcome: run.Outcome) -> list[str]:
    """Plugins that failed, once each."""
    faults = [fault for result in outcome.results for fault in result.faults]
    lines = (f"plugin {each.plugin} failed in {each.hook}: {each.error}" for each in faults)
    return list(dict.fromkeys(lines))
