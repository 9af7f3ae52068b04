"""`vscheduler queue set`: changes a queue, and prints each field as it was and as it is then."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import click
import msgspec

from vscheduler.cli.queue import cluster_client, completion, queue_changes
from vscheduler.cli.queue.cluster_client import Object
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError
from vscheduler.model.queues import ROOT

NONE = "none"
Command = TypeVar("Command", bound=Callable[..., Any])
DEFAULTS: Mapping[str, Any] = {
    "weight": 1,
    "parent": ROOT,
    "priority": 0,
    "reclaimable": True,
}
"""What absent fields mean."""

AMOUNTS = ("capability", "deserved", "guarantee")

amounts = partial(queue_changes.resources, removable=True)


class Target(Protocol):
    """Access to queues: cluster_client.Cluster, or a fake in tests."""

    def queue(self, name: str) -> Object | None:
        """Return a queue, or None if no queue has the name."""

    def patch_queue(self, name: str, patch: Mapping[str, Any], *, dry_run: bool) -> Object | None:
        """Change a queue by a merge patch; return the queue as stored, or None if it is gone."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A field with another value; None for an amount that isn't set."""

    path: tuple[str, ...]
    """Below spec."""
    before: Any
    after: Any

    def __str__(self) -> str:
        """Return `capability.cpu 8 -> 16`."""
        name = ".".join(part for part in self.path if part != "resource")
        return f"{name} {_text(self.before)} -> {_text(self.after)}"


def fields(command: Command) -> Command:
    """Add the flags for the fields of a queue."""
    for add in (
        click.option(
            "--reclaimable/--not-reclaimable",
            default=None,
            help="Whether other queues may evict its pods to get back their share.",
        ),
        click.option(
            "--priority",
            type=click.IntRange(0),
            help="Queues of higher priority have their turns first.",
        ),
        amounts("--guarantee", "What is never lent to other queues."),
        amounts("--deserved", "Its quota, for plugin capacity."),
        amounts("--capability", "The most that its pods may use, such as cpu=8."),
        click.option(
            "--parent",
            metavar="QUEUE",
            help="The queue above, in a tree of queues; root: none.",
            shell_complete=completion.queues,
        ),
        click.option(
            "--weight", type=click.IntRange(1, 65535), help="Share relative to other queues."
        ),
    ):
        command = add(command)
    return command


@click.command("set", short_help="Change a queue.")
@click.argument("name", metavar="NAME", shell_complete=completion.queues)
@fields
@click.option(
    "--dry-run", is_flag=True, help="Only let the API server check the change; nothing is stored."
)
@cluster_client.access
def set_command(name: str, *, dry_run: bool, kubeconfig: str, context: str, **given: Any) -> None:
    """Change fields of a queue. What no flag names stays as it is; of amounts, only the named
    resources change, and `cpu=` removes an amount.
    """
    wanted = {key: value for key, value in given.items() if value not in (None, {})}
    if not wanted:
        raise click.UsageError("nothing to set: name a flag such as --weight")
    queue_changes.run(
        kubeconfig,
        context,
        lambda cluster: apply(cluster, name, wanted, dry_run=dry_run),
        lambda cluster: queue_changes.remarks(cluster, wanted),
    )


def apply(
    target: Target, name: str, wanted: Mapping[str, Any], *, dry_run: bool
) -> tuple[list[str], list[str]]:
    """Change the queue; return what was changed, and problems."""
    queue = target.queue(name)
    if queue is None:
        return [], [f"there is no queue {name}"]
    found = list(changes(queue.get("spec") or {}, wanted))
    if not found:
        return [f"queue {name} has all this already"], []
    problem = "".join(
        _misplaced(target, name, each.after) for each in found if each.path == ("parent",)
    )
    if problem:
        return [], [problem]
    version = queue["metadata"].get("resourceVersion", "")
    change = {"metadata": {"resourceVersion": version}, "spec": patch(found)}
    if target.patch_queue(name, change, dry_run=dry_run) is None:
        return [], [f"queue {name} has been deleted"]
    mark = " (dry run)" if dry_run else ""
    return [f"queue {name}: {each}{mark}" for each in found], []


def changes(spec: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Change]:
    """Iterate over the fields of a spec that get another value."""
    for field, default in DEFAULTS.items():
        before = spec.get(field) or default if field != "reclaimable" else spec.get(field, default)
        if field in wanted and wanted[field] != before:
            yield Change(path=(field,), before=before, after=wanted[field])
    for field in AMOUNTS:
        path = ("guarantee", "resource") if field == "guarantee" else (field,)
        known: Any = spec
        for part in path:
            known = known.get(part) or {}
        for resource, amount in wanted.get(field, {}).items():
            before, after = known.get(resource), amount or None
            if not _equal(resource, before, after):
                yield Change(path=(*path, resource), before=before, after=after)


def _equal(resource: str, before: Any, after: str | None) -> bool:
    """Whether two amounts are the same: `1` and `1000m`."""
    if before is None or after is None:
        return before is after
    try:
        return quantities.parse(resource, before) == quantities.parse(resource, after)
    except QuantityError:  # stored before there was a rule about it
        return False


def patch(found: Iterable[Change]) -> dict[str, Any]:
    """Return a merge patch of a spec."""
    made: dict[str, Any] = {}
    for each in found:
        part = made
        for name in each.path[:-1]:
            part = part.setdefault(name, {})
        part[each.path[-1]] = each.after
    return made


def _misplaced(target: Target, name: str, parent: str) -> str:
    """Return why the queue can't be below this one; empty if it can."""
    if name == ROOT:
        return "root is above all queues and has no parent"
    for above, queue in queue_changes.ancestors(target.queue, parent):
        if above == name:
            return f"queue {name} can't be below {parent}, which is {_itself(name, parent)}"
        if queue is None:
            return f"there is no queue {above}, which would be above {name}"
    return ""


def _itself(name: str, parent: str) -> str:
    return "the queue itself" if name == parent else f"below {name}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return NONE if value is None else str(value)
