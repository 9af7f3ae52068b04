"""Clusters with few pod slots, and gangs of which some members ask for nothing."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests import running
from tests.properties.lives import Life
from tests.running import Document
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

GROUP = "scheduling.k8s.io/group-name"
ACTIONS = (
    "allocate, backfill, preempt, reclaim",
    "backfill, allocate, reclaim, preempt",
    "reclaim, allocate, preempt, backfill",
    "allocate, preempt, backfill, reclaim",
)
TIERS = (
    "priority gang conformance | drf predicates proportion nodeorder binpack",
    "priority gang conformance pdb | drf predicates capacity nodeorder",
    "priority gang sla:sla-waiting-time=1m | drf predicates proportion nodeorder",
)
LEAVING = 0.15
"""How often a job leaves between two cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large clusters may grow."""

    nodes: int
    jobs: int
    pods: int


SMALL = Size(nodes=4, jobs=8, pods=6)
LARGE = Size(nodes=30, jobs=60, pods=12)


class World:
    """A cluster that obeys; jobs come in two waves, leave, and evicted pods come back."""

    def __init__(self, seed: int, size: Size = SMALL, *, volcano: bool = False) -> None:
        self._chance = random.Random(seed)
        way = {"compatibility": "volcano"} if volcano else {}
        tiers = running.tiers(self._chance.choice(TIERS))
        self.tree = {"actions": self._chance.choice(ACTIONS), "tiers": tiers, **way}
        documents = pictures.documents(picture(self._chance, size))
        self._life = Life([document for document in documents if not _late(document)])
        self._later = [document for document in documents if _late(document)]

    def cycle(self, number: int) -> tuple[CycleResult, list[str]]:
        """One more cycle, and the rules that it breaks."""
        if number == 2:
            self._life.add(self._later)
        had = standing(self._life.documents)
        result = self._life.cycle(self.tree)
        found = list(broken(self._life.documents, result, had))
        names = sorted(
            {_group(document) for document in self._life.documents if document["kind"] == "Pod"}
        )
        leaving = {name for name in names if self._chance.random() < LEAVING}
        self._life.documents = [
            document
            for document in self._life.documents
            if document["kind"] not in ("Pod", "PodGroup") or _group(document) not in leaving
        ]
        return result, found


def picture(chance: random.Random, size: Size) -> str:
    """The cluster; jobs with an even number come first."""
    lines = [
        f"node n{number:02} cpu={chance.choice((2, 4, 8))} pods={chance.choice((1, 2, 3, 5))}"
        for number in range(chance.randint(1, size.nodes))
    ]
    queues = [f"q{number}" for number in range(chance.randint(1, 3))]
    lines += [f"queue {name} weight={chance.choice((1, 2))}" for name in queues]
    jobs = range(chance.randint(2, size.jobs))
    lines += [_job(chance, f"{chance.choice(queues)}/j{n:02}", size.pods) for n in jobs]
    return "\n".join(lines)


def _job(chance: random.Random, name: str, most: int) -> str:
    count, idle = chance.randint(1, most), chance.choice((0.2, 0.5, 1.0))
    roles = [chance.choice("ab") for _ in range(count)]
    words = [
        f"{role}:-@{0 if chance.random() < idle else chance.choice((1, 1, 2, 3))}" for role in roles
    ]
    settings = [f"min={chance.choice((1, count, chance.randint(1, count)))}"]
    present = Counter(roles)
    kind = chance.random()
    if kind < 0.3:
        needs = {role: chance.randint(1, present[role]) for role in sorted(present)}
        least = max(sum(needs.values()), chance.randint(1, count))
        text = ",".join(f"{role}:{needs[role]}" for role in needs)
        settings = [f"min={least} roles={text}"]
    elif kind < 0.6:
        settings += [f"subgroups={chance.randint(1, len(present))}x{min(present.values())}"]
    settings += [f"priority={chance.choice((5, 10))}"] * (chance.random() < 0.5)
    settings += ["preemptable=false"] * (chance.random() < 0.1)
    return f"job {name} {' '.join(settings)} {' '.join(words)}"


def standing(documents: Sequence[Document]) -> Counter[tuple[str, str]]:
    """Pods that have a node and aren't leaving it, by group and role."""
    return Counter(
        (_group(document), document["metadata"]["labels"][pictures.ROLE])
        for document in documents
        if document["kind"] == "Pod"
        and "nodeName" in document["spec"]
        and "deletionTimestamp" not in document["metadata"]
    )


def broken(
    documents: Sequence[Document],
    result: CycleResult,
    had: Mapping[tuple[str, str], int],
) -> list[str]:
    """Groups of which something was bound and that have less than a minimum now, in words.

    A sub-group of which something was bound is whole, but for what goes in the same cycle.
    """
    has = standing(documents)
    given = Counter((bind.task.job.rpartition("/")[2], bind.task.role) for bind in result.binds)
    specs = {
        _group(document): document["spec"]
        for document in documents
        if document["kind"] == "PodGroup"
    }
    found = []
    for name in sorted({group for group, _ in given}):
        spec = specs[name]
        of_role = {role: has[name, role] for role in "ab"}
        if sum(of_role.values()) < spec["minMember"]:
            found.append(f"{name} has {of_role} of {spec['minMember']}")
        for role, least in spec.get("minTaskMember", {}).items():
            if of_role[role] < least:
                found.append(f"{name} has {of_role[role]} of role {role}, of {least}")
        for policy in spec.get("subGroupPolicy", ()):
            size = policy["subGroupSize"]
            if sum(count >= size for count in of_role.values()) < policy["minSubGroups"]:
                found.append(f"{name} has {of_role} in sub-groups of {size}")
            found += [
                f"{name} has a part of sub-group {role}, of {size}"
                for role in "ab"
                if given[name, role] and had.get((name, role), 0) + given[name, role] < size
            ]
    return found


def _late(document: Document) -> bool:
    return document["kind"] in ("Pod", "PodGroup") and int(_group(document)[1:]) % 2 == 1


def _group(document: Document) -> str:
    if document["kind"] == "PodGroup":
        return str(document["metadata"]["name"])
    return str(document["metadata"]["annotations"][GROUP])
