"""`vscheduler`: the commands under one name. Exit status: 0 done, 1 error, 2 usage."""

import gc
import importlib
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from vscheduler.cli import screen

CONTEXT = {"max_content_width": 100}
MODULES = {
    "check": "vscheduler.cli.check",
    "demo": "vscheduler.cli.demo",
    "queue": "vscheduler.cli.queue.command",
    "run": "vscheduler.cli.run",
    "simulate": "vscheduler.cli.simulate",
}
"""Where the attribute `command` of each command is."""


class Lazily(UserDict[str, click.Command]):
    """Commands by name, each imported when it is asked for: the daemon doesn't need the demo, nor
    the client library of the commands for people.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        super().__init__()
        self._modules = modules

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data:
            with _nothing_collected():
                self.data[name] = importlib.import_module(self._modules[name]).command
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep the garbage collector from looking through modules that are being made: all of it is in
    use, and the looks are a tenth of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@click.group(cls=screen.Commands, context_settings=CONTEXT, commands=Lazily(MODULES))
@click.version_option(package_name="vscheduler", message="vscheduler %(version)s")
def vscheduler() -> None:
    """A second scheduler for Kubernetes: gangs, queues and fair shares, with reasons."""
