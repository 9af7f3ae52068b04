"""What queues deserve under plugin proportion, recounted by hand: docs/fair-shares.md.

All queues rise together, by weight, until some of them have all that they could have together:
these stop, the others go on. What a set of queues could have is the smallest cut between them and
the nodes: for some nodes all that these give, for pods that could go elsewhere all that they want.

Worlds are left aside in which it is a question what a queue asks for: pods that don't exist yet
(guarantees, minResources, kept rooms), that are on nodes which wouldn't take them now, whose
queue is gone, or that may have claims.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias, TypeVar

from tests.properties.worlds import census as censuses
from tests.properties.worlds import placement_rules
from tests.properties.worlds.census import Amounts, Census
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment

NEAR = 1e-6
"""Of all there is: the scheduler works in floats."""

DECIDING = ("nodeSelector", "tolerations", "affinity")
"""Beside requests, what decides about the nodes that would take a pod."""

QUEUES_MAX = 6
DOMAINS_MAX = 6
"""All sets of them are gone through."""

Element = TypeVar("Element")
Domain: TypeAlias = frozenset[str]
"""Nodes that would take a pod."""
Sums: TypeAlias = Mapping[frozenset[str], int]
"""What sets of queues could have together."""


@dataclass(slots=True)
class Demand:
    """What a queue's pods hold and ask for, by the nodes that would take them."""

    weight: int
    capability: Amounts
    wanted: defaultdict[Domain, Amounts] = field(default_factory=lambda: defaultdict(Counter))

    def outside(self, nodes: Domain, resource: str) -> int:
        """What it could have that isn't on these nodes alone, were there enough elsewhere."""
        asked = sum(each[resource] for domain, each in self.wanted.items() if not domain <= nodes)
        return min(asked, self.capability.get(resource, asked))


def shares_are_fair(moment: Moment) -> Iterable[str]:
    """Every queue deserves its weighted max-min fair share of every resource."""
    demands = demanded(moment)
    if demands is None:
        return
    supply = _supply(moment.census)
    for resource in sorted({name for each in supply.values() for name in each}):
        given = {name: amounts[resource] for name, amounts in supply.items()}
        near = NEAR * max(1, sum(given.values()))
        for queue, due in fair(demands, _most(demands, given, resource)).items():
            said = moment.deserved.get(queue, {}).get(resource, 0.0)
            if abs(said - due) > near:
                yield f"DESERVED {queue} is said to deserve {said} {resource}, not {float(due)}"


def demanded(moment: Moment) -> dict[str, Demand] | None:
    """What queues ask for, by name; None where that isn't plain."""
    census = moment.census
    if (
        census.others
        or not _is_divided(moment)
        or _has_unborn(moment)
        or len(census.queues) > QUEUES_MAX
    ):
        return None
    demands = {
        name: Demand(
            weight=queue["spec"].get("weight", 1),
            capability=censuses.amounts(queue["spec"].get("capability", {})),
        )
        for name, queue in census.queues.items()
    }
    known: dict[str, Domain] = {}
    for pod in census.pods.values():
        holds = censuses.has_node(pod) and not censuses.leaving(pod) and not censuses.finished(pod)
        if not (holds or censuses.waits(pod)):
            continue
        kind = repr((pod["spec"]["containers"], *map(pod["spec"].get, DECIDING)))
        if kind not in known:
            known[kind] = _domain(census, pod)
        queue = census.queue_of(pod) or ""
        if queue not in demands or (holds and pod["spec"]["nodeName"] not in known[kind]):
            return None
        if holds or census.queues[queue]["status"]["state"] == "Open":
            demands[queue].wanted[known[kind]].update(censuses.request(pod))
    return demands if len(_domains(demands)) <= DOMAINS_MAX else None


def fair(demands: Mapping[str, Demand], most: Sums) -> dict[str, Fraction]:
    """The share of each queue."""
    shares: dict[str, Fraction] = {}
    while rest := demands.keys() - shares.keys():
        done = sum(shares.values())
        levels = {
            together: (most[together.union(shares)] - done)
            / Fraction(sum(demands[name].weight for name in together))
            for together in _sets(rest)
            if together
        }
        first = min(levels, key=lambda together: levels[together])
        shares |= {name: levels[first] * demands[name].weight for name in first}
    return shares


def _is_divided(moment: Moment) -> bool:
    """In Volcano's way it is divided otherwise: where pods could go doesn't count."""
    return "proportion" in moment.setting.plugins and not moment.setting.volcano


def _has_unborn(moment: Moment) -> bool:
    """Whether something may be asked for by pods that don't exist yet."""
    census = moment.census
    if "capability" in census.queues.get("root", {"spec": {}})["spec"]:
        return True  # what it may have limits what all may have together
    promised = any("minResources" in group["spec"] for group in census.groups.values())
    kept = any("guarantee" in queue["spec"] for queue in census.queues.values())
    return bool(promised or kept or moment.kept_before)


def _most(demands: Mapping[str, Demand], given: Mapping[str, int], resource: str) -> Sums:
    """given: what each node gives."""
    cuts = []
    for some in _sets(_domains(demands)):
        nodes = frozenset[str]().union(*some)
        apart = {name: each.outside(nodes, resource) for name, each in demands.items()}
        cuts.append((sum(given[name] for name in nodes), apart))
    return {
        names: min(inside + sum(map(apart.__getitem__, names)) for inside, apart in cuts)
        for names in _sets(demands)
    }


def _sets(found: Collection[Element]) -> Iterator[frozenset[Element]]:
    """All, the empty one first."""
    for size in range(len(found) + 1):
        yield from map(frozenset, itertools.combinations(found, size))


def _domains(demands: Mapping[str, Demand]) -> set[Domain]:
    return {domain for demand in demands.values() for domain in demand.wanted}


def _domain(census: Census, pod: Document) -> Domain:
    return frozenset(
        name for name, node in census.nodes.items() if placement_rules.could_use(node, pod)
    )


def _supply(census: Census) -> dict[str, Amounts]:
    """What each node has; one that has shrunk as much as its pods hold."""
    found = {}
    for name, node in census.nodes.items():
        held: Amounts = Counter()
        for pod in census.residents[name]:
            if not censuses.leaving(pod):
                held.update(censuses.request(pod))
        found[name] = censuses.amounts(node["status"]["allocatable"]) | held
    return found
