import os
import sys
from pathlib import Path

import pytest

from tests.alerts import __main__ as runner
from tests.alerts import monitoring

FAKE = """#!{python}
import pathlib, sys
with open({journal!r}, "a") as journal:
    journal.write(" ".join(sys.argv[1:]) + "\\n")
assert all(pathlib.Path(name).is_file() for name in sys.argv[2:] if name.endswith(".yaml"))
sys.exit(3 if {refused!r} in sys.argv else 0)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where the pretended promtool notes what it was asked."""
    return tmp_path / "journal"


def put_promtool_on_path(monkeypatch: pytest.MonkeyPatch, journal: Path, *, refused: str) -> None:
    """Pretend a promtool that fails on one argument, and on files that aren't there."""
    program = journal.parent / "promtool"
    text = FAKE.format(python=sys.executable, journal=str(journal), refused=refused)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{journal.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")


def test_rules_queries_and_every_case_are_run(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the promtool on PATH; each line that is run is printed first."""
    put_promtool_on_path(monkeypatch, journal, refused="nothing")
    assert runner.main() == 0
    done = journal.read_text(encoding="utf-8").splitlines()
    assert done[0] == "check rules --lint-fatal vscheduler-alerts.yaml dashboard-queries.yaml"
    assert done[1:] == [f"test rules {case.name}" for case in monitoring.CASES]
    assert capfd.readouterr().out.splitlines() == [f"promtool {line}" for line in done]


@pytest.mark.parametrize("refused", ["dashboard-queries.yaml", "fairness.yaml", "health.yaml"])
def test_whatever_fails_fails_it_all(
    refused: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is run all the same, so that one run shows everything."""
    put_promtool_on_path(monkeypatch, journal, refused=refused)
    assert runner.main() == 3
    assert len(journal.read_text(encoding="utf-8").splitlines()) == 1 + len(monitoring.CASES)


def test_a_promtool_that_cannot_be_had_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one message that says what to do, and never a silent pass."""
    folder = tmp_path / "go"
    folder.mkdir()
    go = folder / "go"
    go.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo go version go1.26.0 x && exit\nexit 1\n',
        encoding="utf-8",
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert runner.main() == 1
    assert "Building promtool" in capsys.readouterr().err
