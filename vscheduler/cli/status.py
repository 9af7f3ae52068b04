"""`vscheduler status`: who leads, whether everything is served, and what is wrong."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from vscheduler.cli import deployed, output, screen
from vscheduler.cli.deployed import Found
from vscheduler.cli.queue import cluster_client, queue_figures, queue_tables
from vscheduler.cli.queue.cluster_client import Cluster, ClusterError, Kind, NotServed, Object
from vscheduler.cluster import lease_records
from vscheduler.daemon.leader_election.election_settings import (
    CONTROLLERS_LEASE,
    DEFAULT_NAMESPACE,
    PODGROUPS_SUFFIX,
)
from vscheduler.mirror import queue_status
from vscheduler.mirror.wording import phrases, plain_text

KUBE_SCHEDULER = "default-scheduler"
REFUSED = "BindRefused"
SLACK_SECONDS = 5.0
"""How much clocks may differ before a Lease counts as expired."""

HOLDER_MAX = 40

RECENT_SECONDS = 3600.0
"""For how long whoever wrote the status of a Queue, and has no Lease, counts as running: statuses
are written when they change.
"""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the user may read of a cluster's schedulers."""

    leases: Sequence[Object] = ()
    found: Found = Found(schedulers={})
    unserved: Sequence[str] = ()
    """A sentence for each kind that the cluster lacks."""
    waiting: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Pods without a node by the scheduler that they name, without those of kube-scheduler."""
    refused: Sequence[tuple[str, str]] = ()
    """PodGroups whose pods' binds are refused, each with the reason."""
    wrote: Mapping[str, float] = msgspec.field(default_factory=dict)
    """When a scheduler, or the controllers, last wrote the status of a Queue, by field manager."""
    unreadable: Sequence[str] = ()
    """What could not be read, and why."""


class HeldLease(msgspec.Struct, frozen=True, kw_only=True):
    """A Lease of ours, and who holds it."""

    name: str
    holder: str
    acquired: float
    renewed: float
    seconds: float
    """How long it counts after a renewal."""
    configuration: str
    """The digest of the holder's configuration; empty for controllers."""

    def is_led(self, now: float) -> bool:
        """Whether somebody holds it."""
        return bool(self.holder) and now - self.renewed <= self.seconds + SLACK_SECONDS


@click.command("status", short_help="Show who leads, and what is wrong.")
@click.option(
    "-o",
    "--output",
    "how",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--scheduler-namespace",
    "namespace",
    metavar="NAME",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Where the schedulers and their Leases are.",
)
@cluster_client.access
def command(*, how: str, namespace: str, kubeconfig: str, context: str) -> None:
    """Show which instance leads each scheduler and the controllers, with which configuration, and
    what is wrong: kinds that the cluster lacks, schedulers that pods name and nobody runs,
    configurations that aren't in force, refused binds. Exit status 1 if anything is.
    """
    try:
        with cluster_client.tidy_end(), cluster_client.opened(kubeconfig, context) as cluster:
            seen = look(cluster, namespace)
    except ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    now = time.time()
    wrong = problems(seen, now)
    if how == "table":
        style = queue_tables.Style(now=now)
        if made := rows(seen, now):
            screen.say(*queue_tables.table(made, style.paint), "")
        screen.say(*_unelected_lines(seen, now), *(wrong or ["Nothing is wrong."]))
        screen.say(*(f"not read: {each}" for each in seen.unreadable), err=True)
    else:
        output.show(tree(seen, wrong, now), how)
    sys.exit(1 if wrong else 0)


def look(cluster: Cluster, namespace: str) -> Seen:
    """Read what the user may read. Raises ClusterError if the API server doesn't answer."""
    unserved, unreadable, lists = [], [], dict[Kind, list[Object]]()
    inside = cluster.within(namespace)
    for kind, source in (
        *((kind, cluster) for kind in (Kind.QUEUE, Kind.POD_GROUP, Kind.NATIVE_POD_GROUP)),
        *((kind, inside) for kind in (Kind.LEASE, Kind.DEPLOYMENT)),
    ):
        try:
            lists[kind] = source.list(kind).items
        except NotServed as error:
            if kind is not Kind.NATIVE_POD_GROUP:
                unserved.append(str(error))
        except cluster_client.Forbidden as error:
            unreadable.append(str(error))
    found = Found(schedulers={})
    if Kind.DEPLOYMENT in lists:
        found = deployed.of_objects(inside, namespace, lists[Kind.DEPLOYMENT])
    waiting: Mapping[str, int] = {}
    try:
        waiting = waiting_pods(cluster.unbound_pods())
    except cluster_client.Forbidden as error:
        unreadable.append(str(error))
    groups = [*lists.get(Kind.POD_GROUP, ()), *lists.get(Kind.NATIVE_POD_GROUP, ())]
    return Seen(
        leases=lists.get(Kind.LEASE, ()),
        found=found,
        unserved=unserved if Kind.NATIVE_POD_GROUP not in lists else (),
        waiting=waiting,
        refused=refused(groups),
        wrote=wrote(lists.get(Kind.QUEUE, ())),
        unreadable=unreadable,
    )


def waiting_pods(pods: Sequence[Object]) -> Mapping[str, int]:
    """Count pods by the scheduler that they name, without those of kube-scheduler."""
    names = Counter(
        str((pod.get("spec") or {}).get("schedulerName") or KUBE_SCHEDULER)
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
    )
    return {name: count for name, count in sorted(names.items()) if name != KUBE_SCHEDULER}


def refused(groups: Sequence[Object]) -> list[tuple[str, str]]:
    """Return the PodGroups that wait because the binds of their pods are refused."""
    found = []
    for group in groups:
        for condition in (group.get("status") or {}).get("conditions") or ():
            if condition.get("reason") == REFUSED and condition.get("status") == "True":
                metadata = group["metadata"]
                key = f"{metadata.get('namespace', '')}/{metadata['name']}"
                found.append((key, str(condition.get("message", ""))))
    return found


def wrote(queues: Sequence[Object]) -> Mapping[str, float]:
    """Return when each field manager last applied the status of a Queue."""
    found: dict[str, float] = {}
    for queue in queues:
        for each in queue["metadata"].get("managedFields") or ():
            if (each.get("operation"), each.get("subresource")) == ("Apply", "status"):
                name, at = str(each.get("manager")), queue_figures.instant(each.get("time"))
                found[name] = max(at, found.get(name, 0.0))
    return found


def unelected(seen: Seen, now: float) -> Mapping[str, float]:
    """Return who has no Lease and wrote the status of a Queue lately, by name, with how long ago:
    with `--leader-elect=false` nobody holds a Lease.
    """
    known = {lease.name for lease in leases(seen)}
    return {
        name: now - at
        for name, at in sorted(seen.wrote.items())
        if name not in known and now - at <= RECENT_SECONDS
    }


def leases(seen: Seen) -> list[HeldLease]:
    """Return our Leases, by name: other components keep theirs in the same namespace."""
    found = []
    for each in seen.leases:
        metadata, spec = each["metadata"], each.get("spec") or {}
        name, configuration = metadata["name"], lease_records.configuration(each)
        known = configuration or name == CONTROLLERS_LEASE or name.endswith(PODGROUPS_SUFFIX)
        if known or name in seen.found.schedulers:
            lease = HeldLease(
                name=name,
                holder=str(spec.get("holderIdentity") or ""),
                acquired=queue_figures.instant(spec.get("acquireTime")),
                renewed=queue_figures.instant(spec.get("renewTime")),
                seconds=float(spec.get("leaseDurationSeconds") or 0),
                configuration=configuration,
            )
            found.append(lease)
    return sorted(found, key=lambda lease: lease.name)


def rows(seen: Seen, now: float) -> list[Mapping[str, str]]:
    """Return a row for each Lease."""
    made: list[Mapping[str, str]] = []
    for lease in leases(seen):
        led, scheduler = lease.is_led(now), seen.found.schedulers.get(lease.name)
        same = scheduler is not None and scheduler.digest == lease.configuration
        made.append(
            {
                "LEASE": lease.name,
                "LEADER": _cut(lease.holder) if led else "nobody",
                "FOR": queue_figures.age(now - lease.acquired) if led else queue_figures.ABSENT,
                "RENEWED": f"{queue_figures.age(now - lease.renewed)} ago",
                "CONFIGURATION": lease.configuration or queue_figures.ABSENT,
                "FROM": scheduler.place if scheduler and same else queue_figures.ABSENT,
            }
        )
    return made


def problems(seen: Seen, now: float) -> list[str]:
    """Return a sentence for everything that is wrong."""
    known = {lease.name: lease for lease in leases(seen)}
    found = [*seen.unserved, *seen.found.problems, *_without_leader(known, now)]
    if seen.leases or not seen.unreadable:
        found += _missing(seen, known, unelected(seen, now))
    found += _otherwise(seen, known)
    return [*found, *(f"Binds of {key} are refused: {message}" for key, message in seen.refused)]


def _without_leader(known: Mapping[str, HeldLease], now: float) -> Iterator[str]:
    for lease in known.values():
        if not lease.is_led(now):
            since = queue_figures.age(now - lease.renewed)
            what = "its Lease was last renewed" if lease.holder else "its last leader gave it up"
            yield f"Nobody leads {lease.name}: {what} {since} ago."


def _missing(
    seen: Seen, known: Mapping[str, HeldLease], unelected: Mapping[str, float]
) -> Iterator[str]:
    """Iterate over Leases that should be there."""
    if not known and not unelected and not seen.found.schedulers:
        yield "No scheduler runs: it has no Lease, and no Deployment."
    if CONTROLLERS_LEASE not in known and CONTROLLERS_LEASE not in unelected:
        yield f"No controllers run: there is no Lease {CONTROLLERS_LEASE}, so nobody keeps Queues."
    for name in sorted(seen.found.schedulers.keys() - known):
        yield f"Nobody has ever led {name}, though a Deployment runs it: see its pods' log."
    for name, lease in known.items():
        if lease.configuration and f"{name}{PODGROUPS_SUFFIX}" not in known:
            yield f"Nobody creates PodGroups for {name}: no controllers run for this name."
    for name, pods in seen.waiting.items():
        if name not in known and queue_status.field_manager(name) not in unelected:
            verb = "names" if pods == 1 else "name"
            yield (
                f"{phrases.pods(pods)} without a node {verb} scheduler {name}, for which no "
                "Lease exists: nobody runs it, or it runs without leader election."
            )


def _otherwise(seen: Seen, known: Mapping[str, HeldLease]) -> Iterator[str]:
    """Iterate over schedulers that are led with another configuration than their Deployment's."""
    for name, scheduler in sorted(seen.found.schedulers.items()):
        held = known[name].configuration if name in known else ""
        if held and held != scheduler.digest:
            yield (
                f"{name} is led with configuration {held}, but {scheduler.place} and the flags of "
                f"its Deployment make {scheduler.digest}. A change takes a minute; after that, the "
                "file is invalid, or another instance leads."
            )


def _unelected_lines(seen: Seen, now: float) -> Iterator[str]:
    for name, ago in unelected(seen, now).items():
        age = queue_figures.age(ago)
        yield (
            f"{name} has no Lease, and wrote the status of a Queue {age} ago: "
            "it runs without leader election, or has ended since."
        )


def tree(seen: Seen, wrong: Sequence[str], now: float) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "leases": [
            {
                "name": lease.name,
                "led": lease.is_led(now),
                "holder": lease.holder,
                "renewedSecondsAgo": round(now - lease.renewed, 1),
                "configuration": lease.configuration,
            }
            for lease in leases(seen)
        ],
        "withoutElection": [
            {"name": name, "wroteSecondsAgo": round(ago, 1)}
            for name, ago in unelected(seen, now).items()
        ],
        "schedulers": [
            {"name": name, "configuration": each.digest, "from": each.place}
            for name, each in sorted(seen.found.schedulers.items())
        ],
        "problems": list(wrong),
        "notRead": list(seen.unreadable),
    }


def _cut(holder: str) -> str:
    return holder if len(holder) <= HOLDER_MAX else f"{holder[: HOLDER_MAX - 1]}…"
