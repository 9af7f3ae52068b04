"""`-w` of `job list`: follows all kinds that the order of jobs depends on."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from vscheduler.cli.job.placing import Seen
from vscheduler.cli.queue import queue_watch
from vscheduler.cli.queue.cluster_client import Change, Cluster, Kind, Listing, Object, Source
from vscheduler.cli.queue.queue_watch import Failure, Find


class _Scoped:
    """A source of objects that reads each kind where the user may read it."""

    def __init__(self, everywhere: Source, kinds: Mapping[Kind, Source]) -> None:
        self._everywhere = everywhere
        self._kinds = kinds

    def list(self, kind: Kind) -> Listing:
        """Return all readable objects of a kind."""
        return self._kinds.get(kind, self._everywhere).list(kind)

    def queue(self, name: str) -> Object | None:
        """Return a queue, or None."""
        return self._everywhere.queue(name)

    def watch(self, kind: Kind, version: str) -> Iterator[Change]:
        """Iterate over changes until the server ends the watch."""
        return self._kinds.get(kind, self._everywhere).watch(kind, version)


def follow(cluster: Cluster, namespace: str | None, first: Seen) -> Iterator[Seen]:
    """Iterate over the state after each batch of changes, without end.

    `first` tells which kinds can be read, and where. Raises ClusterError if a kind can't be
    followed any more.
    """
    narrow: dict[Kind, Source] = {}
    if namespace is not None:
        inside = cluster.within(namespace)
        narrow = {kind: inside for kind in first.left_out if kind in first.objects}
    known: dict[Kind, dict[str, Object]] = {}
    for batch in queue_watch.news(_Scoped(cluster, narrow), list(first.objects)):
        for kind, find in batch:
            _take(known.setdefault(kind, {}), find)
        if batch:
            objects: dict[Kind, Sequence[Object]] = {
                kind: list(found.values()) for kind, found in known.items()
            }
            yield replace(first, objects=objects)


def _take(known: dict[str, Object], find: Find) -> None:
    match find:
        case Listing():
            known.clear()
            known.update({_key(each): each for each in find.items})
        case Change():
            known.pop(_key(find.item), None)
            if not find.gone:
                known[_key(find.item)] = find.item
        case Failure():
            if find.final:
                raise find.error


def _key(found: Object) -> str:
    metadata = found["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
