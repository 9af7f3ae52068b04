"""What would start a waiting job: `explain`, a pure function of the objects of a cluster.

`vscheduler simulate --why` calls it on manifests. For a live cluster, read the objects into
`simulator.run.read` and call it in a process of its own: it takes up to a second of CPU, in which
no cycle should wait for it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from vscheduler.core.config.policy import Policy
from vscheduler.explain import evictions, network, nodes, pods, queues, turns
from vscheduler.explain.changes import Change, Nothing, Remedy
from vscheduler.explain.search import Search
from vscheduler.explain.trials import Trials
from vscheduler.mirror.wording import gang_sentences, phrases
from vscheduler.model import jobs
from vscheduler.model.decisions import Reason
from vscheduler.model.jobs import Job, JobId
from vscheduler.model.reclaim_outlooks import ReclaimOutlook
from vscheduler.model.refusals import RefusalCode
from vscheduler.simulator.forecast import BudgetError, Forecast, forecast
from vscheduler.simulator.past_runs import NO_PAST, PastRuns
from vscheduler.simulator.run import Given

BUDGET = 600_000
"""Units of work of core.cycle, about a microsecond each: under a second at 1,000 nodes."""

ROUNDS = 2
NAMES_MAX = 5
"""How many jobs are named to somebody who named none of them."""

Finder = Callable[[Search, Job], Iterator[Remedy]]

FINDERS: Sequence[tuple[str, Finder]] = (
    ("the queue", queues.usable),
    ("missing pods", pods.completed),
    ("scheduling gates", pods.opened),
    ("missing volume claims", pods.claims),
    ("annotations", pods.settings),
    ("run times", turns.shorter),
    ("the network topology", network.wider),
    ("quotas", queues.quotas),
    ("fewer pods", pods.fewer),
    ("smaller pods", pods.smaller),
    ("tolerations and selectors", pods.unbarred),
    ("priorities", turns.prior),
    ("weights", queues.weights),
    ("queue limits", queues.amounts),
    ("more nodes", nodes.more),
    ("larger nodes", nodes.larger),
    ("taints and labels", nodes.opened),
    ("forbidden evictions", evictions.allowed),
    ("ends of jobs", evictions.ends),
)
"""The kinds of changes, by the name that is shown when the budget ends their search."""


LIKELY_START = "the likely start"
"""What is shown beside these kinds if a budget ends the forecast."""


class NotWaitingError(Exception):
    """There is no such job, or it doesn't wait: a sentence for users."""


class NotEnough(msgspec.Struct, frozen=True, kw_only=True):
    """A change that the reason asks for, and why the job waits after it, too."""

    change: Change
    reason: Reason


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, and what would start it."""

    job: JobId
    queue: str
    reason: Reason | None
    """None if the job had no turn within the budget."""
    outlook: ReclaimOutlook | None
    """Why reclaim makes no room for the queue; None unless the queue is below its share."""
    starts: int | None
    """The cycle in which the job starts if nothing changes, counted from 1; None if it waits."""
    remedies: tuple[Remedy, ...]
    not_enough: NotEnough | None = None
    """What has to be done first; None if a single change would start the job."""
    for_admission: bool = False
    """Whether it has no pods and isn't admitted: `starts` and the remedies are about its admission,
    after which its owner creates the pods."""
    uncreated: int = 0
    """How many pods must be created, as there is none to copy for a trial."""
    owner: str = ""
    """What creates the job's pods, if known."""
    trials: int
    """How many changed clusters were tried."""
    spent: int
    """Units of work of core.cycle."""
    likely: Forecast | None = None
    """When it is likely to start without a change; None unless it waits for what others have, and
    that could be found out within the budget."""
    cut: tuple[str, ...] = ()
    """The kinds of changes whose search was cut short by the budget: there may be others. Also
    LIKELY_START."""

    @property
    def untried(self) -> tuple[str, ...]:
        """Return why plugins that aren't built in refuse nodes: only their authors know what would
        help there.
        """
        found = self.reason.refusals if self.reason else ()
        return tuple(each.subject for each, _ in found if each.code is RefusalCode.CUSTOM)


def explain(
    given: Given, policy: Policy, job: str, past: PastRuns = NO_PAST, *, budget: int = BUDGET
) -> Explanation:
    """Return why a job waits, and the smallest change of each kind that would start it.

    `job` is the id of a job, or of a PodGroup below a CompositePodGroup; of Kubernetes' own,
    `namespace/name` suffices if Volcano has none of that name. Raises NotWaitingError for a job
    that doesn't exist or doesn't wait. Nothing is returned that a trial hasn't verified: after the
    change, all pods of the minimum are bound within `trials.CYCLES` simulated cycles, in which
    owners recreate evicted pods. Equal input gives equal results. `past` are run times of jobs that
    have ended, for the forecast of its start, which has a budget of its own.
    """
    waiting = _waiting(given, job)
    tried = Trials(given, policy, waiting.id, budget)
    now = tried.starts(Nothing())
    found: dict[str, tuple[Remedy, ...]] = {}
    cut: list[str] = []
    not_enough, likely = None, None
    if not now:
        reason = now.first.reason if now.first else None
        searched = Search(tried, reason, trial=budget - tried.left, budget=budget)
        found, cut = _search(searched, waiting)
        if not any(found.values()):
            not_enough = _not_enough(searched, waiting)
        tried.close()
        if waiting.tasks and turns.waits_for_others(reason):
            try:
                likely = forecast(given.mirror, given.now, policy, waiting.id, past)
            except BudgetError:
                cut.append(LIKELY_START)
    return Explanation(
        job=waiting.id,
        queue=waiting.queue,
        reason=now.first.reason if now.first else None,
        outlook=now.queue.reclaim if now.queue else None,
        starts=now.cycle or None,
        remedies=tuple(remedy for name, _ in FINDERS for remedy in found.get(name, ())),
        not_enough=not_enough,
        for_admission=tried.for_admission,
        uncreated=_uncreated(waiting, tried),
        owner=waiting.owner,
        trials=tried.count,
        spent=budget - tried.left,
        likely=likely,
        cut=tuple(cut),
    )


def _not_enough(search: Search, job: Job) -> NotEnough | None:
    for change in queues.opening(search, job):
        status = search.trials.starts(change).first
        reason = None if status is None else status.reason
        if reason is not None and reason != search.reason:
            return NotEnough(change=change, reason=reason)
    return None


def _uncreated(job: Job, tried: Trials) -> int:
    there = job.tasks or job.rejections
    return 0 if there or tried.for_admission else max(1, job.min_member)


def _search(search: Search, job: Job) -> tuple[dict[str, tuple[Remedy, ...]], list[str]]:
    """Return the remedies by kind, and the kinds that the budget cut short.

    First each kind gets an equal part of the budget. What is left then goes to kinds that were cut.
    """
    found: dict[str, tuple[Remedy, ...]] = {}
    cut = [name for name, _ in FINDERS]
    finders = dict(FINDERS)
    for _ in range(ROUNDS):
        waiting, cut = cut, []
        for number, name in enumerate(waiting):
            search.trials.limit(len(waiting) - number)
            found[name] = tuple(finders[name](search, job))
            if search.trials.cut:
                cut.append(name)
    return found, cut


def _waiting(given: Given, name: str) -> Job:
    """Return the job; raises NotWaitingError if there is none, or if it doesn't wait."""
    taken = given.mirror.snapshot(given.now)
    name = _named(given, name)
    job = next((job for job in taken.jobs if job.id == name), None)
    if job is None:
        raise NotWaitingError(f"{_missing(given, name)}{_those(taken.jobs)}")
    least = max(1, job.min_member)
    if job.ready_tasks >= least:
        raise NotWaitingError(
            f"PodGroup {name} doesn't wait: {job.ready_tasks} of the {least} pods "
            f"it needs have a node"
        )
    return job


def _those(known: Iterable[Job]) -> str:
    """Return the ids of jobs that wait, for somebody who named none of them."""
    names = sorted(job.id for job in known if job.ready_tasks < max(1, job.min_member))
    more = [f"{len(names) - NAMES_MAX} more"] if len(names) > NAMES_MAX else []
    return f"; these wait: {phrases.listed([*names[:NAMES_MAX], *more])}" if names else ""


def _named(given: Given, name: str) -> str:
    """Return the id of the job that is meant; of the only one with this name, if it has no
    namespace.
    """
    if "/" not in name:
        alike = [each for each in given.mirror.groups if jobs.names_of(each)[1] == name]
        return alike[0] if len(alike) == 1 else name
    ids = (f"{name}{mark}" for mark in ("", jobs.NATIVE, jobs.COMPOSITE, jobs.LONE_POD))
    found = map(given.mirror.job_of, map(JobId, ids))
    return next((each for each in found if each in given.mirror.groups), name)


def _missing(given: Given, name: str) -> str:
    if "/" not in name:
        return f"{name!r} isn't the namespace/name of a PodGroup"
    group = given.mirror.groups.get(JobId(name))
    if group is None:
        return gang_sentences.no_group(JobId(name), given.mirror.rejections)
    if not group.scheduler and not given.mirror.members(group.job.id):
        said = phrases.unclaimed(group.job.owner, native=jobs.is_native(group.job.id))
        return f"PodGroup {name} waits: {said}"
    return f"PodGroup {name} has no pods of this scheduler"
