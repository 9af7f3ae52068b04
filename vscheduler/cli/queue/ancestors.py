"""Ancestors: the queues above a queue, as the cluster has them now."""

from collections.abc import Callable, Iterator

from vscheduler.cli.queue.cluster_client import Object
from vscheduler.core.model.queues import ROOT


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
