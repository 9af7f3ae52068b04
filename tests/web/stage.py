"""The page's real server, a cluster from manifests, and an API server that knows a few tokens."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from tests import running
from tests.web import clusters
from tests.web.clusters import Document
from vscheduler.containment import Failures
from vscheduler.core import cycle
from vscheduler.mirror.decode import events
from vscheduler.mirror.paths import Collection
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import Bind, DomainRoom, Evict
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import Snapshot
from vscheduler.simulator import network, waiting_line
from vscheduler.simulator.waiting_line import Place
from vscheduler.web import cluster_view
from vscheduler.web.access import ReviewError, User
from vscheduler.web.cluster_view import Instance, Look
from vscheduler.web.documents import Access
from vscheduler.web.history import Cycle, History
from vscheduler.web.remedies import FinderError, Found
from vscheduler.web.server import Server, Sources

ADMIN, TENANT, STRANGER = "admin-token", "tenant-token", "stranger-token"
TREE = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": running.tiers("priority gang conformance pdb | overcommit drf predicates proportion"),
}


@dataclass(slots=True)
class Rights:
    """What a token may list: everywhere, and in namespaces."""

    user: str
    everywhere: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)


def rights() -> dict[str, Rights]:
    """Those of an administrator, a tenant of robotics, and somebody without any."""
    return {
        ADMIN: Rights("ada", {"podgroups", "pods", "queues", "nodes"}),
        TENANT: Rights("system:serviceaccount:robotics:lab", {"queues"}, {"robotics"}),
        STRANGER: Rights("eve"),
    }


@dataclass(slots=True)
class Reviewer:
    """Answers for the API server, and counts the questions."""

    known: dict[str, Rights] = field(default_factory=rights)
    down: bool = False
    users: int = 0
    reviews: int = 0

    async def user(self, token: str) -> User | None:
        """Who the token stands for."""
        self.users += 1
        await asyncio.sleep(0)
        if self.down:
            raise ReviewError("the API server can't be asked about tokens now")
        found = self.known.get(token)
        return None if found is None else User(name=found.user)

    async def may_list(self, user: User, kind: Collection, namespace: str = "") -> bool:
        """Whether that user may."""
        self.reviews += 1
        await asyncio.sleep(0)
        if self.down:
            raise ReviewError("the API server can't be asked about tokens now")
        (found,) = [each for each in self.known.values() if each.user == user.name]
        inside = namespace in found.namespaces and kind.plural in {"podgroups", "pods"}
        return kind.plural in found.everywhere or inside


POLICY = running.policy_of(TREE)


@dataclass(slots=True)
class Finder:
    """Answers for the process that finds out what would start a job, and counts the questions."""

    asked: list[str] = field(default_factory=list)
    changes: list[dict[str, object]] = field(default_factory=list)
    problem: str = ""
    gate: asyncio.Event | None = None
    """What answers wait for."""
    began: asyncio.Event = field(default_factory=asyncio.Event)

    async def what_if(self, queue: str, flags: Sequence[str]) -> Found:
        """What another setting of a queue would do."""
        self.asked.append(" ".join((queue, *flags)))
        await asyncio.sleep(0)
        if self.problem:
            raise FinderError(self.problem)
        return {
            "changes": ["weight 1 -> 2"],
            "deserved": [],
            "evicted": [{"job": "vision/render", "for": "speech/tune", "pods": 8}],
            "spared": [],
            "starts": ["speech/tune"],
            "stops": ["vision/render"],
            "settled": True,
            "lines": ["8 pods are evicted:", "  8 pods of vision/render, for speech/tune"],
        }

    async def find(self, namespace: str, name: str) -> Found:
        """What would start the job."""
        self.asked.append(f"{namespace}/{name}")
        self.began.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.problem:
            raise FinderError(self.problem)
        given = {"startsInCycle": 1, "evictions": 0, "evicted": [], "minimal": True}
        return {
            "podGroup": f"{namespace}/{name}",
            "startsInCycle": None,
            "reclaim": "Reclaim makes no room.",
            "likelyStart": {"message": "Likely to start in 2h to 5h."},
            "remedies": [given | change for change in self.changes],
            "cutShort": ["weights"],
        }


def cycle_of(found: Sequence[Document], now: float, budget: int = 200_000) -> tuple[Cycle, Mirror]:
    """A cycle on these manifests, and the Mirror that has read them."""
    mirror = Mirror(Options(scheduler_names=(clusters.SCHEDULER,)))
    for document in found:
        kind = events.kind_of(document)
        assert kind is not None
        mirror.apply(events.convert(kind, document))
    taken = mirror.snapshot(now)
    return Cycle(taken=taken, result=cycle.run_cycle(taken, POLICY, budget)), mirror


def places(taken: Snapshot) -> Mapping[JobId, Place]:
    """The places in line."""
    return waiting_line.places_in(taken, POLICY)


def domains(taken: Snapshot) -> Mapping[JobId, DomainRoom]:
    """Where jobs are in the network."""
    return network.domains(taken, POLICY)


def node_domains(snapshot: Snapshot) -> Sequence[str]:
    """Where nodes are in the network."""
    return network.node_domains(snapshot, POLICY)


class Stage:
    """A cluster, what a scheduler remembers of it, and the page."""

    def __init__(
        self, found: Sequence[Document], now: float | None = None, *, budget: int = 200_000
    ) -> None:
        self.now = time.time() if now is None else now
        self.reviewer = Reviewer()
        self.finder = Finder()
        self.past = History()
        self.history: Path | None = None
        """The file with the history of jobs, if there is one."""
        self.instance = Instance(leads=True, sentence="vscheduler: leader")
        self._budget = budget
        self.show(found)

    def show(self, found: Sequence[Document]) -> None:
        """Run a cycle on these manifests."""
        made, mirror = cycle_of(found, self.now, self._budget)
        self.owners = {key: each.owner for key, each in mirror.groups.items() if each.owner}
        self.without_pods = tuple(cluster_view.without_pods(mirror, (clusters.SCHEDULER,)))
        self.taken, self.result = made.taken, made.result
        self.past.cycle(made.taken, made.result)

    def remember_an_hour(self) -> None:
        """Note shares as if the last hour had been like this, but not always."""
        queues = self.result.queues
        self.past.forget()
        self.past._samples.clear()
        for at in range(360):
            part = 0.55 + 0.45 * min(1.0, at / 200)
            aged = tuple(
                each
                if each.entitlement is None
                else replace(
                    each,
                    allocated={
                        name: amount * (part if number % 2 else 1.5 - part / 2)
                        for name, amount in each.allocated.items()
                    },
                )
                for number, each in enumerate(queues)
            )
            then = replace(self.taken, now=self.now - 3600 + 10 * at)
            self.past.cycle(then, replace(self.result, queues=aged))
        self.past.cycle(self.taken, self.result)

    def decide(self) -> None:
        """Have a few decisions carried out, and one refused."""
        by_name = {job.id: job for job in self.taken.jobs}
        for job in sorted(by_name.values(), key=lambda job: job.created):
            for task in job.tasks:
                if task.node:
                    self.past.bound(Bind(task=task, node=task.node), job.created + 2)
        some = next(iter(by_name.values())).tasks[0]
        refused = Bind(task=some, node=self.taken.nodes.layout.names[-1])
        waiting = [job.id for job in by_name.values() if not any(task.node for task in job.tasks)]
        self.past.bind_refused(refused, "pods is forbidden: quota of this namespace", self.now - 90)
        victims = [
            Evict(
                task=task,
                node=task.node or "",
                action="reclaim",
                beneficiary=min(waiting),
            )
            for task in next(iter(by_name.values())).tasks[:2]
        ]
        self.past.evicted(victims, self.now - 30)

    async def look(self) -> Look:
        """What there is to see."""
        now = max(self.now, time.time())
        return Look(
            now=now,
            instance=self.instance,
            past=self.past.frozen(now),
            owners=self.owners,
            without_pods=self.without_pods,
        )

    def sources(self) -> Sources:
        """What the page is made from."""
        return Sources(
            look=self.look,
            version=lambda: self.past.version,
            places=places,
            domains=domains,
            node_domains=node_domains,
            reviewer=self.reviewer,
            failures=Failures(),
            finder=self.finder,
            history=self.history,
        )


@contextlib.contextmanager
def served(stage: Stage, port: int = 0) -> Iterator[str]:
    """The page's address, while it is served."""
    made = Server(stage.sources(), "127.0.0.1", port, None)
    made.start()
    try:
        yield f"http://127.0.0.1:{made.port}/"
    finally:
        asyncio.run(made.stop())


def everything(name: str = "ada") -> Access:
    """The access of an administrator."""
    return Access(name=name, groups_in=None, native_in=None, pods_in=None, queues=True, nodes=True)


def stand_by(stage: Stage) -> None:
    """Have the stage lose its Lease."""
    stage.past.forget()
    stage.instance = Instance(
        leads=False, sentence="This instance stands by. vscheduler: standby, held by b-7d4f"
    )
