"""Manifests and a policy in, decisions out: the daemon's mirror and core without a cluster."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vscheduler.core import cycle
from vscheduler.core.config import policy as policies
from vscheduler.core.model import decisions, jobs, queues, snapshot
from vscheduler.mirror import state, statuses, wording
from vscheduler.mirror.decode import decoding, events
from vscheduler.mirror.translate import bounds, pods
from vscheduler.simulator import manifests, world
from vscheduler.simulator import repetition as repetitions

CYCLE_SECONDS = 1.0
"""Virtual time from one cycle to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a daemon is told by flags."""

    scheduler_names: tuple[str, ...] = ("vscheduler",)
    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels of the nodes that may be used, any of them."""
    claim_unowned: bool = False
    default_queue: str = queues.DEFAULT
    cycles: int = 1
    now: float | None = None
    """Seconds since the epoch; None is the latest instant in the input, never the clock."""
    evicted_return: bool = False
    """Whether owners make evicted pods anew."""
    most: bounds.Bounds = bounds.DEFAULT
    """What one pod may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the cycles decided, in canonical order: the same for the same objects."""

    results: tuple[decisions.CycleResult, ...]
    """One per cycle."""
    states: Mapping[jobs.JobId, jobs.GroupState]
    """The status of each PodGroup of this scheduler after the last cycle."""
    problems: tuple[manifests.Problem, ...]
    """What was left out, and why."""
    notes: tuple[str, ...]
    """What else people should know about their input."""
    repetition: repetitions.Repetition | None = None
    """What the run ends with, if that is the same again and again; only where pods return."""

    @property
    def last(self) -> decisions.CycleResult:
        """The last cycle's result."""
        return self.results[-1]

    @property
    def binds(self) -> tuple[decisions.Bind, ...]:
        """The binds of all cycles."""
        return tuple(bind for result in self.results for bind in result.binds)

    @property
    def evicts(self) -> tuple[decisions.Evict, ...]:
        """The evictions of all cycles."""
        return tuple(evict for result in self.results for evict in result.evicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was read, before the first cycle."""

    collected: manifests.Collection
    objects: tuple[manifests.Named, ...]
    """The queues that are always there included."""
    events: tuple[events.Upsert | events.Reject, ...]
    """The same, decoded."""
    mirror: state.Mirror
    now: float


def simulate(
    documents: Iterable[manifests.Manifest | Mapping[str, object]],
    policy: policies.Policy,
    options: Options,
) -> Outcome:
    """Run the cycles, without a budget, so that the outcome depends on the input only.

    Raises AssertionError where an invariant is broken: a defect of the scheduler.
    """
    given = read(documents, options)
    collected, mirror = given.collected, given.mirror
    problems = [*collected.problems, *_rejections(mirror, given.objects)]
    notes = tuple(_notes(collected, mirror))
    readable = (each for each in given.events if isinstance(each, events.Upsert))
    around = world.World(readable, pods_return=options.evicted_return)
    results: list[decisions.CycleResult] = []
    looks: list[repetitions.Look] = []
    states: Mapping[jobs.JobId, jobs.GroupState] = {}
    for result, written in _cycles(mirror, around, policy, options.cycles, given.now):
        results.append(result)
        states = written
        if options.evicted_return:
            looks.append(repetitions.look(around.pods(), result))
    return Outcome(
        results=tuple(results),
        states=states,
        problems=tuple(sorted(problems, key=str)),
        notes=notes,
        repetition=repetitions.find(looks),
    )


def read(documents: Iterable[manifests.Manifest | Mapping[str, object]], options: Options) -> Given:
    """Manifests as a scheduler would see them."""
    collected = manifests.collect(
        each if isinstance(each, manifests.Manifest) else manifests.Manifest(tree=each)
        for each in documents
    )
    now = collected.now if options.now is None else options.now
    mirror = state.Mirror(
        state.Options(
            scheduler_names=options.scheduler_names,
            default_queue=options.default_queue,
            node_selector=options.node_selector,
            claim_unowned=options.claim_unowned,
            most=options.most,
        )
    )
    objects = _with_standing_queues(collected.objects, options.default_queue)
    told = [decoding.convert(each.kind, tree) for each, tree in manifests.complete(objects, now)]
    for event in told:
        mirror.apply(event)
    return Given(
        collected=collected, objects=tuple(objects), events=tuple(told), mirror=mirror, now=now
    )


def _with_standing_queues(
    objects: Iterable[manifests.Named], default_queue: str
) -> list[manifests.Named]:
    found = list(objects)
    named = {each.name for each in found if each.kind is events.Kind.QUEUE}
    standing = manifests.standing_queues(default_queue)
    return [*found, *(each for each in standing if each.name not in named)]


def _rejections(
    mirror: state.Mirror, given: Iterable[manifests.Named]
) -> Iterable[manifests.Problem]:
    """Objects with a field that can't be used, with the places that they come from."""
    found = {(each.kind, each.key): each.manifest for each in given}
    for rejection in mirror.rejections.values():
        place = found[rejection.kind, rejection.key].place(rejection.field)
        yield manifests.Problem(place=place, message=str(rejection))


def _cycles(
    mirror: state.Mirror, around: world.World, policy: policies.Policy, cycles: int, now: float
) -> Iterator[tuple[decisions.CycleResult, Mapping[jobs.JobId, jobs.GroupState]]]:
    """Decide, obey, decide again; each cycle is a second later than the one before."""
    carried = snapshot.FRESH
    for number in range(cycles):
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
        for event in around.obey(result, states, moment):
            mirror.apply(event)
        carried = result.carried
        yield result, states


def _notes(collected: manifests.Collection, mirror: state.Mirror) -> Iterable[str]:
    """What stands in the input and decides nothing."""
    if collected.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in collected.ignored.items())
        yield f"left out of account: {kinds} (pods count, what would make them doesn't)"
    waiting: defaultdict[jobs.JobId | None, list[str]] = defaultdict(list)
    for pod in mirror.ungrouped():
        if pod.node is None and pod.status not in pods.FINISHED:
            waiting[pod.group].append(pod.key)
    for group, keys in sorted(waiting.items(), key=lambda item: item[0] or ""):
        why = f"there is no PodGroup {group}"
        if group is None:
            why = f"no annotation {pods.GROUPS[0]} names a PodGroup"
        more = ", …" if len(keys) > 1 else ""
        yield f"{wording.pods(len(keys))} can't be placed, as {why}: {min(keys)}{more}"
