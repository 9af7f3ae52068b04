"""Progress of slow work, on a terminal or in a CI log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import msgspec
from rich import console as rich_console

PLAIN_INTERVAL_SECONDS = 15.0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of work, reported at its start and repeatedly while in progress."""

    what: str
    elapsed_seconds: float = 0.0
    index: int = 0
    total: int = 0

    def __str__(self) -> str:
        place = f"[{self.index}/{self.total}] " if self.total else ""
        elapsed = f" ({self.elapsed_seconds:.0f} s)" if self.elapsed_seconds >= 1 else ""
        return f"{place}{self.what}{elapsed}"


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Report nothing."""


class PlainLines:
    """Prints a line per step, and a line every 15 seconds during a step."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what = ""
        self._said_at_seconds = 0.0

    def __call__(self, step: Step) -> None:
        """Print the step, unless printed within the last 15 seconds."""
        waited = step.elapsed_seconds - self._said_at_seconds
        if step.what == self._what and waited < PLAIN_INTERVAL_SECONDS:
            return
        self._what, self._said_at_seconds = step.what, step.elapsed_seconds
        print(step, file=self._stream, flush=True)


@contextmanager
def on_stderr() -> Iterator[Progress]:
    """Report on stderr: a live line on a terminal, plain lines in a log."""
    terminal = rich_console.Console(stderr=True, highlight=False)
    if not terminal.is_terminal:
        yield PlainLines(sys.stderr)
        return
    with terminal.status("") as status:
        yield lambda step: status.update(str(step).replace("[", r"\["))
