"""What a cycle remembers for the next cycles: admissions of PodGroups, and outcomes of evictions.

Each class starts from `snapshot.Carried`; `job_status.close` makes the next Carried.
"""

from collections.abc import Collection, Mapping

from vscheduler.core.model import jobs, snapshot


class Admissions:
    """When PodGroups were admitted to a queue, and when admissions expired; by UID."""

    def __init__(self, carried: snapshot.Carried) -> None:
        self._admitted = dict(carried.admitted)
        self._expired = dict(carried.admission_expired)
        self.admitted: Mapping[str, float] = self._admitted
        """When a PodGroup became Inqueue; groups that have left Inqueue are included."""
        self.expired: Mapping[str, float] = self._expired
        """When the admission of a PodGroup expired; groups admitted again are included."""

    def admit(self, uid: str, now: float) -> None:
        """Record that the PodGroup is admitted now."""
        self._admitted[uid] = now

    def since(self, uid: str, now: float) -> float:
        """Return when the PodGroup was admitted; an unknown admission counts from now on."""
        return self._admitted.setdefault(uid, now)

    def expire(self, uid: str, now: float) -> None:
        """Record that the admission of the PodGroup expires now."""
        self._expired[uid] = now


class EvictionHistory:
    """Outcomes of searches for victims, of the action shuffle, and of gangs bound in part."""

    def __init__(self, carried: snapshot.Carried) -> None:
        self._failed = set(carried.reclaim_failed)
        self._partial_since: dict[str, float] = {}
        self.failed: Collection[tuple[str, jobs.JobId]] = self._failed
        """By action, jobs without any victims, in this cycle or in unfinished cycles before."""
        self.partial_since: Mapping[str, float] = self._partial_since
        """By UID, since when a gang has been bound in part; only gangs that still are."""
        self.shuffled_at = carried.shuffled_at
        """When the action shuffle last evicted a pod, in this cycle or before."""

    def fail(self, action: str, job: jobs.JobId) -> None:
        """Record that the action found no victims for the job."""
        self._failed.add((action, job))

    def shuffle(self, now: float) -> None:
        """Record that the action shuffle evicts pods now."""
        self.shuffled_at = now

    def note_partial(self, uid: str, since: float) -> None:
        """Record that the PodGroup has been bound in part since then."""
        self._partial_since[uid] = since
