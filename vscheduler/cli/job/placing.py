"""Places in line and the snapshot for remedies, from the objects that the user may read."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from vscheduler.cli.job.job_figures import Places
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Cluster, Forbidden, Kind, Object
from vscheduler.core.config.policy import Policy
from vscheduler.mirror import workloads
from vscheduler.mirror.translate import translation
from vscheduler.simulator import waiting_line
from vscheduler.simulator.run import Options
from vscheduler.simulator.waiting_line import Place

SNAPSHOT = (Kind.PRIORITY_CLASS, Kind.QUEUE, Kind.NODE, Kind.POD_GROUP, Kind.POD)
"""Kinds that the order of jobs depends on."""

SURROUNDINGS = (
    *(Kind.NAMESPACE, Kind.BUDGET, Kind.QUOTA, Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS),
    *(Kind.CSI_NODE, Kind.CSI_DRIVER, Kind.STORAGE_CAPACITY, Kind.VOLUME_ATTACHMENT),
)
"""Kinds that decisions depend on, too, but not the order of jobs."""

NO_PLACES = Places(found={}, approximate=True)


class Seen(msgspec.Struct, kw_only=True):
    """What the user may read of a cluster."""

    objects: dict[Kind, Sequence[Object]] = msgspec.field(default_factory=dict)
    left_out: dict[Kind, str] = msgspec.field(default_factory=dict)
    """Why a kind is missing, or is known only in one namespace."""
    node_selector: tuple[tuple[str, str], ...] = ()
    """The labels of which the scheduler's nodes have one; empty: all nodes."""
    notes: Sequence[str] = ()
    """What the page says of what it doesn't show."""

    @property
    def manifests(self) -> list[Object]:
        """All objects that the order of jobs depends on."""
        return [each for kind in SNAPSHOT for each in self.objects.get(kind, ())]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing that the order of jobs depends on."""
        return not self.left_out


def look(
    cluster: Cluster,
    namespace: str | None,
    node_selector: tuple[tuple[str, str], ...] = (),
) -> Seen:
    """Read everything that the user may read; `namespace` is the one that counts, None: all.

    PodGroups are read in all namespaces if possible: other jobs are in the same line. Raises
    ClusterError if the PodGroups themselves can't be read.
    """
    seen = Seen(node_selector=node_selector)
    for kind in SNAPSHOT:
        try:
            seen.objects[kind] = cluster.list(kind).items
        except Forbidden as error:
            seen.left_out[kind] = str(error)
            if kind not in cluster_client.NAMESPACED:
                continue
            if namespace is None:
                if kind is Kind.POD_GROUP:
                    raise
                continue
            try:
                seen.objects[kind] = cluster.within(namespace).list(kind).items
            except Forbidden:
                if kind is Kind.POD_GROUP:
                    raise
    return seen


def surroundings(cluster: Cluster) -> list[Object] | None:
    """Return the other objects that decisions depend on; None if the user may not read them all."""
    try:
        return [each for kind in SURROUNDINGS for each in cluster.list(kind).items]
    except Forbidden:
        return None


def schedulers(seen: Seen) -> tuple[str, ...]:
    """Return the names of the schedulers of pods with PodGroups, and of PodGroups."""
    named = {
        str((pod.get("spec") or {}).get("schedulerName") or "")
        for pod in seen.objects.get(Kind.POD, ())
        if workloads.group_of(pod)
    }
    named |= {
        str((group["metadata"].get("annotations") or {}).get(translation.SCHEDULER) or "")
        for group in seen.objects.get(Kind.POD_GROUP, ())
    }
    return tuple(sorted(named - {""}))


def places(seen: Seen, policy: Policy) -> Places:
    """Return the places of all waiting jobs; every scheduler has a line of its own."""
    found: dict[str, Place] = {}
    for name in schedulers(seen):
        line = waiting_line.places(seen.manifests, policy, options(seen, name))
        found |= {str(key): place for key, place in line.items()}
    return Places(found=found, approximate=not seen.complete)


def options(seen: Seen, scheduler: str) -> Options:
    """Return how a scheduler of this name sees the cluster now."""
    return Options(scheduler_names=(scheduler,), node_selector=seen.node_selector, now=time.time())


def queue_of(seen: Seen, name: str) -> Mapping[str, Any] | None:
    """Return a queue, or None."""
    named = (each for each in seen.objects.get(Kind.QUEUE, ()) if each["metadata"]["name"] == name)
    return next(named, None)
