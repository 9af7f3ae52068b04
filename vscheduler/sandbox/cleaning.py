"""A clean slate: everything that a test made goes, while namespaces and definitions stay."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vscheduler.mirror import paths
from vscheduler.sandbox import client, definitions, errors

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05
METADATA_ONLY = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}

# What makes pods goes before pods, so that nothing makes new ones.
WORKLOADS = (
    paths.CRON_JOBS,
    paths.JOBS,
    paths.DEPLOYMENTS,
    paths.STATEFUL_SETS,
    paths.DAEMON_SETS,
    paths.REPLICA_SETS,
)
NAMESPACED = (
    paths.PODS,
    paths.BUDGETS,
    paths.QUOTAS,
    paths.LIMIT_RANGES,
    paths.CLAIMS,
    paths.LEASES,
    paths.CORE_EVENTS,
)
CLUSTER_WIDE = (paths.NODES, paths.VOLUMES, paths.PRIORITY_CLASSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One object that has to go."""

    collection: paths.Collection
    namespace: str
    name: str
    finalizers: bool

    @property
    def collection_path(self) -> paths.Path:
        """The collection in its namespace, which is what can be deleted at once."""
        where = self.collection
        return where.within(self.namespace) if self.namespace else where.everywhere

    @property
    def path(self) -> paths.Path:
        """The object itself."""
        return self.collection.at(self.name, self.namespace)


def clean(api: client.Client, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Delete in rounds, as controllers may still be at work, until nothing is left."""
    deadline = time.monotonic() + timeout_seconds
    custom = definitions.collections(api)
    later = (*NAMESPACED, *CLUSTER_WIDE, *custom)
    while True:
        workloads = list(find_leftovers(api, WORKLOADS))
        _delete(api, workloads)
        others = list(find_leftovers(api, later))
        _delete(api, others)
        if not workloads and not others:
            return
        if time.monotonic() > deadline:
            names = [leftover.path for leftover in (*workloads, *others)][:10]
            raise errors.TimedOut(f"not clean after {timeout_seconds:.0f} s: {names}")
        time.sleep(POLL_SECONDS)


def find_leftovers(
    api: client.Client, collections: Iterable[paths.Collection]
) -> Iterator[Leftover]:
    """List what tests left in these collections over all namespaces."""
    found: dict[paths.Collection, list[client.Object]] = {}

    def look(collection: paths.Collection) -> None:
        try:
            answer = api.request("GET", collection.everywhere, headers=METADATA_ONLY)
        except errors.ApiError as error:
            if error.status != 404:  # a definition that is on its way out is served no more
                raise
        else:
            found[collection] = answer.body["items"]

    client.in_parallel(look, collections)
    for collection, items in found.items():
        for item in items or ():
            metadata = item["metadata"]
            leftover = Leftover(
                collection=collection,
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
                finalizers=bool(metadata.get("finalizers")),
            )
            if not _belongs_to_the_system(leftover):
                yield leftover


def _belongs_to_the_system(leftover: Leftover) -> bool:
    if leftover.collection == paths.PRIORITY_CLASSES:
        return leftover.name.startswith("system-")
    # The API servers' identities, and leases that nodes would have.
    return leftover.collection == paths.LEASES and leftover.namespace.startswith("kube-")


def _delete(api: client.Client, leftovers: list[Leftover]) -> None:
    """Delete by collection where all of it goes, else one by one; strip finalizers."""
    single = [each for each in leftovers if each.collection == paths.PRIORITY_CLASSES]
    whole = {each.collection_path for each in leftovers if each not in single}
    options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    client.in_parallel(lambda path: api.delete(path, **options), sorted(whole))
    client.in_parallel(lambda each: api.delete(each.path, **options), single)
    held = (each for each in leftovers if each.finalizers)
    client.in_parallel(lambda each: _strip_finalizers(api, each), held)


def _strip_finalizers(api: client.Client, leftover: Leftover) -> None:
    try:
        api.patch(leftover.path, {"metadata": {"finalizers": None}})
    except errors.ApiError as error:
        if error.status not in {404, 409, 422}:  # gone, or changed under our hands: next round
            raise
