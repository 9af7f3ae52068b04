"""`vscheduler queue open|close`: write down what a queue is to be, and wait until it is."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import click

from vscheduler.cli import screen
from vscheduler.cli.queue import cluster_client
from vscheduler.mirror import plain_text

WANTED_STATE = "vscheduler.io/wanted-state"
REFUSAL = "vscheduler.io/WantedState"
"""The type of the condition that says why a queue isn't what its owner wants."""

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
"""The annotation of a queue that was closed with one above it."""

OPEN, CLOSED, CLOSING = "Open", "Closed", "Closing"
Command = TypeVar("Command", bound=Callable[..., None])


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait."""

    seconds: float
    settle_seconds: float = 2.0
    """How long a refusal must stand: one that was there before may be about to go."""
    poll_seconds: float = 0.2


class Target(Protocol):
    """Where queues are; clusters.Cluster, or a test's own."""

    def queue(self, name: str) -> cluster_client.Object | None:
        """One queue, or None where there is none of this name."""

    def annotate_queue(self, name: str, key: str, value: str) -> cluster_client.Object | None:
        """Annotate a queue; as it is then, or None where there is none of this name."""


def options(command: Command) -> Command:
    """The arguments of both commands."""
    for add in (
        *cluster_client.ACCESS,
        click.option(
            "--timeout",
            "seconds",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            default=15.0,
            show_default=True,
            help="How long to wait until it is so.",
        ),
        click.argument("names", metavar="NAME...", nargs=-1, required=True),
    ):
        command = add(command)
    return command


@click.command("open", short_help="Let queues take PodGroups again.")
@options
def open_command(*, names: Sequence[str], seconds: float, kubeconfig: str, context: str) -> None:
    """Open these queues, and those below them that were closed with them.

    A queue below a closed one opens when that does.
    """
    _run(names, OPEN, seconds, kubeconfig=kubeconfig, context=context)


@click.command("close", short_help="Let queues take no more PodGroups.")
@options
def close_command(*, names: Sequence[str], seconds: float, kubeconfig: str, context: str) -> None:
    """Close these queues and all below them.

    A queue that holds PodGroups is Closing until the last of them has gone; the command doesn't
    wait for that.
    """
    _run(names, CLOSED, seconds, kubeconfig=kubeconfig, context=context)


def _run(
    names: Sequence[str], wanted: str, seconds: float, *, kubeconfig: str, context: str
) -> None:
    """Ask for all, wait for all; exit status 1 where one isn't there or isn't so in time."""
    try:
        with cluster_client.tidy_end(), cluster_client.opened(kubeconfig, context) as cluster:
            good, problems = request(
                cluster, list(dict.fromkeys(names)), wanted, Patience(seconds=seconds)
            )
    except cluster_client.ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    except KeyboardInterrupt:
        sys.exit(cluster_client.INTERRUPTED_STATUS)
    screen.say(*good)
    screen.say(*problems, err=True)
    sys.exit(1 if problems else 0)


def request(
    target: Target, names: Sequence[str], wanted: str, patience: Patience
) -> tuple[list[str], list[str]]:
    """Sentences for the queues that are as wanted, and for those that aren't.

    Raises clusters.ClusterError.
    """
    good: list[str] = []
    problems: list[str] = []
    asked: list[str] = []
    for name in names:
        if name == "root" and wanted == CLOSED:
            problems.append("root can't be closed; close queues below it")
        elif target.annotate_queue(name, WANTED_STATE, wanted) is None:
            problems.append(f"there is no queue {name}")
        else:
            asked.append(name)
    started = time.monotonic()
    while asked:
        waited = time.monotonic() - started
        for name in list(asked):
            queue = target.queue(name)
            done = _done(name, queue, wanted)
            problem = "" if done else _problem(name, queue, waited, patience)
            if done or problem:
                asked.remove(name)
                (good if done else problems).append(done or problem)
        if asked:
            time.sleep(patience.poll_seconds)
    return good, problems


def _problem(
    name: str, queue: cluster_client.Object | None, waited: float, patience: Patience
) -> str:
    """Why it is of no use to wait for the queue any longer; empty where it is."""
    if queue is None:
        return f"queue {name} has been deleted"
    late = waited >= patience.seconds
    refused = _refused(name, queue)
    if refused and (late or waited >= patience.settle_seconds):
        return refused
    if late:
        return (
            f"queue {name} isn't as asked for after {patience.seconds:g} s; is a `vscheduler run` "
            f"with controllers running? Annotation {WANTED_STATE} says what it is to be, and the "
            f"next one sees to it"
        )
    return ""


def _done(name: str, queue: cluster_client.Object | None, wanted: str) -> str:
    """A sentence where the queue is as it is wanted, else nothing."""
    status = (queue or {}).get("status") or {}
    match status.get("state"), wanted:
        case ("Open", "Open"):
            return f"queue {name} is open"
        case ("Closed", "Closed"):
            return f"queue {name} is closed"
        case ("Closing", "Closed"):
            held = sum(
                status.get(each, 0)
                for each in ("pending", "inqueue", "running", "unknown", "completed")
            )
            noun = "PodGroup" if held == 1 else "PodGroups"
            return f"queue {name} is closing: it takes no PodGroups, and still holds {held} {noun}"
    return ""


def _refused(name: str, queue: cluster_client.Object) -> str:
    """Why the queue can't be what is wanted, in the Queue controller's words."""
    for each in (queue.get("status") or {}).get("conditions") or ():
        if each.get("type") == REFUSAL and each.get("status") == "False":
            return f"queue {name}: {each.get('message', '')}"
    marks = (queue.get("metadata") or {}).get("annotations") or {}
    if CLOSED_BY_PARENT in marks:  # all that Volcano's CRD, which lacks conditions, has a place for
        return f"queue {name}: a queue above it is closed; this one opens with it"
    return ""
