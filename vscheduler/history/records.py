"""Records of history: jobs, and the runs of their pods. Times are whole seconds since the epoch, as
Kubernetes has them, and amounts are integers, so sums of pod-seconds are exact.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from vscheduler.model.jobs import JobId, TaskId
from vscheduler.model.resources import ResourceMap

USER_LABEL = "vscheduler.io/user"
"""Label of pods and PodGroups: whose job it is."""


class JobState(StrEnum):
    """What became of a job."""

    WAITING = "Waiting"
    RUNNING = "Running"
    COMPLETED = "Completed"
    DELETED = "Deleted"
    """Its PodGroup went before its pods came to an end."""


class Ending(StrEnum):
    """Why a pod holds its resources no longer."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EVICTED = "evicted"
    """By this scheduler, for another job or with the rest of its gang."""
    DELETED = "deleted"
    CHANGED = "changed"
    """The pod goes on with other requests, or for another queue, as its next run."""
    UNKNOWN = "unknown"
    """It went while nobody looked; it ran at least so long."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job, from its creation to its end. Times are None until they are known."""

    uid: str
    """Of the PodGroup."""
    scheduler: str
    job: JobId
    owner: str = ""
    """What created the pods, such as `job/train`; empty if nobody is known to."""
    user: str = ""
    queue: str
    created: int
    priority: int = 0
    run_limit: int | None = None
    """How long its pods may run at most, in seconds."""
    admitted: int | None = None
    started: int | None = None
    """When its first pod was bound."""
    last_started: int | None = None
    """When the first pod of its last run was bound: jobs start again after evictions."""
    last_ended: int | None = None
    """When the last pod so far ended."""
    finished: int | None = None
    state: JobState = JobState.WAITING
    pods: int = 0
    """The most pods that held resources at once."""
    request: ResourceMap = {}
    """What they held together."""
    evicted: int = 0
    succeeded: int = 0
    failed: int = 0
    """How many pods were evicted, succeeded, and failed."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which a pod holds the same resources for the same queue: from its bind to its end,
    unless its requests or its queue change.
    """

    pod: TaskId
    began: int
    job: str
    """The job's uid."""
    name: str
    """Of the pod."""
    node: str
    queue: str
    request: ResourceMap
    ended: int | None = None
    """None while the pod holds them."""
    how: Ending | None = None
    action: str = ""
    """The action that evicts the pod, set when the API server has accepted the eviction."""
    evicted_for: str = ""
    """The job that the pod makes room for."""


RunKey = tuple[TaskId, int]


def key_of(run: RunRecord) -> RunKey:
    """Return what identifies a run."""
    return run.pod, run.began


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Records that are new or changed, to be written together."""

    jobs: Sequence[JobRecord] = ()
    runs: Sequence[RunRecord] = ()

    def __len__(self) -> int:
        return len(self.jobs) + len(self.runs)


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What a database knows when recording starts."""

    jobs: Sequence[JobRecord] = ()
    """Those that haven't finished, and those of listed PodGroups."""
    runs: Sequence[RunRecord] = ()
    """Those that haven't ended."""
    ended: Mapping[TaskId, int] = msgspec.field(default_factory=dict)
    """When the last run ended, of listed pods that have any and of which none is open."""
    seen: int = 0
    """Until when somebody looked; 0 if nobody ever did."""


class WriterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the writer fares."""

    lost: int = 0
    """Changes and records that were dropped."""
    written: int = 0
    """Records that were written."""
    size: int = 0
    """Bytes of the file."""
    works: bool = True
    """Whether the last records could be written."""
