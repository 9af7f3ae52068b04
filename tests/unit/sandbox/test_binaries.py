from dataclasses import replace
from pathlib import Path

import pytest

from vscheduler.sandbox import binaries


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
def test_every_recipe_has_a_pinned_module(recipe: binaries.Recipe) -> None:
    """The module that builds a program lists its package as a tool, and all checksums."""
    module = binaries.MODULES / recipe.module
    assert recipe.package in (module / "go.mod").read_text(encoding="utf-8")
    assert (module / "go.sum").stat().st_size > 0


def test_kubernetes_module_matches_the_version() -> None:
    """k8s.io/kubernetes v1.X.Y goes with v0.X.Y of the libraries that it is developed with."""
    text = (binaries.MODULES / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    assert f"k8s.io/kubernetes {binaries.KUBERNETES_VERSION} " in text
    libraries = binaries.KUBERNETES_VERSION.replace("v1.", "v0.", 1)
    replaced = [line.split()[-1] for line in text.splitlines() if " => " in line]
    assert len(replaced) > 20
    assert set(replaced) == {libraries}
