"""Commands that are imported only when used, so that help appears at once."""

import gc
import importlib
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import click

from vscheduler.cli import screen


class Place(NamedTuple):
    """The module of a command, and its line in the list of commands."""

    module: str
    """Name of the module; the command is its attribute `command`."""
    help: str = ""
    """The first sentence of the help, cut by click to the terminal's width."""
    short_help: str = ""
    """A separate help line, which click doesn't cut."""


class Lazily(UserDict[str, click.Command]):
    """Commands by name, each imported on first use. The daemon doesn't need the client library of
    interactive commands.
    """

    def __init__(
        self, places: Mapping[str, Place], aliases: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._places = places
        self._aliases = aliases or {}

    def __getitem__(self, name: str) -> click.Command:
        name = self._aliases.get(name, name)
        if name not in self.data:
            with importing():
                self.data[name] = importlib.import_module(self._places[name].module).command
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return self._aliases.get(name, name) in self._places  # type: ignore[call-overload]  # any object

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def listed(self) -> dict[str, click.Command]:
        """Return placeholders for all commands, with their help lines, without imports."""
        return {
            name: click.Command(name, help=place.help, short_help=place.short_help)
            for name, place in self._places.items()
        }


class Commands(screen.Commands):
    """A group that lists its commands without importing any."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list as click does."""
        assert isinstance(self.commands, Lazily)
        click.Group(commands=self.commands.listed()).format_commands(ctx, formatter)


@contextmanager
def importing() -> Iterator[None]:
    """Disable the garbage collector during imports: nothing is garbage yet, and collections would
    take a tenth of the time.

    Commands import the modules they run within this context; modules needed for flags are imported
    at the top.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
