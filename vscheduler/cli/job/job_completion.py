"""Shell completion of job names, from the cluster of the command line's flags."""

import click

from vscheduler.cli.queue import completion
from vscheduler.cli.queue.cluster_client import ClusterError, Kind
from vscheduler.mirror import workloads


def jobs(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Return the names of jobs of the namespace that begin with the typed text."""
    try:
        with completion.opened(context) as cluster:
            scope = cluster
            if not context.params.get("all_namespaces"):
                scope = cluster.within(context.params.get("namespace") or cluster.namespace)
            groups, pods = scope.list(Kind.POD_GROUP).items, scope.list(Kind.POD).items
    except ClusterError:
        return []
    found = []
    for group in groups:
        metadata = group["metadata"]
        members = [
            pod
            for pod in pods
            if workloads.group_of(pod) == metadata["name"]
            and pod["metadata"].get("namespace") == metadata.get("namespace")
        ]
        best = workloads.of_group(group, members)[0]
        found.append(str(best) if "/" in typed or not typed else best.name)
        if best.kind != workloads.POD_GROUP:
            found.append(f"{best.kind}/{best.name}")
    return completion.matching(found, typed, context)
