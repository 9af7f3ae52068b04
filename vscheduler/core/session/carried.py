"""What a cycle carries to the next: admissions of PodGroups, outcomes of evictions, searches.

Each part starts from `snapshot.Carried`; `job_status.close` makes the next Carried.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from vscheduler.core.session.job_state import JobState
from vscheduler.model.jobs import JobId, Phase
from vscheduler.model.snapshot import Carried, GangSearch, SearchPlace


class Admissions:
    """When PodGroups were admitted to a queue, and when admissions expired; by UID."""

    def __init__(self, carried: Carried) -> None:
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

    def still_admitted(
        self, waiting: Iterable[JobState], *others: Collection[str]
    ) -> Mapping[str, float]:
        """Return since when groups have been Inqueue: of waiting jobs, and of `others`, by UID."""
        if not self._admitted:
            return {}
        left = set(self._admitted).difference(*others, _uids(waiting, Phase.INQUEUE))
        return {uid: since for uid, since in self._admitted.items() if uid not in left}

    def still_expired(self, waiting: Iterable[JobState]) -> Mapping[str, float]:
        """Return when the admissions of waiting jobs expired that are Pending."""
        if not self._expired:
            return {}
        uids = _uids(waiting, Phase.PENDING)
        return {uid: self._expired[uid] for uid in uids if uid in self._expired}


def _uids(waiting: Iterable[JobState], phase: Phase) -> Sequence[str]:
    """Return the UIDs of the waiting jobs in this phase, in order."""
    return [state.job.uid for state in waiting if state.phase is phase]


class EvictionHistory:
    """Outcomes of searches for victims, of the action shuffle, and of gangs bound in part."""

    def __init__(self, carried: Carried) -> None:
        self._failed = set(carried.reclaim_failed)
        self._partial_since: dict[str, float] = {}
        self._stale_since: dict[str, float] = {}
        self.failed: Collection[tuple[str, JobId]] = self._failed
        """By action, jobs without any victims, in this cycle or in unfinished cycles before."""
        self.partial_since: Mapping[str, float] = self._partial_since
        """By UID, since when a gang has been bound in part; only gangs that still are."""
        self.stale_since: Mapping[str, float] = self._stale_since
        """By UID, since when a gang that ran has lacked pods that nobody replaces."""
        self.shuffled_at = carried.shuffled_at
        """When the action shuffle last evicted a pod, in this cycle or before."""

    def fail(self, action: str, job: JobId) -> None:
        """Record that the action found no victims for the job."""
        self._failed.add((action, job))

    def fail_all(self, action: str, every: Iterable[JobId]) -> None:
        """Record that the action found no victims for any of the jobs."""
        self._failed.update(zip(itertools.repeat(action), every))

    def shuffle(self, now: float) -> None:
        """Record that the action shuffle evicts pods now."""
        self.shuffled_at = now

    def note_partial(self, uid: str, since: float) -> None:
        """Record that the PodGroup has been bound in part since then."""
        self._partial_since[uid] = since

    def note_stale(self, uid: str, since: float) -> None:
        """Record that the PodGroup has lacked pods, which nobody replaces, since then."""
        self._stale_since[uid] = since


class GangSearches:
    """Searches for whole gangs that found no nodes, in this cycle or before.

    The steps of a cycle go to the namespaces whose searches have cost the least so far.
    """

    def __init__(self, carried: Carried) -> None:
        self._before = carried.gang_searches
        self._now: dict[SearchPlace, GangSearch] = {}
        self.steps_max = 0
        """How many steps the searches of one cycle may take."""
        self.steps_left = 0
        """How many of them are left."""
        self._spent: defaultdict[str, int] = defaultdict(int)
        unfinished: set[str] = set()
        for (job, _), search in self._before.items():
            namespace = _namespace(job)
            self._spent[namespace] += search.spent
            if not search.finished:
                unfinished.add(namespace)
        self._least = min(map(self._spent.__getitem__, unfinished)) if unfinished else 0
        self._is_contested = len(unfinished) > 1

    def allow(self, steps: int) -> None:
        """Let the searches of this cycle take so many steps."""
        self.steps_max = self.steps_left = steps

    def spend(self, steps: int) -> None:
        """Count the steps of one search."""
        self.steps_left -= steps

    def is_due(self, job: JobId) -> bool:
        """Whether a search for the job may begin, or go on; others may have to come first."""
        spent = self._spent.get(_namespace(job), 0)
        return not self._is_contested or spent <= self._least + self.steps_max // 4

    def last(self, place: SearchPlace) -> GangSearch | None:
        """Return the last search, in this cycle or before."""
        return self._now.get(place) or self._before.get(place)

    def carried(self, without_turn: Collection[JobId]) -> Mapping[SearchPlace, GangSearch]:
        """Return what the next cycle must know; jobs without a turn keep what they had."""
        kept = {place: each for place, each in self._before.items() if place[0] in without_turn}
        return dict(sorted((kept | self._now).items()))

    def forget(self, job: JobId) -> None:
        """Forget the searches for a job that has nodes now."""
        for place in [place for place in self._now if place[0] == job]:
            del self._now[place]

    def keep(self, place: SearchPlace, search: GangSearch) -> None:
        """Remember a search that found no nodes."""
        self._now[place] = search


def _namespace(job: JobId) -> str:
    return job.partition("/")[0]
