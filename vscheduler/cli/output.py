"""Output formats: JSON and YAML for programs, consoles as wide as the terminal for tables.

JSON and YAML have escapes of their own for invisible characters.
"""

import json
from collections.abc import Mapping
from typing import Any, TextIO

import click
import yaml
from rich import console, text

from vscheduler.mirror.wording import plain_text

FILE_WIDTH = 200
"""Columns of output that isn't a terminal."""


def show(tree: Mapping[str, Any], output: str, *, indent: int = 2, mark: str = "") -> None:
    """Print an object as `json` or `yaml`, below an optional line that marks its beginning.

    Invisible characters are written as escapes of the format, all remaining text as is.
    """
    made = json_of(tree, indent=indent) if output == "json" else yaml_of(tree)
    if mark:
        click.echo(mark)
    click.echo(plain_text.shown_lines(made))


def json_of(tree: Mapping[str, Any], *, indent: int = 2) -> str:
    """Return an object as JSON."""
    made = json.dumps(tree, indent=indent, ensure_ascii=False)
    return plain_text.shown_lines(made, code=plain_text.json_code)


def yaml_of(tree: Mapping[str, Any]) -> str:
    """Return an object as YAML, without a trailing newline."""
    made = str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    if plain_text.shown_lines(made) != made:
        made = str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=False))
    return made.rstrip("\n")


class Screen(console.Console):
    """A console for tables that shows all text literally: brackets stay, and escapes show as
    codes.
    """

    def __init__(self, stream: TextIO, **how: Any) -> None:
        """Create a console; `how` lets tests simulate a terminal."""
        given: dict[str, Any] = {"width": None if stream.isatty() else FILE_WIDTH, **how}
        super().__init__(
            file=stream,
            markup=False,
            highlight=False,
            emoji=False,
            soft_wrap=False,
            **given,
        )

    def render_str(self, text: str, **more: Any) -> text.Text:
        """Return text for printing: all strings of the console pass through here."""
        return super().render_str(plain_text.shown(text), **more)
