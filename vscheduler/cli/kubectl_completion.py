"""Completion of `kubectl vscheduler`, in the format of kubectl's own completion (cobra)."""

from collections.abc import Sequence

from click import shell_completion

from vscheduler.cli import main, screen

NO_FILES = ":4"
"""cobra: ShellCompDirectiveNoFileComp; the last line of the answer."""


def suggest(words: Sequence[str]) -> None:
    """Print a suggestion per line for the last word, and the directive."""
    *before, typed = words or [""]
    complete = shell_completion.BashComplete(main.vscheduler, {}, "kubectl vscheduler", "")
    screen.say(
        *(completion.value for completion in complete.get_completions(list(before), typed)),
        NO_FILES,
    )
