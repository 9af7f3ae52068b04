import fcntl
import importlib.util
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from sandbox import binaries
from sandbox.binaries import Recipe
from sandbox.errors import BinariesMissing, BuildFailed, TimedOut
from sandbox.progress_report import Step


def put_program(folder: Path, name: str, *, mode: int = 0o755) -> Path:
    """A file that looks like a program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.touch(mode=mode)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables that name an assets folder and a cache of this test's own."""
    return {
        "KUBEBUILDER_ASSETS": str(tmp_path / "assets"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def cached(environment: dict[str, str], name: str) -> Path:
    """Where a built program is cached."""
    return binaries.built_folder(binaries.cache_folder(environment), name)


def test_assets_come_before_the_cache(environment: dict[str, str], tmp_path: Path) -> None:
    """Who names a folder means it."""
    put_program(cached(environment, "etcd"), "etcd")
    asset = put_program(tmp_path / "assets", "etcd")
    assert binaries.look_up(["etcd"], environment=environment) == {"etcd": asset}


def test_each_program_is_looked_up_by_itself(environment: dict[str, str], tmp_path: Path) -> None:
    """Usual assets folders hold three of the five programs; the rest comes from the cache."""
    asset = put_program(tmp_path / "assets", "etcd")
    built = put_program(cached(environment, "kwok"), "kwok")
    found = binaries.look_up(["etcd", "kwok", "kubectl"], environment=environment)
    assert found == {"etcd": asset, "kwok": built}


def test_only_executable_files_count(environment: dict[str, str]) -> None:
    """A folder or a plain file of that name is no program."""
    (cached(environment, "etcd") / "etcd").mkdir(parents=True)
    put_program(cached(environment, "kwok"), "kwok", mode=0o644)
    assert binaries.look_up(["etcd", "kwok"], environment=environment) == {}


def test_without_assets_only_the_cache_is_searched(tmp_path: Path) -> None:
    """An empty variable does not mean the current folder."""
    environment = {"KUBEBUILDER_ASSETS": "", "XDG_CACHE_HOME": str(tmp_path)}
    assert binaries.look_up(binaries.REQUIRED, environment=environment) == {}


def test_cache_folder_follows_the_user() -> None:
    """XDG_CACHE_HOME, else .cache below home."""
    assert binaries.cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/vscheduler")
    assert binaries.cache_folder({"HOME": "/home/a"}) == Path("/home/a/.cache/vscheduler")


def test_another_recipe_means_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A new version never meets an old binary; what is built from others stays as it is."""
    before, other = (binaries.built_folder(tmp_path, name) for name in ("kwok", "etcd"))
    assert before == binaries.built_folder(tmp_path, "kwok")
    recipe = replace(binaries.RECIPES["kwok"], tags=("other",))
    monkeypatch.setitem(binaries.RECIPES, "kwok", recipe)
    assert binaries.built_folder(tmp_path, "kwok") != before
    assert binaries.built_folder(tmp_path, "etcd") == other


@pytest.mark.parametrize("recipe", list(binaries.RECIPES.values()), ids=lambda recipe: recipe.name)
def test_every_recipe_has_a_pinned_module(recipe: Recipe) -> None:
    """The module that builds a program lists its package as a tool, and all checksums."""
    module = binaries.MODULES / recipe.module
    assert recipe.package in (module / "go.mod").read_text(encoding="utf-8")
    assert (module / "go.sum").stat().st_size > 0


def test_kubernetes_module_matches_the_version() -> None:
    """k8s.io/kubernetes v1.X.Y goes with v0.X.Y of the libraries that it is developed with."""
    text = (binaries.MODULES / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    assert f"k8s.io/kubernetes {binaries.KUBERNETES_VERSION} " in text
    libraries = binaries.KUBERNETES_VERSION.replace("v1.", "v0.", 1)
    replaced = [line.split() for line in text.splitlines() if " => " in line]
    assert all(before == after for before, _, after, _ in replaced)
    own = {name: version for name, _, _, version in replaced if name.startswith("k8s.io/")}
    assert len(own) > 20
    assert set(own.values()) == {libraries}


FAKE_GO = """#!/bin/sh
case "$1" in
  version) echo "go version go{version} linux/amd64"; exit 0;;
esac
while [ "$1" != -gcflags ]; do shift; done
flags="$2"
while [ "$1" != -o ]; do shift; done
echo "built with $flags, GOGC=$GOGC" >> {journal}
{ending}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no assets."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(binaries, "POLL_SECONDS", 0.01)
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
    steps: list[Step] = []
    first = binaries.find_or_build(["etcd", "kwok"], progress=steps.append)
    assert first == binaries.find_or_build(["etcd", "kwok"])
    assert first["kwok"] == binaries.built_folder(cache, "kwok") / "kwok"
    once = "built with all=-dwarf=false, GOGC=400\n"
    assert journal.read_text(encoding="utf-8") == once * 2
    assert {str(step) for step in steps} >= {"[1/2] building etcd", "[2/2] building kwok"}


def test_failed_build_leaves_nothing_and_tells_why(
    cache: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler's words, without the chatter, and what can be done."""
    put_go_on_path(monkeypatch, journal, ending=FAIL)
    with pytest.raises(BuildFailed) as caught:
        binaries.find_or_build(["etcd"])
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
    binaries.find_or_build(["etcd"])
    assert list(cache.glob("building-*")) == []


def test_second_process_waits_for_the_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held lock is waited for, with a word about it, but not for ever."""
    cache.mkdir(parents=True)
    monkeypatch.setattr(binaries, "BUILD_TIMEOUT_SECONDS", 0.05)
    steps: list[Step] = []
    with (cache / "build.lock").open("w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TimedOut, match="another process has held"):
            binaries.find_or_build(["etcd"], progress=steps.append)
    assert steps[0].what == "waiting for another build"


def test_old_go_does_not_count(cache: Path, journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A go that can't build the sources is passed over; without pip, too, advice is all we have."""
    put_go_on_path(monkeypatch, journal, ending=SUCCEED, version="1.25.9")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BinariesMissing) as caught:
        binaries.find_or_build(["etcd"])
    assert "no Go 1.26 or newer" in str(caught.value)
    assert "KUBEBUILDER_ASSETS" in str(caught.value)
    assert not journal.exists()
    assert cache.exists()
