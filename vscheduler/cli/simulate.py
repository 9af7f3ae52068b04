"""`vscheduler simulate`: scheduling cycles on manifests, without a cluster."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from vscheduler.cli import flags, lazy_commands, screen
from vscheduler.mirror.translate import bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vscheduler.core.config.policy import Policy
    from vscheduler.model.decisions import Fault
    from vscheduler.simulator.manifests import Manifest, Named, Problem
    from vscheduler.simulator.run import Given

CYCLES_MAX = 10_000

NOT_WITH_WHY = {
    "cycles": "--cycles",
    "evicted_return": "--evicted-return",
    "unlimited_search": "--unlimited-search",
    "no_memos": "--no-memos",
}
"""Flags about cycles, by their parameters: --why has cycles of its own."""


@click.command(
    "simulate", short_help="Show what scheduling cycles would decide on manifests, and why."
)
@flags.files("FILE...", required=True)
@flags.SCHEDULER_CONF
@flags.scheduler_names("Place pods that name this scheduler; repeatable.")
@click.option(
    "--node-selector",
    multiple=True,
    metavar="KEY=VALUE",
    help="Use only nodes with this label; repeatable: any one suffices.",
)
@flags.DEFAULT_QUEUE
@click.option(
    "--cycles", type=click.IntRange(1, CYCLES_MAX), default=1, help="Cycles to run, a second apart."
)
@click.option("--evicted-return", is_flag=True, help="Owners recreate evicted pods; with --cycles.")
@click.option(
    "--unlimited-search",
    is_flag=True,
    help="Search for nodes for whole gangs until they are found or proved not to exist.",
)
@click.option(
    "--no-memos",
    is_flag=True,
    help="Work everything out anew in each cycle; the outcome is the same.",
)
@click.option(
    "--now",
    metavar="TIME",
    callback=lambda _context, _option, text: _instant(text),
    help="Time of the first cycle, as 2026-01-31T12:00:00Z; else the latest in the manifests.",
)
@flags.bounded(flags.plain)
@click.option(
    "--why",
    default="",
    metavar="NAMESPACE/NAME",
    help="Show why this PodGroup waits, and what would start it, instead of the decisions.",
)
@flags.HISTORY
@click.option(
    "--strict", is_flag=True, help="Fail if anything in the input can't be used, or a plugin fails."
)
@flags.output("table")
def command(  # noqa: PLR0913 - one parameter per flag
    *,
    files: tuple[Path, ...],
    scheduler_conf: str,
    scheduler_name: tuple[str, ...],
    node_selector: tuple[str, ...],
    default_queue: str,
    cycles: int,
    evicted_return: bool,
    unlimited_search: bool,
    no_memos: bool,
    now: float | None,
    why: str,
    history: Path | None,
    strict: bool,
    output: str,
    **most: Any,
) -> None:
    """Show what scheduling cycles would decide on these manifests, and why; no cluster is needed.

    FILE is a file of manifests, a directory of such files, or - for stdin; output of `kubectl get
    -o yaml` is accepted, too. Jobs and Deployments that come without pods get theirs. The result
    doesn't depend on the order of the objects.
    """
    with lazy_commands.importing():
        from vscheduler.cli import loading, reading, tables
        from vscheduler.daemon import settings
        from vscheduler.simulator import run
    if why:
        _check_flags(click.get_current_context())
    elif history is not None:
        raise click.UsageError("--history has no effect without --why")
    asked = settings.Given(
        scheduler_name=scheduler_name, node_selector=node_selector, default_queue=default_queue
    )
    checked, loaded = loading.checked(asked), loading.loaded(scheduler_conf)
    with reading.uncollected():
        documents = reading.read(files)
    documents, expanded = _with_pods(documents, checked.scheduler_names, loaded.policy)
    options = run.Options(
        scheduler_names=checked.scheduler_names,
        node_selector=checked.node_selector,
        claim_unowned=checked.claim_unowned,
        default_queue=checked.default_queue,
        cycles=cycles,
        now=now,
        evicted_return=evicted_return,
        unlimited_search=unlimited_search,
        memos=not no_memos,
        most=bounds.of(most),
        expanded=expanded,
    )
    given = run.read(documents, loaded.policy, options)
    dropped = _unknown_fields(given.collected.objects)
    if why:
        screen.say(*loaded.warnings, *_left_out([*given.problems, *dropped]), err=True)
        _check_strict(given.problems, dropped, strict=strict)
        _check_nodes(given.collected.objects)
        _why(given, loaded.policy, why, history, output)
        return
    outcome = run.outcome(given, loaded.policy, options)
    screen.say(*loaded.warnings, *outcome.notes, *map(str, outcome.faults), err=True)
    screen.say(*([str(outcome.repetition)] if outcome.repetition else []), err=True)
    screen.say(*_left_out([*outcome.problems, *dropped]), err=True)
    _check_strict(outcome.problems, dropped, outcome.faults, strict=strict)
    _check_nodes(given.collected.objects)
    for_people = partial(tables.show, outcome, sys.stdout, cycles=evicted_return)
    screen.show(output, partial(run.tree, outcome), for_people)


def _with_pods(
    documents: Sequence[Manifest], schedulers: Sequence[str], policy: Policy
) -> tuple[list[Manifest], Mapping[str, int]]:
    """Return the manifests with the pods that Jobs and Deployments among them would have, and how
    many objects of each kind got some.
    """
    with lazy_commands.importing():
        from vscheduler.cli.checks import workload_pods
    settings = workload_pods.Settings(
        schedulers=schedulers, groups_all=policy.rules.groups_all_pods
    )
    created = list(workload_pods.created(documents, settings))
    screen.say(*map(str, created), err=True)
    more = [each for made in created for each in made.objects]
    return [*documents, *more], Counter(
        kind for made in created for kind in (made.kind, *made.owners)
    )


def _check_flags(context: click.Context) -> None:
    """Refuse flags that --why would ignore."""
    for name, flag in NOT_WITH_WHY.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            problem = f"{flag} has no effect with --why, which runs five cycles for each change"
            raise click.UsageError(f"{problem}; leave out one of them")


def _unknown_fields(objects: Sequence[Named]) -> list[Problem]:
    """Return the fields of custom resources that an API server would drop, but for statuses."""
    with lazy_commands.importing():
        from vscheduler.cli.checks import schemas
        from vscheduler.core.config import validation
        from vscheduler.simulator import manifests
    known = schemas.shipped()
    found = []
    for each in objects:
        tree = {key: value for key, value in each.tree.items() if key != "status"}
        for fault in schemas.unknown_fields(known[each.kind], tree) if each.kind in known else ():
            field = validation.written(fault.path)
            message = f"{each.kind} {each.key}: {field}: {fault.message}"
            found.append(manifests.Problem(place=each.manifest.place(field), message=message))
    return found


def _check_strict(
    unusable: Sequence[Problem],
    dropped: Sequence[Problem],
    faults: Sequence[Fault] = (),
    *,
    strict: bool,
) -> None:
    """End with a failure if anything is left out, or plugins failed, and --strict is given."""
    if strict and unusable:
        screen.fail([f"{len(unusable)} of the input's objects can't be used (--strict)"])
    if strict and dropped:
        screen.fail([f"{len(dropped)} fields of the input are unknown (--strict)"])

    if strict and faults:
        failed = ", ".join(sorted({fault.plugin for fault in faults}))
        screen.fail([f"plugins failed: {failed} (--strict)"])


def _check_nodes(objects: Sequence[Named]) -> None:
    """End with a failure without nodes: an empty table would look like a result."""
    if not any(each.kind == "Node" for each in objects):
        screen.fail(
            ["no nodes given, so nothing can be placed; kubectl get nodes -o yaml has yours"]
        )


def _left_out(problems: Sequence[Problem]) -> list[str]:
    return [f"left out: {problem}" for problem in sorted(problems, key=str)]


def _why(given: Given, policy: Policy, job: str, history: Path | None, output: str) -> None:
    """Print why a job waits, when it is likely to start, and what would start it."""
    with lazy_commands.importing():
        from vscheduler.cli import past_runs, tables
        from vscheduler.explain import remedies, wording
    try:
        found = remedies.explain(given, policy, job, past_runs.read(history, given.now))
    except remedies.NotWaitingError as error:
        screen.fail([f"--why: {error}"])
    tree = partial(wording.tree, found)
    screen.show(output, tree, partial(tables.explanation, found, sys.stdout))


def _instant(text: str | None) -> float | None:
    """Return seconds since the epoch; raises BadParameter for text that isn't a time with an
    offset.
    """
    if text is None:
        return None

    from vscheduler.simulator import manifests

    problem = f"{text!r} is not an RFC 3339 time such as 2026-01-31T12:00:00Z"
    try:
        moment = msgspec.convert(text, dt.datetime)
    except msgspec.ValidationError as error:
        raise click.BadParameter(problem) from error
    if moment.tzinfo is None:
        raise click.BadParameter(problem)
    seconds = moment.timestamp()
    if not 0 <= seconds <= manifests.LATEST:
        raise click.BadParameter(f"{text!r} is not between 1970 and {manifests.LATEST_YEAR}")
    return seconds
