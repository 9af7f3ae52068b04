"""Labels that name a queue or a PodGroup where nothing reads them: an annotation given as a label,
and labels of other schedulers.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from vscheduler.cli.checks.misspellings import METADATA, Slip
from vscheduler.controllers.podgroups import group_terms
from vscheduler.mirror.translate import pods

QUEUE = group_terms.QUEUE
GROUP = pods.GROUPS[0]

OF_VOLCANO = "volcano.sh/queue-name"
"""Written by Volcano's job controller, and read by KubeRay from the objects of Ray."""

ANNOTATIONS: Mapping[str, str] = {
    **dict.fromkeys(pods.GROUPS, GROUP),
    **{name: name for name in (QUEUE, group_terms.MIN_MEMBER, group_terms.MIN_RESOURCES)},
}
"""Annotations that have no effect as labels, and the one to write instead."""

FOREIGN: Mapping[str, tuple[str, str]] = {
    OF_VOLCANO: ("Volcano's job controller", QUEUE),
    "kueue.x-k8s.io/queue-name": ("Kueue", QUEUE),
    "kai.scheduler/queue": ("KAI", QUEUE),
    "runai/queue": ("KAI", QUEUE),
    "scheduling.x-k8s.io/pod-group": ("coscheduling", GROUP),
    "pod-group.scheduling.sigs.k8s.io": ("coscheduling", GROUP),
    "pod-group.scheduling.sigs.k8s.io/name": ("coscheduling", GROUP),
}
"""Keys that others read or write: whose they are, and the annotation that means the same here."""


def of_metadata(
    tree: Mapping[str, Any], path: tuple[str | int, ...], settled: Mapping[str, str]
) -> Iterator[Slip]:
    """Iterate over labels, and annotations of other schedulers, of an object or a pod template.

    `settled` are the settings that count already, by their annotation, and what to write for
    others: an empty text where nothing is left to be said.
    """
    metadata = tree.get("metadata")
    for part in METADATA:
        found = metadata.get(part) if isinstance(metadata, Mapping) else None
        for key, value in (found if isinstance(found, Mapping) else {}).items():
            meant = ANNOTATIONS.get(key, "") if part == "labels" else ""
            owner, same = FOREIGN.get(key, ("", meant))
            if not same:
                continue
            where = settled.get(same, f"annotation {same}")
            if where:
                why = f"is for {owner} only" if owner else "is no label but an annotation"
                yield (*path, "metadata", part, str(key)), f"{why}; write {where}: {value}"
