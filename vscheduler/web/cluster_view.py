"""The cluster as the page shows it, for somebody who may see everything. Pure.

A view is made from frozen values: the input and the result of the last cycle. Rows of jobs that
haven't changed are those of the view before. PodGroups without pods are rows, too.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from vscheduler.mirror import queue_status, statuses, workloads
from vscheduler.mirror.decode import fields
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate import translation
from vscheduler.mirror.translate.pod_owners import Owner
from vscheduler.mirror.wording import phrases, plain_text, sentences
from vscheduler.model import jobs, queues, resources
from vscheduler.model.decisions import (
    Bind,
    CycleResult,
    DomainRoom,
    Exclusion,
    GroupStatus,
    QueueFigures,
    Reason,
    ReasonCode,
)
from vscheduler.model.jobs import HOLDING, YOUNG, Condition, Job, JobId, Phase, TaskStatus
from vscheduler.model.queues import Tree
from vscheduler.model.resources import ResourceSpace
from vscheduler.model.snapshot import Snapshot
from vscheduler.simulator import waiting_line
from vscheduler.simulator.waiting_line import Place
from vscheduler.web import capacity, history
from vscheduler.web.capacity import Capacity
from vscheduler.web.history import Cycle, Decision, Past, Sample

MESSAGE_MAX = 2000
"""Characters of a reason: an annotation or an error of the API server may be of any length."""

REASON_MAX = 100

STARTING = "Starting"

FIGURES_MAX = 12
"""How many resources a queue shows."""

Places = Callable[[Snapshot], Mapping[JobId, Place]]
"""In the order of the line."""

Domains = Callable[[Snapshot], Mapping[JobId, DomainRoom]]
NodeDomains = Callable[[Snapshot], Sequence[str]]
Owners = Mapping[JobId, Owner]


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """What this process does."""

    leads: bool
    sentence: str
    """Who leads, as in /readyz."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """All that a view is made from."""

    now: float
    instance: Instance
    past: Past
    owners: Owners = msgspec.field(default_factory=dict)
    """Owners of PodGroups."""
    without_pods: tuple[Job, ...] = ()
    """PodGroups without any pod; schedulers leave most of them out of their cycles."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of one resource: in millicores for cpu, else in bytes or units."""

    has: float
    deserves: float | None
    """None if no plugin computes shares."""
    wants: float
    """What its running and waiting pods ask for together."""
    reserved: float = 0.0
    """What is free, but kept for its pods that start when the rest of their room is free."""

    @property
    def borrowed(self) -> float:
        """What the queue has beyond what it deserves."""
        return 0.0 if self.deserves is None else max(0.0, self.has - self.deserves)


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its figures; those of an inner queue are sums of the queues below it."""

    name: str
    parent: str
    depth: int
    """How many ancestors it has, without root."""
    inner: bool
    """Whether there are queues below it."""
    state: str
    weight: int
    share: str
    """`0.96 cpu`; empty for a queue that has and wants nothing."""
    ratio: float | None
    """The share as a number; None where there is none, as for what a queue has that deserves
    nothing."""
    over: bool
    """Whether it has more of some resource than it deserves."""
    figures: Mapping[str, Figure]
    waiting: int
    running: int
    sentence: str
    """Why it deserves what it deserves."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup with its pods."""

    namespace: str
    name: str
    """Name of the PodGroup; of Kubernetes' own, with jobs.NATIVE behind it."""
    workload: str
    owner: str
    """What creates its pods, if known."""
    queue: str
    state: str
    """Its phase; Starting where all pods have nodes, and the phase doesn't say so yet."""
    running: int
    minimum: int
    total: int
    since: float
    """Since when it waits; 0 unless it waits."""
    created: float
    told: Reason | None
    """Why it waits, by the last cycle; put into words only for rows that are shown."""
    written: Condition | None
    """Why it waits, by its PodGroup: for jobs that had no turn in the last cycle."""
    nodes: tuple[tuple[str, int], ...]
    """Nodes with the number of its pods there, most pods first."""
    amounts: Mapping[str, float]
    """What its pods have and ask for together."""
    starts_at: float = 0.0
    """When it starts at the latest if running pods end by their limits; 0 without a promise."""
    place: Place | None = None
    domain: str = ""
    """Where in the network its pods are, if it has to be in one part of it: `rack-3 (tier 1): 8
    pods`."""

    @property
    def waits(self) -> bool:
        """Whether the job, or a part of it, waits."""
        return bool(self.since)

    @property
    def standing(self) -> str:
        """What lists sort jobs by: `waiting`, `running` or `finished`."""
        if self.waits:
            return "waiting"
        return "finished" if self.state == Phase.COMPLETED else "running"

    @property
    def reason(self) -> str:
        """Why it waits, in one word."""
        if self.told is not None:
            return str(self.told.code)
        return "" if self.written is None else plain_text.shown(self.written.reason[:REASON_MAX])

    @property
    def message(self) -> str:
        """Why it waits, in a sentence."""
        text = "" if self.written is None else self.written.message
        if self.told is not None:
            text = sentences.sentence(self.told)
        return plain_text.shown(text[:MESSAGE_MAX])

    @property
    def key(self) -> JobId:
        """The id of the job."""
        return JobId(f"{self.namespace}/{self.name}")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page can show."""

    time: float
    instance: Instance
    queue_rows: tuple[QueueRow, ...] = ()
    """Parents before their children."""
    job_rows: tuple[JobRow, ...] = ()
    """Waiting jobs first, in the order of their turns, then the others by name."""
    by_key: Mapping[JobId, Job] = msgspec.field(default_factory=dict)
    namespaces: frozenset[str] = frozenset()
    """Namespaces with jobs."""
    native_namespaces: frozenset[str] = frozenset()
    """Those with jobs that are PodGroups of Kubernetes' own API."""
    total: Mapping[str, float] = msgspec.field(default_factory=dict)
    """What is shared."""
    wanted: Mapping[str, float] = msgspec.field(default_factory=dict)
    """What all pods have and ask for together."""
    capacity: Capacity | None = None
    """Of the nodes; None while this instance doesn't schedule."""
    binds: tuple[Bind, ...] = ()
    """Those of the last cycle, which `by_key` doesn't know of."""
    decisions: tuple[Decision, ...] = ()
    """The latest first."""
    samples: tuple[Sample, ...] = ()
    versions: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By section, a number that grows when the section changes."""


SECTIONS = {
    "instance": "instance",
    "queues": "queue_rows",
    "jobs": "job_rows",
    "decisions": "decisions",
    "fairness": "samples",
    "nodes": "capacity",
}
"""The field of a view for each section of the page."""

BLANK = View(
    time=0.0,
    instance=Instance(leads=False, sentence=""),
    versions=dict.fromkeys(SECTIONS, 0),
)


class ViewMaker:
    """Makes one view after the other, and keeps rows that haven't changed."""

    def __init__(
        self, places: Places, domains: Domains, node_domains: NodeDomains = lambda _: ()
    ) -> None:
        self._places, self._domains, self._node_domains = places, domains, node_domains
        self._rows: dict[JobId, tuple[Job, JobRow]] = {}
        self._bound: frozenset[JobId] = frozenset()
        """Jobs of which the last cycle bound pods."""
        self._cycle: Cycle | None = None
        self._without_pods: tuple[Job, ...] = ()
        self.view = BLANK
        """The last view."""

    def make(self, look: Look) -> View:
        """Return the view of this moment; sections that haven't changed keep their version."""
        before, past = self.view, look.past
        made = replace(
            before,
            time=look.now,
            instance=look.instance,
            decisions=past.decisions[::-1],
            samples=past.samples,
        )
        if past.cycle is None:
            self._rows.clear()
            made = replace(
                made,
                queue_rows=(),
                job_rows=(),
                samples=(),
                by_key={},
                namespaces=frozenset(),
                native_namespaces=frozenset(),
                total={},
                wanted={},
                capacity=None,
                binds=(),
            )
        elif past.cycle is not self._cycle or look.without_pods != self._without_pods:
            made = self._with_cycle(made, past.cycle, look)
        self._cycle, self._without_pods = past.cycle, look.without_pods
        self.view = replace(made, versions=_versions(before, made))
        return self.view

    def _with_cycle(self, view: View, cycle: Cycle, look: Look) -> View:
        taken, result = cycle.taken, cycle.result
        by_key = {job.id: job for job in (*look.without_pods, *taken.jobs)}
        rows = self._job_rows(by_key, result, look.owners)
        places = _places_of(rows, self._places(taken))
        placed = [
            row if row.key not in places else replace(row, place=places[row.key]) for row in rows
        ]
        promised = {each.job: each.start for each in result.carried.reservations}
        if promised:
            placed = [replace(row, starts_at=promised.get(row.key, 0.0)) for row in placed]
        domains = self._domains(taken)
        if domains:
            said = {job: plain_text.shown(sentences.placed_in(at)) for job, at in domains.items()}
            placed = [replace(row, domain=said.get(row.key, "")) for row in placed]
        room = capacity.of(taken, result, self._node_domains(taken), view.capacity)
        return replace(
            view,
            queue_rows=_queue_rows(taken, result, rows, room),
            job_rows=tuple(sorted(placed, key=_turn)),
            by_key=by_key,
            namespaces=frozenset(job.namespace for job in by_key.values()),
            native_namespaces=frozenset(
                job.namespace for key, job in by_key.items() if jobs.is_native(key)
            ),
            total=result.total,
            wanted=_wanted(result.queues),
            binds=result.binds,
            capacity=room,
        )

    def _job_rows(
        self,
        by_key: Mapping[JobId, Job],
        result: CycleResult,
        owners: Owners,
    ) -> list[JobRow]:
        kept: dict[JobId, tuple[Job, JobRow]] = {}
        told = {status.job: status for status in result.groups}
        bound: defaultdict[JobId, list[str]] = defaultdict(list)
        for bind in result.binds:
            bound[bind.task.job].append(bind.node)
        for job in by_key.values():
            status, known = told.get(job.id), self._rows.get(job.id)
            fresh = job.id in bound or job.id in self._bound
            if known is not None and known[0] is job and _is_of(known[1], status) and not fresh:
                kept[job.id] = known
            else:
                nodes = bound.get(job.id, ())
                kept[job.id] = (job, _job_row(job, status, owners.get(job.id), nodes))
        self._rows, self._bound = kept, frozenset(bound)
        return [row for _, row in kept.values()]


def _places_of(rows: Iterable[JobRow], places: Mapping[JobId, Place]) -> Mapping[JobId, Place]:
    """Return the places without jobs that the last cycle started, which was before them."""
    waiting = {row.key for row in rows if row.waits}
    line = [(job, place.queue) for job, place in places.items() if job in waiting]
    return places if len(line) == len(places) else waiting_line.numbered(line)


def _is_of(row: JobRow, status: GroupStatus | None) -> bool:
    """Whether a row of the same job still says what the last cycle said; None: it had no turn."""
    if status is None:
        return row.told is None
    return (row.state, row.running) == (status.phase, status.running) and row.told == status.reason


def _turn(row: JobRow) -> tuple[object, ...]:
    """Return a sort key: waiting jobs in the order of their turns, then the others."""
    place = row.place.overall if row.place else 0
    return (not row.waits, row.place is None, place, row.namespace, row.name)


def _versions(before: View, after: View) -> dict[str, int]:
    return {
        name: before.versions[name] + (getattr(before, field) != getattr(after, field))
        for name, field in SECTIONS.items()
    }


def _wanted(figures: Iterable[QueueFigures]) -> Mapping[str, float]:
    found: Counter[str] = Counter()
    for queue in figures:
        found.update(queue.request)
    return found


def _job_row(
    job: Job, status: GroupStatus | None, owner: Owner | None, bound: Iterable[str]
) -> JobRow:
    """Return a row; `bound` are nodes that got pods of the job in the last cycle."""
    told = written = None
    if status is None:
        phase, running = job.phase, job.counts[TaskStatus.RUNNING]
        if phase is not Phase.COMPLETED:
            written = next(
                (condition for condition in job.state.conditions if _says_why(condition)), None
            )
            told = reason_without_pods(job) if written is None else None
    else:
        phase, running, told = status.phase, status.running, status.reason
    held = Counter(task.node for task in job.tasks if task.node and task.status in HOLDING)
    held.update(bound)
    starts = phase in YOUNG and held.total() >= max(1, len(job.tasks))
    waits = (phase in YOUNG and not starts) or told is not None or written is not None
    return JobRow(
        namespace=job.namespace,
        name=job.id.partition("/")[2],
        workload=plain_text.shown(workload_of(job, owner)),
        owner=plain_text.shown(job.owner),
        queue=plain_text.shown(job.queue),
        state=STARTING if starts and not waits else str(phase),
        running=running,
        minimum=job.min_member,
        total=len(job.tasks) + len(job.rejections),
        since=_since(job) if waits else 0.0,
        created=job.created,
        told=told,
        written=written,
        nodes=tuple(sorted(held.items(), key=lambda each: (-each[1], each[0]))),
        amounts={
            name: job.allocated.get(name, 0) + job.pending.get(name, 0)
            for name in ResourceSpace.of((*job.allocated, *job.pending)).names
            if name in job.allocated or name in job.pending
        },
    )


def _says_why(condition: Condition) -> bool:
    kinds = (statuses.UNSCHEDULABLE, statuses.NATIVE_UNSCHEDULABLE)
    return condition.type in kinds and condition.status == "True"


def _since(job: Job) -> float:
    """Return since when a job waits that waits: since it lost its pods, else since it exists."""
    kinds = (statuses.SCHEDULED, jobs.initially_scheduled(job.id))
    for condition in job.state.conditions:
        if condition.type in kinds and condition.status == "False":
            return _instant(condition.last_transition) or job.created
    return job.created


def _instant(text: str) -> float:
    """Return seconds since the epoch; 0 for text that is no time: tenants may write statuses."""
    try:
        return fields.seconds(dt.datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return 0.0


def _queue_rows(
    snapshot: Snapshot, result: CycleResult, rows: Collection[JobRow], room: Capacity
) -> tuple[QueueRow, ...]:
    """Return all queues but root, which has no figures of its own."""
    tree = queues.tree(snapshot.queues, {})
    paths = tree.paths
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for name in (*paths.get(row.queue, ()), row.queue):
            counts[name, row.standing] += 1
    reserved: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for queue, amounts in room.reserved_for.items():
        for name in (*paths.get(queue, ()), queue):
            reserved[name].update(amounts)
    summed = queue_status.with_subtrees(result.queues, tree)
    found = [queue for queue in summed if queue.name != queues.ROOT]
    found.sort(key=lambda each: (*paths.get(each.name, ()), each.name))
    used = {resources.CPU} | {
        name
        for queue in found
        for amounts in (queue.allocated, queue.request)
        for name, amount in amounts.items()
        if amount and name != resources.PODS
    }
    return tuple(
        _queue_row(each, tree, result.excluded, counts, used, reserved[each.name]) for each in found
    )


def _queue_row(
    queue: QueueFigures,
    tree: Tree,
    excluded: tuple[Exclusion, ...],
    counts: Mapping[tuple[str, str], int],
    used: Collection[str],
    reserved: Mapping[str, float],
) -> QueueRow:
    """Return a queue with the amounts of resources that some queue uses or asks for."""
    entitlement, path = queue.entitlement, tree.paths.get(queue.name, ())
    has, deserved, wants = queue.allocated, queue.deserved, queue.request
    named = {
        name
        for amounts in (has, deserved, wants)
        for name, amount in amounts.items()
        if amount and name in used
    }
    ordered = [
        name
        for name in ResourceSpace.of(named | {resources.CPU}).names
        if name in named | {resources.CPU}
    ]
    figures = {
        name: Figure(
            has=has.get(name, 0.0),
            deserves=None if entitlement is None else deserved.get(name, 0.0),
            wants=wants.get(name, 0.0),
            reserved=reserved.get(name, 0.0),
        )
        for name in ordered[:FIGURES_MAX]
    }
    explained = queue_status.explanation(queue, excluded)
    ratio = None
    if entitlement is not None:
        ratio = history.ratio(has, wants, deserved)
    return QueueRow(
        name=plain_text.shown(queue.name),
        parent=path[-1] if len(path) > 1 else "",
        depth=max(0, len(path) - 1),
        inner=not tree.leaf(queue.name),
        state=str(queue.state),
        weight=queue.weight,
        share="" if ratio is None else phrases.share(ratio, has, deserved),
        ratio=ratio,
        over=any(figure.borrowed > 0.5 for figure in figures.values()),
        figures=figures,
        waiting=counts[queue.name, "waiting"],
        running=counts[queue.name, "running"],
        sentence="" if explained is None else plain_text.shown(explained.message),
    )


def without_pods(mirror: Mirror, schedulers: Collection[str]) -> Iterator[Job]:
    """Iterate over PodGroups without any pod, except those that name another scheduler, or that
    another one has started.

    Cycles leave most of them out, since nobody can say whose they are.
    """
    for key, group in mirror.groups.items():
        state = group.job.state
        others = jobs.is_native(key) and state.blank and state.phase is Phase.RUNNING
        named = not group.scheduler or group.scheduler in schedulers
        if named and not others and not mirror.members(key):
            yield group.job


def reason_without_pods(job: Job) -> Reason | None:
    """Return why a job waits that has no pods, though no cycle says so; None for other jobs."""
    if job.tasks or job.rejections:
        return None
    code = ReasonCode.TOO_FEW_PODS
    return Reason(
        code=code,
        queue=job.queue,
        native=jobs.is_native(job.id),
        minimum_field=job.minimum_field,
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
    group = {"metadata": {"name": job.id.partition("/")[2], "ownerReferences": named}}
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
