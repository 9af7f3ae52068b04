"""Flags: of a daemon, each with an environment variable and in the help under its heading; and
those of all commands that look at pods, which say how much one pod may ask for.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vscheduler.mirror.translate import bounds

Decorated = TypeVar("Decorated", bound=Callable[..., None])

BOUNDS_HEADING = "Bounds of one pod"

BOUNDS_ABOUT = {
    "max_pod_affinity_terms": "Pod affinity and anti-affinity terms; a pod with more waits.",
    "max_pod_selector_values": "Labels, expressions, values and namespaces in selectors.",
    "max_pod_topology_spreads": "Topology spread constraints.",
    "max_pod_tolerations": "Tolerations.",
    "max_pod_resources": "Resources that are named in requests.",
    "max_pod_bytes": "Size of what is read of a pod.",
}


class Option(click.Option):
    """An option that may stand under a heading of its own."""

    def __init__(self, *words: Any, heading: str = "Options", **more: Any) -> None:
        super().__init__(*words, **more)
        self.heading = heading


class Command(click.Command):
    """A command whose help has its options by heading; `--help` and all others come first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section per heading, in the order in which headings first occur."""
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
    """A flag, which an environment variable of its name can give too."""
    return click.option(
        name, cls=Option, help=about, envvar=variable(name), show_envvar=True, **more
    )


def switch(
    name: str, about: str, *, default: bool | None, **more: Any
) -> Callable[[Decorated], Decorated]:
    """A boolean flag: bare, =true or =false."""
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
    """The environment variable of a flag: VSCHEDULER_SCHEDULER_NAME."""
    return f"VSCHEDULER_{name.removeprefix('--').replace('-', '_').upper()}"


def bounded(option: Callable[..., Any] = option) -> Callable[[Decorated], Any]:
    """Add the flags that bound a pod, in the order in which the help has them.

    option: makes each of them.
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
    """A flag that no environment variable can give; its help stands among all others."""
    del heading
    return click.option(name, help=about, **more)


def take(words: dict[str, Any]) -> bounds.Bounds:
    """The bounds that were given; their flags leave these words."""
    return bounds.of({name: words.pop(name) for name in bounds.NAMES})
