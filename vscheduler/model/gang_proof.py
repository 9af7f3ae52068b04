"""What a search for nodes for a whole gang has shown, as part of a reason."""

import msgspec

from vscheduler.model.resources import ResourceMap


class PodsOfKind(msgspec.Struct, frozen=True, kw_only=True):
    """Equal pods of a gang."""

    count: int
    role: str
    request: ResourceMap
    nodes: int
    """How many nodes would take one such pod now."""


class GangProof(msgspec.Struct, frozen=True, kw_only=True):
    """What a search for nodes for a whole gang has shown: the gang fits nowhere, or not so soon."""

    proved: bool
    """Whether the gang can't start on what is free, however its pods are placed. Otherwise the
    search was cut short."""
    steps: int
    """How many placements of single pods were tried."""
    blocking: tuple[PodsOfKind, ...] = ()
    """If proved, pods that can't run at the same time on what is free. Empty if the gang needs only
    some of its pods, and no other choice of them fits, either."""
    irreducible: bool = False
    """Whether these pods would fit with any one of them left out."""
    limited: bool = False
    """Whether only choices of pods count that the queue may have."""
