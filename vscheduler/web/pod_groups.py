"""PodGroups as the page shows them: those without pods, too, and by what users call them."""

from collections.abc import Collection, Iterator

from vscheduler.core.model.decisions import Reason, ReasonCode
from vscheduler.core.model.jobs import YOUNG, Job
from vscheduler.mirror import workloads
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate import translation
from vscheduler.mirror.translate.owner_references import Owner


def without_pods(mirror: Mirror, schedulers: Collection[str]) -> Iterator[Job]:
    """Iterate over PodGroups without any pod, except those that name another scheduler.

    Cycles leave most of them out, since nobody can say whose they are.
    """
    for key, group in mirror.groups.items():
        if not mirror.members(key) and (not group.scheduler or group.scheduler in schedulers):
            yield group.job


def reason_without_pods(job: Job) -> Reason | None:
    """Return why a job waits that has no pods, though no cycle says so; None for other jobs."""
    if job.tasks or job.rejections:
        return None
    code = ReasonCode.TOO_FEW_PODS
    return Reason(
        code=code,
        queue=job.queue,
        minimum=max(1, job.min_member),
        owner=job.owner,
        unclaimed=job.phase in YOUNG and not job.annotations.get(translation.SCHEDULER),
    )


def workload_of(job: Job, owner: Owner | None) -> str:
    """Return what users call the job, such as `job/train`."""
    labels = job.tasks[0].labels if job.tasks else {}
    if owner is not None and workloads.is_final(owner.kind, labels):
        return str(workloads.of_owner(owner.api_version, owner.kind, owner.name))
    named = [] if owner is None else [_reference(owner)]
    group = {"metadata": {"name": job.name, "ownerReferences": named}}
    pods = [
        {"metadata": {"name": task.name, "labels": task.labels, "ownerReferences": named}}
        for task in job.tasks[:2]
    ]
    return str(workloads.of_group(group, pods)[0])


def _reference(owner: Owner) -> dict[str, object]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "controller": True,
    }
