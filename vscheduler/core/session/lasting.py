"""Lasting: what follows from nodes, queues and the configuration alone, from cycle to cycle.

Most cycles run because of pods, and find the same nodes and queues as the last one. What they would
derive from these anew is kept here. All that it depends on is compared in `holds`.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from vscheduler.core.config.policy import Policy
from vscheduler.core.fair_share.node_domains import KnownDomains
from vscheduler.core.fair_share.node_pools import NodePools
from vscheduler.core.model.queues import Queue
from vscheduler.core.model.resources import ResourceSpace, Vector
from vscheduler.core.model.snapshot import Snapshot


class Lasting(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a cycle derived; without influence on decisions."""

    policy: Policy
    space: ResourceSpace
    allocatable: Vector
    """The array of the snapshot; replaced whenever a node changes in anything except its pods."""
    queues: Mapping[str, Queue]
    domains: KnownDomains
    """The nodes that pods could use if these were empty."""

    def holds(self, snapshot: Snapshot, policy: Policy) -> bool:
        """Whether nodes, queues and the configuration are the same as then."""
        return (
            self.policy is policy
            and self.space is snapshot.space
            and self.allocatable is snapshot.nodes.allocatable
            and self.queues == snapshot.queues
        )


def may_last(policy: Policy) -> bool:
    """Whether plugins give equal answers about nodes in every cycle."""
    return policy.nodes_last and policy.rules.leaves_jobs_out


def known(snapshot: Snapshot, policy: Policy) -> Lasting | None:
    """Return what the last cycle derived, if that is still right."""
    carried = snapshot.carried.lasting
    if isinstance(carried, Lasting) and carried.holds(snapshot, policy):
        return carried
    return None


class Concluded(Protocol):
    """The running cycle at its end."""

    snapshot: Snapshot
    policy: Policy

    @property
    def pools(self) -> NodePools:
        """The nodes, by the queues and pods that could use them."""


def kept(session: Concluded) -> Lasting | None:
    """Return what the next cycle may know."""
    taken = session.snapshot
    if not may_last(session.policy):
        return None
    return Lasting(
        policy=session.policy,
        space=taken.space,
        allocatable=taken.nodes.allocatable,
        queues=taken.queues,
        domains=session.pools.known,
    )
