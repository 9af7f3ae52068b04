"""The lessons of examples/ that need no cluster; the others: tests/integration/test_lessons.py."""

import re
import shutil
from pathlib import Path

import pytest

from tests.examples import lessons
from tests.examples.lessons import Lesson, Stage, Step

LESSONS = lessons.all_lessons()
OFFLINE = [lesson for lesson in LESSONS if not lesson.needs_a_cluster]


@pytest.fixture
def lesson(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Lesson:
    """One of them, in whose folder commands are run."""
    found: Lesson = request.param
    monkeypatch.chdir(found.folder)
    return found


@pytest.mark.parametrize("lesson", OFFLINE, ids=lambda each: each.name, indirect=True)
def test_a_lesson_is_as_its_readme_says(lesson: Lesson, tmp_path: Path) -> None:
    """Each command prints what stands below it, and decides what expected.yaml says."""
    stage = Stage(lesson, tmp_path / "site")
    for step in lesson.steps:
        output = stage.run(step.command)
        assert step.shows(output), output
        if step.simulates:
            assert stage.outcome(step.command) == step.expected
        elif "figures" in step.expected:
            assert stage.figures(step.command) == step.expected["figures"]
        elif "passed" in step.expected:
            assert re.search(rf"\b{step.expected['passed']} passed\b", output), output


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda each: each.name)
def test_a_lesson_is_complete(lesson: Lesson) -> None:
    """Each command has its outcome; each manifest and configuration has a command that uses it."""
    assert lesson.steps
    assert any(step.expected.keys() > {"command"} for step in lesson.steps)
    words = {word for step in lesson.steps for word in step.command.split()}
    given = {path.name for path in lesson.folder.iterdir() if path.suffix in (".yaml", ".conf")}
    used = words | {"expected.yaml"}
    if "test_policy.py" in words:
        used.add("scheduler.conf")
    assert given <= used


def test_lessons_are_numbered_and_listed() -> None:
    """From 01 on without a gap, each with its number in its title and in the list of all."""
    assert [lesson.name[:2] for lesson in LESSONS] == [
        f"{number:02}" for number in range(1, len(LESSONS) + 1)
    ]
    for lesson in LESSONS:
        assert lesson.readme.startswith(f"# {lesson.name[:2]}: ")
    overview = (lessons.EXAMPLES / "README.md").read_text()
    listed = re.findall(r"^\| \[(.+?)\]\((.+?)\)", overview, re.MULTILINE)
    assert listed == [(lesson.name, f"{lesson.name}/README.md") for lesson in LESSONS]


def test_links_of_lessons_lead_somewhere() -> None:
    """To files of this repository."""
    for path in (lessons.EXAMPLES / "README.md", *(each.folder / "README.md" for each in LESSONS)):
        for target in re.findall(r"\]\((?!https:)(.+?)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path}: {target}"


def test_the_policy_test_fails_for_a_policy_that_breaks_the_promise(tmp_path: Path) -> None:
    """As its README says: without reclaim, the second of its three."""
    folder = tmp_path / "lesson"
    shutil.copytree(lessons.EXAMPLES / "14-policy-test", folder)
    configuration = folder / "scheduler.conf"
    whole = configuration.read_text()
    configuration.write_text(whole.replace(", reclaim", ""))
    assert configuration.read_text() != whole
    stage = Stage(Lesson(folder), tmp_path / "site")
    with pytest.raises(AssertionError, match="1 failed, 2 passed") as failure:
        stage.run("pytest test_policy.py -p no:randomly -p no:cacheprovider")
    assert "FAILED test_policy.py::test_a_tenant_gets_its_half_back" in str(failure.value)


def test_readmes_are_compared_line_by_line() -> None:
    """The comparison itself: trailing spaces don't count, all else does, … is anything."""
    step = Step(command="", shown="A  B\n…\nx … z\n", expected={})
    assert step.shows("A  B  \n1\n2\nx y z\n")
    assert step.shows("A  B\nx  z")
    assert not step.shows("A B\nx y z\n")
    assert not step.shows("A  B\nx y z\nmore\n")
    assert not step.shows("A  B\n")
