"""`vscheduler replay`: a trace of jobs through the scheduler, in virtual time."""

from __future__ import annotations

from pathlib import Path

import click

from vscheduler.cli import flags, lazy_commands, screen
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError
from vscheduler.model.resources import MEMORY


@click.command("replay", short_help="Show how jobs of the past would have fared under a policy.")
@click.argument(
    "trace",
    metavar="TRACE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of nodes; else as in the trace.",
)
@click.option(
    "--node-cpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="CPUs of each node; else as in the trace, or 1.",
)
@click.option(
    "--node-gpus", type=click.IntRange(min=0), metavar="N", default=0, help="GPUs of each node."
)
@click.option(
    "--node-memory",
    metavar="QUANTITY",
    callback=lambda _context, _option, text: _bytes(text),
    help="Memory of each node; unlimited by default.",
)
@click.option(
    "--cluster",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Manifests with nodes and queues instead; repeatable.",
)
@click.option("--one-queue", is_flag=True, help="Put all jobs into one queue.")
@flags.SCHEDULER_CONF
@click.option(
    "--backfill",
    type=click.Choice(["none", "easy", "conservative"]),
    help="Set allocate.backfill in the configuration.",
)
@click.option(
    "--against",
    metavar="FILE|MODE",
    help="Another configuration, or another kind of backfill, to show beside the first.",
)
@click.option("--keep-limits", is_flag=True, help="End jobs at their limit.")
@click.option(
    "--forecast",
    "forecast_every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Forecast the start of each Nth job that has to wait, and compare.",
)
@click.option("--resume", is_flag=True, help="Let evicted jobs go on where they were.")
@click.option(
    "--termination-seconds",
    type=click.FloatRange(min=0),
    metavar="N",
    default=30.0,
    show_default=True,
    help="How long evicted pods take to end.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "html", "svg"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)
def command(  # noqa: PLR0913 - one parameter per flag
    *,
    trace: Path,
    nodes: int | None,
    node_cpus: int | None,
    node_gpus: int,
    node_memory: int | None,
    cluster: tuple[Path, ...],
    one_queue: bool,
    scheduler_conf: str,
    backfill: str | None,
    against: str | None,
    keep_limits: bool,
    forecast_every: int | None,
    resume: bool,
    termination_seconds: float,
    output: str,
) -> None:
    """Show how the jobs of a trace would have fared under a policy: waits, utilisation, shares,
    evictions and lost work. No cluster is needed, and time is virtual.

    TRACE is a file in the Standard Workload Format (.swf), a table of jobs (.csv), either of them
    packed (.gz), or - for stdin.
    """
    if cluster and (nodes or node_cpus or node_gpus or node_memory):
        message = "--cluster brings its own nodes: leave out --nodes and --node-..."
        screen.fail([message], screen.USAGE_STATUS)
    with lazy_commands.importing():
        from vscheduler.cli.replay import playing
        from vscheduler.simulator.replay.virtual_time import Options
    playing.check_output(output)
    jobs = playing.read(trace)
    build = playing.cluster(
        jobs, cluster, nodes=nodes, cpus=node_cpus, gpus=node_gpus, memory=node_memory
    )
    options = Options(
        keep_limits=keep_limits,
        resume=resume,
        termination_seconds=termination_seconds,
        forecast_every=forecast_every or 0,
    )
    found = [
        playing.play(policy, jobs, build, options, one_queue=one_queue)
        for policy in playing.policies(scheduler_conf, backfill, against)
    ]
    playing.show(trace.name, found, output)


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return quantities.parse(MEMORY, text)
    except QuantityError as error:
        raise click.BadParameter(str(error)) from error
