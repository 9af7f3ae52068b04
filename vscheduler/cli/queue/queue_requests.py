"""`vscheduler queue open|close`: records the wanted state of queues, and waits until they
reach it.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import click
import msgspec

from vscheduler.cli import screen
from vscheduler.cli.queue import cluster_client, completion, queue_changes
from vscheduler.cli.queue.cluster_client import ClusterError, Object
from vscheduler.mirror.translate import translation
from vscheduler.mirror.wording import plain_text

WANTED_STATE = "vscheduler.io/wanted-state"
REFUSAL = "vscheduler.io/WantedState"
"""Type of the condition that explains why a queue differs from its owner's wish."""

OPEN, CLOSED, CLOSING = "Open", "Closed", "Closing"
Command = TypeVar("Command", bound=Callable[..., None])


class TimeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits of a request."""

    seconds: float
    settle_seconds: float = 2.0
    """How long a refusal must last: an earlier refusal may be about to disappear."""
    poll_seconds: float = 0.2


class Target(Protocol):
    """Access to queues: cluster_client.Cluster, or a fake in tests."""

    def queue(self, name: str) -> Object | None:
        """Return a queue, or None if no queue has the name."""

    def annotate_queue(self, name: str, key: str, value: str) -> Object | None:
        """Annotate a queue; return the queue as stored, or None if no queue has the name."""


def options(command: Command) -> Command:
    """Add the arguments of both commands."""
    for add in (
        *cluster_client.ACCESS,
        click.option(
            "--timeout",
            "seconds",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            default=15.0,
            show_default=True,
            help="How long to wait for the new state.",
        ),
        click.argument(
            "names",
            metavar="NAME...",
            nargs=-1,
            required=True,
            shell_complete=completion.queues,
        ),
    ):
        command = add(command)
    return command


@click.command("open", short_help="Open queues to new PodGroups.")
@options
def open_command(*, names: Sequence[str], seconds: float, kubeconfig: str, context: str) -> None:
    """Open these queues, and queues below them that were closed with them.

    A queue below a closed one opens together with its parent.
    """
    _run(names, OPEN, seconds, kubeconfig=kubeconfig, context=context)


@click.command("close", short_help="Close queues to new PodGroups.")
@options
def close_command(*, names: Sequence[str], seconds: float, kubeconfig: str, context: str) -> None:
    """Close these queues and all queues below them.

    A queue with PodGroups is Closing until the last of its PodGroups is gone; the command doesn't
    wait for that.
    """
    _run(names, CLOSED, seconds, kubeconfig=kubeconfig, context=context)


def _run(
    names: Sequence[str], wanted: str, seconds: float, *, kubeconfig: str, context: str
) -> None:
    """Request and await the state of all queues; exit status 1 if any queue is missing or late."""
    try:
        with cluster_client.tidy_end(), cluster_client.opened(kubeconfig, context) as cluster:
            good, problems = request(
                cluster, list(dict.fromkeys(names)), wanted, TimeLimits(seconds=seconds)
            )
    except ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    except KeyboardInterrupt:
        sys.exit(cluster_client.INTERRUPTED_STATUS)
    screen.say(*good)
    screen.say(*problems, err=True)
    sys.exit(1 if problems else 0)


def request(
    target: Target, names: Sequence[str], wanted: str, limits: TimeLimits
) -> tuple[list[str], list[str]]:
    """Return sentences for queues that reached the wanted state, and for the remaining queues.

    Raises cluster_client.ClusterError.
    """
    good: list[str] = []
    problems: list[str] = []
    waiting: list[str] = []
    for name in names:
        if name == "root" and wanted == CLOSED:
            problems.append("root can't be closed; close queues below it")
        elif target.annotate_queue(name, WANTED_STATE, wanted) is None:
            problems.append(f"there is no queue {name}")
        else:
            waiting.append(name)
    started = time.monotonic()
    while waiting:
        waited = time.monotonic() - started
        for name in list(waiting):
            queue = target.queue(name)
            done = _done(name, queue, wanted)
            if done and wanted == OPEN and _is_below_closed(target, queue):
                done = ""  # the state is from before the queue above was closed
            problem = "" if done else _problem(name, queue, waited, limits)
            if done or problem:
                waiting.remove(name)
                (good if done else problems).append(done or problem)
        if waiting:
            time.sleep(limits.poll_seconds)
    return good, problems


def _is_below_closed(target: Target, queue: Object | None) -> bool:
    """Whether a queue above this one is closed, so that this one can't stay open."""
    return any(
        ((above or {}).get("status") or {}).get("state") in (CLOSED, CLOSING)
        for _, above in queue_changes.ancestors(target.queue, queue_changes.parent_of(queue))
    )


def _problem(name: str, queue: Object | None, waited: float, limits: TimeLimits) -> str:
    """Return why waiting for the queue is useless; empty while waiting makes sense."""
    if queue is None:
        return f"queue {name} has been deleted"
    late = waited >= limits.seconds
    refused = _refused(name, queue)
    if refused and (late or waited >= limits.settle_seconds):
        return refused
    if late:
        return (
            f"queue {name} didn't reach the wanted state in {limits.seconds:g} s; is a "
            f"`vscheduler run` with controllers running? Annotation {WANTED_STATE} records the "
            f"wanted state, and the next run applies it"
        )
    return ""


def _done(name: str, queue: Object | None, wanted: str) -> str:
    """Return a sentence if the queue has the wanted state, else nothing."""
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
            noun = "job" if held == 1 else "jobs"
            return f"queue {name} is closing: it takes no jobs, and still holds {held} {noun}"
    return ""


def _refused(name: str, queue: Object) -> str:
    """Return why the queue can't have the wanted state, in the Queue controller's words."""
    for each in (queue.get("status") or {}).get("conditions") or ():
        if each.get("type") == REFUSAL and each.get("status") == "False":
            return f"queue {name}: {each.get('message', '')}"
    marks = (queue.get("metadata") or {}).get("annotations") or {}
    # The mark is the only hint with Volcano's CRD, which lacks conditions.
    if translation.CLOSED_BY_PARENT in marks:
        return f"queue {name}: a queue above it is closed; this one opens with it"
    return ""
