"""Commands that are imported when a user asks for one, so that help is there at once."""

import gc
import importlib
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import click

from vscheduler.cli import screen


class Place(NamedTuple):
    """Where a command is defined, and its line in the list of commands."""

    module: str
    """Name of the module; its attribute `command` is the command."""
    help: str = ""
    """Its first sentence, which click cuts to the width of a terminal."""
    short_help: str = ""
    """A line of its own, which click doesn't cut."""


class Lazily(UserDict[str, click.Command]):
    """Commands by name, each imported when it is asked for: the daemon doesn't need the demo, nor
    the client library of the commands for people.
    """

    def __init__(self, places: Mapping[str, Place]) -> None:
        super().__init__()
        self._places = places

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data:
            with importing():
                self.data[name] = importlib.import_module(self._places[name].module).command
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def listed(self) -> dict[str, click.Command]:
        """Stand-ins for all commands, none of them imported, with the lines for a list."""
        return {
            name: click.Command(name, help=place.help, short_help=place.short_help)
            for name, place in self._places.items()
        }


class Commands(screen.Commands):
    """A group whose list of commands is written without an import of any command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list as click does."""
        assert isinstance(self.commands, Lazily)
        click.Group(commands=self.commands.listed()).format_commands(ctx, formatter)


@contextmanager
def importing() -> Iterator[None]:
    """Keep the garbage collector from looking through modules that are being made: all of it is in
    use, and the looks are a tenth of the time.

    Commands import within this block what they run; what their flags need is imported above.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
