"""The only way to stdout and stderr for all commands: foreign text is printed harmlessly.

Anybody may write names, messages and annotations, and terminals obey control characters in them. So
no module of `cli` prints by itself (a meta test checks the rule), and a line stays a single line.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TextIO

import click

from vscheduler.mirror.wording import plain_text

USAGE_STATUS = 2
"""Exit status for flags that make no sense."""

_PAINT = re.compile(r"(\x1b\[[0-9;]*m)")
"""Colours, as click.style writes them."""


def say(
    *lines: str, err: bool = False, painted: bool = False, stream: TextIO | None = None
) -> None:
    """Print each argument as a line, on stdout by default.

    `painted` means that the lines contain our own colours; foreign text in them must be made plain
    beforehand (`plain`).
    """
    for line in cleaned(lines, painted=painted):
        click.echo(line, err=err, file=stream)


def cleaned(lines: Iterable[str], *, painted: bool = False) -> list[str]:
    """Return the lines without control characters; painted lines keep their colours."""
    if not painted:
        return [plain_text.shown(line) for line in lines]
    return [
        "".join(
            part if at % 2 else plain_text.shown(part) for at, part in enumerate(_PAINT.split(line))
        )
        for line in lines
    ]


def plain(tree: Any) -> Any:
    """Return a foreign object with all text made plain, field names included."""
    if isinstance(tree, str):
        return tree if tree.isprintable() else plain_text.shown(tree)
    if isinstance(tree, dict):
        return {plain(key): plain(value) for key, value in tree.items()}
    return [plain(each) for each in tree] if isinstance(tree, list) else tree


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
    say(*problems, err=True)
    sys.exit(status)


class Commands(click.Group):
    """A group of commands with plain error messages: errors may quote foreign text."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the requested command."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = plain_text.shown_lines(error.message)  # type: ignore[misc]  # shown later
            raise
