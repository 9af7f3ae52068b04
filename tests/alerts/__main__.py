"""`python -m tests.alerts`: the alert rules and the dashboard's queries before promtool."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from sandbox import binaries, progress_report
from sandbox.errors import SandboxError
from tests.alerts import monitoring

QUERIES = "dashboard-queries.yaml"
TIMEOUT_SECONDS = 300


def main() -> int:
    """Check that all parses, then run the rules' unit tests; gives the worst exit status."""
    try:
        promtool = find()
    except SandboxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="vscheduler-alerts-") as folder:
        cases = lay_out(Path(folder))
        worst = run(promtool, ["check", "rules", "--lint-fatal", monitoring.RULES, QUERIES], folder)
        for case in cases:
            worst = max(worst, run(promtool, ["test", "rules", case], folder))
    return worst


def find() -> Path:
    """The promtool on PATH, else the one in the cache, else one that is built now."""
    on_path = shutil.which(binaries.PROMTOOL)
    if on_path:
        return Path(on_path)
    with progress_report.on_stderr() as progress:
        return binaries.find_or_build((binaries.PROMTOOL,), progress=progress)[binaries.PROMTOOL]


def lay_out(folder: Path) -> list[str]:
    """Put side by side what promtool is to read; gives the names of the test cases."""
    spec = monitoring.rules()["spec"]
    (folder / monitoring.RULES).write_text(yaml.safe_dump(spec), encoding="utf-8")
    (folder / QUERIES).write_text(yaml.safe_dump(monitoring.as_rules()), encoding="utf-8")
    for case in monitoring.CASES:
        shutil.copy(case, folder)
    return [case.name for case in monitoring.CASES]


def run(promtool: Path, arguments: list[str], folder: str) -> int:
    """Say what is run, and run it."""
    sys.stdout.write(f"promtool {' '.join(arguments)}\n")
    sys.stdout.flush()
    return subprocess.run(  # noqa: S603 - promtool, on files of ours
        [promtool, *arguments], cwd=folder, check=False, timeout=TIMEOUT_SECONDS
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
