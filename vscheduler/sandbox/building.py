"""Building the missing programs with Go, once per machine.

A program appears in the cache by a rename, so that a half-done build never counts, and a file lock
lets a second process wait for the first instead of building the same again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vscheduler.sandbox import binaries, errors, progress_report, toolchain

BUILD_TIMEOUT_SECONDS = 3600
POLL_SECONDS = 0.5


def find_or_build(
    names: Sequence[str] = binaries.REQUIRED,
    *,
    progress: progress_report.Progress = progress_report.silent,
) -> dict[str, Path]:
    """Give the path of each program, building those that are not on this machine yet."""
    found = binaries.look_up(names)
    if len(found) == len(names):
        return found
    cache = binaries.cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "build.lock", progress=progress):
        found = binaries.look_up(names)
        missing = [name for name in names if name not in found]
        if missing:
            go = toolchain.find_or_install(cache=cache, progress=progress)
            _build_all(missing, go=go, cache=cache, progress=progress)
    return found | binaries.look_up(missing)


@contextmanager
def locked(path: Path, *, progress: progress_report.Progress) -> Iterator[None]:
    """Hold a lock file for the time of the block; it ends with the process, however that ends."""
    began = time.monotonic()
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - began
            if waited > BUILD_TIMEOUT_SECONDS:
                raise errors.TimedOut(f"another process has held {path} for {waited:.0f} s")
            progress(progress_report.Step(what="waiting for another build", elapsed_seconds=waited))
            time.sleep(POLL_SECONDS)
        yield


def _build_all(
    names: Sequence[str],
    *,
    go: Path,
    cache: Path,
    progress: progress_report.Progress,
) -> None:
    for stale in cache.glob("building-*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as workplace:
        for index, name in enumerate(names, start=1):
            step = progress_report.Step(what=f"building {name}", index=index, total=len(names))
            built = _build(
                binaries.RECIPES[name],
                go=go,
                workplace=Path(workplace),
                progress=progress,
                step=step,
            )
            target = binaries.built_folder(cache, name)
            target.mkdir(exist_ok=True)
            built.rename(target / name)


def _build(
    recipe: binaries.Recipe,
    *,
    go: Path,
    workplace: Path,
    progress: progress_report.Progress,
    step: progress_report.Step,
) -> Path:
    module = workplace / "modules" / recipe.module
    shutil.copytree(binaries.MODULES / recipe.module, module, dirs_exist_ok=True)
    output, log = workplace / recipe.name, workplace / f"{recipe.name}.log"
    command = [
        str(go),
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-tags",
        ",".join(recipe.tags),
        "-ldflags",
        recipe.linker_flags,
        "-o",
        str(output),
        recipe.package,
    ]
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
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
        raise errors.BuildFailed(_explain(recipe, log.read_text(errors="replace")))
    return output


def _watch(
    process: subprocess.Popen[bytes],
    *,
    began: float,
    progress: progress_report.Progress,
    step: progress_report.Step,
) -> None:
    while process.poll() is None:
        elapsed = time.monotonic() - began
        if elapsed > BUILD_TIMEOUT_SECONDS:
            raise errors.TimedOut(f"{step.what} took longer than {BUILD_TIMEOUT_SECONDS} s")
        progress(
            progress_report.Step(
                what=step.what, index=step.index, total=step.total, elapsed_seconds=elapsed
            )
        )
        time.sleep(POLL_SECONDS)


def _explain(recipe: binaries.Recipe, log: str) -> str:
    lines = [line for line in log.splitlines() if not line.startswith("go: downloading")]
    ending = "\n".join(lines[-20:])
    return (
        f"Building {recipe.name} from {recipe.package} failed:\n{ending}\n"
        "Building needs access to a Go module proxy (see `go env GOPROXY`) and about 6 GB of "
        "disk. Or let $KUBEBUILDER_ASSETS name a folder that holds the programs."
    )
