"""Resources reserved for admitted groups but not used yet (Volcano: inqueue resources).

Admission counts reserved amounts as taken. All amounts are by resource name, for the resources in a
group's minResources. Pods with a scheduling gate can't start, so nothing is reserved for gated pods
(Volcano: DeductSchGatedResources).
"""

from collections.abc import Mapping

from vscheduler.core.model import jobs, resources


def minimum(state: jobs.WorkingJob) -> resources.ResourceMap:
    """Return what admission promises a group: minResources less requests of gated pods."""
    return _less(state.job.min_resources or {}, _gated(state.job))


def unallocated(state: jobs.WorkingJob) -> resources.ResourceMap:
    """Return the part of `minimum` not yet allocated to the group."""
    job = state.job
    return _less(_less(job.min_resources or {}, job.allocated), _gated(job))


def holds(state: jobs.WorkingJob) -> bool:
    """Whether resources are reserved for the group, that is, Inqueue or Running with minMember.

    A running group with fewer pods is finishing, such as a Spark job after the end of its driver
    (Volcano: proportion OnSessionOpen).
    """
    if state.job.min_resources is None or not state.owed:
        return False
    if state.phase is jobs.Phase.RUNNING:
        holding = sum(state.counts[status] for status in jobs.HOLDING)
        return holding >= state.job.min_member
    return state.phase is jobs.Phase.INQUEUE


def lacks(job: jobs.Job) -> bool:
    """Whether a group holds less than its minResources, as the cycle began."""
    if job.min_resources is None:
        return False
    least, allocated = job.min_resources, job.allocated
    return any(amount > allocated.get(name, 0) for name, amount in least.items())


def missing_pods(state: jobs.WorkingJob) -> resources.ResourceMap:
    """Return the part of `minimum` not yet requested by any pod."""
    job = state.job
    asked = resources.add(job.allocated, job.pending)
    return _less(_less(job.min_resources or {}, asked), _gated(job))


def within(amounts: Mapping[str, int], left: dict[str, int]) -> resources.ResourceMap:
    """Return amounts capped by `left`, and deduct the result from `left`.

    A resource missing in `left` isn't capped.
    """
    found = {name: min(amount, left.get(name, amount)) for name, amount in amounts.items()}
    for name in left.keys() & found.keys():
        left[name] -= found[name]
    return found


def _gated(job: jobs.Job) -> Mapping[str, int]:
    """Return the requests of the job's gated pods, added up."""
    if not job.counts.get(jobs.TaskStatus.GATED):
        return {}
    asked: Mapping[str, int] = {}
    for task in job.tasks:
        if task.status is jobs.TaskStatus.GATED:
            asked = resources.add(asked, task.pod_class.request)
    return asked


def _less(amounts: Mapping[str, int], taken: Mapping[str, int]) -> Mapping[str, int]:
    """Return amounts less taken amounts, by name, at least 0."""
    if not taken:
        return amounts
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in amounts.items()}
