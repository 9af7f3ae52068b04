"""Labels: the tree of domains that labels of nodes describe, level by level."""

from collections.abc import Sequence

import msgspec
import numpy as np

from vscheduler.core.topology.tree import Domain, Tree
from vscheduler.model.nodes import NodeLayout


class LabelTopology(msgspec.Struct, frozen=True, kw_only=True):
    """A topology from the configuration."""

    name: str
    levels: tuple[str, ...]
    """Keys of labels, the widest level first."""


def tree(topology: LabelTopology, layout: NodeLayout) -> Tree:
    """Return the domains: the lowest level is tier 1.

    Equal values below different values are different domains. A node without the lowest label is in
    no domain; above a level whose label it lacks, its domain has none around it.
    """
    upwards = topology.levels[::-1]
    by_level: list[set[tuple[str, ...]]] = [set() for _ in upwards]
    of_nodes: list[tuple[str, ...]] = []
    for spec in layout.specs:
        labels = dict(spec.labels)
        values: list[str] = []
        for key in upwards:
            value = labels.get(key, "")
            if not value:
                break
            values.append(value)
        path = tuple(reversed(values))
        of_nodes.append(path)
        for level in range(len(path)):
            by_level[level].add(path[: len(path) - level])
    return _tree(upwards, by_level, of_nodes)


def _tree(
    upwards: Sequence[str],
    by_level: Sequence[set[tuple[str, ...]]],
    of_nodes: Sequence[tuple[str, ...]],
) -> Tree:
    keys = [(level, path) for level, of in enumerate(by_level) for path in sorted(of)]
    at = {key: place for place, key in enumerate(keys)}
    root = len(keys)
    domains = [
        Domain(
            "/".join(path),
            level + 1,
            upwards[level],
            at.get((level + 1, path[:-1]), root) if len(path) > 1 else root,
        )
        for level, path in keys
    ]
    domains.append(Domain("", len(upwards) + 1, "", root))
    lowest = [at[0, path] if path else root for path in of_nodes]
    return Tree(domains, np.array(lowest, dtype=np.int64))
