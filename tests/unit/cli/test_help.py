from pathlib import Path

import click
import pytest
from click import testing

from vscheduler.cli import main

FOLDER = Path(__file__).parent / "help"
WIDTH = 98
"""Of a line on a terminal of 100 columns."""
COMMANDS = ["vscheduler", *sorted(main.vscheduler.commands)]


def shown(command: str) -> str:
    """What --help prints on a terminal of 100 columns."""
    words = [] if command == "vscheduler" else [command]
    done = testing.CliRunner().invoke(
        main.vscheduler, [*words, "--help"], prog_name="vscheduler", terminal_width=WIDTH
    )
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_said(command: str) -> None:
    """A change of flags is a change of contract: look at it, then write the file anew with
    `COLUMNS=100 vscheduler COMMAND --help > tests/unit/cli/help/COMMAND.txt`.
    """
    assert shown(command) == (FOLDER / f"{command}.txt").read_text()


def test_every_help_text_belongs_to_a_command() -> None:
    """No file is left behind."""
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(COMMANDS)


@pytest.mark.parametrize("command", main.vscheduler.commands.values())
def test_every_visible_flag_is_explained(command: click.Command) -> None:
    """Each has a sentence in the help text."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.hidden and not each.help] == []


@pytest.mark.parametrize(("words", "status"), [(["--version"], 0), ([], 2), (["dance"], 2)])
def test_the_group_itself(words: list[str], status: int) -> None:
    """A version; a command is needed, and must exist."""
    done = testing.CliRunner().invoke(main.vscheduler, words)
    assert done.exit_code == status
    if status == 0:
        assert done.stdout.startswith("vscheduler ")
