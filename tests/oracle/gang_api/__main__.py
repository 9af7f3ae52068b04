"""`python -m tests.oracle.gang_api`: what becomes of PodGroups of Kubernetes' own API under
kube-scheduler's gang scheduling and under vscheduler, as a table in Markdown.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from sandbox import control_plane, progress_report
from tests.oracle.gang_api import cases, stage


def main() -> int:
    """Print the table of the cases whose titles have one of the words; 1 if any surprises."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.gang_api")
    parser.add_argument("words", nargs="*", metavar="WORD", help="of titles; default: all cases")
    words = parser.parse_args().words
    chosen = [
        each for each in cases.CASES if not words or any(word in each.title for word in words)
    ]
    seen = []
    with (
        tempfile.TemporaryDirectory(prefix="vscheduler-gang-api-") as folder,
        progress_report.on_stderr() as progress,
        control_plane.start(progress=progress, with_scheduler=True, with_gang_api=True) as plane,
        stage.acting(plane, Path(folder)) as fresh,
    ):
        for case in chosen:
            outcomes = {each: case.run(fresh(each)) for each in stage.SCHEDULERS}
            seen.append((case, outcomes))
            sys.stderr.write(f"{len(seen)}/{len(chosen)} {case.title}\n")
    sys.stdout.write("\n".join([*cases.table(seen), ""]))
    surprises = [
        (case.title, each)
        for case, outcomes in seen
        for each in stage.SCHEDULERS
        if tuple(outcomes[each]) != tuple(case.expected(each))
    ]
    for title, scheduler in surprises:
        sys.stderr.write(f"unlike before under {scheduler}: {title}\n")
    return int(bool(surprises))


if __name__ == "__main__":
    sys.exit(main())
