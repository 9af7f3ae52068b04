"""The one way to stdout and stderr of all commands: whatever others wrote shows as text.

Names, messages and annotations are anybody's, and a terminal obeys what is in them. So nothing in
`cli` prints by itself (a meta test sees to that), and a line that is said is one line.
"""

import re
from collections.abc import Iterable
from typing import Any, TextIO

import click

from vscheduler.mirror import plain_text

_PAINT = re.compile(r"(\x1b\[[0-9;]*m)")
"""Colours, as click.style makes them."""


def say(
    *lines: str, err: bool = False, painted: bool = False, stream: TextIO | None = None
) -> None:
    """Print each of these as one line, on stdout if nothing else is said.

    painted: whether there are colours in them that are ours, so that others' text was made plain
    before (`plain`).
    """
    for line in cleaned(lines, painted=painted):
        click.echo(line, err=err, file=stream)


def cleaned(lines: Iterable[str], *, painted: bool = False) -> list[str]:
    """The lines without anything that a terminal obeys; where they are painted, but for colours."""
    if not painted:
        return [plain_text.shown(line) for line in lines]
    return [
        "".join(
            part if at % 2 else plain_text.shown(part) for at, part in enumerate(_PAINT.split(line))
        )
        for line in lines
    ]


def plain(tree: Any) -> Any:
    """An object of others' with all its text made plain, names of fields too."""
    match tree:
        case str():
            return plain_text.shown(tree)
        case dict():
            return {plain(key): plain(value) for key, value in tree.items()}
        case list():
            return [plain(each) for each in tree]
    return tree


class Commands(click.Group):
    """Commands of which the errors are plain, too: what others wrote is quoted in them."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that is asked for."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = plain_text.shown_lines(error.message)  # type: ignore[misc]  # shown later
            raise
