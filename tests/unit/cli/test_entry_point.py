"""What the entry point prepares before anything is imported."""

import os
import subprocess
import sys

import pytest

from vscheduler import __main__ as entry_point

SCRIPT = f"""
import os, sys
from vscheduler.__main__ import main
sys.argv[1:] = ["simulate", "--help"]
try:
    main()
except SystemExit:
    pass
print(os.environ["{entry_point.BLAS_THREADS}"])
"""


@pytest.mark.parametrize(("given", "wanted"), [(None, "1"), ("2", "2")])
def test_numpy_computes_in_one_thread_unless_the_user_wants_more(
    given: str | None, wanted: str
) -> None:
    """On a machine with 64 cores it would start 63 threads, whatever the container may use."""
    environment = {k: v for k, v in os.environ.items() if k != entry_point.BLAS_THREADS}
    if given is not None:
        environment[entry_point.BLAS_THREADS] = given
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == wanted
