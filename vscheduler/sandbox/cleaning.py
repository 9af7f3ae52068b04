"""A clean slate: everything that a test made goes, while namespaces and definitions stay."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vscheduler.sandbox import client, definitions, errors

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05
METADATA_ONLY = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}

# What makes pods goes before pods, so that nothing makes new ones.
WORKLOADS = (
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/replicasets",
)
NAMESPACED = (
    "/api/v1/pods",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/api/v1/persistentvolumeclaims",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/events",
)
CLUSTER_WIDE = (
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One object that has to go."""

    collection: str
    namespace: str
    name: str
    finalizers: bool

    @property
    def collection_path(self) -> str:
        """The collection in its namespace, which is what can be deleted at once."""
        if not self.namespace:
            return self.collection
        root, _, plural = self.collection.rpartition("/")
        return f"{root}/namespaces/{self.namespace}/{plural}"

    @property
    def path(self) -> str:
        """The object itself."""
        return f"{self.collection_path}/{self.name}"


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


def find_leftovers(api: client.Client, collections: Iterable[str]) -> Iterator[Leftover]:
    """List what tests left in these collections over all namespaces."""
    found: dict[str, list[client.Object]] = {}

    def look(collection: str) -> None:
        try:
            answer = api.request("GET", collection, headers=METADATA_ONLY)
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
    if leftover.collection.endswith("/priorityclasses"):
        return leftover.name.startswith("system-")
    # The API servers' identities, and leases that nodes would have.
    return leftover.collection.endswith("/leases") and leftover.namespace.startswith("kube-")


def _delete(api: client.Client, leftovers: list[Leftover]) -> None:
    """Delete by collection where all of it goes, else one by one; strip finalizers."""
    single = [each for each in leftovers if each.collection.endswith("/priorityclasses")]
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
