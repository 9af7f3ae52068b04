"""Claims of a pod class: what stands in the way on every node, and what is left to decide.

Kubernetes: kube-scheduler VolumeBinding.PreFilter, VolumeZone, VolumeRestrictions.PreFilter.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from vscheduler.core.api.contracts import FilterResult
from vscheduler.core.claims.volumes import tables
from vscheduler.model.constraints import ClaimUse, DiskUse, PodVolume
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.storage import Claim, Storage

Code = RefusalCode

NO_MATCH = Refusal(Code.NO_VOLUME)
NO_SPACE = Refusal(Code.STORAGE_FULL)
VOLUME_MISSING = Refusal(Code.VOLUME_MISSING)
VOLUME_AFFINITY = Refusal(Code.VOLUME_AFFINITY)
ZONE = Refusal(Code.VOLUME_ZONE)
UNBOUND = Refusal(Code.CLAIM_UNBOUND)

GENERAL = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of nodes that stand in for older labels of volumes."""

ZONE_LABELS = (*GENERAL, *GENERAL.values())


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What the volumes of a pod class ask for, as the cycle begins."""

    problems: tuple[Refusal, ...] = ()
    """Why no node can take such a pod at present."""
    binding: tuple[FilterResult, ...] = ()
    """Nodes (N,) that bound volumes allow, by node affinity."""
    zones: tuple[FilterResult, ...] = ()
    """Nodes (N,) that bound volumes allow, by their zone labels."""
    delayed: tuple[Claim, ...] = ()
    """Claims that are bound once a pod has a node: the smallest first, as they choose."""
    unbound: tuple[str, ...] = ()
    """The same by `namespace/name`, in the order of the pod."""
    single: tuple[str, ...] = ()
    """Claims that one pod alone may use."""
    attached: tuple[PodVolume, ...] = ()
    """Volumes that may count against attach limits."""
    disks: tuple[DiskUse, ...] = ()


def needs_of(volumes: Sequence[PodVolume], storage: Storage, layout: NodeLayout) -> Needs:
    """Return what these volumes of a pod ask for."""
    uses = [volume for volume in volumes if isinstance(volume, ClaimUse)]
    found = [storage.claims.get(use.claim) for use in uses]
    problems = [
        problem
        for use, claim in zip(uses, found, strict=True)
        if (problem := _problem(use, claim, storage)) is not None
    ]
    claims = list(dict.fromkeys(claim.key for claim in found if claim is not None))
    existing = [storage.claims[key] for key in claims]
    bound = [claim for claim in existing if claim.bound]
    delayed = [] if problems else [claim for claim in existing if not claim.bound]
    return Needs(
        problems=tuple(dict.fromkeys(problems)),
        binding=tuple(_binding(bound, storage, layout)),
        zones=tuple(_zones(existing, storage, layout)),
        delayed=tuple(sorted(delayed, key=lambda claim: claim.request)),
        unbound=tuple(claim.key for claim in delayed),
        single=tuple(claim.key for claim in existing if claim.single_pod),
        attached=tuple(volumes),
        disks=tuple(volume for volume in volumes if isinstance(volume, DiskUse)),
    )


def lasting(problem: Refusal) -> bool:
    """Whether a problem doesn't go away by itself within moments."""
    return problem.code not in (Code.CLAIM_NOT_CREATED, Code.CLAIM_UNBOUND)


def _problem(use: ClaimUse, claim: Claim | None, storage: Storage) -> Refusal | None:
    """Return why no node can take a pod with this claim; None if nothing is wrong with it."""
    name = use.claim.partition("/")[2]
    storage_class = None if claim is None else storage.class_of(claim)
    found: Refusal | None = None
    if claim is None:
        code = Code.CLAIM_NOT_CREATED if use.owner else Code.CLAIM_MISSING
        found = Refusal(code, name)
    elif claim.lost:
        found = Refusal(Code.CLAIM_LOST, name, claim.volume)
    elif claim.deleting:
        found = Refusal(Code.CLAIM_DELETING, name)
    elif use.owner and claim.owner != use.owner:
        found = Refusal(Code.CLAIM_OF_OTHER_POD, name)
    elif not claim.bound and storage_class is None and claim.class_name:
        found = Refusal(Code.STORAGE_CLASS_MISSING, name, claim.class_name)
    # A claim that names a volume is bound by a controller, whatever its class says.
    elif not claim.bound and (claim.volume or storage_class is None or not storage_class.waits):
        found = UNBOUND
    return found


def _binding(
    bound: Iterable[Claim], storage: Storage, layout: NodeLayout
) -> Iterator[FilterResult]:
    """Yield the nodes that the volumes of bound claims allow, unless they allow all."""
    for claim in bound:
        volume = storage.volumes.get(claim.volume)
        if volume is None:
            nowhere = np.zeros(layout.size, dtype=np.bool_)
            yield FilterResult(VOLUME_MISSING, nowhere)
        elif volume.affinity is not None:
            yield FilterResult(VOLUME_AFFINITY, tables.usable(volume.affinity, layout))


def _zones(claims: Iterable[Claim], storage: Storage, layout: NodeLayout) -> Iterator[FilterResult]:
    """Yield the nodes in the zones of volumes. A node without any zone is in all of them."""
    for claim in claims:
        volume = storage.volumes.get(claim.volume)
        for key, values in () if volume is None else volume.zones:
            yield FilterResult(ZONE, _in_zone(key, values, layout))


def _in_zone(key: str, values: tuple[str, ...], layout: NodeLayout) -> Mask:
    def compute() -> Mask:
        labelled = np.zeros(layout.size, dtype=np.bool_)
        for each in ZONE_LABELS:
            labelled |= layout.label(each)[0] >= 0
        column, passes = layout.label(key)[0], _with_value(key, values, layout)
        if key in GENERAL:
            passes = np.where(column >= 0, passes, _with_value(GENERAL[key], values, layout))
        return passes | ~labelled

    return layout.memo(("zone", key, values), compute)


def _with_value(key: str, values: tuple[str, ...], layout: NodeLayout) -> Mask:
    column, codes = layout.label(key)
    return np.isin(column, [codes[value] for value in values if value in codes])
