import fcntl
import importlib.util
import os
from pathlib import Path

import pytest

from vscheduler.sandbox import binaries, building, errors, progress_report

FAKE_GO = """#!/bin/sh
case "$1" in
  version) echo "go version go{version} linux/amd64"; exit 0;;
esac
while [ "$1" != -o ]; do shift; done
echo built >> {journal}
{ending}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no assets."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "POLL_SECONDS", 0.01)
    return binaries.cache_folder()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where the pretended go command notes what it did."""
    return tmp_path / "journal"


def put_go_on_path(
    monkeypatch: pytest.MonkeyPatch, journal: Path, *, ending: str, version: str = "1.26.0"
) -> None:
    """Pretend a go command that does something quick."""
    folder = journal.parent / "go"
    folder.mkdir()
    go = folder / "go"
    text = FAKE_GO.format(journal=journal, ending=ending, version=version)
    go.write_text(text, encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


SUCCEED = 'echo "#!/bin/sh" > "$2"; chmod +x "$2"'
FAIL = 'echo "go: downloading x"; touch "$2"; echo "main.go:1: no such luck" >&2; exit 1'


def test_builds_what_is_missing_and_only_once(
    cache: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call finds everything; steps tell which program of how many is built."""
    put_go_on_path(monkeypatch, journal, ending=SUCCEED)
    steps: list[progress_report.Step] = []
    first = building.find_or_build(["etcd", "kwok"], progress=steps.append)
    assert first == building.find_or_build(["etcd", "kwok"])
    assert first["kwok"] == binaries.built_folder(cache, "kwok") / "kwok"
    assert journal.read_text(encoding="utf-8") == "built\nbuilt\n"
    assert {str(step) for step in steps} >= {"[1/2] building etcd", "[2/2] building kwok"}


def test_failed_build_leaves_nothing_and_tells_why(
    cache: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler's words, without the chatter, and what can be done."""
    put_go_on_path(monkeypatch, journal, ending=FAIL)
    with pytest.raises(errors.BuildFailed) as caught:
        building.find_or_build(["etcd"])
    assert "main.go:1: no such luck" in str(caught.value)
    assert "downloading" not in str(caught.value)
    assert "KUBEBUILDER_ASSETS" in str(caught.value)
    assert binaries.look_up(["etcd"]) == {}
    assert list(cache.glob("building-*")) == []


def test_leftovers_of_a_killed_build_are_removed(
    cache: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that was killed half-way costs no disk for ever."""
    put_go_on_path(monkeypatch, journal, ending=SUCCEED)
    (cache / "building-old").mkdir(parents=True)
    building.find_or_build(["etcd"])
    assert list(cache.glob("building-*")) == []


def test_second_process_waits_for_the_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held lock is waited for, with a word about it, but not for ever."""
    cache.mkdir(parents=True)
    monkeypatch.setattr(building, "BUILD_TIMEOUT_SECONDS", 0.05)
    steps: list[progress_report.Step] = []
    with (cache / "build.lock").open("w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(errors.TimedOut, match="another process has held"):
            building.find_or_build(["etcd"], progress=steps.append)
    assert steps[0].what == "waiting for another build"


def test_old_go_does_not_count(cache: Path, journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A go that can't build the sources is passed over; without pip, too, advice is all we have."""
    put_go_on_path(monkeypatch, journal, ending=SUCCEED, version="1.25.9")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(errors.BinariesMissing) as caught:
        building.find_or_build(["etcd"])
    assert "no Go 1.26 or newer" in str(caught.value)
    assert "KUBEBUILDER_ASSETS" in str(caught.value)
    assert not journal.exists()
    assert cache.exists()
