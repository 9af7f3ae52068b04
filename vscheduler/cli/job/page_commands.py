"""`job list|get|why --server URL`: the commands with the page's JSON in place of the cluster."""

import time
from collections.abc import Callable, Sequence

from vscheduler.cli import screen
from vscheduler.cli.job import (
    documents,
    explained,
    histories,
    job_figures,
    job_tables,
    listing,
    page_client,
)
from vscheduler.cli.queue import cluster_client
from vscheduler.mirror import workloads

POLL_SECONDS = 2.0

Told = list[tuple[job_figures.Job, list[histories.Entry]]]


def watch(
    page: page_client.PageClient,
    namespace: str | None,
    show: Callable[[Sequence[job_figures.Job]], None],
) -> None:
    """Show the jobs again and again."""
    while True:
        show(page.jobs(namespace))
        time.sleep(POLL_SECONDS)


def chosen(
    page: page_client.PageClient, names: Sequence[str], namespace: str | None
) -> tuple[Told, list[str]]:
    """Return the named jobs with pods and history, and a sentence for each name without any."""
    every = page.jobs(namespace)
    found: dict[str, job_figures.Job] = {}
    missing = []
    for name in dict.fromkeys(names):
        wanted = workloads.parse(name)
        meant = [each for each in every if workloads.matches(wanted, each.names)]
        found.update({each.key: each for each in meant})
        if not meant:
            near = workloads.similar(wanted, (each for job in every for each in job.names))
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            missing.append(f"there is no job {name} that you may see{hint}")
    return [page.job(each) for each in found.values()], missing


def get(told: Told, output: str, *, single: bool) -> None:
    """Show details of jobs."""
    if output == "wide":
        rows = job_tables.listed(
            [each for each, _ in told], listing.style(wide=True), namespaces=True
        )
        screen.say(*rows, painted=True)
    elif output in listing.PROGRAMS:
        trees = [(each, documents.tree(each, history)) for each, history in told]
        listing.print_objects(trees, output, single=single)
    else:
        style = listing.style(wide=False)
        blocks = [job_tables.block(each, history, style) for each, history in told]
        screen.say(*joined(blocks), painted=True)


def why(page: page_client.PageClient, told: Told, output: str, *, single: bool) -> None:
    """Explain why jobs wait, and what would start them."""
    trees, blocks = [], []
    for each, _ in told:
        helps: Sequence[str] = []
        found = None
        if each.waits:
            try:
                found = page.remedies(each)
                helps = page_client.remedy_lines(found)
            except cluster_client.Unreachable:
                raise
            except cluster_client.ClusterError as error:
                helps = [str(error)]
        trees.append((each, documents.tree(each) | {"remedies": found}))
        about = page.about_queue(each.queue)
        blocks.append(explained.lines(each, about, helps, listing.style(wide=False)))
    if output == "text":
        screen.say(*joined(blocks), painted=True)
    else:
        listing.print_objects(trees, output, single=single)


def joined(blocks: Sequence[Sequence[str]]) -> list[str]:
    """Return blocks of lines with a blank line between them."""
    return [line for at, each in enumerate(blocks) for line in ([""] if at else []) + list(each)]
