"""Shell completion of queue names, from the cluster of the command line's flags.

A shell waits for the answer, and prints nothing else. So every error means no suggestions.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager

import click

from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Cluster, ClusterError, Kind


def queues(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Return the names of queues that begin with the typed text."""
    try:
        with opened(context) as cluster:
            found = [each["metadata"]["name"] for each in cluster.list(Kind.QUEUE).items]
    except ClusterError:
        return []
    return matching(found, typed, context)


def opened(context: click.Context) -> AbstractContextManager[Cluster]:
    """Return a context that provides the cluster."""
    given = context.params
    return cluster_client.opened(given.get("kubeconfig") or "", given.get("context") or "")


def matching(found: Iterable[str], typed: str, context: click.Context) -> list[str]:
    """Return the names that begin with the typed text and aren't on the command line yet."""
    taken = set(context.params.get("names") or ())
    return sorted({each for each in found if each.startswith(typed)} - taken)
