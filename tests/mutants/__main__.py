"""`python -m tests.mutants [NAME...]`: plants each mutant in a copy of the tree, and runs its test.

Prints one line for each mutant: found after how many CPU seconds, or survived. Ends with status 1
if a mutant survived that has a command which should find it.
"""

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import mutants
from tests.mutants import Mutant

COPIED = ("vscheduler", "sandbox", "tests", "examples", "crds", "manifests", "pyproject.toml")
LIMIT_SECONDS = 600
"""CPU seconds of one command; a mutant that hangs its test is found, too."""


def main() -> int:
    """Run the given mutants, or all."""
    known = mutants.catalogue()
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {len(known)}; default: all")
    parser.add_argument("--with", dest="command", default="", help="another command for each")
    options = parser.parse_args()
    unknown = set(options.names) - known.keys()
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _copy(tree)
        for name in options.names or known:
            mutant = known[name]
            command = options.command or mutant.found_by
            if not command:
                _say(f"{name}: not run, for {mutant.survives}")
                continue
            found, seconds = _try(tree, mutant, command)
            missed += not found
            _say(f"{name}: {'found' if found else 'SURVIVED'} after {seconds:.0f} CPU s: {command}")
    _say(f"{missed} survived")
    return 1 if missed else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _copy(tree: Path) -> None:
    for name in COPIED:
        source = mutants.ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)


def _try(tree: Path, mutant: Mutant, command: str) -> tuple[bool, float]:
    """Plant a mutant, run a command; return whether the command failed, and its CPU seconds."""
    path = tree / mutant.file
    whole = path.read_text()
    path.write_text(mutant.planted(whole))
    before = _cpu_seconds()
    try:
        done = subprocess.run(  # noqa: S603 - this program
            _words(command),
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            preexec_fn=_limit,
        )
    finally:
        path.write_text(whole)
    if done.returncode not in (0, 1) and done.returncode > 0:
        _say(done.stdout[-2000:])
        raise SystemExit(f"{mutant.name}: the command itself failed: {command}")
    return done.returncode != 0, _cpu_seconds() - before


def _words(command: str) -> list[str]:
    if command.startswith(mutants.SIMULATE):
        arguments = shlex.split(command.removeprefix(mutants.SIMULATE))
        return [sys.executable, "-m", "tests.simulation", *arguments]
    quickly = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    return [sys.executable, "-m", "pytest", *quickly, command]


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
