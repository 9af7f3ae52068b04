import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from vscheduler.cli import main

ROOT = Path(__file__).parents[3]


def create(folder: Path, name: str = "keep-off") -> tuple[int, str]:
    """What `vscheduler plugin new` exits with and prints."""
    words = ["plugin", "new", name, "--directory", str(folder)]
    done = CliRunner().invoke(main.vscheduler, words)
    return done.exit_code, done.output


def test_the_test_of_a_new_plugin_passes(tmp_path: Path) -> None:
    """What is created works before anything is changed in it."""
    status, said = create(tmp_path / "new")
    assert (status, "pytest" in said) == (0, True)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."]
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, *words],
        cwd=tmp_path / "new",
        env={"PYTHONPATH": f"{ROOT}:."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    """Nobody's work is overwritten."""
    (tmp_path / "mine.py").write_text("")
    status, said = create(tmp_path)
    assert status == 1
    assert "isn't empty" in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_names_that_are_no_names_are_refused(tmp_path: Path) -> None:
    """The name stands in the configuration and in a module's name."""
    status, said = create(tmp_path / "new", "Keep off!")
    assert status == 2
    assert "lower-case" in said
