"""`python -m sandbox`: run a control plane until Ctrl-C, build its programs, or run the demo."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from sandbox import binaries, control_plane, progress_report
from sandbox.demo import demo_stage
from sandbox.errors import SandboxError


def main() -> int:
    """Parse arguments, run the command, and report a SandboxError as a message."""
    parser = _parser()
    arguments = parser.parse_args()
    kept = arguments.what == "run" and arguments.keep
    if arguments.directory is None and (arguments.what == "stop" or kept):
        parser.error("--directory says which sandbox is meant; give one")
    try:
        if arguments.what == "build":
            _build(with_scheduler=arguments.with_scheduler)
        elif arguments.what == "stop":
            control_plane.stop(arguments.directory)
        elif arguments.what == "demo":
            watched = sys.stderr.isatty()  # also over SSH, where no browser can be opened
            good = demo_stage.run(
                keep=arguments.keep or watched, browse=watched and not arguments.no_browser
            )
            return 0 if good else 1
        else:
            _run(arguments)
    except SandboxError as error:
        click.echo(error, err=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "build", "stop", "demo"), default="run")
    parser.add_argument("--with-scheduler", action="store_true", help="kube-scheduler, too")
    parser.add_argument(
        "--with-gang-api", action="store_true", help="serve Kubernetes' own PodGroups, too"
    )
    parser.add_argument("--directory", type=Path, help="where to keep everything; needed to stop")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="leave it running; a demo in a terminal does that anyway",
    )
    parser.add_argument("--no-browser", action="store_true", help="demo: only print the address")
    parser.add_argument("--nodes", type=int, default=0, help="create so many nodes")
    return parser


def _build(*, with_scheduler: bool) -> None:
    names = (*binaries.REQUIRED, *((binaries.SCHEDULER,) if with_scheduler else ()))
    with progress_report.on_stderr() as progress:
        programs = binaries.find_or_build(names, progress=progress)
    for name in names:
        click.echo(f"{name}\t{programs[name]}")


def _run(arguments: argparse.Namespace) -> None:
    """Print the shell line that points kubectl to the sandbox, then wait."""
    with ExitStack() as stack:
        with progress_report.on_stderr() as progress:
            plane = stack.enter_context(
                control_plane.start(
                    arguments.directory,
                    progress=progress,
                    keep=arguments.keep,
                    with_scheduler=arguments.with_scheduler,
                    with_gang_api=arguments.with_gang_api,
                )
            )
        plane.create_nodes(count=arguments.nodes)
        click.echo(f"export KUBECONFIG={plane.kubeconfig}")
        click.echo(f"# kubectl is {plane.kubectl}; logs are in {plane.log_directory}")
        if not arguments.keep:
            click.echo("# Ctrl-C ends it")
            _wait_for_signal()


def _wait_for_signal() -> None:
    """Wait for SIGINT or SIGTERM, even if the shell made the process ignore SIGINT."""
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    signal.sigwait(ends)


if __name__ == "__main__":
    sys.exit(main())
