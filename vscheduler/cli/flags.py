"""Command-line flags: the daemon's, with environment variables and headings; bounds per pod, shared
by all commands that read pods; and those shared by commands that read manifests.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from vscheduler.mirror.translate import bounds
from vscheduler.mirror.translate.bounds import Bounds

Decorated = TypeVar("Decorated", bound=Callable[..., None])

BOUNDS_HEADING = "Bounds of one pod or PodGroup"

BOUNDS_ABOUT = {
    "max_pod_affinity_terms": "Pod affinity and anti-affinity terms; a pod with more waits.",
    "max_pod_affinity_values": "Labels, expressions, values and namespaces in selectors of pods.",
    "max_pod_selector_values": "Labels, expressions, values and namespaces in selectors.",
    "max_pod_topology_spreads": "Topology spread constraints.",
    "max_pod_tolerations": "Tolerations.",
    "max_pod_resources": "Resources named in requests.",
    "max_pod_bytes": "Size in bytes of the fields read from a pod.",
    "max_podgroup_bytes": "Size in bytes of the fields read from a PodGroup.",
}

SCHEDULER_CONF = click.option(
    "--scheduler-conf", metavar="FILE", default="", help="Scheduler configuration."
)
DEFAULT_QUEUE = click.option(
    "--default-queue", default="default", show_default=True, help="Queue of groups that name none."
)


class Option(click.Option):
    """An option with a heading in the help."""

    def __init__(self, *words: Any, heading: str = "Options", **more: Any) -> None:
        super().__init__(*words, **more)
        self.heading = heading


class Command(click.Command):
    """A command whose help groups options by heading; `--help` and options without a heading come
    first.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section per heading, in the order in which headings first occur."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                heading = getattr(parameter, "heading", "Options")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def option(name: str, about: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return a decorator for a flag with an environment variable."""
    return click.option(
        name, cls=Option, help=about, envvar=variable(name), show_envvar=True, **more
    )


def switch(
    name: str, about: str, *, default: bool | None, **more: Any
) -> Callable[[Decorated], Decorated]:
    """Return a decorator for a boolean flag: bare, =true or =false."""
    return option(
        name,
        about,
        type=bool,
        is_flag=False,
        flag_value="true",
        default=default,
        metavar="[BOOL]",
        **more,
    )


def variable(name: str) -> str:
    """Return the environment variable of a flag: VSCHEDULER_SCHEDULER_NAME."""
    return f"VSCHEDULER_{name.removeprefix('--').replace('-', '_').upper()}"


def bounded(option: Callable[..., Any] = option) -> Callable[[Decorated], Any]:
    """Return a decorator that adds the flags of bounds per pod, in the order of the help.

    `option` creates each flag.
    """

    def decorate(command: Decorated) -> Decorated:
        for name in reversed(bounds.NAMES):
            command = option(
                bounds.flag(name),
                BOUNDS_ABOUT[name],
                type=click.IntRange(min=1),
                default=getattr(bounds.DEFAULT, name),
                show_default=True,
                heading=BOUNDS_HEADING,
            )(command)
        return command

    return decorate


def plain(name: str, about: str, *, heading: str, **more: Any) -> Callable[[Any], Any]:
    """Return a decorator for a flag without environment variable and heading."""
    del heading
    return click.option(name, help=about, **more)


def take(words: dict[str, Any]) -> Bounds:
    """Return the given bounds, and remove their flags from `words`."""
    return bounds.of({name: words.pop(name) for name in bounds.NAMES})


HISTORY = click.option(
    "--history",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Expect jobs to run as long as those in this file, as `run --history-file` keeps it.",
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
        show_default=True,
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
