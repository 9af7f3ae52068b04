"""`vscheduler check`: what is wrong with a configuration and manifests, with no cluster."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from vscheduler.cli import bound_flags, offline, reading, screen
from vscheduler.cli.checks import findings, inspection, schemas
from vscheduler.core.config import policy
from vscheduler.daemon import configuration, settings
from vscheduler.mirror.decode import events
from vscheduler.mirror.translate import bounds
from vscheduler.sandbox import definitions
from vscheduler.simulator import run

Level = findings.Level


@click.command("check", short_help="Say what is wrong with a configuration and with manifests.")
@offline.files("[FILE...]", required=False)
@offline.SCHEDULER_CONF
@offline.scheduler_names("Look at PodGroups of this scheduler; repeatable.")
@offline.DEFAULT_QUEUE
@click.option(
    "--autoscaler", is_flag=True, help="Warn of what keeps a cluster autoscaler from its work, too."
)
@bound_flags.bounded(bound_flags.plain)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@offline.output("text")
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
    """Say what is wrong with a configuration and with manifests of Queues, PodGroups and the like:
    all of it at once, each with its file and line. No cluster is needed.

    FILE is a file of manifests, a directory of such files, or - for stdin. Errors are what an API
    server refuses or a scheduler can't use; warnings are what works otherwise than it seems.
    """
    if not files and not scheduler_conf:
        offline.fail(
            ["nothing to check: give files, --scheduler-conf, or both"], offline.USAGE_STATUS
        )
    given = settings.Given(scheduler_name=scheduler_name, default_queue=default_queue)
    try:
        checked = settings.check(given)
        built_in = configuration.load("").policy
    except settings.SettingsError as error:
        offline.fail(error.problems, offline.USAGE_STATUS)
    except configuration.ConfigurationError as error:
        offline.fail(error.problems)
    options = run.Options(
        scheduler_names=checked.scheduler_names,
        claim_unowned=True,
        default_queue=checked.default_queue,
        most=bounds.of(most),
    )
    wish = inspection.Wish(options=options, schemas=_schemas(), autoscaler=autoscaler)
    report = _inspected(files, scheduler_conf, built_in, wish)
    _show(report, output)
    errors = findings.counted(report.complaints, Level.ERROR)
    sys.exit(1 if errors or (strict and report.complaints) else 0)


def _inspected(
    files: Sequence[Path], scheduler_conf: str, built_in: policy.Policy, wish: inspection.Wish
) -> inspection.Report:
    """Everything that there is to say."""
    examined, configured = None, None if scheduler_conf else built_in
    said: list[findings.Complaint] = []
    if scheduler_conf:
        try:
            examined = configuration.examine(configuration.read(scheduler_conf), scheduler_conf)
            configured = examined.parsed.policy
        except configuration.ConfigurationError as error:
            said += map(findings.unreadable, error.problems)
    if examined is not None or configured is not None:
        said += inspection.of_configuration(examined, configured, wish)
    found, problems = reading.read_what_can_be(files)
    said += map(findings.unreadable, problems)
    report = inspection.of_manifests(found, configured, built_in, wish)
    return inspection.Report(
        complaints=findings.in_order([*said, *report.complaints]),
        objects=report.objects,
        ignored=report.ignored,
    )


def _schemas() -> Mapping[events.Kind, schemas.Schema]:
    """What the CRDs that belong to this program say."""
    folder = definitions.shipped_folder()
    assert folder is not None, "crds/ is a part of the package"
    trees = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    return {events.Kind(tree["spec"]["names"]["kind"]): schemas.of(tree) for tree in trees}


def _show(report: inspection.Report, output: str) -> None:
    """Print what was found on stdout, and how much was looked at on stderr."""
    counts = {
        f"{level}s": findings.counted(report.complaints, level)
        for level in (Level.ERROR, Level.WARNING)
    }
    tree = {**counts, "complaints": [each.tree() for each in report.complaints]}
    offline.show(output, lambda: tree, lambda: screen.say(*map(str, report.complaints)))
    if report.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.ignored.items())
        screen.say(f"not looked at: {kinds}", err=True)
    numbers = ", ".join(
        f"{count} {word if count != 1 else word[:-1]}" for word, count in counts.items()
    )
    objects = f"{report.objects} object{'' if report.objects == 1 else 's'}"
    screen.say(f"{numbers}; {objects} looked at", err=True)
