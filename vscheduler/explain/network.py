"""Changes of how near to each other in the network the pods of a job have to be."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from vscheduler.core.topology import network
from vscheduler.core.topology.network import SettingError
from vscheduler.core.topology.tree import Tree
from vscheduler.explain.changes import (
    Change,
    EndOfPatience,
    HigherTier,
    Remedy,
    Restart,
    SoftTopology,
    WithoutConstraints,
)
from vscheduler.explain.search import Search
from vscheduler.model.jobs import HOLDING, Job
from vscheduler.model.topology import TopologyRequest
from vscheduler.simulator.network import Network

BELOW_ALL = -1


def wider(search: Search, job: Job) -> Iterator[Remedy]:
    """Yield the end of the job's patience, the lowest tier that starts it, a soft topology, and its
    restart in another domain.
    """
    if not job.asks_topology:
        return
    remedies = [search.one(each) for each in _end_of_patience(search, job)]
    if job.topology is not None and job.topology.key:
        remedies.append(search.one(WithoutConstraints(key=job.topology.key)))
    else:
        tree = Network(search.trials.snapshot, search.trials.policy).tree(job)
        tiers = [] if tree is None else _higher(tree, job)
        remedies.append(search.smallest(partial(_allowed, tiers), len(tiers)))
        if job.hard_topology:
            remedies.append(search.one(SoftTopology()))
    if running := sum(job.counts[status] for status in HOLDING):
        remedies.append(search.one(Restart(pods=running)))
    yield from filter(None, remedies)


def _end_of_patience(search: Search, job: Job) -> Iterator[Change]:
    try:
        until = network.until_patient(job)
    except SettingError:
        return
    if until is not None and until > search.trials.snapshot.now:
        yield EndOfPatience(until=math.ceil(until))


def _higher(tree: Tree, job: Job) -> list[HigherTier]:
    """Return the tiers above the lowest one that the PodGroup allows, the next one first."""
    every = (job.topology, *(policy.topology for policy in job.sub_groups))
    bounds = {
        each: _tier(tree, each)
        for each in every
        if each is not None and each.hard and (each.tier_name or each.tier is not None)
    }
    if not bounds:
        return []
    lowest = min(bounds, key=lambda each: (bounds[each], each.field))
    names = {tier: name for name, tier in tree.tier_of.items()}
    tiers = {each.tier for each in tree.domains[: tree.root]}
    return [
        HigherTier(
            tier=tier,
            name=names.get(tier, ""),
            before=lowest.tier_name or str(lowest.tier),
            below=tuple(sorted({each.tier_name for each in bounds if bounds[each] < tier} - {""})),
        )
        for tier in sorted(tiers)
        if tier > bounds[lowest]
    ]


def _tier(tree: Tree, request: TopologyRequest) -> int:
    """Return the tier that is allowed; one that doesn't exist is below all others."""
    if request.tier_name:
        return tree.tier_of.get(request.tier_name, BELOW_ALL)
    return request.tier or 0


def _allowed(tiers: Sequence[HigherTier], size: int) -> Change:
    return tiers[size - 1]
