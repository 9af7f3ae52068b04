"""`vscheduler job list|get|why|history`: the jobs of a cluster, their places in line, why they
wait, and those of the past.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import click
import msgspec

from vscheduler.cli import flags, lazy_commands, screen
from vscheduler.cli.job import job_figures, selection
from vscheduler.cli.job.job_figures import Job, Places
from vscheduler.cli.job.selection import Selection
from vscheduler.cli.queue import cluster_client, completion
from vscheduler.cli.queue.cluster_client import (
    Cluster,
    ClusterError,
    Forbidden,
    Kind,
    NotServed,
    Object,
)
from vscheduler.mirror import workloads
from vscheduler.mirror.wording import plain_text

with lazy_commands.importing():
    from vscheduler.cli import loading, past_runs, reading
    from vscheduler.cli.job import configured, explained, listing, page_client, past, placing
    from vscheduler.cli.job.configured import Configured
    from vscheduler.cli.job.explained import Explained
    from vscheduler.daemon import settings

Command = TypeVar("Command", bound=Callable[..., None])


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """Flags of all three commands."""

    kubeconfig: str
    context: str
    namespace: str
    all_namespaces: bool
    scheduler_conf: str
    node_selector: tuple[str, ...]
    server: str
    server_ca: str
    token_file: str

    @property
    def nodes(self) -> tuple[tuple[str, str], ...]:
        """The labels of --node-selector. Ends the command if they can't be read."""
        return loading.checked(settings.Given(node_selector=self.node_selector)).node_selector


def _options(command: Command) -> Command:
    """Add the flags of all three commands."""
    for add in (
        *cluster_client.ACCESS,
        click.option(
            "--scheduler-conf",
            metavar="FILE",
            default="",
            help="The scheduler's configuration, which decides the order of jobs [default: as "
            "its Deployment says, else the built-in one].",
        ),
        click.option(
            "--node-selector",
            multiple=True,
            metavar="KEY=VALUE",
            help="The scheduler's own --node-selector [default: as its Deployment says]; "
            "repeatable.",
        ),
        *cluster_client.PAGE_ACCESS,
        click.option(
            "--server",
            metavar="URL",
            default="",
            envvar="VSCHEDULER_SERVER",
            help="Ask the scheduler's page, such as https://vscheduler.example, not the cluster.",
        ),
        click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces."),
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            default="",
            help="Jobs of this namespace [default: that of the kubeconfig's context].",
        ),
    ):
        command = add(command)
    return command


def _job_names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Return the names of jobs of the namespace that begin with the typed text."""
    try:
        with completion.opened(context) as cluster:
            scope = cluster
            if not context.params.get("all_namespaces"):
                scope = cluster.within(context.params.get("namespace") or cluster.namespace)
            groups, pods = scope.list(Kind.POD_GROUP).items, scope.list(Kind.POD).items
            for kind in placing.NEEDNT_BE_SERVED:
                with suppress(NotServed, Forbidden):
                    groups += scope.list(kind).items
    except ClusterError:
        return []
    found = []
    for job in job_figures.jobs_of(groups, pods, placing.NO_PLACES):
        best = job.workload
        found.append(str(best) if "/" in typed or not typed else best.name)
        if best.kind != workloads.POD_GROUP:
            found.append(str(best))
    return completion.matching(found, typed, context)


PAGES_OWN = "--history doesn't count with --server: the page has a history of its own."

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *listing.PROGRAMS]),
    default="table",
    show_default=True,
    help="Output format.",
)
JOBS = click.argument("names", metavar="JOB...", nargs=-1, required=True, shell_complete=_job_names)


@click.group("job", short_help="Show jobs, their places in line, and why they wait.")
def command() -> None:
    """Show the jobs of a cluster, their places in line, and why they wait.

    A job is a PodGroup with its pods. JOB names its workload, such as job/train, rayjob/tune or
    deployment/web, or the PodGroup: train@scheduling.k8s.io is one of Kubernetes' own API. In
    tables, 0/8/8 means: no pod runs, 8 must start together, there are 8.
    """


@command.command("list", short_help="List jobs, one per line, in the order of the waiting line.")
@click.option("-w", "--watch", is_flag=True, help="Keep showing changes until Ctrl-C.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
@OUTPUT
@click.option(
    "--sort-by",
    type=click.Choice(selection.ORDERS),
    default="place",
    show_default=True,
    help="Sort order; place: waiting jobs first, in the order of their turns.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(selection.STATES, case_sensitive=False),
    help="Only jobs in this state; repeatable.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.queues,
    help="Only jobs of this queue; repeatable.",
)
@_options
def list_command(
    *,
    output: str,
    watch: bool,
    no_headers: bool,
    sort_by: str,
    states: tuple[str, ...],
    queues: tuple[str, ...],
    **flags: object,
) -> None:
    """List jobs, one per line: workload, queue, state, pods, places in line, and why they wait.

    Places are those among the waiting jobs of the queue, and of the whole scheduler; they are known
    only to users who may read all jobs, and to the scheduler's page (--server).
    """
    given = Flags(**flags)  # type: ignore[arg-type]  # the flags are its fields
    chosen = Selection(queues=queues, states=states, order=sort_by)
    listed = partial(listing.Listing, output=output, headers=not no_headers, chosen=chosen)
    if given.server:
        with _page(given) as (page, namespace):
            show = listed(namespaces=namespace is None)
            seen = placing.Seen(notes=page.notes())
            if not watch:
                every = page.jobs(namespace)
                nothing = () if every else selection.none_in(namespace)
                show(chosen.of(every), placing.Seen(notes=[*seen.notes, *nothing]))
                return
            page_client.watch(page, namespace, lambda found: show.again(chosen.of(found), seen))
    with _cluster(given) as (cluster, namespace, configurations):
        seen = placing.look(cluster, namespace)
        show = listed(namespaces=namespace is None)
        if not watch:
            show(chosen.of(_jobs(seen, namespace, configurations)), seen)
            return
        for found in placing.follow(cluster, namespace, seen):
            show.again(chosen.of(_jobs(found, namespace, configurations)), found)


@command.command("get", short_help="Show details of jobs: pods, nodes and history.")
@JOBS
@OUTPUT
@_options
def get_command(*, names: tuple[str, ...], output: str, **flags: object) -> None:
    """Show details of jobs: figures, pods and their nodes, and what happened: when pods were bound
    and evicted, and for whom.

    With `-o wide` the output is like that of `list`.
    """
    given = Flags(**flags)  # type: ignore[arg-type]  # the flags are its fields
    if given.server:
        with _page(given) as (page, namespace):
            notes = page.notes()
            told_by_page, missing = page_client.chosen(page, names, namespace)
            listing.details(told_by_page, output, single=len(names) == 1, namespaces=True)
            _end(placing.Seen(notes=notes), missing)
    with _cluster(given) as (cluster, namespace, configurations):
        seen = placing.look(cluster, namespace)
        found, missing = _chosen(names, seen, cluster, namespace, configurations)
        events = _events(cluster, namespace) if output not in {"name", "wide"} else []
        told = [(each, job_figures.history_of(each, events)) for each in found]
        listing.details(told, output, single=len(names) == 1, namespaces=namespace is None)
        _end(seen, missing)


@command.command("why", short_help="Explain why jobs wait, and where in line they are.")
@JOBS
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@flags.HISTORY
@_options
def why_command(
    *, names: tuple[str, ...], output: str, history: Path | None, **given_flags: object
) -> None:
    """Explain why jobs wait: the scheduler's reason with numbers, the place in line, what the queue
    has of what it deserves, and which changes would start the job.
    """
    given = Flags(**given_flags)  # type: ignore[arg-type]  # the flags are its fields
    if given.server:
        with _page(given) as (page, namespace):
            notes = page.notes()
            told_by_page, missing = page_client.chosen(page, names, namespace)
            shown = [page_client.explained_by(page, each) for each, _ in told_by_page]
            listing.explanations(shown, output, single=len(names) == 1)
            notes += [PAGES_OWN] if history is not None else []
            _end(placing.Seen(notes=notes), missing)
    with _cluster(given) as (cluster, namespace, configurations):
        with reading.uncollected():
            seen = placing.look(cluster, namespace)
        found, missing = _chosen(names, seen, cluster, namespace, configurations)
        around = placing.surroundings(cluster) if any(each.waits for each in found) else None
        past = past_runs.read(history, time.time())
        explanations_of = explained.explanations_of(found, seen, around, configurations, past)
        told = zip(found, explanations_of, strict=True)
        readable = around is not None and seen.complete
        explanations = []
        for each, explanation in told:
            queue = placing.queue_of(seen, each.queue)
            explanations.append(
                Explained(
                    job=each,
                    about_queue=[] if queue is None else explained.of_queue(queue, each.scheduler),
                    helps=explained.remedy_lines(each, explanation, readable=readable),
                    remedies=explained.remedy_tree(explanation),
                )
            )
        listing.explanations(explanations, output, single=len(names) == 1)
        placed = {each.scheduler for each in found if each.place is not None}
        screen.say(*configurations.notes(placed), err=True)
        _end(seen, missing)


command.add_command(past.history_command)


@contextmanager
def _cluster(
    given: Flags,
) -> Iterator[tuple[Cluster, str | None, Configured]]:
    """Provide the cluster, the namespace (None: all), and how schedulers are configured; errors
    become sentences.
    """
    nodes = given.nodes
    loaded = loading.loaded(given.scheduler_conf)
    with _sentences(), cluster_client.opened(given.kubeconfig, given.context) as cluster:
        named = given.namespace or ("" if given.all_namespaces else cluster.namespace)
        configurations = configured.of_flags(cluster, loaded, nodes)
        yield cluster, None if given.all_namespaces else named, configurations


@contextmanager
def _page(given: Flags) -> Iterator[tuple[page_client.PageClient, str | None]]:
    """Provide the page and the namespace (None: all); errors become sentences."""
    with (
        _sentences(),
        page_client.signed_in(
            given.server, given.server_ca, given.token_file, given.kubeconfig, given.context
        ) as page,
    ):
        yield page, None if given.all_namespaces else given.namespace or page.namespace


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn errors into sentences, and Ctrl-C into its exit status."""
    try:
        with cluster_client.tidy_end():
            yield
    except ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    except KeyboardInterrupt:
        sys.exit(cluster_client.INTERRUPTED_STATUS)


def _jobs(seen: placing.Seen, namespace: str | None, configurations: Configured) -> list[Job]:
    """Return the jobs of the namespace. Places are computed only if a job waits."""
    found = _placed(seen, namespace, placing.NO_PLACES)
    schedulers = {each.scheduler for each in found if each.waits} - {""}
    if not schedulers:
        return found
    return _placed(seen, namespace, placing.places(seen, configurations, schedulers))


def _placed(seen: placing.Seen, namespace: str | None, places: Places) -> list[Job]:
    pods = seen.objects.get(Kind.POD)
    members = None if pods is None else _inside(pods, namespace)
    found = job_figures.jobs_of(_inside(seen.groups, namespace), members, places)
    return found + job_figures.lone_pods(members or (), seen.naming, places, surely=seen.alone)


def _inside(objects: Sequence[Object], namespace: str | None) -> list[Object]:
    return [each for each in objects if namespace in {None, each["metadata"].get("namespace", "")}]


def _chosen(
    names: Sequence[str],
    seen: placing.Seen,
    cluster: Cluster,
    namespace: str | None,
    configurations: Configured,
) -> tuple[list[Job], list[str]]:
    """Return the named jobs, and a sentence for each name without any job."""
    every = _jobs(seen, namespace, configurations)
    pods = _inside(seen.objects.get(Kind.POD, ()), namespace)
    there = {each.key for each in every}
    alone = [pod for pod in pods if _group_key(pod) not in there]
    found, unknown = selection.named(every, names)
    missing: list[str] = []
    everywhere = _everywhere(seen) if unknown else []
    events = _events(cluster, namespace) if unknown else []
    for name in unknown:
        wanted = workloads.parse(name)
        why = explained.without_group(wanted, alone) or explained.without_pods(wanted, events)
        missing += why or [selection.not_there(name, namespace, everywhere)]
    return found, missing


def _everywhere(seen: placing.Seen) -> list[Job]:
    return _placed(seen, None, placing.NO_PLACES)


def _group_key(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{workloads.group_of(pod)}"


def _events(cluster: Cluster, namespace: str | None) -> list[Object]:
    """Return events of the namespace; none where the user may not read them."""
    scope = cluster if namespace is None else cluster.within(namespace)
    try:
        return scope.list(Kind.EVENT).items
    except Forbidden:
        return []


def _end(seen: placing.Seen, missing: Sequence[str]) -> NoReturn:
    screen.say(*listing.notes(seen), *missing, err=True)
    sys.exit(1 if missing else 0)
