"""Traces and answers that others publish, from a package that is downloaded into the user's cache.

Nothing of it is part of this repository: evalys is under BSD, its logs under the terms of the
Parallel Workloads Archive.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from sandbox import binaries

PACKAGE = "evalys==4.0.7"
SHA256 = "3f1343e40276ca68db58cf5984017a15f2f56758dca180fe0f78aff200be8518"
GAIA = "examples/UniLu-Gaia-2014-2.swf"
"""The log of UniLu Gaia, in the Standard Workload Format."""
BATSIM = "examples/batsim_outputs/medium_late"
"""What Batsim published about 801 jobs on 32 machines."""
TIMEOUT_SECONDS = 300


class UnavailableError(Exception):
    """The package can't be downloaded."""


def folder() -> Path:
    """Return the unpacked package, downloaded if necessary."""
    name = PACKAGE.replace("==", "-")
    target = binaries.cache_folder() / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="downloading-") as workplace:
            _download(Path(workplace))
            with tarfile.open(Path(workplace, f"{name}.tar.gz")) as packed:
                packed.extractall(workplace, filter="data")
            try:
                Path(workplace, name).rename(target)
            except OSError:
                if not target.exists():  # another process was faster
                    raise
    return target


def _download(workplace: Path) -> None:
    wanted = workplace / "requirements.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(workplace)]
    try:
        subprocess.run(  # noqa: S603 - the arguments are given above
            [*command, "--requirement", str(wanted)],
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{PACKAGE} can't be downloaded: {error.stderr!s}") from error
