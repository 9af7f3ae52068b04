"""`python -m vscheduler.sandbox`: run a control plane until Ctrl-C, or only build its programs."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from vscheduler.sandbox import binaries, building, control_plane, errors, reporting


def main() -> int:
    """Parse, do, and turn an error of the sandbox into one message."""
    arguments = _parser().parse_args()
    try:
        if arguments.what == "build":
            _build(with_scheduler=arguments.with_scheduler)
        elif arguments.what == "stop":
            control_plane.stop(arguments.directory)
        else:
            _run(arguments)
    except errors.SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vscheduler.sandbox", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "build", "stop"), default="run")
    parser.add_argument("--with-scheduler", action="store_true", help="kube-scheduler, too")
    parser.add_argument("--directory", type=Path, help="where to keep everything; needed to stop")
    parser.add_argument("--keep", action="store_true", help="start, leave it running, return")
    parser.add_argument("--nodes", type=int, default=0, help="create so many nodes")
    return parser


def _build(*, with_scheduler: bool) -> None:
    names = (*binaries.REQUIRED, *((binaries.SCHEDULER,) if with_scheduler else ()))
    with reporting.on_stderr() as progress:
        programs = building.find_or_build(names, progress=progress)
    for name in names:
        print(f"{name}\t{programs[name]}")


def _run(arguments: argparse.Namespace) -> None:
    """Print the shell line that makes kubectl use the sandbox, then wait."""
    with ExitStack() as stack:
        with reporting.on_stderr() as progress:
            plane = stack.enter_context(
                control_plane.start(
                    arguments.directory,
                    progress=progress,
                    keep=arguments.keep,
                    with_scheduler=arguments.with_scheduler,
                )
            )
        plane.create_nodes(count=arguments.nodes)
        print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
        print(f"# kubectl is {plane.kubectl}; logs are in {plane.log_directory}", flush=True)
        if not arguments.keep:
            print("# Ctrl-C ends it", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    sys.exit(main())
