"""Output for programs and for people: objects as JSON or YAML, which have codes of their own for
what isn't seen, and consoles for tables, as wide as the terminal.
"""

import json
from collections.abc import Mapping
from typing import Any, TextIO

import click
import yaml
from rich import console, text

from vscheduler.mirror import plain_text

FILE_WIDTH = 200
"""Columns where there is no terminal that says how wide it is."""


def show(tree: Mapping[str, Any], output: str, *, indent: int = 2, mark: str = "") -> None:
    """Print an object for programs, as `json` or `yaml`, below a line that marks its beginning.

    What isn't seen is written as its code, which these formats have; all else as it is.
    """
    made = json_of(tree, indent=indent) if output == "json" else yaml_of(tree)
    if mark:
        click.echo(mark)
    click.echo(plain_text.shown_lines(made))


def json_of(tree: Mapping[str, Any], *, indent: int = 2) -> str:
    """An object as JSON."""
    made = json.dumps(tree, indent=indent, ensure_ascii=False)
    return plain_text.shown_lines(made, code=plain_text.json_code)


def yaml_of(tree: Mapping[str, Any]) -> str:
    """An object as YAML, without a newline at its end."""
    made = str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    if plain_text.shown_lines(made) != made:
        made = str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=False))
    return made.rstrip("\n")


class Screen(console.Console):
    """A console for tables, which shows all text as it is: brackets too, and escapes as codes."""

    def __init__(self, stream: TextIO, **how: Any) -> None:
        """`how` is for tests: a terminal where there is none."""
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
        """Whatever text is on it comes through here."""
        return super().render_str(plain_text.shown(text), **more)
