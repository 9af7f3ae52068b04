"""What breaks, and for how long: each fault is a unit of its own, with chance of its own."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox.errors import ApiError
from tests.simulation.actors import informers
from tests.simulation.api_server.client import Client
from tests.simulation.instances import Instance
from tests.simulation.kernel.core import Kernel
from tests.simulation.kernel.network import Network

if TYPE_CHECKING:
    from tests.simulation.api_server.server import ApiServer
    from tests.simulation.kernel.processes import Process

KILLED = 137
TERM = 15
WRITES = (b"POST ", b"PUT ", b"PATCH ", b"DELETE ")
BIND = b"/binding"
LEASES = b"/leases"
DENIED = (
    *(("update", "leases"), ("create", "pods/binding"), ("create", "pods/eviction")),
    *(("create", "podgroups"), ("patch", "podgroups"), ("delete", "podgroups")),
    *(("patch", "pods"), ("patch", "queues"), ("patch", "queues/status"), ("create", "events")),
)
"""Verb and resource."""
LEASE_NAMESPACE = "volcano-system"
LOOK_SECONDS = 0.05
BEFORE_READING_SECONDS = (0.0, 0.2)
"""How long after the start of a process a Lease is deleted: about when it is first read."""
RETRY_AFTER_SECONDS = (1, 1, 1, 10, 10**6)
"""What a server that is too busy asks for: seldom more than anybody may wait."""

Heal = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What faults can reach."""

    kernel: Kernel
    net: Network
    api: "ApiServer"
    replicas: Sequence[Instance]
    leases: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault: how often it strikes, how long it lasts, and what it does."""

    every_seconds: float
    """Mean time from the end of one strike to the next."""
    lasts_seconds: tuple[float, float]
    strike: Callable[[Scene, random.Random], Heal]
    """Breaks something; gives what heals it."""


def _nothing() -> None:
    pass


def _pick(scene: Scene, chance: random.Random) -> Instance:
    return scene.replicas[int(chance.random() * len(scene.replicas))]


def kill(scene: Scene, chance: random.Random) -> Heal:
    """SIGKILL, at any moment between two steps of any thread."""
    process = _pick(scene, chance).process
    if process is not None:
        process.end(KILLED)
    return _nothing


def kill_without_lease(scene: Scene, chance: random.Random) -> Heal:
    """SIGKILL; and when the successor starts, somebody deletes a Lease under its holder."""
    replica = _pick(scene, chance)
    lease = chance.choice(scene.leases)
    if replica.process is None:
        return _nothing
    replica.process.end(KILLED)
    starts = replica.starts

    def delete() -> None:
        if replica.starts == starts:
            scene.kernel.after(LOOK_SECONDS, delete)
            return
        pause = chance.uniform(*BEFORE_READING_SECONDS)
        scene.kernel.after(pause, lambda: _delete_lease(scene, lease))

    delete()
    return _nothing


def _delete_lease(scene: Scene, name: str) -> None:
    with suppress(ApiError):
        Client(scene.api, "meddler").delete(informers.path("leases", LEASE_NAMESPACE, name))


def terminate(scene: Scene, chance: random.Random) -> Heal:
    """SIGTERM, as at each rollout."""
    process = _pick(scene, chance).process
    if process is not None:
        process.signal(TERM)
    return _nothing


def freeze(scene: Scene, chance: random.Random) -> Heal:
    """SIGSTOP, then SIGCONT."""
    process = _pick(scene, chance).process
    if process is None:
        return _nothing
    process.stop()
    return process.go_on


def sleep(scene: Scene, chance: random.Random) -> Heal:
    """The machine is suspended: it stands still, and its monotonic clock as well."""
    replica = _pick(scene, chance)
    process, since = replica.process, scene.kernel.moment
    if process is None:
        return _nothing
    process.stop()

    def heal() -> None:
        if not process.ended:
            replica.clock.asleep_seconds += scene.kernel.moment - since
            process.go_on()

    return heal


def _when_one_writes(scene: Scene, do: Callable[["Process"], None], part: bytes = b"") -> Heal:
    """Do something to the first process that writes, right after it.

    Only writes to paths with this part count; those to Leases, only if the part is theirs.
    """

    def see(process: "Process", data: bytes) -> None:
        line = data.partition(b"\r\n")[0]
        if line.startswith(WRITES) and part in line and (LEASES in line) == (part == LEASES):
            scene.net.on_send = None
            scene.kernel.after(0.0, lambda: do(process))

    def heal() -> None:
        if scene.net.on_send is see:
            scene.net.on_send = None

    scene.net.on_send = see
    return heal


def kill_at_a_write(scene: Scene, chance: random.Random) -> Heal:
    """SIGKILL when a write has left, and others wait."""
    del chance
    return _when_one_writes(scene, lambda process: process.end(KILLED))


def freeze_at_a_write(scene: Scene, chance: random.Random) -> Heal:
    """SIGSTOP when a write or a bind has left, and others wait, until another instance may lead."""
    return _freeze_when_one_writes(scene, chance.choice((b"", BIND)))


def freeze_at_a_renewal(scene: Scene, chance: random.Random) -> Heal:
    """SIGSTOP when a write to a Lease has left; its answer is read when another may lead."""
    del chance
    return _freeze_when_one_writes(scene, LEASES)


def _freeze_when_one_writes(scene: Scene, part: bytes) -> Heal:
    frozen: list[Process] = []

    def stop(process: "Process") -> None:
        process.stop()
        frozen.append(process)

    disarm = _when_one_writes(scene, stop, part)

    def heal() -> None:
        disarm()
        for process in frozen:
            process.go_on()

    return heal


def partition(scene: Scene, chance: random.Random) -> Heal:
    """Requests don't arrive, or answers don't, or neither."""
    replica = _pick(scene, chance)
    link = scene.net.link(replica.name)
    way = int(chance.random() * 3)
    link.up, link.down = way == 1, way == 2

    def heal() -> None:
        link.up = link.down = True
        scene.net.release(replica.name)

    return heal


def slow(scene: Scene, chance: random.Random) -> Heal:
    """Each way takes up to three seconds."""
    link = scene.net.link(_pick(scene, chance).name)
    link.slow = chance.uniform(0.05, 3.0)

    def heal() -> None:
        link.slow = 0.0

    return heal


def reset(scene: Scene, chance: random.Random) -> Heal:
    """All connections of an instance break."""
    scene.net.reset(_pick(scene, chance).name)
    return _nothing


def silence(scene: Scene, chance: random.Random) -> Heal:
    """The watches of an instance stay open for ever, and nothing comes."""
    scene.net.silence(_pick(scene, chance).name)
    return _nothing


def stop_server(scene: Scene, chance: random.Random) -> Heal:
    """The API server ends, and starts again."""
    del chance
    scene.net.serving = False
    scene.net.reset()
    scene.api.end_watches()

    def heal() -> None:
        scene.net.serving = True

    return heal


def compact(scene: Scene, chance: random.Random) -> Heal:
    """Older versions are forgotten while an instance hears nothing; then all watches end."""
    name = _pick(scene, chance).name
    link = scene.net.link(name)
    link.down = False

    def heal() -> None:
        link.down = True
        scene.api.compact()
        scene.net.reset(name)
        scene.api.end_watches()

    return heal


def throttle(scene: Scene, chance: random.Random) -> Heal:
    """A share of all requests of the instances gets 429."""
    users = [replica.name for replica in scene.replicas]
    share, seconds = chance.uniform(0.1, 0.9), chance.choice(RETRY_AFTER_SECONDS)
    scene.api.faults.throttle(share, retry_after=seconds, users=users)
    return partial(scene.api.faults.throttle, 0.0)


def lose_answers(scene: Scene, chance: random.Random) -> Heal:
    """Writes are carried out and answered with 500."""
    scene.api.faults.lose_answers(chance.uniform(0.05, 0.5))
    return partial(scene.api.faults.lose_answers, 0.0)


def revoke(scene: Scene, chance: random.Random) -> Heal:
    """The credentials of an instance aren't known for a while."""
    name = _pick(scene, chance).name
    scene.api.faults.revoke(name)
    return partial(scene.api.faults.accept, name)


def deny(scene: Scene, chance: random.Random) -> Heal:
    """A kind of write of an instance is forbidden for a while, as by an admission webhook."""
    right = (_pick(scene, chance).name, *chance.choice(DENIED))
    scene.api.faults.deny(*right)
    return partial(scene.api.faults.permit, *right)


def garble(scene: Scene, chance: random.Random) -> Heal:
    """A line of a watch can't be read."""
    scene.api.faults.garble(_pick(scene, chance).name)
    return _nothing


def rotate(scene: Scene, chance: random.Random) -> Heal:
    """An instance has new credentials on its disk, and soon the old ones are refused."""
    return partial(scene.api.faults.outdate, *_pick(scene, chance).renew_token())


def set_clock(scene: Scene, chance: random.Random) -> Heal:
    """A wall clock jumps, and jumps back."""
    clock = _pick(scene, chance).clock
    clock.skew_seconds = chance.choice((-3600.0, -5.0, 5.0, 3600.0))

    def heal() -> None:
        clock.skew_seconds = 0.0

    return heal


KINDS = {
    "kill": Kind(every_seconds=600, lasts_seconds=(0, 0), strike=kill),
    "kill without lease": Kind(
        every_seconds=1800, lasts_seconds=(20, 20), strike=kill_without_lease
    ),
    "terminate": Kind(every_seconds=1200, lasts_seconds=(0, 0), strike=terminate),
    "freeze": Kind(every_seconds=600, lasts_seconds=(0.5, 60), strike=freeze),
    "sleep": Kind(every_seconds=1800, lasts_seconds=(0.5, 60), strike=sleep),
    "kill at a write": Kind(every_seconds=900, lasts_seconds=(30, 120), strike=kill_at_a_write),
    "freeze at a write": Kind(every_seconds=900, lasts_seconds=(30, 120), strike=freeze_at_a_write),
    "freeze at a renewal": Kind(
        every_seconds=900, lasts_seconds=(10, 40), strike=freeze_at_a_renewal
    ),
    "partition": Kind(every_seconds=600, lasts_seconds=(0.5, 90), strike=partition),
    "slow": Kind(every_seconds=900, lasts_seconds=(1, 60), strike=slow),
    "reset": Kind(every_seconds=300, lasts_seconds=(0, 0), strike=reset),
    "silence": Kind(every_seconds=900, lasts_seconds=(0, 0), strike=silence),
    "stop server": Kind(every_seconds=1800, lasts_seconds=(1, 40), strike=stop_server),
    "compact": Kind(every_seconds=900, lasts_seconds=(1, 20), strike=compact),
    "throttle": Kind(every_seconds=1200, lasts_seconds=(1, 60), strike=throttle),
    "lose answers": Kind(every_seconds=1200, lasts_seconds=(1, 60), strike=lose_answers),
    "revoke": Kind(every_seconds=1800, lasts_seconds=(1, 40), strike=revoke),
    "deny": Kind(every_seconds=900, lasts_seconds=(1, 60), strike=deny),
    "garble": Kind(every_seconds=900, lasts_seconds=(0, 0), strike=garble),
    "rotate": Kind(every_seconds=1800, lasts_seconds=(0.1, 30), strike=rotate),
    "set clock": Kind(every_seconds=1800, lasts_seconds=(1, 300), strike=set_clock),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault that struck."""

    name: str
    since: float
    until: float
    """Seconds since 1970."""


class Faults:
    """Strikes until told to stop."""

    def __init__(
        self, scene: Scene, seed: str, names: Sequence[str], *, often: float = 1.0
    ) -> None:
        """Each fault strikes so many times as often as its kind says."""
        self.strikes: list[Strike] = []
        self._scene = scene
        self._often = often
        self._stopped = False
        self._healing: dict[int, Heal] = {}
        for name in names:
            self._arm(name, KINDS[name], random.Random(f"{seed}/faults/{name}"))

    def stop(self) -> None:
        """Heal everything, and strike no more."""
        self._stopped = True
        healing, self._healing = self._healing, {}
        for heal in healing.values():
            heal()

    def _arm(self, name: str, kind: Kind, chance: random.Random) -> None:
        pause = chance.expovariate(self._often / kind.every_seconds)
        self._scene.kernel.after(pause, lambda: self._strike(name, kind, chance))

    def _strike(self, name: str, kind: Kind, chance: random.Random) -> None:
        if self._stopped:
            return
        kernel = self._scene.kernel
        seconds = chance.uniform(*kind.lasts_seconds)
        number = next(kernel.numbers)
        self._healing[number] = kind.strike(self._scene, chance)
        now = kernel.now()
        self.strikes.append(Strike(name=name, since=now, until=now + seconds))

        def over() -> None:
            self._healing.pop(number, _nothing)()
            self._arm(name, kind, chance)

        kernel.after(seconds, over)
