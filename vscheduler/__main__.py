"""Entry point of `vscheduler`, `kubectl vscheduler` and `python -m vscheduler`."""

import gc
import os
import sys
from pathlib import Path

NUMBERS = (0, 1, 2)
"""File descriptors of stdin, stdout and stderr."""

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""Read by numpy's library when it is imported. By default, it starts a thread for each core of the
machine, each with memory of its own, whatever the limits of the container are."""


YOUNG_OBJECTS_MAX = 100_000
"""New objects before the garbage collector looks at them. Commands read a cluster, decide and end:
hardly any object is garbage before."""


def main() -> None:
    """Run the command line, which ends the process with its exit status."""
    open_standard_streams()
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    compute_in_one_thread()
    from vscheduler.cli import main as cli  # noqa: PLC0415 - imports may open files

    # kubectl runs a plugin by its path; the name is what the user typed.
    plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    cli.vscheduler(prog_name="kubectl vscheduler" if plugin else "vscheduler")


def complete() -> None:
    """Print suggestions for kubectl, which calls `kubectl_complete-vscheduler` with the words after
    `kubectl vscheduler`; the last one is incomplete.
    """
    open_standard_streams()
    from vscheduler.cli import main  # noqa: PLC0415 - imports may open files

    main.suggest(sys.argv[1:])


def open_standard_streams() -> None:
    """Open /dev/null for stdin, stdout and stderr where the parent process closed them.

    Call this function first. Otherwise the next opened file or socket would get the free
    descriptor, and the log, for example, would be written to a socket.
    """
    for number in NUMBERS:
        try:
            os.fstat(number)
        except OSError:
            _open_null(number)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - the same
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - the same


def compute_in_one_thread() -> None:
    """Keep numpy from computing in threads of its own, unless the user wants it. Call this before
    numpy is imported.

    Cycles multiply small matrices only. What they cost is measured in their own thread, and sums of
    floating-point numbers must not depend on the number of cores.
    """
    os.environ.setdefault(BLAS_THREADS, "1")


def _open_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, True)


if __name__ == "__main__":
    main()
