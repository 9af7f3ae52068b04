"""`vscheduler check`: finds problems in a configuration and in manifests, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vscheduler.cli import flags, lazy_commands, screen
from vscheduler.cli.checks import findings
from vscheduler.mirror.translate import bounds

if TYPE_CHECKING:
    from vscheduler.cli.checks.inspection import Report

Level = findings.Level

NOTHING = "A folder stands for the manifests directly in it, not for those in its folders."


@click.command("check", short_help="Find problems in a configuration and in manifests.")
@flags.files("[FILE...]", required=False)
@flags.SCHEDULER_CONF
@flags.scheduler_names("Check PodGroups of this scheduler; repeatable.")
@flags.DEFAULT_QUEUE
@click.option(
    "--autoscaler", is_flag=True, help="Also warn of settings that hinder a cluster autoscaler."
)
@flags.bounded(flags.plain)
@click.option("--strict", is_flag=True, help="Exit with status 1 for warnings, too.")
@flags.output("text")
def command(  # noqa: PLR0913 - one parameter per flag
    *,
    files: tuple[Path, ...],
    scheduler_conf: str,
    scheduler_name: tuple[str, ...],
    default_queue: str,
    autoscaler: bool,
    strict: bool,
    output: str,
    **most: Any,
) -> None:
    """Find problems in a configuration and in manifests of Queues, PodGroups and related kinds: all
    problems at once, each with its file and line. No cluster is needed.

    FILE is a file of manifests, a directory of such files, or - for stdin. An error is anything
    that an API server refuses or a scheduler can't use; a warning is anything that doesn't work as
    its author may expect.
    """
    if not files and not scheduler_conf:
        screen.fail(
            ["nothing to check: give files, --scheduler-conf, or both"], screen.USAGE_STATUS
        )
    with lazy_commands.importing():
        from vscheduler.cli import loading
        from vscheduler.cli.checks import inspection, native_groups, schemas
        from vscheduler.daemon import settings
        from vscheduler.simulator import run
    given = settings.Given(scheduler_name=scheduler_name, default_queue=default_queue)
    checked, built_in = loading.checked(given), loading.loaded("").policy
    options = run.Options(
        scheduler_names=checked.scheduler_names,
        claim_unowned=True,
        default_queue=checked.default_queue,
        most=bounds.of(most),
        unknown_classes=True,
    )
    known = {**schemas.shipped(), **native_groups.SCHEMAS}
    check_options = inspection.CheckOptions(options=options, schemas=known, autoscaler=autoscaler)
    report = inspection.of_files(files, scheduler_conf, built_in, check_options)
    _show(report, output)
    if files and not report.objects:
        screen.say(NOTHING, err=True)
    errors = findings.counted(report.found, Level.ERROR)
    sys.exit(1 if errors or (strict and report.found) else 0)


def _show(report: Report, output: str) -> None:
    """Print the findings on stdout, and the number of objects examined on stderr."""
    counts = {
        f"{level}s": findings.counted(report.found, level) for level in (Level.ERROR, Level.WARNING)
    }
    tree = {**counts, "complaints": [each.tree() for each in report.found]}
    screen.show(output, lambda: tree, lambda: screen.say(*map(str, report.found)))
    if report.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.ignored.items())
        screen.say(f"not looked at: {kinds}", err=True)
    numbers = ", ".join(
        f"{count} {word if count != 1 else word[:-1]}" for word, count in counts.items()
    )
    objects = f"{report.objects} object{'' if report.objects == 1 else 's'}"
    screen.say(f"{numbers}; {objects} looked at", err=True)
