"""The programs of the control plane: found on this machine, else built once and kept.

Looked up one by one in `$KUBEBUILDER_ASSETS`, then in the user's cache folder. The cache is named
after a digest of everything that decides the outcome, so a new version never meets an old binary.
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
    )
}
REQUIRED = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl")
SCHEDULER = "kube-scheduler"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Name the user's cache folder, where binaries and a fetched Go toolchain are kept."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")) / ".cache"
    return Path(base).expanduser() / "vscheduler"


def built_folder(cache: Path) -> Path:
    """Name the folder of what was built from exactly these recipes and pinned modules."""
    digest = hashlib.sha256(repr(sorted(RECIPES.items())).encode())
    for path in sorted(MODULES.glob("*/go.*")):
        digest.update(path.read_bytes())
    return cache / f"bin-{digest.hexdigest()[:12]}"


def look_up(
    names: Iterable[str],
    *,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, Path]:
    """Find which of the programs are on this machine; the caller builds the rest."""
    folders = [built_folder(cache_folder(environment))]
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        folders.insert(0, Path(assets).expanduser().resolve())
    found = {}
    for name in names:
        paths = (folder / name for folder in folders)
        if path := next(filter(_is_program, paths), None):
            found[name] = path
    return found


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
