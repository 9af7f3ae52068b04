"""`vscheduler queue create|delete`: creates queues from flags, and deletes empty ones."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import click

from vscheduler.cli import lazy_commands, screen
from vscheduler.cli.queue import cluster_client, completion
from vscheduler.cli.queue.cluster_client import Cluster, ClusterError, Kind, Listing, Object
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError
from vscheduler.mirror.wording import plain_text
from vscheduler.model.queues import DEFAULT, ROOT

PERMANENT = (ROOT, DEFAULT)
NO_EFFECT = {
    "capability": "limits nothing",
    "deserved": "has no effect",
    "guarantee": "keeps nothing",
}
"""What an amount of a resource does that no node has."""

HELD = ("pending", "inqueue", "running", "unknown")


class Lister(Protocol):
    """Lists objects: cluster_client.Cluster, or a fake in tests."""

    def list(self, kind: Kind) -> Listing:
        """Return all objects of a kind."""


class Target(Protocol):
    """Access to queues: cluster_client.Cluster, or a fake in tests."""

    def queue(self, name: str) -> Object | None:
        """Return a queue, or None if no queue has the name."""

    def create_queue(self, name: str, spec: Mapping[str, Any]) -> Object:
        """Create a queue. Raises cluster_client.Exists."""

    def delete_queue(self, name: str) -> None:
        """Delete a queue."""


def _amounts(
    _context: object, parameter: click.Parameter, text: str, *, removable: bool
) -> dict[str, str]:
    """Return `cpu=8,memory=32Gi` as amounts by resource; a removable amount may be empty."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, amount = part.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{part!r} is not RESOURCE=AMOUNT, such as cpu=8")
        try:
            if amount or not removable:
                quantities.parse(name, amount)
        except QuantityError as error:
            raise click.BadParameter(f"{parameter.name}.{name}: {error}") from error
        found[name] = amount
    return found


def resources(flag: str, about: str, *, removable: bool = False) -> Callable[[Any], Any]:
    """Return a decorator for a flag with amounts of resources; `cpu=` is one that is removed."""
    callback = partial(_amounts, removable=removable)
    return click.option(
        flag, metavar="RESOURCE=AMOUNT,...", default="", callback=callback, help=about
    )


@click.command("create", short_help="Create a queue.")
@click.argument("name", metavar="NAME")
@click.option(
    "--weight",
    type=click.IntRange(1, 65535),
    default=1,
    show_default=True,
    help="Share relative to other queues.",
)
@click.option(
    "--parent",
    metavar="QUEUE",
    default="",
    help="The queue above, in a tree of queues.",
    shell_complete=completion.queues,
)
@resources("--capability", "The most that its pods may use, such as cpu=8,memory=32Gi.")
@resources("--deserved", "Its quota, for plugin capacity.")
@resources("--guarantee", "What is never lent to other queues.")
@click.option(
    "--priority",
    type=click.IntRange(0),
    default=0,
    help="Queues of higher priority have their turns first.",
)
@click.option("--not-reclaimable", is_flag=True, help="Other queues may not evict its pods.")
@cluster_client.access
def create_command(name: str, *, kubeconfig: str, context: str, **given: Any) -> None:
    """Create a queue. `vscheduler queue set` changes it later."""
    run(
        kubeconfig,
        context,
        lambda cluster: create(cluster, name, spec(given)),
        lambda cluster: remarks(cluster, given),
    )


def spec(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a Queue from the flags of `create`; defaults are left out."""
    guarantee = given["guarantee"]
    fields = {
        "parent": given["parent"],
        "capability": given["capability"],
        "deserved": given["deserved"],
        "guarantee": {"resource": guarantee} if guarantee else {},
        "priority": given["priority"],
    }
    made = {"weight": given["weight"], **{key: fields[key] for key in fields if fields[key]}}
    return made | ({"reclaimable": False} if given["not_reclaimable"] else {})


def create(target: Target, name: str, wanted: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Create the queue; return what was done, and problems."""
    parent = wanted.get("parent", "")
    if parent not in {"", ROOT} and target.queue(parent) is None:
        return [], [f"there is no queue {parent}, which would be the parent of {name}"]
    target.create_queue(name, wanted)
    return [f"queue {name} created"], []


@click.command("delete", short_help="Delete queues that hold no PodGroups.")
@click.argument(
    "names", metavar="NAME...", nargs=-1, required=True, shell_complete=completion.queues
)
@cluster_client.access
def delete_command(names: tuple[str, ...], *, kubeconfig: str, context: str) -> None:
    """Delete queues. A queue that holds PodGroups is kept: close it first (`vscheduler queue
    close`), and delete it when its last PodGroup is gone.
    """
    wanted = list(dict.fromkeys(names))
    run(kubeconfig, context, lambda cluster: delete(cluster, wanted))


def delete(target: Target, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Delete the queues; return what was done, and problems."""
    good: list[str] = []
    problems: list[str] = []
    for name in names:
        queue = target.queue(name)
        problem = _problem(name, queue)
        if problem:
            problems.append(problem)
            continue
        target.delete_queue(name)
        done = "is being deleted" if target.queue(name) else "deleted"
        good.append(f"queue {name} {done}")
    return good, problems


def _problem(name: str, queue: Object | None) -> str:
    """Return why the queue can't be deleted; empty if it can."""
    if queue is None:
        return f"there is no queue {name}"
    if name in PERMANENT:
        return f"queue {name} can't be deleted: a scheduler would create it again"
    status = queue.get("status") or {}
    held = sum(status.get(each, 0) for each in HELD)
    if not held:
        return ""
    noun = "job" if held == 1 else "jobs"
    return (
        f"queue {name} still holds {held} {noun}: close it with `vscheduler queue close {name}`, "
        f"and delete it when they are gone"
    )


def run(
    kubeconfig: str,
    context: str,
    act: Callable[[Cluster], tuple[list[str], list[str]]],
    remark: Callable[[Cluster], list[str]] = lambda _: [],
) -> None:
    """Change queues; exit status 1 if there is any problem. Remarks are made of what was done."""
    try:
        with cluster_client.tidy_end(), cluster_client.opened(kubeconfig, context) as cluster:
            good, problems = act(cluster)
            problems_and_remarks = problems or remark(cluster)
    except ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    screen.say(*good)
    screen.say(*problems_and_remarks, err=True)
    sys.exit(1 if problems else 0)


def remarks(cluster: Lister, given: Mapping[str, Any]) -> list[str]:
    """Return a warning for each amount of a resource that no node has. Nodes are read only for
    resources that not every node has; nothing is said to users who may not read them.
    """
    if not any(given.get(field) for field in NO_EFFECT):
        return []
    with lazy_commands.importing():
        from vscheduler.cli.checks import misspellings  # noqa: PLC0415 - it knows all plugins
    asked = [
        (field, name)
        for field in NO_EFFECT
        for name, amount in given.get(field, {}).items()
        if amount and misspellings.is_extended(name)
    ]
    if not asked:
        return []
    try:
        nodes = cluster.list(Kind.NODE).items
    except ClusterError:
        return []
    offered = {
        name
        for node in nodes
        for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items()
        if str(amount) != "0"
    }
    return [
        f"warning: --{field} {name} {NO_EFFECT[field]}: "
        f"{misspellings.no_node_has(name, offered, node='node')}"
        for field, name in asked
        if name not in offered
    ]


def ancestors(
    get: Callable[[str], Object | None], parent: str
) -> Iterator[tuple[str, Object | None]]:
    """Iterate over the queue `parent` and those above it, without root, each once.

    The last one is None if it doesn't exist. Errors are those of `get`.
    """
    seen: set[str] = set()
    while parent and parent != ROOT and parent not in seen:
        seen.add(parent)
        queue = get(parent)
        yield parent, queue
        parent = parent_of(queue)


def parent_of(queue: Object | None) -> str:
    """Return the name in spec.parent, or an empty string."""
    name: str = ((queue or {}).get("spec") or {}).get("parent") or ""
    return name
