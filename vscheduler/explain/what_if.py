"""What another setting of a queue would do: the simulator's cycles with and without the change.

Both runs are those of `vscheduler simulate --evicted-return`, on the same objects. What differs
between them is due to the change. Nothing ends by itself in either, so the answer is about what the
scheduler would do at once, not about the days that follow.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.core.config.policy import Policy
from vscheduler.mirror.wording import phrases
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import STARTED, JobId
from vscheduler.simulator import run
from vscheduler.simulator.run import Options, Outcome

CYCLES = 8
"""Room is made in the first cycle and used in the third; a second round of it may follow."""

SLACK = 0.01
"""Deserved amounts differ if they differ by so much of them."""

LISTED_MAX = 10
"""How many jobs a text names."""

Object = Mapping[str, Any]


class Deserved(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue deserves of a resource before and after the change; units as in ResourceMap."""

    queue: str
    resource: str
    before: float
    after: float


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of a job that are evicted for the same job."""

    job: JobId
    beneficiary: str
    """Empty if their gang was incomplete."""
    pods: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What is different after a change."""

    deserved: tuple[Deserved, ...] = ()
    evicts: tuple[Loss, ...] = ()
    """Evictions that happen with the change only."""
    spares: tuple[Loss, ...] = ()
    """Evictions that happen without the change only."""
    starts: tuple[JobId, ...] = ()
    """Jobs that run in the end with the change only."""
    stops: tuple[JobId, ...] = ()
    """Jobs that run in the end without the change only."""
    settled: bool = True
    """Whether the last cycle with the change bound and evicted nothing."""

    @property
    def pods(self) -> int:
        """How many pods are evicted with the change only."""
        return sum(loss.pods for loss in self.evicts)


def compare(
    documents: Sequence[Object], queue: str, spec: Object, policy: Policy, options: Options
) -> Comparison | None:
    """Return what a merge patch of a queue's spec would change; None if there is no such queue."""
    changed = [_patched(each, spec) if _is(each, queue) else each for each in documents]
    if not any(_is(each, queue) for each in documents):
        return None
    options = replace(options, cycles=CYCLES, evicted_return=True)
    before, after = (run.simulate(objects, policy, options) for objects in (documents, changed))
    lost, kept = _losses(after.evicts), _losses(before.evicts)
    runs, ran = _running(after), _running(before)
    return Comparison(
        deserved=tuple(_deserved(before, after)),
        evicts=_listed(lost - kept),
        spares=_listed(kept - lost),
        starts=tuple(sorted(runs - ran)),
        stops=tuple(sorted(ran - runs)),
        settled=not (after.last.binds or after.last.evicts),
    )


def _is(found: Object, queue: str) -> bool:
    return found.get("kind") == "Queue" and found["metadata"]["name"] == queue


def _patched(found: Object, spec: Object) -> Object:
    made = copy.deepcopy(dict(found))
    made["spec"] = _merged(made.get("spec") or {}, spec)
    return made


def _merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merge patch's outcome (RFC 7386)."""
    made = dict(before)
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, Mapping):
            inside = made.get(name)
            made[name] = _merged(inside if isinstance(inside, Mapping) else {}, value)
        else:
            made[name] = value
    return made


def _losses(evicts: Iterable[Evict]) -> Counter[tuple[JobId, str]]:
    return Counter((each.task.job, str(each.beneficiary or "")) for each in evicts)


def _listed(counts: Counter[tuple[JobId, str]]) -> tuple[Loss, ...]:
    return tuple(
        Loss(job=job, beneficiary=beneficiary, pods=count)
        for (job, beneficiary), count in sorted(counts.items())
    )


def _running(outcome: Outcome) -> set[JobId]:
    return {job for job, state in outcome.states.items() if state.phase in STARTED}


def _deserved(before: Outcome, after: Outcome) -> Iterable[Deserved]:
    """Iterate over what queues deserve at once, where it differs."""
    then = _entitled(after)
    for (queue, resource), was in sorted(_entitled(before).items()):
        will = then.get((queue, resource), 0.0)
        if abs(will - was) > SLACK * max(was, will):
            yield Deserved(queue=queue, resource=resource, before=was, after=will)


def _entitled(outcome: Outcome) -> Mapping[tuple[str, str], float]:
    return {
        (queue.name, resource): amount
        for queue in outcome.results[0].queues
        if queue.entitlement is not None
        for resource, amount in queue.entitlement.deserved.items()
        if resource != "pods"
    }


def lines(found: Comparison) -> list[str]:
    """Return the difference as lines of text."""
    said = [
        f"queue {each.queue} would deserve {phrases.figure(each.resource, each.after)} instead of "
        f"{phrases.figure(each.resource, each.before)} {each.resource}"
        for each in found.deserved
    ]
    said += _evictions(found.evicts, "would be evicted")
    said += _evictions(found.spares, "would no longer be evicted")
    said += _jobs(found.starts, "would start")
    said += _jobs(found.stops, "would wait in the end")
    if not said:
        return ["nothing would change"]
    if not found.settled:
        said.append(f"more would happen after the {CYCLES} cycles that were simulated")
    return said


def _evictions(losses: Sequence[Loss], verb: str) -> list[str]:
    if not losses:
        return []
    count = sum(loss.pods for loss in losses)
    made = [f"{phrases.pods(count)} {verb}:"]
    for loss in losses[:LISTED_MAX]:
        cause = f", for {loss.beneficiary}" if loss.beneficiary else ""
        made.append(f"  {phrases.pods(loss.pods)} of {loss.job}{cause}")
    if len(losses) > LISTED_MAX:
        made.append(f"  and those of {len(losses) - LISTED_MAX} more jobs")
    return made


def _jobs(jobs: Sequence[JobId], verb: str) -> list[str]:
    if not jobs:
        return []
    named = list(jobs[:LISTED_MAX])
    rest = len(jobs) - len(named)
    words = [*named, f"{rest} more"] if rest else named
    noun = "job" if len(jobs) == 1 else "jobs"
    return [f"{noun} {phrases.listed([str(each) for each in words])} {verb}"]


def tree(found: Comparison) -> dict[str, Any]:
    """Return the difference for programs."""

    def losses(given: Iterable[Loss]) -> list[dict[str, Any]]:
        return [{"job": each.job, "for": each.beneficiary, "pods": each.pods} for each in given]

    return {
        "deserved": [
            {
                "queue": each.queue,
                "resource": each.resource,
                "before": phrases.figure(each.resource, each.before),
                "after": phrases.figure(each.resource, each.after),
            }
            for each in found.deserved
        ],
        "evicted": losses(found.evicts),
        "spared": losses(found.spares),
        "starts": list(found.starts),
        "stops": list(found.stops),
        "settled": found.settled,
        "cycles": CYCLES,
        "lines": lines(found),
    }
