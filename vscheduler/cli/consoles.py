"""Where tables are shown: a terminal as wide as it is, or a file."""

from typing import Any, TextIO

from rich import console, text

from vscheduler.mirror import plain_text

FILE_WIDTH = 200
"""Columns where there is no terminal that says how wide it is."""


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
