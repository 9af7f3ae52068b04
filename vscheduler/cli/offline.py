"""Options and output shared by commands that read manifests without a cluster."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from vscheduler.cli import screen

Decorated = TypeVar("Decorated", bound=Callable[..., None])

USAGE_STATUS = 2

SCHEDULER_CONF = click.option(
    "--scheduler-conf", metavar="FILE", default="", help="Scheduler configuration."
)
DEFAULT_QUEUE = click.option(
    "--default-queue", default="default", show_default=True, help="Queue of groups that name none."
)


def files(metavar: str, *, required: bool) -> Callable[[Decorated], Decorated]:
    """Return a decorator for the argument that names manifests."""
    return click.argument(
        "files",
        metavar=metavar,
        nargs=-1,
        required=required,
        type=click.Path(exists=True, allow_dash=True, path_type=Path),
    )


def scheduler_names(about: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator for the option that selects schedulers."""
    return click.option(
        "--scheduler-name",
        multiple=True,
        default=("vscheduler",),
        show_default="vscheduler",
        help=about,
    )


def output(for_people: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator for the output format: for people by default, or for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice([for_people, "json", "yaml"]),
        default=for_people,
        show_default=True,
        help="How to print the result.",
    )


def show(
    output: str, tree: Callable[[], Mapping[str, Any]], for_people: Callable[[], None]
) -> None:
    """Print the result, and nothing else, on stdout."""
    if output in {"json", "yaml"}:
        from vscheduler.cli import output as documents  # noqa: PLC0415 - YAML is rarely needed

        documents.show(tree(), output)
    else:
        for_people()


def fail(problems: Iterable[str], status: int = 1) -> NoReturn:
    """Print all problems and exit."""
    screen.say(*problems, err=True)
    sys.exit(status)
