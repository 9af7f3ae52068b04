"""What the commands that look at manifests without a cluster have in common."""

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
    """The argument that names manifests."""
    return click.argument(
        "files",
        metavar=metavar,
        nargs=-1,
        required=required,
        type=click.Path(exists=True, allow_dash=True, path_type=Path),
    )


def scheduler_names(about: str) -> Callable[[Decorated], Decorated]:
    """Whose objects are looked at."""
    return click.option(
        "--scheduler-name",
        multiple=True,
        default=("vscheduler",),
        show_default="vscheduler",
        help=about,
    )


def output(for_people: str) -> Callable[[Decorated], Decorated]:
    """How to print: for people, which is the default, or for programs."""
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
        from vscheduler.cli import output as documents  # noqa: PLC0415 - YAML is for few

        documents.show(tree(), output)
    else:
        for_people()


def fail(problems: Iterable[str], status: int = 1) -> NoReturn:
    """Say what is wrong, all of it, and end."""
    screen.say(*problems, err=True)
    sys.exit(status)
