from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from click import testing

from vscheduler.cli import main

FOLDER = Path(__file__).parent / "help"
WIDTH = 98
"""Of a line on a terminal of 100 columns."""


def below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The command, and those within it, by the words that call them."""
    yield words, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from below(f"{words} {name}", command.commands[name])


COMMANDS: Mapping[str, click.Command] = dict(below("vscheduler", main.vscheduler))


def file_of(words: str) -> Path:
    """Where the help text of a command is kept."""
    return FOLDER / f"{words.removeprefix('vscheduler ').replace(' ', '-')}.txt"


def shown(words: str) -> str:
    """What --help prints on a terminal of 100 columns."""
    done = testing.CliRunner().invoke(
        main.vscheduler,
        [*words.split()[1:], "--help"],
        prog_name="vscheduler",
        terminal_width=WIDTH,
    )
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("words", COMMANDS)
def test_help_says_what_it_said(words: str) -> None:
    """A change of flags is a change of contract: look at it, then write the file anew with
    `COLUMNS=100 vscheduler COMMAND --help > tests/unit/cli/help/COMMAND.txt`.
    """
    assert shown(words) == file_of(words).read_text()


def test_every_help_text_belongs_to_a_command() -> None:
    """No file is left behind."""
    assert sorted(FOLDER.iterdir()) == sorted(map(file_of, COMMANDS))


@pytest.mark.parametrize("words", COMMANDS)
def test_every_visible_flag_is_explained(words: str) -> None:
    """Each has a sentence in the help text."""
    flags = [param for param in COMMANDS[words].params if isinstance(param, click.Option)]
    assert [flag.name for flag in flags if not flag.hidden and not flag.help] == []


@pytest.mark.parametrize(
    ("words", "status"), [(["--version"], 0), ([], 2), (["dance"], 2), (["queue"], 2)]
)
def test_the_group_itself(words: list[str], status: int) -> None:
    """A version; a command is needed, and must exist."""
    done = testing.CliRunner().invoke(main.vscheduler, words)
    assert done.exit_code == status
    if status == 0:
        assert done.stdout.startswith("vscheduler ")
