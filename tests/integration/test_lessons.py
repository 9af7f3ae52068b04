"""The lessons of examples/ that need a cluster, as people follow them, on the sandbox."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox.control_plane import ControlPlane
from tests import patience
from tests.examples import lessons
from tests.examples.lessons import Lesson, Stage, Step, Tree
from tests.integration import daemons

LESSONS = [lesson for lesson in lessons.all_lessons() if lesson.needs_a_cluster]
COMMAND_SECONDS = 200.0
POLL_SECONDS = 0.2


class Shell:
    """What people type in a lesson's folder, with kubectl, vscheduler and a KUBECONFIG at hand."""

    def __init__(self, cluster: ControlPlane, folder: Path, programs: Path) -> None:
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster.kubectl)
        (programs / "vscheduler").write_text(
            f'#!/bin/sh\nexec {sys.executable} -m vscheduler "$@"\n'
        )
        (programs / "vscheduler").chmod(0o755)
        self._folder = folder
        self._log = programs / "log"
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(lessons.EXAMPLES.parent),
        }

    def run(self, command: str) -> str:
        """What a command prints."""
        done = subprocess.run(  # noqa: S603 - from our own READMEs
            shlex.split(command),
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """A command that goes on in the background; it must neither end by itself nor in error."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - the same
                shlex.split(command),
                cwd=self._folder,
                env=self._environment,
                stderr=log,
            )
        try:
            yield
            assert process.poll() is None, self._log.read_text()
            process.terminate()
            assert process.wait(COMMAND_SECONDS) == 0, self._log.read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def until_shown(self, step: Step) -> None:
        """Wait until a command prints what the README shows: the first time may be too early."""
        patience.wait_until(
            lambda: step.shows(self.run(step.command)), told=lambda: self.run(step.command)
        )


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda each: each.name)
def test_a_lesson_is_as_its_readme_says(
    cluster: ControlPlane,
    lesson: Lesson,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each command prints what stands below it, and expected.yaml is what there is in the end."""
    lesson = Lesson(shutil.copytree(lesson.folder, tmp_path / lesson.name))  # some write files
    monkeypatch.chdir(lesson.folder)
    cluster.create_nodes(count=2)
    stage = Stage(lesson, tmp_path / "site")
    shell = Shell(cluster, lesson.folder, tmp_path / "programs")
    with ExitStack() as stack:
        for step in lesson.steps:
            if step.simulates:
                assert step.shows(stage.run(step.command))
                assert stage.outcome(step.command) == step.expected
            elif step.command.endswith(lessons.BACKGROUND):
                command = step.command.removesuffix(lessons.BACKGROUND)
                stack.enter_context(shell.running(command))
            elif step.command.startswith("kubectl apply "):
                assert step.shows(output := shell.run(step.command)), output
            else:
                shell.until_shown(step)
            if "bound" in step.expected:
                wait_for(cluster, step.expected)


def wait_for(cluster: ControlPlane, expected: Mapping[str, Any]) -> None:
    """Wait until just these pods are bound, and PodGroups are so: phases come after their pods."""
    wanted = (expected["bound"], expected["podGroups"])
    deadline = time.monotonic() + daemons.PATIENCE_SECONDS
    while (found := (sorted(daemons.nodes_of(cluster)), groups(cluster))) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(POLL_SECONDS)


def groups(cluster: ControlPlane) -> Tree:
    """Of each PodGroup the queue, the minimum and the phase."""
    return {
        group["metadata"]["name"]: {
            "queue": group["spec"].get("queue", ""),
            "minMember": group["spec"]["minMember"],
            "phase": group.get("status", {}).get("phase", ""),
        }
        for group in cluster.api.list(daemons.GROUPS)
    }
