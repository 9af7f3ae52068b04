"""Gangs in small networks, and by trying all nodes for all pods what may become of them.

`python -m tests.properties.network_worlds --clusters 2000` compares so many clusters. Nothing here
is taken from what it judges but the manifests and the decisions.
"""

import argparse
import dataclasses
import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tests import running
from tests.running import Document
from vscheduler.model.decisions import CycleResult, DomainRoom, ReasonCode
from vscheduler.model.snapshot import Snapshot
from vscheduler.model.topology import HyperNode, HyperNodes, Member
from vscheduler.testing import pictures

LEVELS = ("spine", "block", "rack")
HOURS = 3600
AGE = HOURS
"""How long ago jobs were created, in seconds."""


class Node(NamedTuple):
    """A node of a drawn cluster."""

    name: str
    cpu: int
    values: tuple[str, ...]
    """Of the labels, the widest first; empty for one that it lacks."""
    tainted: bool


class Domain(NamedTuple):
    """Nodes that are near to each other."""

    name: str
    tier: int
    tier_name: str
    nodes: frozenset[str]


@dataclass(frozen=True)
class Gang:
    """A gang, some of whose pods may run."""

    pods: tuple[int, ...]
    """What each pod asks for, in cores."""
    minimum: int
    nodes: tuple[str, ...] = ()
    """Where the first of the pods run."""
    hard: bool = True
    tier: int | None = None
    by_name: bool = False
    preferred: int | None = None
    waits: bool = False
    """Whether it still waits for the tier that it prefers."""
    sizes: tuple[int, ...] = ()
    """Sub-groups, in the order of pods."""
    whole: int = 0
    """How many sub-groups it needs."""
    sub_tier: int | None = None
    apart: bool = False
    tolerates: bool = False

    @property
    def parts(self) -> tuple[int, ...]:
        """The sub-group of each pod."""
        sized = [number for number, size in enumerate(self.sizes) for _ in range(size)]
        return tuple(sized) or (0,) * len(self.pods)

    @property
    def needed(self) -> int:
        """How many more pods have to start together."""
        return max(1, self.minimum - len(self.nodes))

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the size decides on nodes, and all pods are equal."""
        return len(set(self.pods)) == 1 and not (self.sizes or self.apart)


@dataclass(frozen=True)
class Network:
    """A cluster with one gang that waits."""

    nodes: tuple[Node, ...]
    domains: tuple[Domain, ...]
    """By tier and name; the last one is all nodes."""
    gang: Gang
    others: tuple[tuple[str, int, bool], ...] = ()
    """Other pods: node, cores, whether it is being deleted."""
    depth: int = 0
    """The number of levels by labels; 0 if there are HyperNodes."""

    @property
    def top(self) -> int:
        """The tier of all nodes."""
        return self.domains[-1].tier

    def free(self, *, later: bool) -> dict[str, int]:
        """Free cores by node."""
        found = {node.name: node.cpu for node in self.nodes}
        for name, cpu, leaves in self.others:
            found[name] -= 0 if later and leaves else cpu
        for name, cpu in zip(self.gang.nodes, self.gang.pods, strict=False):
            found[name] -= cpu
        return found

    def bound(self) -> int:
        """The highest tier that the gang may be spread over."""
        gang = self.gang
        found = self.top if not gang.hard else self.top - 1 if gang.tier is None else gang.tier
        if gang.waits and gang.preferred is not None:
            narrow = min(found, gang.preferred)
            if not gang.nodes or self.place(gang.nodes, narrow) is not None:
                return min(narrow, self.top)
        return min(found, self.top)

    def place(self, nodes: Iterable[str], tier: int) -> Domain | None:
        """The smallest domain of at most this tier around these nodes."""
        wanted = set(nodes)
        around = [each for each in self.domains if each.tier <= tier and wanted <= each.nodes]
        return min(around, key=lambda each: (len(each.nodes), each.tier), default=None)

    def allowed(self, tier: int) -> list[Domain]:
        """The domains that the gang may use, beside the pods that run."""
        wanted = set(self.gang.nodes)
        return [each for each in self.domains if each.tier <= tier and wanted <= each.nodes]

    # -- what fits ---------------------------------------------------------------------------------

    def usable(self) -> list[Node]:
        """Nodes without a taint that the gang doesn't tolerate."""
        return [node for node in self.nodes if self.gang.tolerates or not node.tainted]

    def copies(self, domain: Domain, *, later: bool) -> int:
        """How many pods like the gang's last one a domain has room for."""
        free, cpu = self.free(later=later), self.gang.pods[-1]
        taken = set(self.gang.nodes) if self.gang.apart else set()
        rooms = [
            max(0, free[node.name]) // cpu
            for node in self.usable()
            if node.name in domain.nodes and node.name not in taken
        ]
        return sum(min(1, room) if self.gang.apart else room for room in rooms)

    def starts_in(self, domain: Domain, *, later: bool) -> bool:
        """Whether as many pods as have to start together fit into a domain."""
        return _Trial(self, domain, later=later).succeeds()

    def most_in(self, domain: Domain, *, later: bool) -> int:
        """The most pods that fit into a domain, whether or not that helps."""
        return _Trial(self, domain, later=later, just_count=True).most()

    def near(self, tier: int) -> dict[str, str | None]:
        """By node, the name of the largest domain of at most this tier."""
        found: dict[str, str | None] = {node.name: None for node in self.nodes}
        for each in sorted(self.domains, key=lambda each: (each.tier, len(each.nodes))):
            if each.tier <= tier:
                found |= dict.fromkeys(each.nodes, f"{each.tier}/{each.name}")
        return found

    # -- as manifests ------------------------------------------------------------------------------

    def picture(self) -> str:
        """The cluster as a picture; sub-groups get their topology in `documents`."""
        lines = [drawn_node(node, self.depth) for node in self.nodes]
        lines.append("queue q")
        for number, (node, cpu, leaves) in enumerate(self.others):
            lines.append(f"job q/o{number} min=1 cpu={cpu} {'~' * leaves}{node}")
        lines.append(drawn_gang(self.gang, self.domains, "q/g"))
        return "\n".join(lines)

    def documents(self) -> list[Document]:
        """The cluster as manifests."""
        found = pictures.documents(self.picture())
        for document in found:
            if document["kind"] == "PodGroup" and document["metadata"]["name"] == "g":
                complete(document, self.gang)
        return found

    def hyper_nodes(self) -> HyperNodes:
        """The same as HyperNodes; none where labels say it."""
        return HyperNodes() if self.depth else HyperNodes(_as_hyper_nodes(self.domains))

    def snapshot(self, documents: Sequence[Document] | None = None) -> Snapshot:
        """What the scheduler sees."""
        found = running.snapshot_of(self.documents() if documents is None else documents)
        return msgspec.structs.replace(found, hyper_nodes=self.hyper_nodes())

    def tree(self, actions: str = "allocate", tiers: str = "gang | predicates") -> dict[str, Any]:
        """The configuration."""
        return configuration(self.depth, actions, tiers)


class _Trial:
    """All ways to place pods of a gang in one domain, by backtracking."""

    def __init__(
        self, network: Network, domain: Domain, *, later: bool, just_count: bool = False
    ) -> None:
        gang = network.gang
        self._gang, self._just_count = gang, just_count
        self._free = network.free(later=later)
        self._nodes = [node.name for node in network.usable() if node.name in domain.nodes]
        runs = len(gang.nodes)
        parts = gang.parts
        order = sorted(range(runs, len(gang.pods)), key=lambda at: (parts[at], -gang.pods[at]))
        self._pods = [(parts[at], gang.pods[at]) for at in order]
        self._taken = Counter(gang.nodes)
        self._have = Counter(parts[:runs]) if gang.sizes else Counter()
        self._near = None if gang.sub_tier is None else network.near(gang.sub_tier)
        self._where: dict[int, list[str]] = {part: [] for part in set(parts)}
        for part, node in zip(parts, gang.nodes, strict=False):
            self._where[part].append(node)
        self._new: Counter[int] = Counter()
        self._seen: set[object] = set()
        self._most = 0

    def succeeds(self) -> bool:
        """Whether enough pods fit."""
        return self._place(0, 0, "")

    def most(self) -> int:
        """The most pods that fit."""
        self._place(0, 0, "")
        return self._most

    def _place(self, at: int, placed: int, after: str) -> bool:
        self._most = max(self._most, placed)
        if at == len(self._pods):
            return not self._just_count and self._is_enough(placed)
        key = (
            at,
            after,
            placed,
            tuple(self._free[node] for node in self._nodes),
            tuple(self._new.items()),
            tuple(tuple(where[:1]) for where in self._where.values()),
            frozenset(self._taken) if self._gang.apart else None,
        )
        if key in self._seen:
            return False
        self._seen.add(key)
        part, cpu = self._pods[at]
        same = at + 1 < len(self._pods) and self._pods[at + 1] == (part, cpu)
        for node in self._nodes:
            if node < after or self._free[node] < cpu or not self._may(part, node):
                continue
            self._move(part, cpu, node, 1)
            found = self._place(at + 1, placed + 1, node if same else "")
            self._move(part, cpu, node, -1)
            if found:
                return True
        beyond = at + 1  # of equal pods the first ones are placed
        while beyond < len(self._pods) and self._pods[beyond] == (part, cpu):
            beyond += 1
        return self._place(beyond, placed, "")

    def _may(self, part: int, node: str) -> bool:
        if self._gang.apart and self._taken[node]:
            return False
        if self._near is None:
            return True
        here = {self._near[other] for other in (*self._where[part], node)}
        return len(here) == 1 and None not in here

    def _move(self, part: int, cpu: int, node: str, step: int) -> None:
        self._free[node] -= step * cpu
        self._taken[node] += step
        if not self._taken[node]:
            del self._taken[node]
        self._new[part] += step
        if step > 0:
            self._where[part].append(node)
        else:
            self._where[part].pop()

    def _is_enough(self, placed: int) -> bool:
        gang = self._gang
        if placed < 1 or placed + len(gang.nodes) < gang.minimum:
            return False
        if not gang.sizes:
            return True
        whole = 0
        for part in range(len(gang.sizes)):
            is_whole = self._have[part] + self._new[part] >= gang.sizes[0]
            if self._new[part] and not is_whole:
                return False
            whole += is_whole
        return whole >= gang.whole


# -- drawing --------------------


def configuration(depth: int, actions: str, tiers: str) -> dict[str, Any]:
    """A configuration with the plugin, and as many levels."""
    found = running.tiers(tiers)
    arguments = {"topologies": [{"name": "net", "levels": list(LEVELS[-depth:])}]} if depth else {}
    found[-1]["plugins"].append({"name": "network-topology-aware", "arguments": arguments})
    return {"actions": actions, "tiers": found}


def drawn(seed: str) -> Network:
    """A cluster with one gang."""
    chance = random.Random(seed)
    depth = chance.randint(1, 3)
    nodes = draw_nodes(chance, depth, chance.randint(2, 8))
    by_labels = chance.random() < 0.6
    domains = domains_of(nodes, depth)
    by_labels |= len(domains) == 1
    if not by_labels:
        domains = _bent(chance, domains)
    others, free = [], {node.name: node.cpu for node in nodes}
    for node in nodes:
        while chance.random() < 0.4 and free[node.name]:
            cpu = chance.randint(1, free[node.name])
            free[node.name] -= cpu
            others.append((node.name, cpu, chance.random() < 0.3))
    gang = draw_gang(chance, nodes, domains, free)
    return Network(nodes, domains, gang, tuple(others), depth if by_labels else 0)


def draw_nodes(chance: random.Random, depth: int, count: int) -> tuple[Node, ...]:
    """Nodes in few domains."""
    found = []
    for number in range(count):
        values = [chance.choice(of) for of in ("ab", "xy", "rst")[-depth:]]
        for level in range(depth):
            if chance.random() < 0.05:
                values[level] = ""
        tainted = chance.random() < 0.1
        found.append(Node(f"n{number}", chance.randint(1, 6), tuple(values), tainted))
    return tuple(found)


def domains_of(nodes: Sequence[Node], depth: int) -> tuple[Domain, ...]:
    """The domains that labels mean: a node belongs to one of each level, up to a label it lacks."""
    found: dict[tuple[int, tuple[str, ...]], set[str]] = {}
    for node in nodes:
        chain = list(itertools.takewhile(bool, reversed(node.values)))
        for level in range(len(chain)):
            path = tuple(reversed(chain[level:]))
            found.setdefault((level + 1, path), set()).add(node.name)
    domains = [
        Domain("/".join(path), tier, LEVELS[-tier], frozenset(names))
        for (tier, path), names in sorted(found.items())
    ]
    everybody = frozenset(node.name for node in nodes)
    return (*domains, Domain("", depth + 1, "", everybody))


def _bent(chance: random.Random, domains: Sequence[Domain]) -> tuple[Domain, ...]:
    """The same with HyperNodes' freedom: tiers with gaps, domains left out."""
    tiers = {0: 0}
    for tier in range(1, domains[-1].tier):
        tiers[tier] = tiers[tier - 1] + chance.choice((1, 1, 2))
    kept = [each for each in domains[:-1] if chance.random() < 0.9] or domains[:-1]
    highest = max(tiers[each.tier] for each in kept)
    named = [
        each._replace(name=f"h{number:02}", tier=tiers[each.tier], tier_name=f"t{each.tier}")
        for number, each in enumerate(kept)
    ]
    return (*named, domains[-1]._replace(tier=highest + 1))


def draw_gang(
    chance: random.Random, nodes: Sequence[Node], domains: Sequence[Domain], free: dict[str, int]
) -> Gang:
    """A gang; some of its pods may run."""
    count = chance.randint(1, 6)
    equal = chance.random() < 0.5
    pods = [chance.randint(1, 3)] * count if equal else [chance.randint(1, 4) for _ in range(count)]
    sizes: tuple[int, ...] = ()
    whole = 0
    if chance.random() < 0.3:
        size = chance.randint(1, 3)
        sizes = (size,) * max(1, min(3, count // size))
        whole = chance.randint(1, len(sizes))
        pods = (pods * 3)[: sum(sizes)]
    top = domains[-1].tier
    minimum = chance.choice((len(pods), chance.randint(1, len(pods))))
    if sizes:
        minimum = max(1, chance.choice((whole * sizes[0], len(pods))))
    runs = _running(chance, nodes, pods, free) if chance.random() < 0.3 else ()
    preferred = chance.randint(1, top) if chance.random() < 0.2 else None
    by_name = chance.random() < 0.3
    tier = chance.choice((1, 1, *range(1, top + 2), None))
    names = {each.tier for each in domains if each.tier_name}
    return Gang(
        pods=tuple(pods),
        minimum=minimum,
        nodes=runs,
        hard=chance.random() < 0.75,
        tier=tier,
        by_name=by_name and tier in names,
        preferred=preferred,
        waits=preferred is not None and chance.random() < 0.5,
        sizes=sizes,
        whole=whole,
        sub_tier=chance.randint(1, top) if sizes and chance.random() < 0.7 else None,
        apart=chance.random() < 0.15,
        tolerates=chance.random() < 0.5,
    )


def _running(
    chance: random.Random, nodes: Sequence[Node], pods: Sequence[int], free: dict[str, int]
) -> tuple[str, ...]:
    found = []
    among = chance.sample(list(nodes), min(len(nodes), chance.randint(1, 3)))
    for cpu in pods[: chance.randint(1, len(pods))]:
        fitting = [node.name for node in among if free[node.name] >= cpu]
        if not fitting:
            break
        found.append(chance.choice(fitting))
        free[found[-1]] -= cpu
    return tuple(found[: len(pods) - 1])


def drawn_node(node: Node, depth: int) -> str:
    """A node in a picture."""
    values = node.values if depth else ()
    labels = [
        f"label={key}={value}"
        for key, value in zip(LEVELS[-len(values) :], values, strict=False)
        if value
    ]
    labels.append(f"label=kubernetes.io/hostname={node.name}")
    taint = "taint=dedicated=lab:NoSchedule" if node.tainted else ""
    return f"node {node.name} cpu={node.cpu} {' '.join(labels)} {taint}"


def drawn_gang(gang: Gang, domains: Sequence[Domain], name: str, *more: str) -> str:
    """A gang in a picture."""
    app = f"app={name.rpartition('/')[2]}"
    marks = [f"job {name}", f"min={gang.minimum} cpu={gang.pods[0]} label={app}", *more]
    marks += [f"apart={app}@host"] * gang.apart
    marks += ["tolerate=dedicated"] * gang.tolerates
    tier = "" if gang.tier is None else f":{_tier(gang, domains)}"
    marks.append(f"topology={'hard' if gang.hard else 'soft'}{tier}")
    for at, cpu in enumerate(gang.pods):
        place = gang.nodes[at] if at < len(gang.nodes) else "-"
        role = f"r{gang.parts[at]}:" if gang.sizes else ""
        marks.append(f"{role}{place}@{cpu}")
    return " ".join(marks)


def _tier(gang: Gang, domains: Sequence[Domain]) -> str:
    if not gang.by_name:
        return str(gang.tier)
    return next(each.tier_name for each in domains if each.tier == gang.tier)


def complete(group: Document, gang: Gang) -> None:
    """Write into the PodGroup what pictures have no word for."""
    if gang.sizes:
        policy: Document = {
            "name": "role",
            "matchLabelKeys": [pictures.ROLE],
            "minSubGroups": gang.whole,
            "subGroupSize": gang.sizes[0],
        }
        if gang.sub_tier is not None:
            policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": gang.sub_tier}
        group["spec"]["subGroupPolicy"] = [policy]
    if gang.preferred is not None:
        annotations = group["metadata"].setdefault("annotations", {})
        patience = 2 * AGE if gang.waits else AGE // 2
        annotations["volcano.sh/network-topology-patience"] = f"{patience}s"
        annotations["volcano.sh/network-topology-preferred-tier"] = str(gang.preferred)


def _as_hyper_nodes(domains: Sequence[Domain]) -> Iterator[HyperNode]:
    """Each one with the domains directly below, and the nodes in none of these."""
    for each in domains[:-1]:
        below = [other for other in domains[:-1] if _is_below(other, each)]
        direct = [other for other in below if not any(_is_below(other, mid) for mid in below)]
        covered = frozenset[str]().union(*(other.nodes for other in direct))
        members = [Member(hyper_node=other.name) for other in direct]
        members += [Member(node=name) for name in sorted(each.nodes - covered)]
        yield HyperNode(
            name=each.name, tier=each.tier, tier_name=each.tier_name, members=tuple(members)
        )


def _is_below(one: Domain, other: Domain) -> bool:
    return one.tier < other.tier and one.nodes <= other.nodes


# -- judging --------------------


class Expected(NamedTuple):
    """What becomes of a gang in one cycle."""

    later: bool
    """Whether it has to wait for pods that are being deleted."""
    domains: tuple[Domain, ...]
    """The domains of the lowest tier in which it can start; none: nowhere."""


def expected(network: Network) -> Expected:
    """The domains of the lowest tier in which the gang can start, now if anywhere."""
    allowed = network.allowed(network.bound())
    leaving = any(leaves for *_, leaves in network.others)
    for later in (False, True) if leaving else (False,):
        found = [each for each in allowed if network.starts_in(each, later=later)]
        if found:
            lowest = min(each.tier for each in found)
            return Expected(later, tuple(each for each in found if each.tier == lowest))
    return Expected(later=False, domains=())


def judge(network: Network, result: CycleResult) -> list[str]:
    """What is wrong with a cycle, in short."""
    gang, known = network.gang, expected(network)
    nodes = [bind.node for bind in result.binds if bind.task.job.endswith("/g")]
    waiting = [each.node for each in result.pipelined if each.task.job.endswith("/g")]
    wrong = list(_broken(network, nodes + waiting))
    if not known.domains:
        if nodes or waiting:
            return [*wrong, "places pods that can't start"]
        return [*wrong, *_reason(network, result)]
    placed = waiting if known.later else nodes
    if not placed:
        return [*wrong, f"waits, and {known.domains[0].name} ({known.later}) has room"]
    wrong += _chosen(network, known, placed)
    if gang.is_plain and not known.later and not waiting:
        around = [each for each in network.allowed(network.bound()) if set(nodes) <= each.nodes]
        most = max((network.copies(each, later=False) for each in around), default=0)
        if len(nodes) != min(most, len(gang.pods) - len(gang.nodes)):
            wrong.append(f"starts {len(nodes)} pods, and there is room for {most}")
    return wrong


def _broken(network: Network, nodes: Sequence[str]) -> Iterator[str]:
    """Rules that hold wherever the pods are."""
    gang = network.gang
    if nodes and gang.hard and network.place([*gang.nodes, *nodes], network.bound()) is None:
        yield "hard is broken"


def _chosen(network: Network, known: Expected, placed: Sequence[str]) -> Iterator[str]:
    gang = network.gang
    needed = min(gang.needed, len(placed))
    held = [each for each in known.domains if sum(node in each.nodes for node in placed) >= needed]
    if not held:
        yield f"isn't in a domain of the lowest tier {known.domains[0].tier}"
    elif gang.is_plain and not gang.nodes:
        least = min(network.copies(each, later=known.later) for each in known.domains)
        if all(network.copies(each, later=known.later) > least for each in held):
            yield f"leaves more over than {least - gang.needed}"


def _reason(network: Network, result: CycleResult) -> Iterator[str]:
    reason = next(each.reason for each in result.groups if each.job.endswith("/g"))
    if reason is None:
        yield "waits without a reason"
        return
    if reason.code is ReasonCode.NEVER_FITS:
        network = dataclasses.replace(network, others=())
    by_name = {(each.name, each.tier): each for each in network.domains}
    for each in reason.domains:
        if reason.sub_group is None:
            yield from _counted(network, by_name[each.name, each.tier], each)
        if each.pods >= reason.lacking:
            yield f"says {each.pods} pods, which suffice"


def _counted(network: Network, domain: Domain, said: DomainRoom) -> Iterator[str]:
    most = network.most_in(domain, later=True)
    if said.pods < most or (said.exact and said.pods > most):
        yield f"says {said.pods} instead of {most} pods of {domain.name}"


def main(arguments: Sequence[str]) -> int:
    """Judge many clusters, and print how many decisions were wrong in which way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args(arguments)
    seen: Counter[str] = Counter()
    for number in range(given.first, given.first + given.clusters):
        network = drawn(str(number))
        result = running.decide(network.snapshot(), network.tree())
        seen["binds"] += len(result.binds)
        for wrong in judge(network, result):
            sys.stdout.write(f"{number}: {wrong}\n")
            seen["wrong"] += 1
    sys.stdout.write(f"{dict(seen)}\n")
    return int(bool(seen["wrong"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
