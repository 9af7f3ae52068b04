"""Flags of a daemon: each with an environment variable, and in the help under its heading."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., None])


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
