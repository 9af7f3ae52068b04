"""Jobs as text: a line per job, or a block per job. Pure functions from figures to lines."""

from collections.abc import Sequence

from vscheduler.cli.job.job_figures import Job, Pod
from vscheduler.cli.queue import queue_figures, queue_tables
from vscheduler.cli.queue.queue_tables import ABSENT, Row, Style
from vscheduler.mirror.wording import phrases, sentences


def listed(shown: Sequence[Job], style: Style, *, namespaces: bool) -> list[str]:
    """Return a table with a line per job."""
    return queue_tables.table(rows(shown, style, namespaces=namespaces), style.paint)


def rows(shown: Sequence[Job], style: Style, *, namespaces: bool) -> list[queue_tables.Row]:
    """Return a row per job."""
    return [_row(job, style, namespaces=namespaces) for job in shown]


def _row(job: Job, style: Style, *, namespaces: bool) -> Row:
    return {
        **({"NAMESPACE": job.namespace} if namespaces else {}),
        "WORKLOAD": str(job.workload),
        "QUEUE": job.queue or ABSENT,
        "STATE": job.phase,
        "RUN/MIN/ALL": counts(job),
        "IN-QUEUE": _place(job, in_queue=True),
        "OVERALL": _place(job, in_queue=False),
        "WAITING": queue_figures.age(style.now - job.since) if job.waits else ABSENT,
        **(
            {
                "PODGROUP": job.name,
                "SCHEDULER": job.scheduler or ABSENT,
                "AGE": queue_figures.age(style.now - job.created),
                "STARTS BY": sentences.promised_start(job.message) or ABSENT,
                "REASON": job.message or ABSENT,
            }
            if style.wide
            else {"REASON": phrases.short(job.message) or ABSENT}
        ),
    }


def counts(job: Job) -> str:
    """Return `0/8/8`: pods that run, pods that must start together, all pods."""
    total = ABSENT if job.total is None else str(job.total)
    return f"{job.running}/{job.minimum}/{total}"


def _place(job: Job, *, in_queue: bool) -> str:
    """Return `2/5`; `-` where the place isn't known."""
    place = job.place
    if place is None:
        return ABSENT
    if in_queue:
        return f"{place.in_queue}/{place.of_queue}"
    return f"{place.overall}/{place.of_all}"


def block(job: Job, history: Sequence[tuple[float, str]], style: Style) -> list[str]:
    """Return all details of a job; `history` has times and what happened."""
    about = {
        "Workload": str(job.workload),
        "Namespace": job.namespace,
        "PodGroup": job.name,
        "Queue": job.queue or ABSENT,
        "Scheduler": job.scheduler or ABSENT,
        "State": job.phase,
        "Pods": pods_sentence(job),
        "Place": place_sentence(job) or ABSENT,
        "Waiting": queue_figures.age(style.now - job.since) if job.waits else ABSENT,
        "Age": queue_figures.age(style.now - job.created),
    }
    longest = max(len(title) for title in about) + 1
    made = [
        f"{f'{title}:':<{longest}}{queue_tables.GAP}{style.paint(title.upper(), cell)}"
        for title, cell in about.items()
    ]
    if job.message:
        made += ["", *queue_tables.wrapped(job.message, style, indent="")]
    if job.pods:
        made += ["", *queue_tables.table([_pod_row(pod, style) for pod in job.pods], style.paint)]
    if history:
        made += ["", "History:"]
        for at, text in history:
            line = f"{queue_figures.age(style.now - at)} ago: {text}"
            made += queue_tables.wrapped(line, style, indent=queue_tables.GAP)
    return made


def _pod_row(pod: Pod, style: Style) -> Row:
    return {
        "POD": pod.name,
        "STATUS": pod.phase,
        "NODE": pod.node or ABSENT,
        "AGE": queue_figures.age(style.now - pod.created) if pod.created else ABSENT,
    }


def pods_sentence(job: Job) -> str:
    """Return `0 of 8 run; 8 must start together`."""
    if job.total is None:
        counted = f"{job.running} run"
    else:
        placed = sum(bool(pod.node) for pod in job.pods or ())
        counted = f"{job.running} of {phrases.pods(job.total)} run"
        if placed != job.running:
            counted += f", {placed} have a node"
    return f"{counted}; {job.minimum} must start together" if job.minimum > 1 else counted


def place_sentence(job: Job) -> str:
    """Return `2 of 5 in queue lab (first: lab/big), 3 of 7 overall`; empty where the place isn't
    known.
    """
    place = job.place
    return "" if place is None else place.sentence
