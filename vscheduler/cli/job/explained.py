"""`vscheduler job why`: why a job waits, where in line it is, and what would help, as text.

What would help is found by package explain on the objects of the cluster.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from vscheduler.cli import screen
from vscheduler.cli.job import job_figures, job_tables, placing
from vscheduler.cli.job.configured import Configured
from vscheduler.cli.job.job_figures import KUBE_SCHEDULER, Job
from vscheduler.cli.job.placing import Seen
from vscheduler.cli.queue import queue_figures, queue_tables
from vscheduler.cli.queue.cluster_client import Kind
from vscheduler.cli.queue.queue_tables import Style
from vscheduler.explain import remedies, wording
from vscheduler.explain.remedies import Explanation, NotWaitingError
from vscheduler.mirror import workloads
from vscheduler.mirror.wording import phrases
from vscheduler.mirror.workloads import Workload
from vscheduler.model import jobs, resources
from vscheduler.model.jobs import JobId, Phase
from vscheduler.simulator import run
from vscheduler.simulator.past_runs import PastRuns
from vscheduler.simulator.run import Given

Object = Mapping[str, Any]

COMBINED = "(combined from similar events): "
"""What Kubernetes puts before the message of an event that stands for several."""

PODS_MAX = 5
"""How many pods with messages of their own are named."""

UNREADABLE = (
    "What would help isn't known without reading all namespaces, and all that decisions depend on."
)


UNKNOWN = "What would help isn't known: this command can't try pods with resource claims."


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and all that is known of why it waits."""

    job: Job
    about_queue: Iterable[str]
    """Sentences about its queue."""
    helps: Sequence[str]
    """What would start it, as lines of text."""
    remedies: Object | None
    """The same for programs; None if it isn't known."""


def lines(explanation: Explained, style: Style) -> list[str]:
    """Return an explanation as lines of text."""
    job, helps = explanation.job, explanation.helps
    made = [f"{job.workload} in namespace {job.namespace} {_state(job, style)}"]
    made.append(f"{job.group}, {_queue(job)}: {job_tables.pods_sentence(job)}")
    if job.waits:
        made += ["", *_wrapped([_reason(job)], style)]
    if job.unreadable:
        made += ["", *_wrapped([f"Annotations can't be read: {job.unreadable}"], style)]
    made += _wrapped(_own_words(job), style)
    place = job_tables.place_sentence(job)
    if place:
        made += ["", *_wrapped([f"Place in line: {place}."], style)]
    if job.waits:
        made += _wrapped(explanation.about_queue, style)
    if helps:
        made.append("")
        for each in helps:
            indent = queue_tables.GAP if each.startswith(" ") else ""
            made += queue_tables.wrapped(each.strip(), style, indent=indent)
    return made


def _queue(job: Job) -> str:
    return f"queue {job.queue}" if job.queue else "no queue yet"


def _state(job: Job, style: Style) -> str:
    if job.waits:
        return f"has been waiting for {queue_figures.age(style.now - job.since)}."
    if job.phase == Phase.COMPLETED:
        return "is finished."
    if job.phase == Phase.UNKNOWN:
        return "is incomplete: it runs, with fewer pods than must start together."
    since = f" for {queue_figures.age(style.now - job.admitted)}" if job.admitted else ""
    return f"doesn't wait: it has been running{since}."


def _reason(job: Job) -> str:
    """Return the scheduler's sentence, or what to look at where there is none."""
    if job.message:
        return job.message
    if not job.scheduler:
        said = phrases.unclaimed(job.owner, native=job.native)
        text = f"{said[:1].upper()}{said[1:]}."
        if job.owner or job.native:
            return text
        return f"{text} If nobody else does, create its pods, with spec.schedulerName."
    if not job.queue:
        return (
            "The controllers haven't given its PodGroup a queue yet (annotation "
            f"{jobs.QUEUE_NAME}): does `vscheduler run` run, with controllers?"
        )
    return (
        f"No scheduler has said anything about it yet. Its scheduler is {job.scheduler}: does "
        f"`vscheduler run --scheduler-name {job.scheduler}` run?"
    )


def _own_words(job: Job) -> list[str]:
    """Return the messages of pods that say something else than their PodGroup."""
    own: dict[str, list[str]] = {}
    for pod in job.pods or ():
        if pod.waits_because and pod.waits_because != job.message:
            own.setdefault(pod.waits_because, []).append(pod.name)
    made = []
    for message, names in list(own.items())[:PODS_MAX]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        made.append(f"Pod {names[0]}{more}: {message}")
    return made


def of_queue(found: Object, scheduler: str = "") -> Iterable[str]:
    """Iterate over what a Queue has, and why it deserves what it deserves, as the job's scheduler
    says. Others may say something else, or may be gone.
    """
    queue = queue_figures.figures(found, None)
    named = [
        f"{queue_tables.pair(name, queue)} {name}"
        for name in queue_figures.named([queue])
        if queue_tables.pair(name, queue) != queue_figures.ABSENT
        and (name == resources.CPU or name in queue.request)
    ]
    if named:
        yield f"Queue {queue.name} has, of what it deserves: {', '.join(named)}."
    for sentence in queue.sentences:
        if scheduler in {"", sentence.scheduler}:
            yield f"{sentence.scheduler} says: {sentence.text}."


def without_group(wanted: Workload, pods: Iterable[Object]) -> list[str]:
    """Return why pods of a workload are in no PodGroup; empty without such pods."""
    made: dict[str, list[str]] = {}
    for pod in map(screen.plain, pods):
        if workloads.matches(wanted, workloads.of_pod(pod)):
            made.setdefault(_ungrouped(pod), []).append(pod["metadata"]["name"])
    return [
        f"pod {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {why}"
        for why, names in made.items()
    ]


def _ungrouped(pod: Object) -> str:
    """Return why the pod isn't in a PodGroup that exists."""
    group = workloads.group_of(pod)
    scheduler = (pod.get("spec") or {}).get("schedulerName") or KUBE_SCHEDULER
    if jobs.is_native(JobId(group)) and scheduler == KUBE_SCHEDULER:
        return (
            f"spec.schedulerName is {KUBE_SCHEDULER}, which starts PodGroup {group} without "
            "queues; name vscheduler there"
        )
    if group:
        return f"there is no PodGroup {group}, which the pod names; create it"
    if scheduler == KUBE_SCHEDULER:
        return (
            "spec.schedulerName is default-scheduler, which knows neither queues nor PodGroups; "
            "name vscheduler there"
        )
    return (
        f"no scheduler has said anything of it. Its spec.schedulerName is {scheduler}: does "
        f"`vscheduler run --scheduler-name {scheduler}` run, with controllers?"
    )


def without_pods(wanted: Workload, events: Iterable[Object]) -> list[str]:
    """Return what the events of a workload say that has no pods, such as that a ResourceQuota or an
    admission webhook refuses them; empty without such events. Warnings come first.
    """
    said: dict[Workload, list[tuple[bool, float, str]]] = {}
    for event in map(screen.plain, events):
        about = event.get("involvedObject") or {}
        kind, name = str(about.get("kind") or ""), str(about.get("name") or "")
        owner = workloads.of_owner(str(about.get("apiVersion") or ""), kind, name)
        if workloads.matches(wanted, workloads.with_its_maker(owner)):
            warns = event.get("type") == "Warning"
            message = str(event.get("message", "")).removeprefix(COMBINED)
            what = f"{event.get('reason', '')}: {message}"
            said.setdefault(owner, []).append((warns, job_figures.time_of(event), what))
    return [
        f"{owner} has no pods that could be scheduled. Its last "
        f"{'warning' if max(found)[0] else 'event'}, {max(found)[2]}"
        for owner, found in sorted(said.items())
    ]


def _wrapped(sentences: Iterable[str], style: Style) -> list[str]:
    return [
        line for sentence in sentences for line in queue_tables.wrapped(sentence, style, indent="")
    ]


def explanations_of(
    found: Iterable[Job],
    seen: Seen,
    around: Sequence[Object] | None,
    configurations: Configured,
    past: PastRuns,
) -> Iterator[Explanation | None]:
    """Iterate over the changes that would start waiting jobs; None where they can't be known, or if
    the job doesn't wait.

    `around` are the objects of `placing.surroundings`, `past` run times for forecasts. Each change
    is verified by the scheduler's own decisions on these objects, as in `vscheduler simulate
    --why`. They are read once.
    """

    @functools.cache
    def given(scheduler: str) -> Given:
        own = configurations.of(scheduler)
        options = placing.options(seen, scheduler, own)
        return run.read([*seen.manifests, *(around or ())], own.policy, options)

    readable = around is not None and seen.complete
    for job in found:
        explanation = None
        if readable and job.waits and not _has_claims(job, seen):
            policy = configurations.of(job.scheduler).policy
            with suppress(NotWaitingError):
                explanation = remedies.explain(given(job.scheduler), policy, job.key, past)
        yield explanation


def _has_claims(job: Job, seen: Seen) -> bool:
    """Whether pods of the job have resource claims, which aren't among the objects."""
    uids = {pod.uid for pod in job.pods or ()}
    return any(
        (pod.get("spec") or {}).get("resourceClaims")
        for pod in seen.objects.get(Kind.POD, ())
        if pod["metadata"].get("uid", "") in uids
    )


def remedy_lines(job: Job, explanation: Explanation | None, *, readable: bool) -> list[str]:
    """Return the changes as lines of text; `readable` says whether the user may read enough.

    None for a job with pods of which no scheduler has said anything: what its scheduler would do
    helps nobody as long as it may not run.
    """
    if not job.waits or (job.total and not job.message):
        return []
    if not readable:
        return [UNREADABLE]
    if explanation is not None:
        return wording.remedy_lines(explanation)
    if job.total == 0:
        return [phrases.without_pods(job.minimum, job.owner)]
    return [UNKNOWN]


def remedy_tree(explanation: Explanation | None) -> dict[str, Any] | None:
    """Return the changes as JSON, as `simulate --why` prints them."""
    return None if explanation is None else wording.tree(explanation)
