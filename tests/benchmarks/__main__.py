"""`python -m tests.benchmarks`: how fast gangs are bound on the sandbox, and at what cost."""

import argparse
import sys

from tests.benchmarks import measuring
from vscheduler.sandbox import control_plane, reporting

COMMAND = [sys.executable, "-m", "vscheduler", "run", "--leader-elect=false"]


def main() -> int:
    """Measure once and print; the exit status says whether all was bound."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--gangs", type=int, default=100)
    parser.add_argument("--size", type=int, default=20, help="pods per gang")
    parser.add_argument(
        "--no-kubelets", action="store_true", help="pods stay bound and don't start meanwhile"
    )
    given = parser.parse_args()
    load = measuring.Load(
        nodes=given.nodes, gangs=given.gangs, size=given.size, kubelets=not given.no_kubelets
    )
    with control_plane.start(progress=reporting.PlainLines(sys.stderr)) as plane:
        result = measuring.measure(plane, load, COMMAND)
    sys.stdout.write(report(load, result))
    return 0 if result.bound == load.pods else 1


def report(load: measuring.Load, result: measuring.Result) -> str:
    """A few lines for people."""
    rows = {
        "load": f"{load.pods} pods in {load.gangs} gangs of {load.size} on {load.nodes} nodes",
        "pods per second": f"{result.pods_per_second:.0f} (from the first bind to the last)",
        "first bind": f"{result.first_bind:.2f} s after the start of the process",
        "makespan": f"{result.last_bind:.2f} s after the start of the process; "
        f"{result.bound} bound",
        "scheduler CPU": f"{result.cpu_at_last_bind:.2f} s until the last bind, "
        f"{result.cpu_settled:.2f} s until settled",
        "settled": f"{result.settled:.2f} s: {result.events} events written, "
        f"{result.running_groups} PodGroups Running",
        "API server and etcd CPU": f"{result.server_cpu:.2f} s",
    }
    return "".join(f"{name + ':':25}{text}\n" for name, text in rows.items())


if __name__ == "__main__":
    sys.exit(main())
