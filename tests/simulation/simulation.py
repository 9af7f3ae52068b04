"""A run: instances, an API server, a cluster that lives, faults; and what the judges find in it."""

import gc
import hashlib
import json
import random
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation import actors, faults, judges
from tests.simulation.actors.world import CONTROLLERS_LEASE
from tests.simulation.api_server import server
from tests.simulation.api_server.http import HttpServer
from tests.simulation.api_server.server import ApiServer
from tests.simulation.faults import Faults, Scene
from tests.simulation.instances import Instance, Log
from tests.simulation.judges import devices, rest_rules, volumes
from tests.simulation.kernel import core, patching
from tests.simulation.kernel.core import Kernel
from tests.simulation.kernel.network import Network
from tests.simulation.knobs import Knobs
from vscheduler.daemon import process, settings

SCHEDULER = "volcano"
"""All pods of a scheduler of this name have PodGroups."""
ALONE = "vscheduler"
"""The scheduler whose pods start alone."""
cpu_seconds = time.process_time
REPLICAS = {
    "one": settings.SCHEDULER,
    "two": settings.SCHEDULER,
    "three": settings.CONTROLLERS,
    "four": settings.CONTROLLERS,
}
"""Two of each half, as in `manifests/`: each with an account, a link and processes of its own."""
NETWORK = ("network-topology-aware",)
UNREADABLE = "JSONDecodeError"
LOOK_SECONDS = 60.0
"""How often young garbage is collected, and requests are counted."""
WHOLE_SECONDS = 900.0
"""How often old garbage is collected, unless a process ends. It costs as much as the history is
long."""
YOUNG = 1
"""The oldest of Python's generations that counts as young."""
SLICE_SECONDS = 5.0
"""How often the judges look."""
RENEWAL_SECONDS = 8.0
"""For how long a holder may leave its Lease alone: four times the usual pause."""
SETTLED_SECONDS = 120.0
"""How long after an eviction room may be kept for the pods that come back."""
PEACE_SECONDS = 45.0
"""How long nothing may have been broken when a process ends, for its end to be smooth: longer than
a call without an answer lasts, and a shutdown."""
CONNECT_BYTES = 500
"""What each attempt to connect counts as."""
BYTES_A_JOB = 1000
"""How many bytes a second may be sent to the API server, over a minute, for each job in motion:
five times the usual number. Gangs with claims come beside the jobs, and a pod of theirs costs as
much as any other: 8.7 kB in the minute in which a world of ten jobs begins, with or without four
times as many such gangs."""
OWNERS_PART = 0.2
"""How much more is sent where pods start alone: schedulers watch the owners of pods, too."""
SETTLE_MAX = 20
"""How often the end of a run is put off because something has just happened."""
RECOVERY_SECONDS = 60.0
"""How long after a fault its effects are excused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is made of."""

    seed: str
    hours: float = 1.0
    calm_seconds: float = 900.0
    """How long nothing breaks at the end."""
    turned: Knobs = field(default_factory=Knobs)
    without: Sequence[str] = ()
    """Names of faults and actors that are left out."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    findings: list[judges.Finding] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    """Processes that ended without having been killed."""
    hours: float = 0.0
    cpu_seconds: float = 0.0
    steps: int = 0
    writes: int = 0
    binds: int = 0
    with_claims: int = 0
    """How many of the pods that were bound have claims."""
    with_devices: int = 0
    """How many have claims of devices."""
    strikes: int = 0
    pods: int = 0
    digest: str = ""
    """Of the history: equal for equal seeds."""

    def broken(self) -> Iterator[str]:
        """Iterate over what was found, and when, in seconds of virtual time."""
        for found in self.findings:
            yield f"{found.rule}: {found.at - core.EPOCH:.3f} {found.message}"
        for crash in self.crashes:
            yield f"crash: {crash}"

    @property
    def faultless(self) -> bool:
        """Whether nothing was found."""
        return not (self.findings or self.crashes)


def bytes_max(turned: Knobs) -> float:
    """How many bytes a second may be sent to the API server in such a world."""
    jobs = max(turned.jobs, 10) * (1 + turned.storage.part + turned.devices.part)
    owners = OWNERS_PART if turned.alone else 0.0
    return BYTES_A_JOB * jobs * (1 + owners) / min(turned.pauses, 1.0)


class Simulation:
    """One run in this program; a program can do one only."""

    def __init__(self, options: Options, folder: Path) -> None:
        seed, turned = options.seed, options.turned
        name, mode = (ALONE, "gangs") if turned.alone else (SCHEDULER, "all")
        self.options = options
        self.kernel = Kernel(seed)
        self.api = ApiServer(self.kernel, random.Random(f"{seed}/api"))
        self.world = actors.populate(
            self.api,
            self.kernel,
            random.Random(f"{seed}/world"),
            actors.Scale(
                nodes=turned.nodes,
                jobs=turned.jobs,
                job_seconds=turned.job_seconds,
                quiet=turned.pauses,
                lease_seconds=turned.lease_seconds,
                denied=turned.denied,
                storage=turned.storage,
                devices=turned.devices,
                network=turned.network,
                schedulers=(name,),
                without=options.without,
            ),
        )
        net_chance = random.Random(f"{seed}/net")
        self.machine = patching.install(self.kernel, seed)
        process.WORKERS = turned.workers
        self.net = Network(self.kernel, HttpServer(self.api).connection, net_chance)
        self.log = Log(self.machine)
        self.replicas = [
            Instance(
                self.machine,
                replica,
                self.net,
                folder,
                seed=seed,
                schedulers=(name,),
                user=replica,
                flags={"only": half, "podgroups": mode, "claim_unowned_podgroups": True},
                plugins=NETWORK if turned.network else (),
            )
            for replica, half in REPLICAS.items()
        ]
        leases = (name, f"{name}-podgroups", CONTROLLERS_LEASE)
        scene = Scene(
            kernel=self.kernel, net=self.net, api=self.api, replicas=self.replicas, leases=leases
        )
        self.faults = Faults(
            scene,
            seed,
            [name for name in turned.faults if name not in options.without],
            often=turned.often,
        )
        self._excused: list[tuple[float, float]] = []
        self.settings = judges.Settings(
            schedulers=(name,),
            alone=turned.alone,
            late_write_seconds=60.0,
            renewal_seconds=RENEWAL_SECONDS,
            faults=self._excused,
        )
        self._court = judges.court(self.settings)
        self._patience = judges.Patience(self.settings)
        self._seen_ends: dict[str, int] = {}
        self._evicted_at = float("-inf")
        self._seen = 0
        self._seen_bytes = 0
        self._seen_strikes = 0
        self._collected = 0.0
        self._collected_ends = 0

    def run(self) -> Outcome:
        """Run with faults, then without; stop at the first finding."""
        outcome = Outcome()
        began = cpu_seconds()
        self.begin()
        end = self.options.hours * 3600
        self.go(outcome, end)
        if outcome.faultless:
            self.faults.stop()
            self.world.calm()
            calm_since = self.kernel.now()
            self.go(outcome, end + self.options.calm_seconds)
            self._settle(outcome)
            if outcome.faultless:
                self._judge_end(outcome, calm_since)
        self._sum_up(outcome, cpu_seconds() - began)
        return outcome

    def begin(self) -> None:
        """Start the instances."""
        # Collected at set moments: what the collector closes, such as a coroutine of a process that
        # has ended, is a part of the history, and must not depend on how much the judges allocate.
        gc.disable()
        for replica in self.replicas:
            replica.start()

    def go(self, outcome: Outcome, until: float) -> None:
        """Go on until a moment, and judge; stop at the first finding."""
        while self.kernel.moment < until and outcome.faultless:
            end = self.kernel.moment + min(LOOK_SECONDS, until - self.kernel.moment)
            while self.kernel.moment < end and outcome.faultless:
                self.kernel.run(min(SLICE_SECONDS, end - self.kernel.moment))
                self._judge(outcome)
            self._collect()
            self._look(outcome)

    def _collect(self) -> None:
        """Collect young garbage; old garbage, too, if a process has left some, or from time to
        time.
        """
        ended = sum(len(replica.ends) for replica in self.replicas)
        due = self.kernel.moment >= self._collected + WHOLE_SECONDS
        if due or ended > self._collected_ends:
            self._collected, self._collected_ends = self.kernel.moment, ended
            gc.collect()
        else:
            gc.collect(YOUNG)

    def _settle(self, outcome: Outcome) -> None:
        """Go on until the daemon knows the last news; jobs end even when nothing breaks."""
        seconds = self.settings.news_seconds
        for _ in range(SETTLE_MAX):
            if self.kernel.now() - rest_rules.last_news(self.api.history) > seconds:
                return
            self.go(outcome, self.kernel.moment + seconds)

    def _judge(self, outcome: Outcome) -> None:
        for strike in self.faults.strikes[self._seen_strikes :]:
            self._excused.append((strike.since, strike.until + RECOVERY_SECONDS))
        self._seen_strikes = len(self.faults.strikes)
        news = self.api.history[self._seen :]
        self._seen += len(news)
        self._excused += [
            (each.at, each.at + RECOVERY_SECONDS) for each in news if judges.taken_away(each)
        ]
        outcome.findings += self._court.see(news)
        at = self.kernel.now()
        evicted = (each.at for each in reversed(news) if each.verb == "evict" and each.origin)
        self._evicted_at = next(evicted, self._evicted_at)
        settled = at - self._evicted_at > SETTLED_SECONDS
        wrong = judges.soon(
            self._court.cluster, self.settings, at=at, settled=settled, admitted=True
        )
        outcome.findings += self._patience.look(wrong, at)
        outcome.findings += self._endings()

    def _endings(self) -> Iterator[judges.Finding]:
        """Processes that were told to end, while nothing else was broken."""
        for replica in self.replicas:
            known = self._seen_ends.get(replica.name, 0)
            for moment, name, status, _ in replica.ends[known:]:
                at = core.EPOCH + moment
                if status == 0 and not self._is_disturbed(at):
                    yield from self._court.left(at, name)
            self._seen_ends[replica.name] = len(replica.ends)

    def _is_disturbed(self, at: float) -> bool:
        """Whether something was broken shortly before a moment, besides rollouts."""
        return any(
            strike.name != "terminate" and strike.since <= at and strike.until >= at - PEACE_SECONDS
            for strike in self.faults.strikes
        )

    def _look(self, outcome: Outcome) -> None:
        outcome.findings += self._polling()
        outcome.findings += self._failures()
        outcome.crashes += self._crashes()

    def _polling(self) -> Iterator[judges.Finding]:
        """Requests without a pause, reads included, which no history shows."""
        total = self.net.bytes_sent + CONNECT_BYTES * self.net.connects
        sent, self._seen_bytes = total - self._seen_bytes, total
        each_second = sent / LOOK_SECONDS
        if each_second > bytes_max(self.options.turned):
            message = f"{each_second:.0f} bytes a second were sent to the API server"
            yield judges.Finding(at=self.kernel.now(), rule="no busy polling", message=message)

    def _failures(self) -> Iterator[judges.Finding]:
        """Exceptions that nobody expected. Kopf ends when a line of a watch can't be read."""
        while self.log.failures:
            line = self.log.failures.pop(0)
            if line.fields.get("area") == "kopf" and UNREADABLE in str(line.fields):
                continue
            message = f"{line.process} {line.event} {line.fields}"
            yield judges.Finding(at=core.EPOCH + line.at, rule="no failure", message=message)

    def _crashes(self) -> list[str]:
        return [
            f"{name} ended with status {status} at {at:.3f}: {_told(errors)}"
            for replica in self.replicas
            for at, name, status, errors in replica.ends
            if errors or status not in (0, faults.KILLED)
        ]

    def _judge_end(self, outcome: Outcome, calm_since: float) -> None:
        now = self.kernel.now()
        outcome.findings += self._court.finish(now)
        views = [view for replica in self.replicas if (view := replica.view()) is not None]
        outcome.findings += judges.at_rest(
            self.api.history, self.settings, at=now, calm_since=calm_since, views=views
        )

    def _sum_up(self, outcome: Outcome, seconds: float) -> None:
        history = self.api.history
        outcome.hours = self.kernel.moment / 3600
        outcome.cpu_seconds = seconds
        outcome.steps = self.kernel.steps
        outcome.writes = len(history)
        bound = [each.after for each in history if each.verb == "bind" and each.code < 300]
        outcome.binds = len(bound)
        outcome.with_claims = sum(bool(each and volumes.claims_of(each)) for each in bound)
        outcome.with_devices = sum(bool(each and devices.claims_of(each)) for each in bound)
        outcome.pods = len({each.uid for each in history if each.resource == "pods" and each.uid})
        outcome.strikes = len(self.faults.strikes)
        outcome.digest = _digest(history)


def _told(errors: Sequence[BaseException]) -> str:
    return "".join(line for error in errors for line in traceback.format_exception(error))


def _digest(history: Sequence[server.Change]) -> str:
    whole = hashlib.sha256()
    for each in history:
        parts = (each.at, each.origin, each.user, each.verb, each.resource, each.subresource)
        names = (each.namespace, each.name, each.uid, each.code, each.revision)
        whole.update(repr((*parts, *names)).encode())
        whole.update(json.dumps(each.after).encode())
    return whole.hexdigest()[:16]
