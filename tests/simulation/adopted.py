"""`python -m tests.simulation.adopted`: SIGKILL at each write with which Jobs start whose pods name
PodGroups of Kubernetes' own API.

Three Jobs are created again and again in a world in which nothing else happens: one names its queue
itself, one in its pod template, and one names none. The Job controller has made a PodGroup for each
of them, without a queue. With `--tree`, two more, which name different queues, start together below
a CompositePodGroup. At their first write, at the second one and so on, the process that writes is
killed: before the request leaves, or right after that. In some rounds the API vanishes then, and
comes back. In the end each Job has started in the right queue, all Queues count it, the tree is in
one queue, no pod was bound twice, and no PodGroup of Volcano's API was made. Prints each write at
which a process was killed.
"""

import argparse
import functools
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.simulation import actors, faults, judges, programs, simulation
from tests.simulation.actors import objects
from tests.simulation.actors.base import Object
from tests.simulation.actors.informers import path
from tests.simulation.actors.objects import Template
from tests.simulation.api_server import kinds
from tests.simulation.api_server.client import Client
from tests.simulation.judges import objects as reading
from tests.simulation.kernel.processes import Process
from tests.simulation.knobs import Knobs
from tests.simulation.simulation import Options, Outcome, Simulation

GROUPS, COMPOSITES = kinds.NATIVE_POD_GROUPS.key, kinds.COMPOSITE_POD_GROUPS.key
NAMESPACE = "team-0"
SIZE = 2
QUEUES: Mapping[str, str] = {"by-job": "q1", "by-pods": "q2", "by-nobody": "default"}
"""The queue of each Job."""
TREE: Mapping[str, str] = {"below-1": "q1", "below-2": "q2"}
"""Jobs of a tree, and the queues that they name: all are in one of these."""
COUNTED = re.compile(rb"^(POST|PUT|PATCH|DELETE) [^?]*/(pods|podgroups|compositepodgroups)\b")
POSITIONS_MAX = 100
HASH_SEED = "1"
WAYS = ("lost", "carried out")
BEGIN_SECONDS = 40.0
START_SECONDS = 180.0
"""Longer than it takes another process to lead, Kopf to notice that the API is back, and the Jobs
to start."""
GONE_SECONDS = 45.0
"""How long the API is away."""
LOOK_SECONDS = 1.0


class Unjudged(Simulation):
    """A run of which only crashes, failures and polling are judged: the judges know Volcano's
    PodGroups only.
    """

    def _judge(self, outcome: Outcome) -> None:
        del outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Where a process is killed, and whether the API vanishes then."""

    position: int
    way: str
    vanishes: bool


class Adopted:
    """A world with these Jobs."""

    def __init__(self, folder: Path, *, with_tree: bool) -> None:
        self._queues = {**QUEUES, **(TREE if with_tree else {})}
        self._tree = [COMPOSITES] if with_tree else []
        turned = Knobs(nodes=2, jobs=1, denied=0.0, faults=())
        options = Options(seed="adopted", turned=turned, without=actors.RESTLESS)
        self._run = Unjudged(options, folder)
        self.outcome = Outcome()
        self._client = Client(self._run.api, "user")
        self._count = 0
        self._line = b""

    def begin(self) -> None:
        """Let somebody lead; the API comes later than the daemon."""
        self._run.begin()
        self._run.world.store.on("pods", self._look_at)
        self._go(BEGIN_SECONDS)
        self._launch()
        self._go(BEGIN_SECONDS)
        self._serve(on=True)
        self._make_groups()
        self._end_round()

    def play(self, given: Round) -> str:
        """Create the Jobs, kill, and let them start; return the write in question, or an empty text
        if all was written before.
        """
        self._line, self._count = b"", 0
        self._run.net.on_send = functools.partial(self._see, given)
        self._launch()
        self._make_groups()
        self._wait(lambda: bool(self._line) or self._is_counted(), "the write")
        self._run.net.on_send = None
        if given.vanishes and self._line:
            self._serve(on=False)
            self._go(GONE_SECONDS)
            self._serve(on=True)
        self._end_round()
        return self._line.decode()

    def _end_round(self) -> None:
        """Wait until all is as it should be; delete everything, and wait again."""
        self._wait(self._has_started, "the start")
        self._wait(self._is_counted, "the counts")
        self._note(self._wrong())
        for name in self._queues:
            for plural in ("jobs", GROUPS):
                self._client.delete(path(plural, NAMESPACE, name))
        for plural in self._tree:
            self._client.delete(path(plural, NAMESPACE, "tree"))
        self._wait(lambda: not self._pods(), "the end of the pods")
        self._wait(lambda: not any(self._counted().values()), "the end of the counts")

    def _see(self, given: Round, process: Process, data: bytes) -> None:
        line = data.partition(b"\r\n")[0]
        if self._line or not COUNTED.search(line):
            return
        self._count += 1
        if self._count < given.position:
            return
        self._line = line
        if given.way == "lost":
            process.exit(faults.KILLED)
        self._run.kernel.after(0.0, lambda: process.end(faults.KILLED))

    def _serve(self, *, on: bool) -> None:
        for key in (GROUPS, *self._tree):
            self._run.api.serve(key, on=on)

    def _look_at(self, before: Object | None, after: Object | None) -> None:
        """Note a pod that gets another node."""
        node = reading.node_of(before) if before else ""
        if node and after and reading.node_of(after) != node:
            self._note(iter([f"pod {after['metadata']['name']} is bound twice"]))

    def _launch(self) -> None:
        for name, queue in self._queues.items():
            own = {objects.QUEUE: queue}
            template = Template(
                scheduler=simulation.SCHEDULER,
                requests={"cpu": "100m"},
                annotations=own if name == "by-pods" else {},
                restarts=False,
                spec={"schedulingGroup": {"podGroupName": name}},
            )
            job = objects.job(name, template, SIZE)
            job["metadata"]["annotations"] = own if name in {"by-job", *TREE} else {}
            self._client.create(path("jobs", NAMESPACE), job)

    def _make_groups(self) -> None:
        """Do what the Job controller does, and whoever makes trees before."""
        of = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
        for plural in self._tree:
            policy = {"schedulingPolicy": {"gang": {"minGroupCount": len(TREE)}}}
            tree = {
                "apiVersion": kinds.COMPOSITE_POD_GROUPS.api_version,
                "kind": "CompositePodGroup",
                "metadata": {"name": "tree"},
                "spec": {**of, **policy},
            }
            self._client.create(path(plural, NAMESPACE), tree)
        for name in self._queues:
            below = {**of, "parentCompositePodGroupName": "tree"} if name in TREE else {}
            job = self._client.get(path("jobs", NAMESPACE, name))
            metadata = {"name": name, "ownerReferences": [objects.reference(job)]}
            body = {
                "apiVersion": kinds.NATIVE_POD_GROUPS.api_version,
                "kind": "PodGroup",
                "metadata": metadata,
                "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}, **below},
            }
            self._client.create(path(GROUPS, NAMESPACE), body)

    def _pods(self) -> list[Object]:
        return [each for each in self._run.world.store.all("pods") if not reading.leaving(each)]

    def _has_started(self) -> bool:
        placed = sum(bool(reading.node_of(pod)) for pod in self._pods())
        return placed == SIZE * len(self._queues)

    def _is_counted(self) -> bool:
        """Whether each Queue counts its groups; the whole tree is in one of them."""
        found = self._counted()
        wanted = dict.fromkeys(QUEUES.values(), 1)
        if self._tree:
            wanted[max(found, key=lambda queue: (found[queue], queue))] += len(TREE)
        return found == wanted

    def _counted(self) -> dict[str, int]:
        """How many running PodGroups the Queues count."""
        queues = (self._client.get(path("queues", "", name)) for name in QUEUES.values())
        return {
            each["metadata"]["name"]: each.get("status", {}).get("running", 0) for each in queues
        }

    def _wrong(self) -> Iterator[str]:
        """What isn't as it should be of Jobs that have started."""
        for name, queue in QUEUES.items():
            if (found := self._queue_of(GROUPS, name)) != queue:
                yield f"PodGroup {name} is in queue {found}"
        for plural in self._tree:
            root = self._queue_of(plural, "tree")
            of_parts = {self._queue_of(GROUPS, name) for name in TREE}
            if root not in TREE.values() or of_parts != {root}:
                yield f"the tree is in queue {root}, and its PodGroups in {of_parts}"
        for each in self._run.world.store.all("podgroups"):
            yield f"there is PodGroup {each['metadata']['name']} of Volcano's API"

    def _queue_of(self, plural: str, name: str) -> str | None:
        found = self._client.get(path(plural, NAMESPACE, name))
        return reading.annotations(found).get(objects.QUEUE)

    def _note(self, found: Iterator[str]) -> None:
        at = self._run.kernel.now()
        self.outcome.findings += [
            judges.Finding(at=at, rule="adopted", message=message) for message in found
        ]

    def _wait(self, until: Callable[[], bool], what: str) -> None:
        end = self._run.kernel.moment + START_SECONDS
        while self.outcome.faultless and not until():
            if self._run.kernel.moment > end:
                self._note(iter([f"{what} doesn't come after {self._line.decode()}"]))
                return
            self._go(LOOK_SECONDS)

    def _go(self, seconds: float) -> None:
        self._run.go(self.outcome, self._run.kernel.moment + seconds)


def rounds(first: int, step: int, *, long: bool) -> Iterator[tuple[Round, ...]]:
    """The rounds at every so many positions: all kinds, or one."""
    all_kinds = [(way, vanishes) for vanishes in (False, True) for way in WAYS]
    for position in range(first, POSITIONS_MAX, step):
        chosen = all_kinds if long else [all_kinds[position % len(all_kinds)]]
        yield tuple(
            Round(position=position, way=way, vanishes=vanishes) for way, vanishes in chosen
        )
    raise AssertionError(f"more than {POSITIONS_MAX} writes")


def main(arguments: Sequence[str]) -> int:
    """Play all rounds; 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.adopted")
    parser.add_argument("--tree", action="store_true", help="some Jobs are parts of a tree")
    parser.add_argument("--long", action="store_true", help="all ways to end at each write")
    parser.add_argument("--first", type=int, default=1, help="the first write in question")
    parser.add_argument("--step", type=int, default=1, help="only every so many writes")
    options = parser.parse_args(arguments)
    write, began = sys.stdout.write, simulation.cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        world = Adopted(Path(folder), with_tree=options.tree)
        world.begin()
        for each in rounds(options.first, options.step, long=options.long):
            lines = [(given, world.play(given)) for given in each if world.outcome.faultless]
            for given, line in lines:
                ends = "vanishes" if given.vanishes else "stays"
                write(f"{given.position} {given.way}, {ends}: {line.partition('?')[0]}\n")
            if not world.outcome.faultless or not all(line for _, line in lines):
                break
    for broken in world.outcome.broken():
        write(f"broken: {broken}\n")
    write(f"{simulation.cpu_seconds() - began:.0f} CPU s\n")
    return 0 if world.outcome.faultless else 1


if __name__ == "__main__":
    programs.run("tests.simulation.adopted", HASH_SEED, main)
