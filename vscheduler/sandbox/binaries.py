"""The programs of the control plane, and promtool: found on this machine, else built and kept.

Looked up one by one in `$KUBEBUILDER_ASSETS`, then in the user's cache folder. There each stands in
a folder named after a digest of everything that decides the outcome, so a new version never meets
an old binary, and another version of one doesn't build the others anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.36.3"
MODULES = Path(__file__).parent / "modules"

_KUBERNETES_LINKER_FLAGS = " ".join(
    (
        "-s -w",
        f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
        "-X k8s.io/component-base/version.gitMajor=1",
        "-X k8s.io/component-base/version.gitMinor=36",
        "-X k8s.io/component-base/version.gitTreeState=clean",
        f"-X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES_VERSION}",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to build one program: a package, in a module of ours that pins its version."""

    name: str
    module: str
    package: str
    linker_flags: str = "-s -w"
    tags: tuple[str, ...] = ()


def _kubernetes(name: str) -> Recipe:
    return Recipe(
        name=name,
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        linker_flags=_KUBERNETES_LINKER_FLAGS,
    )


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(name="etcd", module="etcd", package="go.etcd.io/etcd/server/v3"),
        Recipe(name="kwok", module="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubectl"),
        _kubernetes("kube-scheduler"),
        Recipe(
            name="promtool",
            module="prometheus",
            package="github.com/prometheus/prometheus/cmd/promtool",
            tags=("remove_all_sd",),  # no clients of clouds
        ),
    )
}
REQUIRED = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl")
SCHEDULER = "kube-scheduler"
PROMTOOL = "promtool"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Name the user's cache folder, where binaries and a fetched Go toolchain are kept."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")) / ".cache"
    return Path(base).expanduser() / "vscheduler"


def built_folder(cache: Path, name: str) -> Path:
    """Name the folder of the program built from exactly this recipe and its pinned module."""
    recipe = RECIPES[name]
    digest = hashlib.sha256(repr(recipe).encode())
    for path in sorted((MODULES / recipe.module).glob("go.*")):
        digest.update(path.read_bytes())
    return cache / f"{name}-{digest.hexdigest()[:12]}"


def look_up(
    names: Iterable[str],
    *,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, Path]:
    """Find which of the programs are on this machine; the caller builds the rest."""
    cache = cache_folder(environment)
    assets = environment.get("KUBEBUILDER_ASSETS")
    found = {}
    for name in names:
        folders = [built_folder(cache, name)]
        if assets:
            folders.insert(0, Path(assets).expanduser().resolve())
        paths = (folder / name for folder in folders)
        if path := next(filter(_is_program, paths), None):
            found[name] = path
    return found


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
