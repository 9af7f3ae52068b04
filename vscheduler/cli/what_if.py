"""`vscheduler what-if`: what another setting of a queue would do. Nothing is changed."""

import sys
from typing import Any

import click

from vscheduler.cli import flags, loading, screen
from vscheduler.cli.job import configured, placing
from vscheduler.cli.job.configured import Configuration
from vscheduler.cli.queue import cluster_client, completion, queue_settings
from vscheduler.cli.queue.cluster_client import Cluster, ClusterError
from vscheduler.daemon import settings
from vscheduler.explain import what_if
from vscheduler.explain.what_if import Comparison
from vscheduler.mirror.wording import plain_text

UNREADABLE = "it can't be known without reading all namespaces, and all that decisions depend on"


@click.command("what-if", short_help="Show what another setting of a queue would do.")
@click.argument("name", metavar="QUEUE", shell_complete=completion.queues)
@queue_settings.fields
@flags.SCHEDULER_CONF
@click.option(
    "--scheduler-name",
    metavar="NAME",
    default="vscheduler",
    show_default=True,
    help="The scheduler whose jobs count.",
)
@click.option(
    "--node-selector",
    multiple=True,
    metavar="KEY=VALUE",
    help="The scheduler's own --node-selector, if it has any; repeatable.",
)
@flags.output("text")
@cluster_client.access
def command(  # noqa: PLR0913 - one parameter per flag
    name: str,
    *,
    scheduler_conf: str,
    scheduler_name: str,
    node_selector: tuple[str, ...],
    output: str,
    kubeconfig: str,
    context: str,
    **given: Any,
) -> None:
    """Show which pods would be evicted, and which jobs would start, if a queue had other settings.
    Nothing is changed: cycles are simulated with and without the change, and compared.

    Pods with resource claims can't be tried.
    """
    wanted = {key: value for key, value in given.items() if value not in (None, {})}
    if not wanted:
        raise click.UsageError("nothing to try: name a flag such as --weight")
    checked = loading.checked(settings.Given(node_selector=node_selector))
    loaded = loading.loaded(scheduler_conf)
    try:
        with cluster_client.tidy_end(), cluster_client.opened(kubeconfig, context) as cluster:
            known = configured.of_flags(cluster, loaded, checked.node_selector)
            own = known.of(scheduler_name)
            found, changes = _compared(cluster, name, wanted, scheduler_name, own)
    except ClusterError as error:
        raise click.ClickException(plain_text.shown(str(error))) from error
    except KeyboardInterrupt:
        sys.exit(cluster_client.INTERRUPTED_STATUS)
    said = [f"queue {name}: {each} (simulated)" for each in changes]
    screen.show(
        output,
        lambda: {"queue": name, "changes": changes, **what_if.tree(found)},
        lambda: screen.say(*said, *what_if.lines(found)),
    )


def _compared(
    cluster: Cluster,
    name: str,
    wanted: dict[str, Any],
    scheduler: str,
    own: Configuration,
) -> tuple[Comparison, list[str]]:
    """Return the comparison, and the changes in words."""
    seen = placing.look(cluster, None)
    queue = placing.queue_of(seen, name)
    if queue is None:
        screen.fail([f"there is no queue {name}"])
    changes = list(queue_settings.changes(queue.get("spec") or {}, wanted))
    around = placing.surroundings(cluster)
    if around is None or not seen.complete:
        screen.fail([UNREADABLE])
    options = placing.options(seen, scheduler, own)
    patch = queue_settings.patch(changes)
    found = what_if.compare([*seen.manifests, *around], name, patch, own.policy, options)
    assert found is not None, "the queue is there"
    return found, [str(each) for each in changes]
