"""Objects for programs, as JSON or YAML, which have codes of their own for what isn't seen."""

import json
from collections.abc import Mapping
from typing import Any

import click
import yaml

from vscheduler.mirror import plain_text


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
