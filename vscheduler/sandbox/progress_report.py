"""Telling a person, or a CI log, how far slow work has come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich import console as rich_console

PLAIN_INTERVAL_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing being done: reported when it starts and again while it lasts."""

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
    """A line per step, and one every quarter of a minute while a step lasts."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what = ""
        self._said_at_seconds = 0.0

    def __call__(self, step: Step) -> None:
        """Print the step unless it was printed a moment ago."""
        waited = step.elapsed_seconds - self._said_at_seconds
        if step.what == self._what and waited < PLAIN_INTERVAL_SECONDS:
            return
        self._what, self._said_at_seconds = step.what, step.elapsed_seconds
        print(step, file=self._stream, flush=True)


@contextmanager
def on_stderr() -> Iterator[Progress]:
    """Report on stderr: one live line on a terminal, plain lines in a log."""
    terminal = rich_console.Console(stderr=True, highlight=False)
    if not terminal.is_terminal:
        yield PlainLines(sys.stderr)
        return
    with terminal.status("") as status:
        yield lambda step: status.update(str(step).replace("[", r"\["))
