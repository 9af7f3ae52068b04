"""Small full clusters where jobs wait that need evictions, and what becomes of each eviction.

Pods ask for other pods near them, apart from them or spread, on both sides. Evicted pods take up to
three cycles to go, and come back as pods that wait. The judge knows only the manifests and what was
bound and evicted: whoever pods are evicted for starts, unless it lost pods itself.
"""

import copy
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests import running
from tests.running import Tree
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import TaskId
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

GOING_MAX = 3
"""Cycles that a pod may take to go."""

STARTING_CYCLES = GOING_MAX + 3
"""Victims go, the job binds, or binds one later where another job's victims are on its nodes."""

CYCLES = 40
QUIET_CYCLES = 3

RESTARTS = 0.2
"""In how many cycles a new process decides, if any does."""

TREES: Mapping[str, Tree] = {
    actions: {"actions": f"allocate, {actions}", "tiers": running.tiers(tiers)}
    for actions, tiers in (
        ("reclaim", "priority gang | predicates proportion nodeorder binpack"),
        ("preempt", "priority gang | predicates nodeorder binpack"),
        ("preempt, reclaim", "priority gang | drf predicates proportion nodeorder"),
    )
}


@dataclass(slots=True)
class Plan:
    """The evictions of one cycle for one job."""

    cycle: int
    job: str
    victims: list[str]


@dataclass(slots=True)
class History:
    """What happened, cycle by cycle."""

    picture: str
    plans: list[Plan] = field(default_factory=list)
    running: list[Counter[str]] = field(default_factory=list)
    """Pods with a node that stay, by job, before each cycle."""
    lost: list[set[str]] = field(default_factory=list)
    """Jobs that lose pods in each cycle."""
    minimum: dict[str, int] = field(default_factory=dict)
    rests: bool = False
    """Whether decisions came to an end."""

    @property
    def evictions(self) -> int:
        """How many pods were evicted."""
        return sum(len(plan.victims) for plan in self.plans)

    def in_vain(self) -> list[str]:
        """Return a line for each plan whose job didn't start in time."""
        found = []
        for plan in self.plans:
            end = plan.cycle + 1 + STARTING_CYCLES
            if any(plan.job in losers for losers in self.lost[plan.cycle : end]):
                continue
            had = self.running[plan.cycle][plan.job]
            wanted = max(self.minimum[plan.job], had + 1)
            if not any(has[plan.job] >= wanted for has in self.running[plan.cycle + 1 : end]):
                found.append(f"cycle {plan.cycle}: {', '.join(plan.victims)} for {plan.job}")
        return found


class World:
    """Manifests that obey decisions."""

    def __init__(self, picture: str, chance: random.Random, *, restarts: bool) -> None:
        self.documents = [copy.deepcopy(document) for document in pictures.documents(picture)]
        self.carried = FRESH
        self.history = History(picture)
        self._chance, self._restarts = chance, restarts
        self._going: dict[str, int] = {}
        """By UID, cycles until a pod is gone."""
        self._born = 0
        for document in self.documents:
            if document["kind"] == "PodGroup":
                name = document["metadata"]["name"]
                self.history.minimum[name] = document["spec"]["minMember"]

    def live(self, tree: Tree) -> History:
        """Live until nothing happens, or for so many cycles."""
        quiet = 0
        while quiet < QUIET_CYCLES and len(self.history.running) < CYCLES:
            if self._restarts and self._chance.random() < RESTARTS:
                self.carried = FRESH
            quiet = 0 if self._cycle(tree) or self._going else quiet + 1
        self.history.rests = quiet == QUIET_CYCLES
        return self.history

    def _pods(self) -> list[Document]:
        return [document for document in self.documents if document["kind"] == "Pod"]

    def _cycle(self, tree: Tree) -> bool:
        """Return whether anything was decided."""
        history = self.history
        number = len(history.running)
        standing = Counter(
            job_of(pod)
            for pod in self._pods()
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        )
        history.running.append(standing)
        result = running.run(self.documents, tree, carried=self.carried)
        self.carried = result.carried
        by_job: defaultdict[str, list[str]] = defaultdict(list)
        for evict in result.evicts:
            assert evict.beneficiary is not None
            by_job[evict.beneficiary.partition("/")[2]].append(evict.task.name)
        history.plans += [Plan(number, job, victims) for job, victims in by_job.items()]
        gone = {evict.task.uid for evict in result.evicts}
        losers = {evict.task.job.partition("/")[2] for evict in result.evicts}
        history.lost.append(losers)
        self._let_go()
        self.documents = running.obey(self.documents, result)
        self._obey(result, gone)
        return bool(result.binds or result.evicts)

    def _obey(self, result: CycleResult, gone: set[TaskId]) -> None:
        for pod in self._pods():
            uid = pod["metadata"]["uid"]
            if uid in gone:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
                self._going[uid] = self._chance.randint(1, GOING_MAX)
            named = result.carried.nominations.get(uid)
            if named and not pod["spec"].get("nodeName"):
                pod["status"]["nominatedNodeName"] = named
            else:
                pod["status"].pop("nominatedNodeName", None)

    def _let_go(self) -> None:
        """Pods that are being deleted go in time, and their owners make them anew."""
        for pod in self._pods():
            metadata = pod["metadata"]
            left = self._going.get(metadata["uid"])
            if left is None:
                continue
            self._going[metadata["uid"]] = left - 1
            if left > 1:
                continue
            del self._going[metadata["uid"]]
            self._born += 1
            metadata.pop("deletionTimestamp")
            metadata["name"] = f"{metadata['name'].partition('-again')[0]}-again{self._born}"
            metadata["uid"] = metadata["name"]
            pod["spec"].pop("nodeName", None)
            pod["status"] = {"phase": "Pending"}


def job_of(pod: Document) -> str:
    """The name of the pod's group."""
    name: str = pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    return name


TERMS: Sequence[str] = (
    *("near=app=a@host", "near=app=a@host", "near=app=a@zone", "near=app=b@host"),
    *("apart=app=a@host", "spread=app=a@zone:1", "spread=app=a@host:1", "spread=app=b@zone:1"),
)


def drawn(chance: random.Random, owners: Sequence[str]) -> str:
    """A picture: nodes that are full of unimportant jobs of these queues."""
    lines, left = ["queue rich weight=1", "queue poor weight=1000000"], list[int]()
    for row in range(chance.randint(2, 4)):
        cores = chance.choice((2, 2, 3, 4))
        lines.append(f"node n{row} cpu={cores} label=zone={chance.choice('abb')}")
        left.append(cores)
    nodes = len(left)
    while any(left):
        size = chance.choice((1, 1, 1, 1, 1, 2))
        count = chance.choice((1, 1, 1, 1, 2))
        rows = [row for row in range(nodes) for _ in range(left[row] // size)]
        places = chance.sample(rows, min(count, len(rows)))
        for row in places:
            left[row] -= size
        if places:
            owner = chance.choice(owners)
            lines.append(
                f"job {owner}/f{len(lines)} min={chance.randint(1, len(places))} cpu={size}"
                f" priority=1 {_marks(chance)} {' '.join(f'n{row}' for row in places)}"
            )
    for number in range(chance.randint(4, 7)):
        count = chance.choice((1, 1, 1, 1, 2, 3))
        term = chance.choice(TERMS) if chance.random() < 0.5 else ""
        where = f"select=kubernetes.io/hostname=n{chance.randrange(nodes)}"
        lines.append(
            f"job poor/w{number} min={chance.randint(1, count)} cpu={chance.choice((1, 1, 1, 2))}"
            f" priority={chance.choice((5, 9))} {_marks(chance)}"
            f" {term} {where if chance.random() < 0.6 else ''} -*{count}"
        )
    return "\n".join(lines)


def _marks(chance: random.Random) -> str:
    label = chance.choice(("", "label=app=a", "label=app=a", "label=app=b"))
    return f"{label} age={chance.randint(1, 60)}"


def lived(seed: int, actions: str, *, restarts: bool = False) -> History:
    """The world of a seed."""
    chance = random.Random(f"plans {seed}")
    owners = ("poor",) if actions == "preempt" else ("rich", "rich", "rich", "poor")
    world = World(drawn(chance, owners), chance, restarts=restarts)
    return world.live(TREES[actions])
