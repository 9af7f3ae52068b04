"""Output of jobs: tables, and documents for programs, described in docs/jobs.md."""

from collections.abc import Sequence
from typing import Any

import msgspec

from vscheduler.cli import output, screen
from vscheduler.cli.job import explained, job_tables
from vscheduler.cli.job.explained import Explained
from vscheduler.cli.job.job_figures import Entry, Job
from vscheduler.cli.job.placing import Seen
from vscheduler.cli.job.selection import Selection
from vscheduler.cli.queue import cluster_client, queue_watch
from vscheduler.cli.queue.cluster_client import Kind
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import phrases

PROGRAMS = ("json", "yaml", "name")
INDENT = 4
"""Indentation of JSON, as in kubectl."""


class Listing(msgspec.Struct, kw_only=True):
    """Prints lists of jobs; with --watch, what changed."""

    output: str
    headers: bool
    namespaces: bool
    chosen: Selection
    said: set[str] = msgspec.field(default_factory=set)
    shown: dict[str, object] | None = None

    def __call__(self, found: Sequence[Job], seen: Seen) -> None:
        """Print the list once."""
        suited = queue_watch.style(wide=self.output == "wide")
        if self.output in PROGRAMS:
            made = [(job, tree_of(job)) for job in found]
            print_objects(made, self.output, single=False)
        elif found:
            lines = job_tables.listed(found, suited, namespaces=self.namespaces)
            screen.say(*lines[0 if self.headers else 1 :], painted=True)
        else:
            screen.say(self.chosen.none(everywhere=self.namespaces), err=True)
        self._say_notes(seen)

    def again(self, found: Sequence[Job], seen: Seen) -> None:
        """Print the jobs that changed since the last call."""
        before = self.shown or {}
        now = {job.key: tree_of(job) for job in found}
        fresh = [job for job in found if before.get(job.key) != now[job.key]]
        gone = sorted(before.keys() - now.keys())
        first, self.shown = self.shown is None, dict(now)
        if self.output in PROGRAMS:
            for each in fresh:
                print_objects([(each, now[each.key])], self.output, single=True)
        elif fresh:
            suited = queue_watch.style(wide=self.output == "wide")
            lines = job_tables.listed(fresh, suited, namespaces=self.namespaces)
            screen.say(*lines[0 if first and self.headers else 1 :], painted=True)
        if self.output not in PROGRAMS:
            screen.say(*(f"{each} is gone" for each in gone))
        self._say_notes(seen)

    def _say_notes(self, seen: Seen) -> None:
        fresh = [note for note in notes(seen) if note not in self.said]
        self.said.update(fresh)
        screen.say(*fresh, err=True)


def details(
    told: Sequence[tuple[Job, Sequence[Entry]]],
    how: str,
    *,
    single: bool,
    namespaces: bool,
) -> None:
    """Print jobs with their pods, and what happened to them."""
    if how == "wide":
        found = [each for each, _ in told]
        lines = job_tables.listed(found, queue_watch.style(wide=True), namespaces=namespaces)
        screen.say(*lines, painted=True)
    elif how in PROGRAMS:
        made = [(each, tree_of(each, history)) for each, history in told]
        print_objects(made, how, single=single)
    else:
        suited = queue_watch.style(wide=False)
        _say_blocks([job_tables.block(each, history, suited) for each, history in told])


def explanations(made: Sequence[Explained], how: str, *, single: bool) -> None:
    """Print why jobs wait, and what would start them."""
    if how == "text":
        suited = queue_watch.style(wide=False)
        _say_blocks([explained.lines(each, suited) for each in made])
    else:
        trees = [(each.job, tree_of(each.job) | {"remedies": each.remedies}) for each in made]
        print_objects(trees, how, single=single)


def _say_blocks(blocks: Sequence[Sequence[str]]) -> None:
    """Print blocks of lines with a blank line between them."""
    lines = [line for at, each in enumerate(blocks) for line in ([""] if at else []) + list(each)]
    screen.say(*lines, painted=True)


def print_objects(made: Sequence[tuple[Job, dict[str, object]]], how: str, *, single: bool) -> None:
    """Print jobs for programs: names, a single object as is, or an object with a list."""
    if how == "name":
        screen.say(*(str(each.workload) for each, _ in made))
    elif single and len(made) == 1:
        output.show(made[0][1], how, indent=INDENT)
    else:
        output.show({"jobs": [tree for _, tree in made]}, how, indent=INDENT)


def notes(seen: Seen) -> list[str]:
    """Return what is left out because the user may not read it."""
    if not seen.left_out:
        return list(seen.notes)
    kinds = phrases.listed([_resource(kind) for kind in seen.left_out])
    what = f"places in line aren't known: you may not list {kinds} in the whole cluster"
    return [f"{what}; ask the scheduler's page, which knows them, with --server"]


def _resource(kind: Kind) -> str:
    """Return `podgroups`; `podgroups.scheduling.k8s.io` for those of Kubernetes' own API."""
    collection = cluster_client.COLLECTIONS[kind]
    return f"{collection.plural}{kind.removeprefix(collection.kind)}"


def tree_of(job: Job, history: Sequence[Entry] | None = None) -> dict[str, Any]:
    """Return a job as JSON; with `history`, also its pods."""
    place = job.place
    made: dict[str, Any] = {
        "workload": str(job.workload),
        "namespace": job.namespace,
        "podGroup": job.name,
        "queue": job.queue,
        "scheduler": job.scheduler,
        "state": str(job.phase),
        "pods": {"running": job.running, "minimum": job.minimum, "total": job.total},
    }
    if place is not None:
        made["place"] = {
            "inQueue": place.in_queue,
            "ofQueue": place.of_queue,
            "first": place.first,
            "overall": place.overall,
            "ofAll": place.of_all,
        }
    if job.waits:
        made["waitingSince"] = statuses.timestamp(job.since)
    if job.message:
        made |= {"reason": job.reason, "message": job.message}
    if history is not None:
        made["members"] = [
            {"name": pod.name, "status": pod.phase, **({"node": pod.node} if pod.node else {})}
            for pod in job.pods or ()
        ]
        made["history"] = [{"time": statuses.timestamp(at), "what": what} for at, what in history]
    return made
