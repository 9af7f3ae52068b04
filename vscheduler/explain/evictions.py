"""Changes that free what running jobs hold: settings that forbid evictions, and ends of jobs."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import partial

import msgspec

from vscheduler.explain import estimates
from vscheduler.explain.changes import (
    ActionArgument,
    Change,
    EndOfJob,
    MoreDisruptions,
    Preemptable,
    Reclaimable,
    Remedy,
    SinglePods,
    WithoutQueueAnnotation,
)
from vscheduler.explain.search import Search
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.wire import PodDisruptionBudget
from vscheduler.mirror.translate import translation
from vscheduler.model import jobs
from vscheduler.model.jobs import EVICTABLE, HOLDING, Job
from vscheduler.model.queues import ROOT

CANDIDATES_MAX = 8
"""So many objects of a kind with a setting that forbids evictions are tried."""

ENDS_MAX = 16
"""So many running jobs are tried one after the other, the smallest first; then every second,
every fourth and so on.
"""

LIKE_MAX = 2
LIKELY_MAX = 12
UNLIKELY_MAX = 2

DISRUPTIONS_MAX = 64
"""So many more disruptions of a budget are tried."""

ACTIONS = ("reclaim", "preempt")
WHOLE_GANGS = "wholeGangs"
ALWAYS = "always"
MIN_RUNTIME = "minRuntime"
NO_TIME = "0s"


def allowed(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the settings of other queues and jobs, and of the scheduler, that stand in the way."""
    for change in (
        *_arguments(search),
        *_reclaimable(search),
        *_held_back(search, job),
        *_preemptable(search),
        *_single_pods(search),
    ):
        remedy = search.one(change)
        if remedy is not None:
            yield remedy
    for budget in list(search.trials.objects.of_kind(PodDisruptionBudget))[:CANDIDATES_MAX]:
        name = events.key_of(budget.metadata.namespace, budget.metadata.name)
        allow = partial(_disruptions, name, budget.status.disruptions_allowed)
        remedy = search.smallest(allow, DISRUPTIONS_MAX)
        if remedy is not None:
            yield remedy


def _disruptions(budget: str, before: int, size: int) -> Change:
    return MoreDisruptions(budget=budget, before=before, after=before + size)


def _arguments(search: Search) -> Iterator[Change]:
    """Yield arguments of actions that could allow more evictions."""
    for setting in search.trials.policy.actions:
        name = setting.action.name
        if name not in ACTIONS:
            continue
        action = setting.action(setting.arguments)
        for argument, after in ((WHOLE_GANGS, ALWAYS), (MIN_RUNTIME, NO_TIME)):
            known = f"{name}.{argument}"
            before = str(action.argument(known)) if known in action.arguments else after
            if before != after:
                yield ActionArgument(action=name, name=known, before=before, after=after)


def _reclaimable(search: Search) -> Iterator[Change]:
    """Yield the queues that give nothing back."""
    taken = search.trials.snapshot
    holding = {job.queue for job in taken.jobs if job.allocated}
    names = [
        name
        for name, queue in taken.queues.items()
        if not queue.reclaimable and name != ROOT and name in holding
    ]
    for name in names[:CANDIDATES_MAX]:
        yield Reclaimable(queue=name)


def _held_back(search: Search, job: Job) -> Iterator[Change]:
    """Yield annotations that put evictions off: of the job's queue, and of its victims'."""
    found = search.trials.snapshot.queues
    named = [(job.queue, translation.EVICTION_DELAY)] if job.queue in found else []
    holding = {each.queue for each in search.trials.snapshot.jobs if each.allocated}
    young = [name for name, queue in found.items() if queue.min_run_time and name in holding]
    named += [(name, translation.MIN_RUN_TIME) for name in young[:CANDIDATES_MAX]]
    for queue, annotation in named:
        before = found[queue].annotations.get(annotation)
        if before is not None:
            yield WithoutQueueAnnotation(queue=queue, name=annotation, before=before)


def _preemptable(search: Search) -> Iterator[Change]:
    """Yield the running jobs that forbid evictions of their pods."""
    count = 0
    for job in search.trials.snapshot.jobs:
        kept = sum(
            task.status in EVICTABLE and (job.protected or not task.preemptable)
            for task in job.tasks
        )
        if kept and count < CANDIDATES_MAX:
            count += 1
            yield Preemptable(job=job.id, pods=kept)


def _single_pods(search: Search) -> Iterator[Change]:
    """Yield the running gangs that go whole or not at all, though they have more than they need."""
    count = 0
    for job in search.trials.snapshot.jobs:
        held = sum(task.status in EVICTABLE for task in job.tasks)
        surplus = held > job.min_member and not jobs.is_composite(job.id)
        if job.goes_whole and surplus and count < CANDIDATES_MAX:
            count += 1
            yield SinglePods(job=job.id, pods=held, minimum=job.min_member)


def ends(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the smallest running job whose end starts the job."""
    del job
    running = sorted(_running(search), key=lambda each: (each.size, each.change.job))
    if search.quick:
        running = _worth_trying(search, running)
    tried = [each.change for each in running]
    one_by_one, rest = tried[:ENDS_MAX], tried[ENDS_MAX:]
    step = 1
    while rest:
        one_by_one.append(rest.pop(0))
        rest = rest[step - 1 :]
        step *= 2
    remedy = search.first_that_works(*one_by_one)
    if remedy is not None:
        yield remedy


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a running job."""

    change: EndOfJob
    size: float
    """The job's dominant part of the nodes."""
    job: Job


def _running(search: Search) -> Iterator[_End]:
    """Yield the end of each running job."""
    taken = search.trials.snapshot
    total = {
        name: max(1, amount)
        for name, amount in taken.space.amounts(taken.nodes.allocatable.sum(axis=0)).items()
    }
    for job in taken.jobs:
        if job.id == search.trials.job or not job.allocated:
            continue
        size = max(amount / total.get(name, 1) for name, amount in job.allocated.items())
        holds = tuple(sorted((name, int(amount)) for name, amount in job.allocated.items()))
        pods = sum(job.counts[status] for status in HOLDING)
        change = EndOfJob(job=job.id, pods=pods, holds=holds)
        yield _End(change=change, size=size, job=job)


def _worth_trying(search: Search, running: Sequence[_End]) -> list[_End]:
    """Return few of many running jobs, in their order.

    Of jobs that differ in their names only, LIKE_MAX are tried. Jobs whose ends leave too little
    room by an estimate can only help evictions, so of them only UNLIKELY_MAX are tried.
    """
    table = search.trials.snapshot.nodes
    shapes = dict(zip(table.layout.names, estimates.shapes(table), strict=True))
    alike: Counter[Hashable] = Counter()
    likely: Counter[bool] = Counter()
    most = {True: LIKELY_MAX, False: UNLIKELY_MAX}
    chosen = []
    for each in running:
        held = [task for task in each.job.tasks if task.node and task.status in HOLDING]
        enough = search.estimates.suffices(held)
        where = frozenset(Counter(shapes.get(task.node or "") for task in held).items())
        class_key = (each.job.queue, each.job.priority, each.change.holds, enough, where)
        alike[class_key] += 1
        likely[enough] += alike[class_key] <= LIKE_MAX
        if alike[class_key] <= LIKE_MAX and likely[enough] <= most[enough]:
            chosen.append(each)
    return chosen
