"""`python -m tests.simulation.killed`: SIGKILL at each write with which a gang starts.

A gang whose pods have devices of their own and share one more, and volumes if asked for, is created
again and again in a world in which nothing else happens; its last pod asks for its device by an
extended resource. At its first write, at its second one and so on, the process that writes is
killed: before the request leaves, or right after that. Another process goes on. Then the gang has
started whole, or somebody deletes it while nobody schedules; in the end no device belongs to
nobody. Prints each write at which a process was killed.
"""

import argparse
import functools
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import ApiError
from tests.simulation import actors, faults, judges, programs, simulation
from tests.simulation.actors import device_users, objects, storage, volume_users
from tests.simulation.actors.base import Object
from tests.simulation.actors.informers import path
from tests.simulation.actors.objects import Template
from tests.simulation.api_server.client import Client
from tests.simulation.faults import Strike
from tests.simulation.judges import devices
from tests.simulation.judges import objects as reading
from tests.simulation.kernel.processes import Process
from tests.simulation.knobs import Knobs
from tests.simulation.simulation import Options, Outcome, Simulation

NODES = 2
EACH = 3
"""How many devices a node has."""
SHARING = 2
"""How many pods share a claim."""
NAMESPACE = "team-0"
GANG = "gang"
SHARED = "shared"
COUNTED = re.compile(
    rb"^(POST|PUT|PATCH|DELETE) [^?]*"
    rb"/(pods|podgroups|resourceclaims|persistentvolumeclaims|persistentvolumes)\b"
)
POSITIONS_MAX = 150
HASH_SEED = "1"
WAYS = ("lost", "carried out")
ENDS = ("starts", "deleted")
BEGIN_SECONDS = 40.0
START_SECONDS = 120.0
"""Longer than it takes another process to lead, and to start the gang."""
LOOK_SECONDS = 1.0
REST_SECONDS = 40.0
"""Longer than pods take to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Where a process is killed, and what becomes of the gang."""

    position: int
    way: str
    end: str


class Killed:
    """A world with one gang at a time."""

    def __init__(self, folder: Path, *, size: int, with_volumes: bool) -> None:
        self._size, self._with_volumes = size, with_volumes
        turned = Knobs(
            nodes=NODES,
            jobs=1,
            denied=0.0,
            faults=(),
            devices=actors.Devices(part=0.5),
            storage=actors.Storage(part=0.5 if with_volumes else 0.0, local=size * 2),
        )
        self._run = Simulation(
            Options(seed="killed", turned=turned, without=(*actors.RESTLESS, "device-driver")),
            folder,
        )
        self.outcome = Outcome()
        self._client = Client(self._run.api, "user")
        self._count = 0
        self._line = b""

    def begin(self) -> None:
        """Publish the devices, and let somebody lead."""
        for node in self._run.world.store.all("nodes"):
            self._client.create(path(devices.SLICES), a_slice(node["metadata"]["name"]))
        shared = {"spec": device_users.claim_spec(1)}
        self._create(devices.CLAIMS, {**_body("ResourceClaim", SHARED), **shared})
        template = {"spec": {"spec": device_users.claim_spec(1)}}
        self._create(device_users.TEMPLATES, {**_body("ResourceClaimTemplate", GANG), **template})
        self._run.begin()
        self._go(BEGIN_SECONDS)

    def play(self, given: Round) -> str:
        """Create the gang, kill, and let it start or delete it; return the write in question, or an
        empty text if the gang started before.
        """
        self._line = b""
        self._count = 0
        self._run.net.on_send = functools.partial(self._see, given)
        self._launch()
        self._wait(lambda: bool(self._line) or self._is_whole())
        self._run.net.on_send = None
        if given.end == "starts" or not self._line:
            self._wait(self._is_whole)
            self._note(self._wrong())
        self._remove()
        self._go(REST_SECONDS)
        self._note(self._leftovers())
        return self._line.decode()

    def _see(self, given: Round, process: Process, data: bytes) -> None:
        line = data.partition(b"\r\n")[0]
        if self._line or not COUNTED.search(line):
            return
        self._count += 1
        if self._count < given.position:
            return
        self._line = line
        now = self._run.kernel.now()
        self._run.faults.strikes.append(Strike(name="kill", since=now, until=now))
        if given.way == "lost":
            process.exit(faults.KILLED)
        self._run.kernel.after(0.0, lambda: process.end(faults.KILLED))

    def _launch(self) -> None:
        self._create("podgroups", objects.pod_group(GANG, "default", self._size))
        for number in range(self._size):
            name = f"{GANG}-{number}"
            uses = [{"name": "own", "resourceClaimTemplateName": GANG}]
            if number < SHARING:
                uses.append({"name": SHARED, "resourceClaimName": SHARED})
            template = Template(
                scheduler=simulation.SCHEDULER,
                requests={"cpu": "1"},
                annotations={objects.GROUP: GANG},
                spec={"resourceClaims": uses},
            )
            if number == self._size - 1:
                uses.remove({"name": "own", "resourceClaimTemplateName": GANG})
                template = device_users.asking_by_name(template, 1)
            if self._with_volumes:
                self._create(storage.CLAIMS, volume_users.claim(name, a_volume()))
                used = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
                template = volume_users.with_volumes(template, used)
            self._create("pods", objects.pod(name, template.written()))

    def _remove(self) -> None:
        for plural, name in self._parts():
            try:
                self._client.delete(path(plural, NAMESPACE, name))
            except ApiError as error:
                if error.status != 404:
                    raise

    def _parts(self) -> Iterator[tuple[str, str]]:
        for number in range(self._size):
            yield "pods", f"{GANG}-{number}"
            if self._with_volumes:
                yield storage.CLAIMS, f"{GANG}-{number}"
        yield "podgroups", GANG

    def _create(self, plural: str, body: Object) -> None:
        self._client.create(path(plural, NAMESPACE), body)

    def _pods(self) -> list[Object]:
        return [each for each in self._run.world.store.all("pods") if not reading.leaving(each)]

    def _is_whole(self) -> bool:
        return sum(bool(reading.node_of(pod)) for pod in self._pods()) == self._size

    def _wrong(self) -> Iterator[str]:
        """What isn't as it should be of a gang that has started."""
        pods = self._pods()
        uids = {pod["metadata"]["uid"] for pod in pods}
        claims = self._run.world.store.all(devices.CLAIMS)
        if len(claims) != self._size + 1:
            yield f"there are {len(claims)} claims"
        held = [each for claim in claims for each in devices.devices_of(claim)]
        if len(set(held)) != len(held) or len(held) != self._size + 1:
            yield f"claims have {held}"
        for claim in claims:
            name, users = claim["metadata"]["name"], devices.consumers(claim)
            if not users <= uids or len(users) != (SHARING if name == SHARED else 1):
                yield f"claim {name} is reserved for {users}, and there are {uids}"

    def _leftovers(self) -> Iterator[str]:
        """What is left of a gang that is gone."""
        for claim in self._run.world.store.all(devices.CLAIMS):
            if devices.allocation(claim) is not None or devices.consumers(claim):
                yield f"claim {claim['metadata']['name']} still has {claim['status']}"
        for plural in ("pods", "podgroups"):
            for each in self._run.world.store.all(plural):
                yield f"{plural} {each['metadata']['name']} is still there"
        if self._with_volumes:
            for each in self._run.world.store.all(storage.CLAIMS):
                yield f"claim {each['metadata']['name']} is still there"

    def _note(self, found: Iterator[str]) -> None:
        at = self._run.kernel.now()
        self.outcome.findings += [
            judges.Finding(at=at, rule="killed", message=message) for message in found
        ]

    def _wait(self, until: Callable[[], bool]) -> None:
        end = self._run.kernel.moment + START_SECONDS
        while not until() and self.outcome.faultless:
            if self._run.kernel.moment > end:
                self._note(iter([f"nothing happens after {self._line.decode()}"]))
                return
            self._go(LOOK_SECONDS)

    def _go(self, seconds: float) -> None:
        self._run.go(self.outcome, self._run.kernel.moment + seconds)


def rounds(first: int, step: int, *, long: bool) -> Iterator[tuple[Round, ...]]:
    """The rounds at every so many positions: all kinds, or one."""
    kinds = [(way, end) for way in WAYS for end in ENDS]
    for position in range(first, POSITIONS_MAX, step):
        chosen = kinds if long else [kinds[position % len(kinds)]]
        yield tuple(Round(position=position, way=way, end=end) for way, end in chosen)
    raise AssertionError(f"more than {POSITIONS_MAX} writes")


def a_slice(node: str) -> Object:
    """The devices of a node, which are a pool of their own."""
    spec = {
        "driver": devices.DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(EACH)],
    }
    return {**_body("ResourceSlice", f"{node}-gpus"), "spec": spec}


def a_volume() -> Object:
    """A claim of a local volume."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume_users.LOCAL_SIZE}},
        "storageClassName": "local",
    }


def _body(kind: str, name: str) -> Object:
    return {"apiVersion": device_users.API, "kind": kind, "metadata": {"name": name}}


def main(arguments: Sequence[str]) -> int:
    """Play all rounds; 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.killed")
    parser.add_argument("--size", type=int, default=2, help="how many pods the gang has")
    parser.add_argument("--volumes", action="store_true", help="each pod has a volume, too")
    parser.add_argument("--long", action="store_true", help="all ways to end at each write")
    parser.add_argument("--first", type=int, default=1, help="the first write in question")
    parser.add_argument("--step", type=int, default=1, help="only every so many writes")
    options = parser.parse_args(arguments)
    write, began = sys.stdout.write, simulation.cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        world = Killed(Path(folder), size=options.size, with_volumes=options.volumes)
        world.begin()
        for each in rounds(options.first, options.step, long=options.long):
            lines = [(given, world.play(given)) for given in each if world.outcome.faultless]
            for given, line in lines:
                write(f"{given.position} {given.way}, {given.end}: {line.partition('?')[0]}\n")
            if not world.outcome.faultless or not all(line for _, line in lines):
                break
    for broken in world.outcome.broken():
        write(f"broken: {broken}\n")
    write(f"{simulation.cpu_seconds() - began:.0f} CPU s\n")
    return 0 if world.outcome.faultless else 1


if __name__ == "__main__":
    programs.run("tests.simulation.killed", HASH_SEED, main)
