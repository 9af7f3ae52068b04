"""Claims of a pod class: what stands in the way on every node, and what is left to decide.

Kubernetes: kube-scheduler VolumeBinding.PreFilter, VolumeZone, VolumeRestrictions.PreFilter.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from vscheduler.core.api import contracts
from vscheduler.core.model import constraints, nodes, refusals, storage
from vscheduler.core.placement.volumes import tables

Code = refusals.RefusalCode

NO_MATCH = refusals.Refusal(Code.NO_VOLUME)
NO_SPACE = refusals.Refusal(Code.STORAGE_FULL)
VOLUME_MISSING = refusals.Refusal(Code.VOLUME_MISSING)
VOLUME_AFFINITY = refusals.Refusal(Code.VOLUME_AFFINITY)
ZONE = refusals.Refusal(Code.VOLUME_ZONE)
UNBOUND = refusals.Refusal(Code.CLAIM_UNBOUND)

GENERAL = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of nodes that stand in for older labels of volumes."""

ZONE_LABELS = (*GENERAL, *GENERAL.values())


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What the volumes of a pod class ask for, as the cycle begins."""

    problems: tuple[refusals.Refusal, ...] = ()
    """Why no node can take such a pod at present."""
    binding: tuple[contracts.FilterResult, ...] = ()
    """Nodes (N,) that bound volumes allow, by node affinity."""
    zones: tuple[contracts.FilterResult, ...] = ()
    """Nodes (N,) that bound volumes allow, by their zone labels."""
    delayed: tuple[storage.Claim, ...] = ()
    """Claims that are bound once a pod has a node: the smallest first, as they choose."""
    unbound: tuple[str, ...] = ()
    """The same by `namespace/name`, in the order of the pod."""
    single: tuple[str, ...] = ()
    """Claims that one pod alone may use."""
    attached: tuple[constraints.PodVolume, ...] = ()
    """Volumes that may count against attach limits."""
    disks: tuple[constraints.DiskUse, ...] = ()


def needs_of(
    volumes: Sequence[constraints.PodVolume], stored: storage.Storage, layout: nodes.NodeLayout
) -> Needs:
    """Return what these volumes of a pod ask for."""
    uses = [each for each in volumes if isinstance(each, constraints.ClaimUse)]
    found = [stored.claims.get(use.claim) for use in uses]
    problems = [
        problem
        for use, claim in zip(uses, found, strict=True)
        if (problem := _problem(use, claim, stored)) is not None
    ]
    claims = list(dict.fromkeys(claim.key for claim in found if claim is not None))
    known = [stored.claims[key] for key in claims]
    bound = [claim for claim in known if claim.bound]
    delayed = [] if problems else [claim for claim in known if not claim.bound]
    return Needs(
        problems=tuple(dict.fromkeys(problems)),
        binding=tuple(_binding(bound, stored, layout)),
        zones=tuple(_zones(known, stored, layout)),
        delayed=tuple(sorted(delayed, key=lambda claim: claim.request)),
        unbound=tuple(claim.key for claim in delayed),
        single=tuple(claim.key for claim in known if claim.single_pod),
        attached=tuple(volumes),
        disks=tuple(each for each in volumes if isinstance(each, constraints.DiskUse)),
    )


def lasting(problem: refusals.Refusal) -> bool:
    """Whether a problem doesn't go away by itself within moments."""
    return problem.code not in (Code.CLAIM_NOT_CREATED, Code.CLAIM_UNBOUND)


def _problem(
    use: constraints.ClaimUse, claim: storage.Claim | None, stored: storage.Storage
) -> refusals.Refusal | None:
    """Return why no node can take a pod with this claim; None if nothing is wrong with it."""
    name = use.claim.partition("/")[2]
    storage_class = None if claim is None else stored.class_of(claim)
    found: refusals.Refusal | None = None
    if claim is None:
        code = Code.CLAIM_NOT_CREATED if use.owner else Code.CLAIM_MISSING
        found = refusals.Refusal(code, name)
    elif claim.lost:
        found = refusals.Refusal(Code.CLAIM_LOST, name, claim.volume)
    elif claim.deleting:
        found = refusals.Refusal(Code.CLAIM_DELETING, name)
    elif use.owner and claim.owner != use.owner:
        found = refusals.Refusal(Code.CLAIM_OF_OTHER_POD, name)
    elif not claim.bound and storage_class is None and claim.class_name:
        found = refusals.Refusal(Code.STORAGE_CLASS_MISSING, name, claim.class_name)
    # A claim that names a volume is bound by a controller, whatever its class says.
    elif not claim.bound and (claim.volume or storage_class is None or not storage_class.waits):
        found = UNBOUND
    return found


def _binding(
    bound: Iterable[storage.Claim], stored: storage.Storage, layout: nodes.NodeLayout
) -> Iterator[contracts.FilterResult]:
    """Yield the nodes that the volumes of bound claims allow, unless they allow all."""
    for claim in bound:
        volume = stored.volumes.get(claim.volume)
        if volume is None:
            nowhere = np.zeros(layout.size, dtype=np.bool_)
            yield contracts.FilterResult(VOLUME_MISSING, nowhere)
        elif volume.affinity is not None:
            yield contracts.FilterResult(VOLUME_AFFINITY, tables.usable(volume.affinity, layout))


def _zones(
    claims: Iterable[storage.Claim], stored: storage.Storage, layout: nodes.NodeLayout
) -> Iterator[contracts.FilterResult]:
    """Yield the nodes in the zones of volumes. A node without any zone is in all of them."""
    for claim in claims:
        volume = stored.volumes.get(claim.volume)
        for key, values in () if volume is None else volume.zones:
            yield contracts.FilterResult(ZONE, _in_zone(key, values, layout))


def _in_zone(key: str, values: tuple[str, ...], layout: nodes.NodeLayout) -> nodes.Mask:
    def compute() -> nodes.Mask:
        labelled = np.zeros(layout.size, dtype=np.bool_)
        for each in ZONE_LABELS:
            labelled |= layout.label(each)[0] >= 0
        column, passes = layout.label(key)[0], _with_value(key, values, layout)
        if key in GENERAL:
            passes = np.where(column >= 0, passes, _with_value(GENERAL[key], values, layout))
        return passes | ~labelled

    return layout.memo(("zone", key, values), compute)


def _with_value(key: str, values: tuple[str, ...], layout: nodes.NodeLayout) -> nodes.Mask:
    column, codes = layout.label(key)
    return np.isin(column, [codes[value] for value in values if value in codes])
