"""`job list|get|why --server URL`: the commands with the page's JSON in place of the cluster."""

import time
from collections.abc import Callable, Sequence

from vscheduler.cli.job import page_client, selection
from vscheduler.cli.job.explained import Explained
from vscheduler.cli.job.histories import Entry
from vscheduler.cli.job.job_figures import Job
from vscheduler.cli.job.page_client import PageClient
from vscheduler.cli.queue.cluster_client import ClusterError, Unreachable

POLL_SECONDS = 2.0

Told = list[tuple[Job, list[Entry]]]


def watch(
    page: PageClient,
    namespace: str | None,
    show: Callable[[Sequence[Job]], None],
) -> None:
    """Show the jobs again and again."""
    while True:
        show(page.jobs(namespace))
        time.sleep(POLL_SECONDS)


def chosen(page: PageClient, names: Sequence[str], namespace: str | None) -> tuple[Told, list[str]]:
    """Return the named jobs with pods and history, and a sentence for each name without any."""
    every = page.jobs(namespace)
    found, unknown = selection.named(every, names)
    everywhere = page.jobs(None) if unknown else []
    missing = [
        selection.not_there(name, namespace, everywhere, seen=" that you may see")
        for name in unknown
    ]
    return [page.job(each) for each in found], missing


def explained_by(page: PageClient, job: Job) -> Explained:
    """Return why a job waits, and what would start it. Raises cluster_client.Unreachable."""
    helps: Sequence[str] = []
    found = None
    if job.waits:
        try:
            found = page.remedies(job)
            helps = page_client.remedy_lines(found)
        except Unreachable:
            raise
        except ClusterError as error:
            helps = [str(error)]
    about = page.about_queue(job.queue)
    return Explained(job=job, about_queue=about, helps=helps, remedies=found)
