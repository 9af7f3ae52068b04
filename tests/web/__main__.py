"""Drives a real browser through the page: `make test-web`.

Needs Debian's packages chromium and chromium-driver. As root they are installed, otherwise named.
"""

import os
import shutil
import subprocess
import sys

import pytest

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}
"""Debian's package for each program."""

TESTS = "tests/web/browser_tests.py"


def main() -> int:
    """Run the tests; return their status, or 1 if there is no browser."""
    missing = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        sys.stdout.write(f"installing {' and '.join(missing)}\n")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
            subprocess.run(  # noqa: S603 - Debian's own program
                ["apt-get", "--quiet", "--quiet", *words],  # noqa: S607 - that of PATH
                check=True,
                env=environment,
            )
    elif missing:
        sys.stderr.write(f"no browser: install the packages {' and '.join(missing)}\n")
        return 1
    return int(pytest.main(["-n0", "-q", *sys.argv[1:], TESTS]))


if __name__ == "__main__":
    sys.exit(main())
