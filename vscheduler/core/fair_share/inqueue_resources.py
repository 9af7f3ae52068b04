"""What admitted groups were promised and don't have yet: the figures that admission goes by.

All amounts are by resource, only those that a group's minResources name; pods behind a scheduling
gate can't start, so what they ask for isn't kept for them (Volcano: DeductSchGatedResources).
"""

from collections.abc import Mapping

from vscheduler.core.model import jobs, resources


def minimum(gang: jobs.WorkingJob) -> resources.ResourceMap:
    """Its minResources less what its gated pods ask for: what a group is promised at admission."""
    return _less(gang.job.min_resources or {}, _gated(gang.job))


def outstanding(gang: jobs.WorkingJob) -> resources.ResourceMap:
    """The same, less what it has already."""
    job = gang.job
    return _less(_less(job.min_resources or {}, job.allocated), _gated(job))


def holds(gang: jobs.WorkingJob) -> bool:
    """Whether a promise is kept for the group: it is Inqueue, or runs with its minimum.

    A running group below its minimum is being wound down, such as a Spark job whose driver is
    done (Volcano: proportion OnSessionOpen).
    """
    if gang.job.min_resources is None:
        return False
    if gang.phase is jobs.Phase.RUNNING:
        holding = sum(gang.counts[status] for status in jobs.HOLDING)
        return holding >= gang.job.min_member
    return gang.phase is jobs.Phase.INQUEUE


def unborn(gang: jobs.WorkingJob) -> resources.ResourceMap:
    """The part of its minResources for which no pod asks yet."""
    job = gang.job
    asked = resources.add(job.allocated, job.pending)
    return _less(_less(job.min_resources or {}, asked), _gated(job))


def within(amounts: Mapping[str, int], left: dict[str, int]) -> resources.ResourceMap:
    """As much of these amounts as is left, which they are taken from; what isn't named is left in
    full.
    """
    found = {name: min(amount, left.get(name, amount)) for name, amount in amounts.items()}
    for name in left.keys() & found.keys():
        left[name] -= found[name]
    return found


def _gated(job: jobs.Job) -> Mapping[str, int]:
    if not job.counts.get(jobs.TaskStatus.GATED):
        return {}
    asked: Mapping[str, int] = {}
    for task in job.tasks:
        if task.status is jobs.TaskStatus.GATED:
            asked = resources.add(asked, task.pod_class.request)
    return asked


def _less(amounts: Mapping[str, int], taken: Mapping[str, int]) -> Mapping[str, int]:
    """What is left by name, at least nothing."""
    if not taken:
        return amounts
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in amounts.items()}
