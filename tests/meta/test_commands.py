"""Every command of the pages is run by a test; those that need no cluster by this one."""

import ast
import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml
from click import testing

from tests import documented
from tests.documented import Way
from vscheduler.cli import main
from vscheduler.testing import pictures

COMMANDS = list(documented.commands())
PICTURE = """
    node  n1 cpu=4
    queue gold
    job   gold/train min=2  - -
"""
CONFIGURATION = """
actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: overcommit}, {name: predicates}, {name: proportion}]
"""
LOG = "; MaxProcs: 4\n1 0 0 60 2 -1 -1 2 120 -1 1 5 1 1 1 -1 -1 -1\n"
"""A trace in the Standard Workload Format."""
PLACEHOLDER = "FILE..."


def those(way: Way) -> list[str]:
    """The commands that are tested in this way, each once."""
    return sorted({each.text for each in COMMANDS if each.way is way})


def test_every_command_has_its_test() -> None:
    """A new one is sorted into a way by its beginning, or named with the test that runs it."""
    assert len(COMMANDS) > 60
    assert [each for each in COMMANDS if each.way is None] == []


def test_no_command_is_named_in_vain() -> None:
    """What docs don't have any more needs no test."""
    assert set(documented.ELSEWHERE) - {each.text for each in COMMANDS} == set()


@pytest.mark.parametrize("place", sorted(set(documented.ELSEWHERE.values())))
def test_tests_that_are_named_exist(place: str) -> None:
    """Under that name, in that file."""
    path, _, name = place.partition("::")
    text = (documented.ROOT / path).read_text()
    if path == "Makefile":
        assert re.search(rf"^{name}:", text, re.MULTILINE)
    else:
        found = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]
        assert name in {each.name for each in found}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of the names that docs use."""
    objects = yaml.safe_dump_all(pictures.documents(PICTURE))
    (tmp_path / "jobs").mkdir()
    for name in ("cluster.yaml", "objects.yaml", "jobs/train.yaml", PLACEHOLDER):
        (tmp_path / name).write_text(objects)
    for name in ("scheduler.conf", "new.conf"):
        (tmp_path / name).write_text(CONFIGURATION)
    (tmp_path / "log.swf").write_text(LOG)
    (tmp_path / "FILE").write_text(LOG)
    (tmp_path / "jobs.csv").write_text("submit,duration\n0,60\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", those(Way.OFFLINE))
def test_what_needs_no_cluster_works(desk: Path, text: str) -> None:
    """On a small one in files."""
    assert (desk / "cluster.yaml").is_file()
    program, *arguments = shlex.split(text)
    assert program == "vscheduler"
    done = testing.CliRunner().invoke(main.vscheduler, arguments)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("text", those(Way.MAKE))
def test_what_make_is_told_it_can_do(text: str) -> None:
    """Without doing it."""
    done = subprocess.run(  # noqa: S603 - our own docs
        ["bash", "-c", text.replace("make ", "make --dry-run ", 1)],  # noqa: S607 - that of PATH
        cwd=documented.ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def unknown(text: str) -> list[str]:
    """Words and flags of a `vscheduler …` that it doesn't have."""
    command: click.Command = main.vscheduler
    words = [word for word in text.split()[1:] if re.fullmatch("[a-z]+", word)]
    for word in words:
        if not isinstance(command, click.Group):
            break
        if word not in command.commands:
            return [word]
        command = command.commands[word]
    known = {flag for option in command.params for flag in option.opts} | {"--help", "--version"}
    return [flag for flag in re.findall(r"(?<!\S)--?[a-z][a-z-]*", text) if flag not in known]


def test_commands_of_ours_exist() -> None:
    """In blocks and in sentences: their words and flags are there."""
    said = {each.text for each in COMMANDS if each.text.startswith("vscheduler ")}
    for path in documented.PAGES.values():
        said |= set(re.findall(r"`(vscheduler [a-z][^`…]*)", path.read_text()))
    assert len(said) > 40
    assert {text: wrong for text in said if (wrong := unknown(text))} == {}
    assert unknown("vscheduler queue trees") == ["trees"]
    assert unknown("vscheduler check --scheduler-config f") == ["--scheduler-config"]
