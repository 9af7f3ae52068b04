"""Pods that are jobs by themselves: they need no PodGroup, or the API server serves none of
Volcano's.

A PodGroup is made where a pod or its owner says more than a pod alone can have. The scheduler and
the controllers decide by the same function, so that one starts a pod alone exactly where the other
makes no PodGroup for it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from vscheduler.mirror import paths
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.translate import group_terms, pod_owners, translation
from vscheduler.mirror.translate.group_terms import Source, Terms
from vscheduler.mirror.translate.pod_owners import Owner, OwnerTemplate
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import MIN_MEMBER, Group
from vscheduler.model import jobs, run_times, topology
from vscheduler.model.group_texts import GroupAnnotations, GroupLabels
from vscheduler.model.jobs import ROLE, GroupState, Job, Phase

NOT_SERVED = f"the API server doesn't serve those of {paths.VOLCANO}"

KINDS: Mapping[tuple[str, str], Kind] = {
    (paths.COLLECTIONS[kind].api_version, paths.COLLECTIONS[kind].kind): kind
    for kind in sorted(paths.OWNERS)
}
"""Owners whose annotations count for their pods, by apiVersion and kind."""

SAY_NOTHING = frozenset({("v1", "ReplicationController"), ("apps/v1", "DaemonSet")})
"""Owners whose annotations never count."""

OF_GROUPS = frozenset(
    {group_terms.MIN_RESOURCES, *group_terms.BUDGETS, topology.TOPOLOGY, ROLE},
)
"""Annotations that mean something for a group of pods only."""

OF_NETWORKS = "volcano.sh/network-topology"
"""How further such annotations begin."""


class Need(Enum):
    """Whether a pod needs a PodGroup."""

    NOTHING = "nothing"
    POD_GROUP = "PodGroup"
    OWNER = "owner"
    """It isn't known yet, as the pod's owner isn't."""


class Texts(NamedTuple):
    """What a PodGroup would have of a pod and its owner."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]


NO_TEXTS = Texts({}, {})


def is_lone(pod: Pod) -> bool:
    """Whether the pod would have an automatic PodGroup, or has named one that is gone."""
    native = pod.group is not None and jobs.is_native(pod.group)
    return pod.origin is not None and not native


def kind_of(owner: Owner) -> Kind | None:
    """Return the kind of an owner whose annotations count; None for any other owner."""
    return KINDS.get((owner.api_version, owner.kind))


def need(
    origin: OwnerTemplate, owner: Mapping[str, str] | None, *, inherits: bool, readable: bool
) -> Need:
    """Return whether a pod that names no PodGroup needs one.

    `owner` are the annotations of its owner, None if they aren't known, or don't count. `inherits`:
    whether they count at all; `readable`: whether owners can be read.
    Pods of scheduler `volcano` always have one, as with Volcano, and so have those of owners whose
    kind is unknown: operators look for the PodGroups of their pods.
    """
    if origin.scheduler == pod_owners.VOLCANO or says_more(origin.annotations):
        return Need.POD_GROUP
    ref = origin.owner
    if ref is None or (ref.api_version, ref.kind) in SAY_NOTHING:
        return Need.NOTHING
    known = kind_of(ref) is not None
    if known and not inherits:
        return Need.NOTHING
    if known and readable and owner is None:
        return Need.OWNER
    nothing = known and readable and owner is not None and not says_more(owner)
    return Need.NOTHING if nothing else Need.POD_GROUP


def says_more(annotations: Mapping[str, str]) -> bool:
    """Whether annotations of a pod or an owner ask for more than a pod alone can have.

    What can't be read counts, too: a PodGroup tells of it.
    """
    if not annotations:
        return False
    minimum, queue = annotations.get(MIN_MEMBER), annotations.get(group_terms.QUEUE)
    return (
        (minimum is not None and group_terms.number(minimum) not in (0, 1))
        or (bool(queue) and not group_terms.can_be_queue(str(queue)))
        or not OF_GROUPS.isdisjoint(annotations)
        or any(name.startswith(OF_NETWORKS) for name in annotations)
    )


def why(
    origin: OwnerTemplate, owner: Mapping[str, str] | None, needed: Need, *, spares_groups: bool
) -> str:
    """Return why a pod without a PodGroup waits for one."""
    ref = origin.owner
    place = "" if ref is None else f"{ref.kind} {ref.name}"
    if needed is Need.OWNER:
        return f"its {place} isn't known yet"
    for said, texts in (("it", origin.annotations), (place, owner or {})):
        for name, text in texts.items():
            if says_more({name: text}):
                return f"{said} has annotation {name}"
    if ref is not None and kind_of(ref) is not None and not spares_groups:
        return f"the scheduler can't read {place}, or makes PodGroups for all pods"
    return "all such pods have one"


def alone(pod: Pod) -> Pod:
    """Return the pod as the only one of its job."""
    key = jobs.pod_id(*jobs.names_of(jobs.JobId(pod.key)))
    return replace(pod, group=key, task=pod.task and replace(pod.task, job=key))


def texts_of(pod: Pod, owner: Mapping[str, str] | None) -> Texts:
    """Return the annotations and labels that the pod's PodGroup would have."""
    assert pod.origin is not None
    labels = group_terms.labels(pod.labels) if pod.labels else {}
    if not (pod.origin.annotations or owner or labels):
        return NO_TEXTS
    return Texts(_terms(pod, owner).annotations(), labels)


def group_of(
    pod: Pod, owner: Mapping[str, str] | None, namespace_queue: str, default_queue: str
) -> Group:
    """Return what the pod's PodGroup would be; `namespace_queue` is empty if it must name one."""
    assert pod.group is not None
    assert pod.origin is not None
    namespace, name = jobs.names_of(pod.group)
    texts, queue, defect = texts_of(pod, owner), namespace_queue, ""
    if pod.origin.annotations or owner:
        queue = _terms(pod, owner).queue(namespace_queue)
    said = [each.get(MIN_MEMBER, "") for each in (owner or {}, pod.origin.annotations)]
    if any(translation.count(text) > 1 for text in said):
        defect = f"annotation {MIN_MEMBER} needs a PodGroup, but {NOT_SERVED}"
    elif not queue:
        owner_of, places = pod.origin.owner, ["the pod"]
        if owner is not None and owner_of is not None:
            places = [f"{owner_of.kind} {owner_of.name}", "its pods"]
        defect = group_terms.queue_required(namespace, places)
    return Group(
        job=Job(
            id=pod.group,
            uid=pod.uid,
            namespace=namespace,
            name=name,
            queue=queue or default_queue,
            created=0.0 if pod.task is None else pod.task.created,
            min_resources=pod.pod_class.request,
            state=GroupState(phase=_phase(pod)),
            annotations=GroupAnnotations(texts.annotations),
            labels=GroupLabels(texts.labels),
            owner=translation.creator(pod.origin.owner),
            max_run_time=run_times.parse(texts.annotations.get(run_times.MAX_RUN_TIME)),
        ),
        priority_class=pod.origin.priority_class,
        scheduler="",
        defect=defect,
    )


def _terms(pod: Pod, owner: Mapping[str, str] | None) -> Terms:
    """Return the settings in annotations of the pod and its owner."""
    assert pod.origin is not None
    of_owner = Source(object="", annotations=owner) if owner else None
    return Terms(Source(object="", annotations=pod.origin.annotations), of_owner)


def _phase(pod: Pod) -> Phase:
    if pod.status in jobs.FINISHED:
        return Phase.COMPLETED
    return Phase.PENDING if pod.node is None else Phase.RUNNING
