"""Resources reserved for admitted groups but not used yet (Volcano: inqueue resources).

Admission counts reserved amounts as taken. All amounts are by resource name, for the resources in a
group's minResources. They depend on the job in the snapshot alone, and are kept with the job. Pods
with a scheduling gate can't start, so nothing is reserved for gated pods (Volcano:
DeductSchGatedResources).

Volcano reserves the whole minResources until the group has as much. Pods that have succeeded hold
nothing any more, but still count as members. So a gang that has lost the node of its last pod would
need the resources of all its pods to be admitted again, and would wait forever in a busy cluster.
Here such a group needs no more than the pods that it lacks request, once these pods exist.
"""

from collections.abc import Mapping

from vscheduler.model import resources
from vscheduler.model.jobs import HOLDING, Job, Phase, TaskStatus, WorkingJob
from vscheduler.model.resources import ResourceMap


def minimum(state: WorkingJob) -> ResourceMap:
    """Return what admission promises a group: minResources less requests of gated pods."""
    return _less(state.job.min_resources or {}, _gated(state.job))


def unallocated(state: WorkingJob) -> ResourceMap:
    """Return the part of `minimum` not yet allocated to the group (Volcano: GetInqueueResource)."""
    return _unallocated(state.job)


def _unallocated(job: Job) -> ResourceMap:
    return _less(_less(job.min_resources or {}, job.allocated), _gated(job))


def required(state: WorkingJob) -> ResourceMap:
    """Return the resources that the group holds at its minimum, at most its minResources."""
    return state.job.memo("required", lambda: _required(state.job))


def _required(job: Job) -> ResourceMap:
    least, lacked = job.min_resources or {}, _lacked(job)
    if lacked is None:
        return least
    enough = resources.add(job.allocated, lacked)
    return {name: min(amount, enough.get(name, 0)) for name, amount in least.items()}


def outstanding(state: WorkingJob) -> ResourceMap:
    """Return the part of `required` not yet allocated to the group."""
    return outstanding_of(state.job)


def outstanding_of(job: Job) -> ResourceMap:
    """Return the same of a job: nothing that a cycle decides changes it."""
    return job.memo("outstanding", lambda: _outstanding(job))


def _outstanding(job: Job) -> ResourceMap:
    lacked, left = _lacked(job), _unallocated(job)
    if lacked is None:
        return left
    return {name: min(amount, lacked.get(name, 0)) for name, amount in left.items()}


def holds(state: WorkingJob) -> bool:
    """Whether resources are reserved for the group, that is, Inqueue or Running with minMember.

    A running group with fewer pods is finishing, such as a Spark job after the end of its driver
    (Volcano: proportion OnSessionOpen).
    """
    if state.job.min_resources is None or not state.owed:
        return False
    if state.phase is Phase.RUNNING:
        holding = sum(map(state.counts.__getitem__, HOLDING))
        return holding >= state.job.min_member
    return state.phase is Phase.INQUEUE


def lacks(job: Job) -> bool:
    """Whether a group holds less than its minResources, as the cycle began."""
    if job.min_resources is None:
        return False
    least, allocated = job.min_resources, job.allocated
    return any(amount > allocated.get(name, 0) for name, amount in least.items())


def missing_pods(state: WorkingJob) -> ResourceMap:
    """Return the part of `outstanding` not yet requested by any pod."""
    return state.job.memo("missing", lambda: _less(outstanding(state), state.job.pending))


def within(amounts: Mapping[str, int], left: dict[str, int]) -> ResourceMap:
    """Return amounts capped by `left`, and deduct the result from `left`.

    A resource missing in `left` isn't capped.
    """
    found = {name: min(amount, left.get(name, amount)) for name, amount in amounts.items()}
    for name in left.keys() & found.keys():
        left[name] -= found[name]
    return found


def _lacked(job: Job) -> ResourceMap | None:
    """Return the most that the pods which the group lacks to its minimum may request.

    None if no member has succeeded, since minResources may then be meant for pods that are created
    later, such as Spark's executors; and while not all of these pods exist.
    """
    lacking = job.min_member - job.ready_tasks
    if not job.counts[TaskStatus.SUCCEEDED] or lacking <= 0:
        return None
    if job.counts[TaskStatus.PENDING] < lacking:
        return None
    if job.min_task_member or job.sub_groups:
        return job.pending
    return job.memo("lacked", lambda: _largest_requests(job, lacking))


def _largest_requests(job: Job, number: int) -> ResourceMap:
    """Return by resource the sum of the largest requests of this many pending pods."""
    found: dict[str, int] = {}
    for name in job.pending:
        amounts = ((each.counted.get(name, 0), pods) for each, (_, pods) in job.classes.items())
        left = number
        for amount, pods in sorted(amounts, reverse=True):
            found[name] = found.get(name, 0) + amount * min(pods, left)
            left -= min(pods, left)
    return found


def _gated(job: Job) -> Mapping[str, int]:
    """Return the requests of the job's gated pods, added up."""
    if not job.counts.get(TaskStatus.GATED):
        return {}
    asked: Mapping[str, int] = {}
    for task in job.tasks:
        if task.status is TaskStatus.GATED:
            asked = resources.add(asked, task.pod_class.counted)
    return asked


def _less(amounts: Mapping[str, int], taken: Mapping[str, int]) -> Mapping[str, int]:
    """Return amounts less taken amounts, by name, at least 0."""
    if not taken:
        return amounts
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in amounts.items()}
