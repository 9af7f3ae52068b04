"""Simulation of cycles: manifests and a policy in, decisions out, with the daemon's Mirror and
core.

An Outcome can also be rendered as a JSON tree for people and programs: sorted, in Kubernetes'
spelling.

The end of a run may be a repetition, which `find` detects. Cycles are deterministic, so a cluster
that returns to an earlier state goes round forever. The compared state has the nodes of each
group's pods, by group and role; the reservations of the cycle; and who was evicted for whom. Names,
ages and times are left out, for a recreated pod differs in them. A run counts as repeating if it
ends with two equal rounds that contain evictions: a single return may be chance, on the way to
rest.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from vscheduler.core import cycle
from vscheduler.core.actions import allocate
from vscheduler.core.config.policy import Policy
from vscheduler.mirror import queue_status, state, statuses
from vscheduler.mirror.decode import events, quantities
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Upsert
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate import bounds, pods, translation
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.mirror.wording import gang_sentences, phrases, refusal_sentences, sentences
from vscheduler.model import jobs, queues
from vscheduler.model.claim_decisions import ClaimBinding
from vscheduler.model.decisions import (
    Bind,
    CycleResult,
    DomainRoom,
    Evict,
    Exclusion,
    Fault,
    GroupStatus,
    QueueFigures,
)
from vscheduler.model.jobs import ROLE, GroupState, JobId
from vscheduler.model.queues import DEFAULT, Tree
from vscheduler.model.snapshot import FRESH, Snapshot, without_memos
from vscheduler.simulator import admission, manifests, network, simulated_claims
from vscheduler.simulator.manifests import Collection, Manifest, Named, Problem
from vscheduler.simulator.world import World

CYCLE_SECONDS = 1.0
"""Virtual time between two cycles."""

OPENING_COST = 2_000
JOB_COST = 4
NODE_COST = 2

UNLIMITED_STEPS = 10**12
"""More steps than any search takes in a lifetime."""

NAMED_MAX = 5
"""How many jobs a message names."""

POD_MAKERS = ("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")
"""Ignored kinds for which a user may expect pods."""

WAITING_PHASES = ("", "Pending")
"""Phases of pods that no node runs yet; manifests have none."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that a daemon gets from flags."""

    scheduler_names: tuple[str, ...] = ("vscheduler",)
    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels of usable nodes; at least one label must match."""
    claim_unowned: bool = False
    default_queue: str = DEFAULT
    queues_served: bool = True
    """Whether the cluster has the kind Queue; without it, all jobs are in the default queue."""
    pod_groups_served: bool = True
    """Whether the cluster has Volcano's PodGroups; without them, pods without one start alone."""
    cycles: int = 1
    now: float | None = None
    """Seconds since the epoch; None: the latest time in the input, never the clock."""
    evicted_return: bool = False
    """Whether owners recreate evicted pods."""
    most: Bounds = bounds.DEFAULT
    """Upper bounds on the constraints of a pod."""
    unknown_classes: bool = False
    """Whether pods may name PriorityClasses that aren't in the input, and count with priority 0."""
    unlimited_search: bool = False
    """Whether searches for whole gangs go on until they find nodes or a proof."""
    expanded: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By kind, how many ignored objects stand for pods that are given."""
    memos: bool = True
    """Whether cycles may reuse what earlier ones learnt. The outcome is the same."""


Pair: TypeAlias = tuple[str, str]
"""The evicted job and its beneficiary; empty text without a beneficiary."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The compared state of a cluster after a cycle."""

    state: Hashable
    pairs: frozenset[Pair]
    """The evictions of the cycle."""


class CycleDetector(msgspec.Struct, frozen=True, kw_only=True):
    """An endless repetition of evictions."""

    since: int
    """The first repeated cycle with an eviction, counted from 1."""
    pairs: frozenset[Pair]

    def __str__(self) -> str:
        losers = sorted({loser for loser, _ in self.pairs})
        winners = sorted({winner for _, winner in self.pairs})
        since = f"since cycle {self.since}"
        if len(losers) == 2 and losers == winners:
            return f"{_jobs(losers)} have evicted each other {since}"
        if losers == winners and len(losers) > 1:
            return f"{_jobs(losers)} have evicted one another {since}"
        verb = "has been" if len(losers) == 1 else "have been"
        cause = f" for {_jobs(winners)}" if all(winners) else ""
        return f"{_jobs(losers)} {verb} evicted{cause} again and again {since}"


def look(pods: Iterable[Pod], result: CycleResult) -> Look:
    """Return the compared state of the cluster after a cycle."""
    pairs = [(evict.task.job, evict.beneficiary or "") for evict in result.evicts]
    placed = Counter(_place(pod) for pod in pods)
    pipelined = Counter((each.task.job, each.task.role, each.node) for each in result.pipelined)
    parts = (placed, pipelined, Counter(pairs))
    state = tuple(frozenset(part.items()) for part in parts)
    return Look(state=state, pairs=frozenset(pairs))


def find(looks: Sequence[Look]) -> CycleDetector | None:
    """Return the repetition that a run ends with, given its states cycle by cycle; None without
    any.
    """
    for period in range(1, len(looks) // 2 + 1):
        # Extend the repetition with this period backwards as far as it goes.
        start = len(looks) - period
        while start > 0 and looks[start - 1].state == looks[start - 1 + period].state:
            start -= 1
        if start <= len(looks) - 2 * period:
            pairs = frozenset(pair for look in looks[start:] for pair in look.pairs)
            since = next((at for at in range(start, len(looks)) if looks[at].pairs), 0)
            # A cluster at rest repeats itself, too, but without evictions.
            return CycleDetector(since=since + 1, pairs=pairs) if pairs else None
    return None


def _place(pod: Pod) -> Hashable:
    """Return the properties that a pod shares with its replacement."""
    metadata = pod.metadata
    role = metadata.annotations.get(ROLE) or metadata.labels.get(ROLE, "")
    going = metadata.deletion_timestamp is not None
    return metadata.namespace, pods.group_of(pod), role, pod.spec.node_name, pod.status.phase, going


def _jobs(names: Sequence[str]) -> str:
    """Return `job a`, `jobs a and b`, `jobs a, b, c, d, e and 3 more`."""
    if len(names) == 1:
        return f"job {names[0]}"
    named = list(names[:NAMED_MAX])
    more = len(names) - len(named)
    last = f"{more} more" if more else named.pop()
    return f"jobs {', '.join(named)} and {last}"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of all cycles, in canonical order: equal objects give equal outcomes."""

    results: tuple[CycleResult, ...]
    """A result per cycle."""
    states: Mapping[JobId, GroupState]
    """The status of each PodGroup of the scheduler after the last cycle."""
    domains: Mapping[JobId, DomainRoom]
    """By job with a network topology, the domain that its pods are in after the last cycle."""
    problems: tuple[Problem, ...]
    """Objects that were left out, with reasons."""
    notes: tuple[str, ...]
    """Further notes on the input for users."""
    tree: Tree
    """The tree of the queues."""
    repetition: CycleDetector | None = None
    """The repetition at the end of the run, if any; only with `evicted_return`."""

    @property
    def last(self) -> CycleResult:
        """The result of the last cycle."""
        return self.results[-1]

    @property
    def binds(self) -> tuple[Bind, ...]:
        """The binds of all cycles."""
        return tuple(bind for result in self.results for bind in result.binds)

    @property
    def evicts(self) -> tuple[Evict, ...]:
        """The evictions of all cycles."""
        return tuple(evict for result in self.results for evict in result.evicts)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The failures of plugins in all cycles, equal ones once."""
        return tuple(dict.fromkeys(fault for each in self.results for fault in each.faults))


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The input, before the first cycle."""

    collected: Collection
    """Its problems name pods of unknown PriorityClasses, too."""
    objects: tuple[Named, ...]
    """Includes the queues that always exist."""
    events: tuple[Upsert | DecodeFailed, ...]
    """The objects, decoded."""
    mirror: Mirror
    now: float

    @property
    def problems(self) -> list[Problem]:
        """What can't be used, in order."""
        found = [*self.collected.problems, *_rejections(self.mirror, self.objects)]
        return sorted(found, key=str)


def simulate(
    documents: Iterable[Manifest | Mapping[str, object]],
    policy: Policy,
    options: Options,
) -> Outcome:
    """Run the cycles on manifests: read them and return their `outcome`."""
    return outcome(read(documents, policy, options), policy, options)


def outcome(given: Given, policy: Policy, options: Options) -> Outcome:
    """Run the cycles without a work budget, so that the outcome only depends on the input.

    Searches for whole gangs have the same budget of steps as in a cluster, unless it is lifted.
    Raises AssertionError if an invariant is broken, which is a defect of the scheduler.
    """
    if options.unlimited_search:
        policy = policy.with_argument("allocate", allocate.SEARCH_STEPS, UNLIMITED_STEPS)
    mirror = given.mirror
    problems = tuple(given.problems)
    notes = tuple(_notes(given, options))
    readable = (event for event in given.events if isinstance(event, Upsert))
    simulated = World(
        readable,
        pods_return=options.evicted_return,
        scheduler=options.scheduler_names[0],
    )
    results: list[CycleResult] = []
    looks: list[Look] = []
    states: Mapping[JobId, GroupState] = {}
    for result, written in cycles(mirror, simulated, policy, options, given.now):
        results.append(result)
        states = written
        if options.evicted_return:
            looks.append(look(simulated.pods(), result))
    snapshot = mirror.snapshot(given.now, FRESH)
    return Outcome(
        results=tuple(results),
        states=states,
        domains=network.domains(snapshot, policy),
        tree=queues.tree(snapshot.queues, {}),
        problems=problems,
        notes=notes,
        repetition=find(looks),
    )


def read(
    documents: Iterable[Manifest | Mapping[str, object]], policy: Policy, options: Options
) -> Given:
    """Return the manifests as a scheduler with this policy would see the objects."""
    given = (
        document if isinstance(document, Manifest) else Manifest(tree=document)
        for document in documents
    )
    every = list(manifests.expanded(given))
    collected = manifests.collect(every)
    now = manifests.latest(every) if options.now is None else options.now
    mirror = Mirror(
        state.Options(
            scheduler_names=options.scheduler_names,
            default_queue=options.default_queue,
            node_selector=options.node_selector,
            claim_unowned=options.claim_unowned,
            most=options.most,
            reads=policy.reads,
            spares_groups=not policy.rules.groups_all_pods,
        )
    )
    mirror.serve_queues(served=options.queues_served)
    mirror.serve_pod_groups(served=options.pod_groups_served)
    admitted = admission.with_priorities(collected.objects)
    objects = [*admitted.objects, *(admitted.unknown if options.unknown_classes else ())]
    if admitted.unknown and not options.unknown_classes:
        problems = (*collected.problems, *map(admission.problem, admitted.unknown))
        collected = replace(collected, problems=problems)
    objects = _with_permanent_queues(objects, options.default_queue)
    trees = [each.tree for each in every]
    objects = list(admission.with_queues(objects, options.default_queue, trees))
    decoded = simulated_claims.with_claims(
        events.convert(each.kind, tree) for each, tree in manifests.complete(objects, now)
    )
    settled = tuple(admission.below_closed(decoded))
    for event in (*admission.owners(settled, trees), *settled):
        mirror.apply(event)
    return Given(
        collected=collected, objects=tuple(objects), events=settled, mirror=mirror, now=now
    )


def _with_permanent_queues(objects: Iterable[Named], default_queue: str) -> list[Named]:
    found = list(objects)
    named = {each.name for each in found if each.kind is Kind.QUEUE}
    permanent = manifests.permanent_queues(default_queue)
    return [*found, *(each for each in permanent if each.name not in named)]


def _rejections(mirror: Mirror, given: Iterable[Named]) -> Iterable[Problem]:
    """Iterate over objects with an unusable field, with the place in the manifests."""
    found = {(each.kind, each.key): each.manifest for each in given}
    for rejection in mirror.rejections.values():
        place = found[rejection.kind, rejection.key].place(rejection.field)
        yield Problem(place=place, message=str(rejection))


def opening_cost(snapshot: Snapshot) -> int:
    """Return approximate microseconds of a cycle in which nothing is decided."""
    return OPENING_COST + JOB_COST * len(snapshot.jobs) + NODE_COST * snapshot.nodes.layout.size


def cycles(
    mirror: Mirror, simulated: World, policy: Policy, options: Options, now: float
) -> Iterator[tuple[CycleResult, Mapping[JobId, GroupState]]]:
    """Iterate over the cycles, each with the status of each PodGroup after it: decide,
    carry out, decide again, a second later each time.
    """
    carried = FRESH
    for number in range(options.cycles):
        moment = now + number * CYCLE_SECONDS
        taken = mirror.snapshot(moment, carried)
        result = cycle.run_cycle(taken, policy)
        stored = {job.id: job.state for job in taken.jobs}
        states = {
            status.job: statuses.group_state(
                status, stored[status.job], now=moment, transition=str(number + 1)
            )
            for status in result.groups
        }
        for event in simulated.obey(result, states, moment):
            mirror.apply(event)
        carried = result.carried if options.memos else without_memos(result.carried)
        yield result, states


def _notes(given: Given, options: Options) -> Iterable[str]:
    """Iterate over notes on input without influence on decisions."""
    mirror = given.mirror
    ignored = dict(Counter(given.collected.ignored) - Counter(options.expanded))
    if ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in ignored.items())
        maker = next((kind for kind in ignored if kind in POD_MAKERS), "")
        advice = "give its pods, for example with kubectl get pods -o yaml"
        hint = f"; a {maker} alone has no pods: {advice}" if maker else ""
        yield f"not simulated: {kinds}{hint}"
    yield from _others(given, options.scheduler_names)
    waiting: defaultdict[JobId | None, list[str]] = defaultdict(list)
    for pod in mirror.ungrouped():
        if pod.node is None and pod.status not in pods.FINISHED:
            waiting[pod.group].append(pod.key)
    for group, keys in sorted(waiting.items(), key=lambda item: item[0] or ""):
        why = f"no annotation {pods.GROUPS[0]} names a PodGroup"
        if group is not None:
            why = gang_sentences.no_group(group, mirror.rejections)
        more = ", …" if len(keys) > 1 else ""
        yield f"{phrases.pods(len(keys))} can't be placed, as {why}: {min(keys)}{more}"
    for group in sorted(mirror.unqueued):
        key = events.key_of(*jobs.names_of(group))
        required = f'its namespace has {translation.REQUIRE_QUEUE}: "true"'
        yield f"PodGroup {key} can't start, as it names no queue, and {required}"


def _others(given: Given, schedulers: Sequence[str]) -> Iterator[str]:
    """Iterate over notes on waiting pods of other schedulers."""
    read = (event.object for event in given.events if isinstance(event, Upsert))
    named = Counter(
        pod.spec.scheduler_name or pods.DEFAULT_SCHEDULER
        for pod in read
        if isinstance(pod, Pod) and not pod.spec.node_name and pod.status.phase in WAITING_PHASES
    )
    for name, count in sorted(named.items()):
        if name not in schedulers:
            verb = "waits" if count == 1 else "wait"
            what = f"{phrases.pods(count)} {verb} for another scheduler ({name})"
            them = "it" if count == 1 else "them"
            yield f"{what}; --scheduler-name {name} places {them}"


def tree(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON tree: binds and evictions of all cycles, and the state after the last
    cycle.
    """
    last = outcome.last
    binds = [
        (number, bind) for number, result in enumerate(outcome.results, 1) for bind in result.binds
    ]
    binds.sort(key=_pod)
    return {
        "binds": {bind.task.key: bind.node for _, bind in binds},
        "bindCycles": {bind.task.key: number for number, bind in binds},
        "pipelined": {each.task.key: each.node for each in last.pipelined},
        "evicts": [
            _evict(evict, number)
            for number, result in enumerate(outcome.results, 1)
            for evict in result.evicts
        ],
        "claims": [
            {
                "claim": binding.key,
                "volume": binding.volume,
                "node": binding.node,
                "for": prepared.job,
                "cycle": number,
            }
            for number, result in enumerate(outcome.results, 1)
            for prepared in result.claims
            for binding in prepared.requests
            if isinstance(binding, ClaimBinding)
        ],
        "devices": list(simulated_claims.allocated(outcome.results)),
        "podGroups": {
            status.job: _group(status, outcome.states[status.job], outcome.domains.get(status.job))
            for status in last.groups
        },
        "queues": {
            queue.name: _queue(queue, last.excluded)
            for queue in queue_status.with_subtrees(last.queues, outcome.tree)
        },
        "total": quantities.format_amounts(last.total),
        "excluded": [
            {"reason": refusal_sentences.text(each.refusal), "nodes": list(each.nodes)}
            for each in last.excluded
        ],
        "faults": [msgspec.to_builtins(fault) for fault in outcome.faults],
    }


def _pod(bound: tuple[int, Bind]) -> str:
    return bound[1].task.key


def _evict(evict: Evict, number: int) -> dict[str, Any]:
    return {
        "pod": evict.task.key,
        "node": evict.node,
        "action": evict.action,
        "for": evict.beneficiary,
        "cycle": number,
    }


def _group(status: GroupStatus, state: GroupState, domain: DomainRoom | None) -> dict[str, Any]:
    reason = status.reason
    why = {"reason": str(reason.code), "message": sentences.sentence(reason)} if reason else {}
    return {
        "phase": str(status.phase),
        "queue": status.queue,
        **why,
        **({"domain": _domain(domain)} if domain else {}),
        "conditions": [statuses.condition(condition) for condition in state.conditions],
    }


def _domain(domain: DomainRoom) -> dict[str, Any]:
    return {
        "name": domain.name,
        "tier": domain.tier,
        "tierName": domain.tier_name,
        "pods": domain.pods,
    }


def _queue(queue: QueueFigures, excluded: Sequence[Exclusion]) -> dict[str, Any]:
    figures: dict[str, Any] = {"state": str(queue.state), "weight": queue.weight}
    entitlement = queue.entitlement
    if entitlement is not None:
        figures["deserved"] = quantities.format_amounts(entitlement.deserved)
    figures["allocated"] = quantities.format_amounts(queue.allocated)
    figures["request"] = quantities.format_amounts(queue.request)
    if entitlement is not None:
        if entitlement.real_capability is not None:
            figures["realCapability"] = quantities.format_amounts(entitlement.real_capability)
        figures["share"] = round(entitlement.share, queue_status.SHARE_DIGITS)
        if entitlement.bases:
            usable = {name: basis.usable for name, basis in entitlement.bases.items()}
            figures["usable"] = quantities.format_amounts(usable)
    explained = queue_status.explanation(queue, excluded)
    if explained is not None:
        figures["message"] = explained.message
    return figures
