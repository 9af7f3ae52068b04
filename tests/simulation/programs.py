"""Programs that simulate: they begin again with fixed hashes, and end at once."""

import os
import sys
from collections.abc import Callable, Sequence

from tests.simulation.kernel import patching


def run(module: str, hash_seed: str, main: Callable[[Sequence[str]], int]) -> None:
    """Call `main` with the arguments of this program, and end the program with its status.

    Kopf keeps resources in sets, so the order in which it watches them depends on hashes.
    """
    arguments = sys.argv[1:]
    if os.environ.get("PYTHONHASHSEED") != hash_seed:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", module, *arguments]
        os.execve(sys.executable, command, environment)  # noqa: S606 - this program
    status = 2
    try:
        status = main(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if sys.exc_info()[0] is None:
            patching.end_program(status)
