"""`python -m tests.chart`: the helm on this machine, else the one in the cache, else built now."""

import sys

from sandbox import binaries, progress_report
from sandbox.errors import SandboxError


def main() -> int:
    """Say where it is."""
    try:
        with progress_report.on_stderr() as progress:
            found = binaries.find_or_build((binaries.HELM,), progress=progress)
    except SandboxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{binaries.HELM}\t{found[binaries.HELM]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
