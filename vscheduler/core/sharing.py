"""Constrained max-min fair shares: queues share nodes that not all of their pods can use.

Ghodsi et al., "Choosy: Max-Min Fair Sharing for Datacenter Jobs with Constraints", EuroSys 2013.
Q queues, C domains (sets of nodes that pods can use), N kinds of nodes, R resources; float64, units
as in model.resources.Amounts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Who wants what, and what there is."""

    weights: Amounts
    """(Q,), above 0."""
    demands: Amounts
    """What each queue's pods have and ask for, by domain: (Q, C, R)."""
    reach: NDArray[np.bool_]
    """Which kinds of nodes make up each domain: (C, N)."""
    supply: Amounts
    """What nodes of each kind give: (N, R)."""
    pinned: Amounts
    """What queues hold where nothing more is to be had: theirs in any case, and not part of demands
    or supply, (Q, R)."""
    guarantee: Amounts
    """(Q, R); reduced in proportion where not all of them can be kept."""
    capability: Amounts
    """The most that each queue may have, what is pinned included: (Q, R); inf is no limit."""
    whole: Amounts
    """The most that all may have together, what is pinned included: (R,); inf is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What each queue deserves."""

    deserved: Amounts
    """(Q, R)."""
    weights: Amounts
    """The weights of all queues that stand at the same level in the same room, for a queue that its
    weight limits, else 0: (Q, R)."""


def shares(problem: Problem) -> Shares:
    """The weighted max-min fair shares among those that a flow from demands to nodes carries."""
    raise NotImplementedError(problem)
