"""Places in line and the snapshot for remedies, from the objects that the user may read, once
or with each change (`-w`).
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.cli.job import job_figures
from vscheduler.cli.job.configured import Configuration, Configured
from vscheduler.cli.job.job_figures import Places
from vscheduler.cli.queue import cluster_client, queue_watch
from vscheduler.cli.queue.cluster_client import (
    Change,
    Cluster,
    Forbidden,
    Kind,
    Listing,
    NotServed,
    Object,
    Source,
)
from vscheduler.cli.queue.queue_watch import Failure, Find
from vscheduler.mirror import paths
from vscheduler.simulator import waiting_line
from vscheduler.simulator.run import Options
from vscheduler.simulator.waiting_line import Place

GROUPS = (Kind.POD_GROUP, Kind.NATIVE_POD_GROUP, Kind.COMPOSITE_POD_GROUP)
NEEDNT_BE_SERVED = (Kind.NATIVE_POD_GROUP, Kind.COMPOSITE_POD_GROUP)
VOLCANO = (Kind.QUEUE, Kind.POD_GROUP)
"""Kinds that needn't be served where Kubernetes' own PodGroups are."""
SNAPSHOT = (
    *(Kind.PRIORITY_CLASS, Kind.QUEUE, Kind.NODE, *GROUPS),
    Kind.POD,
)
"""Kinds that the order of jobs depends on."""

SURROUNDINGS = (
    *(Kind.NAMESPACE, Kind.BUDGET, Kind.QUOTA, Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS),
    *(Kind.CSI_NODE, Kind.CSI_DRIVER, Kind.STORAGE_CAPACITY, Kind.VOLUME_ATTACHMENT),
    Kind.HYPER_NODE,
)
"""Kinds that decisions depend on, too, but not the order of jobs."""

NAMING = (Kind.NAMESPACE, Kind.JOB, Kind.REPLICA_SET, Kind.STATEFUL_SET)
"""Kinds whose annotations count for pods without a PodGroup."""

NO_QUEUES = f"this cluster has no Queues of {paths.VOLCANO}: all jobs are in the default queue"

NO_PLACES = Places(found={})


class Seen(msgspec.Struct, kw_only=True):
    """What the user may read of a cluster."""

    objects: dict[Kind, Sequence[Object]] = msgspec.field(default_factory=dict)
    left_out: dict[Kind, str] = msgspec.field(default_factory=dict)
    """Why a kind is missing, or is known only in one namespace."""
    alone: bool = False
    """Whether all pods without a PodGroup are jobs by themselves: there are none for them."""
    notes: Sequence[str] = ()
    """What the page says of what it doesn't show."""

    @property
    def manifests(self) -> list[Object]:
        """All objects that the order of jobs depends on."""
        kinds = (*SNAPSHOT, *NAMING)
        return [each for kind in kinds for each in self.objects.get(kind, ())]

    @property
    def naming(self) -> list[Object]:
        """What may name the queue of pods without a PodGroup."""
        return [each for kind in NAMING for each in self.objects.get(kind, ())]

    @property
    def groups(self) -> list[Object]:
        """The PodGroups of all kinds."""
        return [each for kind in GROUPS for each in self.objects.get(kind, ())]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing that the order of jobs depends on."""
        return not self.left_out


def look(cluster: Cluster, namespace: str | None) -> Seen:
    """Read everything that the user may read; `namespace` is the one that counts, None: all.

    PodGroups are read in all namespaces if possible: other jobs are in the same line. Raises
    ClusterError if the PodGroups themselves can't be read. Those of Kubernetes' own API needn't be
    served, and an API server forbids what it doesn't serve, too: nothing is said of them then. In
    their place Volcano's kinds needn't be served.
    """
    seen, unserved = Seen(), dict[Kind, NotServed]()
    for kind in SNAPSHOT:
        try:
            seen.objects[kind] = cluster.list(kind).items
        except NotServed as error:
            if kind in VOLCANO:
                unserved[kind] = error
            elif kind not in NEEDNT_BE_SERVED:
                raise
        except Forbidden as error:
            _look_inside(seen, cluster, namespace, kind)
            if kind is Kind.POD_GROUP and kind not in seen.objects:
                raise
            if kind not in NEEDNT_BE_SERVED or kind in seen.objects:
                seen.left_out[kind] = str(error)
    _do_without(seen, cluster, unserved)
    return seen


def _do_without(seen: Seen, cluster: Cluster, unserved: Mapping[Kind, NotServed]) -> None:
    """Note which of Volcano's kinds there aren't; raise NotServed if there are no jobs at all."""
    if unserved and Kind.NATIVE_POD_GROUP not in seen.objects:
        raise next(iter(unserved.values()))
    if Kind.QUEUE in unserved:
        seen.notes = (NO_QUEUES,)
    seen.alone = Kind.POD_GROUP in unserved
    lone = [pod for pod in seen.objects.get(Kind.POD, ()) if job_figures.is_lone(pod)]
    owners = {job_figures.owner_of(pod)[0] for pod in lone}
    for kind in NAMING if lone else ():
        if kind is Kind.NAMESPACE or kind in owners:
            with suppress(Forbidden, NotServed):
                seen.objects[kind] = cluster.list(kind).items


def _look_inside(seen: Seen, cluster: Cluster, namespace: str | None, kind: Kind) -> None:
    """Read a kind in the namespace, if the user may."""
    if namespace is not None and kind in cluster_client.NAMESPACED:
        with suppress(Forbidden, NotServed):
            seen.objects[kind] = cluster.within(namespace).list(kind).items


def surroundings(cluster: Cluster) -> list[Object] | None:
    """Return the other objects that decisions depend on; None if the user may not read them all.
    A cluster without the CRD has no HyperNodes.
    """
    found: list[Object] = []
    for kind in SURROUNDINGS:
        try:
            found += cluster.list(kind).items
        except NotServed:
            if kind is not Kind.HYPER_NODE:
                raise
        except Forbidden:
            return None
    return found


def places(seen: Seen, configurations: Configured, schedulers: Collection[str]) -> Places:
    """Return the places of all jobs that wait for these schedulers, each of which has a line of its
    own. Without all that the order depends on, no place is known: any would be wrong.
    """
    if not seen.complete:
        return NO_PLACES
    found: dict[str, Place] = {}
    for name in sorted(schedulers):
        own = configurations.of(name)
        line = waiting_line.places(seen.manifests, own.policy, options(seen, name, own))
        found |= {str(key): place for key, place in line.items()}
    return Places(found=found)


def options(seen: Seen, scheduler: str, configuration: Configuration) -> Options:
    """Return how a scheduler of this name sees the cluster now."""
    return Options(
        scheduler_names=(scheduler,),
        node_selector=configuration.nodes,
        default_queue=configuration.default_queue,
        queues_served=Kind.QUEUE in {*seen.objects, *seen.left_out},
        pod_groups_served=not seen.alone,
        now=time.time(),
    )


def queue_of(seen: Seen, name: str) -> Mapping[str, Any] | None:
    """Return a queue, or None."""
    named = (each for each in seen.objects.get(Kind.QUEUE, ()) if each["metadata"]["name"] == name)
    return next(named, None)


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
