"""What `vscheduler replay` does: reads, replays and shows."""

import gzip
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import msgspec

from vscheduler.cli import loading, reading, screen
from vscheduler.cli.replay import tables
from vscheduler.core.config.policy import BACKFILL, Backfill, Policy
from vscheduler.mirror.state import Mirror
from vscheduler.model.resources import ALLOCATABLE_MAX
from vscheduler.simulator.replay import clusters, figures, traces, virtual_time
from vscheduler.simulator.replay.figures import Replayed
from vscheduler.simulator.replay.traces import Trace, TraceError
from vscheduler.simulator.replay.virtual_time import Options

MODES = tuple(map(str, Backfill))
"""Values of the argument `allocate.backfill`."""

PROBLEMS_SHOWN = 20
"""So many unusable lines of a trace are named; the others are counted."""

PARTS = 10
"""In so many steps, progress is told."""

DRAWN = frozenset({"html", "svg"})
"""Output formats with charts."""

STDIN = Path("-")

Build: TypeAlias = Callable[[Policy], Mirror]
"""Makes the cluster for a policy, without the jobs of the trace."""


class Named(msgspec.Struct, frozen=True):
    """A policy, and where it is from."""

    name: str
    policy: Policy


def check_output(output: str) -> None:
    """Fail if the output format needs a library that isn't installed."""
    if output in DRAWN and find_spec("matplotlib") is None:
        screen.fail([f"-o {output} needs matplotlib: pip install 'vscheduler[charts]'"])


def read(path: Path) -> Trace:
    """Return the trace of a file; say what is left out of it."""
    name = "stdin" if path == STDIN else str(path)
    try:
        text = _text(path)
        is_swf = path.name.removesuffix(".gz").endswith(".swf") or text.startswith(";")
        found = traces.read(text, table=not is_swf)
    except (OSError, UnicodeDecodeError, EOFError, TraceError) as error:
        screen.fail([f"{name}: {error}"])
    lines = [f"left out: {problem}" for problem in found.problems[:PROBLEMS_SHOWN]]
    more = len(found.problems) - PROBLEMS_SHOWN
    lines += [f"left out: {more} more lines"] if more > 0 else []
    lines += [f"left out: {count} {what}" for what, count in found.left_out.items()]
    lines += [f"column {column} means nothing here" for column in found.unused]
    screen.say(*(f"{name}: {line}" for line in lines), err=True)
    return found


def _text(path: Path) -> str:
    if path == STDIN:
        return sys.stdin.read()
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")


def policies(scheduler_conf: str, backfill: str | None, against: str | None) -> list[Named]:
    """Return the policies to replay."""
    first = _policy(scheduler_conf, backfill)
    if against is None:
        return [first]
    if against in MODES:
        return [first, _policy(scheduler_conf, against)]
    return [first, _policy(against, backfill)]


def _policy(path: str, backfill: str | None) -> Named:
    loaded = loading.loaded(path)
    screen.say(*loaded.warnings, err=True)
    name = Path(path).name or "built-in"
    if backfill is None:
        return Named(name, loaded.policy)
    changed = loaded.policy.with_argument("allocate", BACKFILL, backfill)
    return Named(f"{name}, backfill {backfill}", changed)


def cluster(
    trace: Trace,
    files: Sequence[Path],
    *,
    nodes: int | None,
    cpus: int | None,
    gpus: int,
    memory: int | None,
) -> Build:
    """Return what makes the cluster: of manifests, or of nodes as asked for or as in the trace."""
    if not files:
        memory = ALLOCATABLE_MAX if memory is None else memory
        shape = clusters.shape(trace, nodes=nodes, cpus=cpus, gpus=gpus, memory=memory)
        if shape is None:
            message = "the trace doesn't tell of its nodes: give --nodes, or --cluster"
            screen.fail([message], screen.USAGE_STATUS)
        return lambda policy: clusters.of_shape(shape, policy.reads)
    documents = reading.read(files)
    return lambda policy: clusters.of_manifests(documents, policy)


def play(
    named: Named, trace: Trace, build: Build, options: Options, *, one_queue: bool
) -> Replayed:
    """Replay the trace under a policy, with progress on stderr."""
    mirror = build(named.policy)
    submitted = clusters.in_one_queue(trace) if one_queue else trace
    missing = clusters.add_queues(mirror, {job.queue for job in submitted.jobs})
    empty = mirror.snapshot(0.0)
    if missing:
        screen.say(f"queues made, of weight 1: {', '.join(missing)}", err=True)
    progress = _Progress(named.name)
    history = virtual_time.replay(submitted, mirror, named.policy, options, progress.tell)
    return figures.replayed(named.name, trace, history, empty, resume=options.resume)


class _Progress:
    """Tells how many jobs have ended, now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._told = 0

    def tell(self, ended: int, every: int) -> None:
        """Say so if it is time."""
        part = PARTS * ended // every
        if part > self._told:
            self._told = part
            percent = 100 * part // PARTS
            screen.say(f"{self._name}: {percent} % of {every} jobs have ended", err=True)


def show(name: str, played: Sequence[Replayed], output: str) -> None:
    """Print the result."""
    if output in DRAWN:
        _draw(name, played, output)
        return
    tree = partial(figures.comparison, played)
    screen.show(output, tree, partial(tables.show, played, sys.stdout))


def _draw(name: str, played: Sequence[Replayed], output: str) -> None:
    from vscheduler.cli.replay import report  # noqa: PLC0415 - the library may be missing

    made = report.chart(played) if output == "svg" else report.page(name, played)
    screen.say(*made.splitlines())
