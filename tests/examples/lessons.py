"""The numbered lessons of examples/: what their READMEs have people type, and what comes of it."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from click import testing

from vscheduler.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
BLOCK = re.compile(r"^```\n(\$ .+?)^```$", re.DOTALL | re.MULTILINE)
ELLIPSIS = "…"
"""Alone on a line of a README: any lines; within one: any text."""

DEADLINE_SECONDS = 120.0
BACKGROUND = " &"
OF_CLUSTERS = ("kubectl ", "vscheduler run ")

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command, what the README shows below it, and what it must lead to."""

    command: str
    shown: str
    expected: Mapping[str, Any]

    @property
    def simulates(self) -> bool:
        """Whether it is one of `vscheduler simulate` that shows decisions."""
        return self.command.startswith("vscheduler simulate ") and " --why " not in self.command

    def shows(self, output: str) -> bool:
        """Whether this is the output that the README shows."""
        lines = self.shown.splitlines()
        return re.fullmatch("".join(_pattern(line) for line in lines), _trimmed(output)) is not None


def _pattern(line: str) -> str:
    if line == ELLIPSIS:
        return r"(?:.*\n)*"
    return ".*".join(re.escape(part) for part in line.split(ELLIPSIS)) + r"\n"


def _trimmed(output: str) -> str:
    """Without what nobody sees: spaces at the end of lines, and empty lines around it all."""
    lines = "\n".join(line.rstrip() for line in output.splitlines()).strip("\n")
    return f"{lines}\n" if lines else ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A folder `NN-name`."""

    folder: Path

    @property
    def name(self) -> str:
        """As the folder is called."""
        return self.folder.name

    @property
    def readme(self) -> str:
        """What people read."""
        return (self.folder / "README.md").read_text()

    @property
    def expectations(self) -> list[Tree]:
        """One for each command, in their order."""
        loaded: list[Tree] = yaml.safe_load((self.folder / "expected.yaml").read_text())
        return loaded

    @property
    def steps(self) -> list[Step]:
        """The README's commands with what is expected of them."""
        told = list(_told(self.readme))
        expected = self.expectations
        assert [command for command, _ in told] == [each["command"] for each in expected]
        return [
            Step(command=command, shown=shown, expected=each)
            for (command, shown), each in zip(told, expected, strict=True)
        ]

    @property
    def needs_a_cluster(self) -> bool:
        """Whether one of its commands speaks to an API server."""
        return any(f"{command} ".startswith(OF_CLUSTERS) for command, _ in _told(self.readme))


def _told(readme: str) -> Iterator[tuple[str, str]]:
    """Commands, which stand behind `$ `, and the lines below each."""
    for block in BLOCK.findall(readme):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, _trimmed(shown)


def all_lessons() -> list[Lesson]:
    """In their order."""
    return [Lesson(folder) for folder in sorted(EXAMPLES.glob("[0-9][0-9]-*"))]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a lesson is played: its folder, and a place of its own for what it installs."""

    lesson: Lesson
    site: Path

    def run(self, command: str) -> str:
        """What a command that needs no cluster prints, without notes; it must end well."""
        program, *arguments = shlex.split(command)
        if program == "vscheduler" and not self.site.exists():
            done = testing.CliRunner().invoke(main.vscheduler, arguments)
            assert done.exit_code == 0, done.output
            return done.stdout
        if command.startswith("pip install "):
            arguments += ["--quiet", "--disable-pip-version-check", f"--target={self.site}"]
            arguments += ["--no-deps", "--no-build-isolation", "--no-index"]
        return self._output(program, *arguments)

    def _output(self, program: str, *arguments: str) -> str:
        path = os.pathsep.join([str(self.site), str(EXAMPLES.parent)])
        done = subprocess.run(  # noqa: S603 - commands of our own READMEs
            [sys.executable, "-m", program, *arguments],
            cwd=self.lesson.folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        return output

    def outcome(self, command: str) -> Tree:
        """What `vscheduler simulate` decides, as in expected.yaml; what is empty is left out."""
        tree = json.loads(self.run(f"{command} --strict --output json"))
        found = {
            "binds": tree["binds"],
            "evicts": {
                each["pod"]: f"{each['action']} for {each['for']}" for each in tree["evicts"]
            },
            "pipelined": tree["pipelined"],
            "allocated": {
                name: amounts
                for name, queue in tree["queues"].items()
                if (amounts := {k: v for k, v in queue["allocated"].items() if k != "pods"})
            },
            "waits": {
                name: {key: group[key] for key in ("phase", "reason", "message")}
                for name, group in tree["podGroups"].items()
                if "reason" in group
            },
        }
        return {"command": command} | {key: value for key, value in found.items() if value}

    def figures(self, command: str) -> Tree:
        """What `vscheduler replay` finds out under each policy, as in expected.yaml."""
        tree = json.loads(self.run(f"{command} --output json"))
        return {
            each["name"]: {
                "wait": each["waits"]["all"]["mean"],
                "longest": each["waits"]["all"]["max"],
                "missed": each["promises"]["missed"],
            }
            for each in tree["replays"]
        }
