"""Pods that are jobs by themselves: where the API server doesn't serve Volcano's PodGroups, no
automatic ones can be made for them.
"""

from msgspec.structs import replace

from vscheduler.mirror import paths
from vscheduler.mirror.translate import translation
from vscheduler.mirror.translate.pods import Pod
from vscheduler.mirror.translate.translation import MIN_MEMBER, QUEUE, REQUIRE_QUEUE, Group
from vscheduler.model import jobs
from vscheduler.model.jobs import GroupState, Job, Phase

NOT_SERVED = f"the API server doesn't serve those of {paths.VOLCANO}"


def is_lone(pod: Pod) -> bool:
    """Whether the pod would have an automatic PodGroup, or has named one that is gone."""
    native = pod.group is not None and jobs.is_native(pod.group)
    return pod.origin is not None and not native


def alone(pod: Pod) -> Pod:
    """Return the pod as the only one of its job."""
    key = jobs.pod_id(*jobs.names_of(jobs.JobId(pod.key)))
    return replace(pod, group=key, task=pod.task and replace(pod.task, job=key))


def group_of(pod: Pod, namespace_queue: str, default_queue: str) -> Group:
    """Return what the pod's PodGroup would be; `namespace_queue` is empty if it must name one."""
    assert pod.group is not None
    assert pod.origin is not None
    namespace, name = jobs.names_of(pod.group)
    texts = pod.origin.annotations
    queue, defect = texts.get(QUEUE) or namespace_queue, ""
    if translation.count(texts.get(MIN_MEMBER, "")) > 1:
        defect = f"annotation {MIN_MEMBER} needs a PodGroup, but {NOT_SERVED}"
    elif not queue:
        defect = f'namespace {namespace} has {REQUIRE_QUEUE}: "true", so name a queue in {QUEUE}'
    return Group(
        job=Job(
            id=pod.group,
            uid=pod.uid,
            namespace=namespace,
            name=name,
            queue=queue or default_queue,
            created=0.0 if pod.task is None else pod.task.created,
            state=GroupState(phase=Phase.PENDING if pod.node is None else Phase.RUNNING),
        ),
        priority_class="",
        scheduler="",
        defect=defect,
    )
