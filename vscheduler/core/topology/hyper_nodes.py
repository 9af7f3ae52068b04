"""HyperNodes: the tree of domains that they describe, and what is wrong with them.

What is contradictory is left out: a member that is in two domains of which neither contains the
other belongs to neither, and a member whose tier isn't below is no member.
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vscheduler.core.topology.tree import Domain, Ints, Tree
from vscheduler.model import nodes
from vscheduler.model.constraints import Term
from vscheduler.model.nodes import NodeLayout
from vscheduler.model.topology import HyperNode, Member

Problems = Mapping[str, Sequence[str]]
"""By HyperNode, what is wrong with it."""

LITERAL = re.compile(r"\^([A-Za-z0-9-]+)")
"""The beginning of a pattern that stands for itself, unless a quantifier follows."""


def tree(every: Sequence[HyperNode], layout: NodeLayout) -> tuple[Tree, Problems]:
    """Return the domains that these HyperNodes describe, and the problems found."""
    return _Builder(every, layout).built()


class _Builder:
    def __init__(self, every: Sequence[HyperNode], layout: NodeLayout) -> None:
        self._layout = layout
        self._every = sorted(every, key=lambda each: (each.tier, each.name))
        self._at = {each.name: at for at, each in enumerate(self._every)}
        self._problems: defaultdict[str, list[str]] = defaultdict(list)

    def built(self) -> tuple[Tree, Problems]:
        parents = self._parents()
        root = len(self._every)
        domains = [
            Domain(each.name, each.tier, each.tier_name, parents.get(at, root))
            for at, each in enumerate(self._every)
        ]
        top = max((each.tier for each in self._every), default=0) + 1
        domains.append(Domain("", top, "", root))
        lowest = self._lowest(domains)
        self._check_names()
        return Tree(domains, lowest), {name: tuple(of) for name, of in self._problems.items()}

    def _parents(self) -> dict[int, int]:
        """Return the parent of each HyperNode that has one."""
        claimed: defaultdict[int, list[int]] = defaultdict(list)
        for at, each in enumerate(self._every):
            for name in dict.fromkeys(member.hyper_node for member in each.members):
                if not name:
                    continue
                child = self._at.get(name)
                if child is None:
                    self._problems[each.name].append(f"its member {name} doesn't exist")
                elif self._every[child].tier >= each.tier:
                    tier = self._every[child].tier
                    self._problems[each.name].append(
                        f"its member {name} is of tier {tier}, which is not below {each.tier}"
                    )
                else:
                    claimed[child].append(at)
        for child, parents in claimed.items():
            if len(parents) > 1:
                names = " and ".join(self._every[parent].name for parent in parents)
                self._problems[self._every[child].name].append(f"it is a member of {names}")
        return {child: of[0] for child, of in claimed.items() if len(of) == 1}

    def _lowest(self, domains: Sequence[Domain]) -> Ints:
        """Return the smallest domain of each node, (N,)."""
        root = len(domains) - 1
        found = np.full(self._layout.size, root, dtype=np.int64)
        torn: set[int] = set()
        between: set[tuple[int, int]] = set()
        for at, each in enumerate(self._every):  # children come before what is around them
            for member in each.members:
                for row in self._rows(each, member):
                    inner = int(found[row])
                    if inner == root and row not in torn:
                        found[row] = at
                    elif inner != at and not _contains(domains, at, inner):
                        torn.add(row)
                        between.add((inner, at))
        for row in torn:
            found[row] = root
        for first, second in sorted(between):
            one, other = self._every[first].name, self._every[second].name
            self._problems[one].append(f"it has nodes in common with {other}")
            self._problems[other].append(f"it has nodes in common with {one}")
        return found

    def _rows(self, owner: HyperNode, member: Member) -> Iterator[int]:
        layout = self._layout
        if member.node:
            row = layout.rows.get(member.node)
            if row is not None:
                yield row
        elif member.pattern:
            try:
                yield from layout.memo(
                    ("names", member.pattern), lambda: self._named(member.pattern)
                )
            except re.error as error:
                self._problems[owner.name].append(f"its pattern {member.pattern}: {error}")
        elif member.selector is not None:
            term = Term(labels=member.selector.requirements)
            yield from np.flatnonzero(nodes.matches(layout, term)).tolist()

    def _named(self, pattern: str) -> tuple[int, ...]:
        """Return the rows of nodes whose name contains the pattern."""
        names, found = self._layout.names, re.compile(pattern)
        literal = LITERAL.match(pattern)
        start, end = 0, len(names)
        if literal is not None and "|" not in pattern:
            # Names are sorted, and those with a common beginning stand together. The last character
            # may belong to a quantifier.
            beginning = literal.group(1)[:-1]
            start = bisect.bisect_left(names, beginning)
            end = bisect.bisect_right(names, beginning + "\U0010ffff")
        return tuple(row for row in range(start, end) if found.search(names[row]))

    def _check_names(self) -> None:
        tiers: defaultdict[str, set[int]] = defaultdict(set)
        for each in self._every:
            if each.tier_name:
                tiers[each.tier_name].add(each.tier)
        for each in self._every:
            if len(tiers[each.tier_name]) > 1:
                found = ", ".join(map(str, sorted(tiers[each.tier_name])))
                self._problems[each.name].append(
                    f"its tierName {each.tier_name} names the tiers {found}; the highest counts"
                )


def _contains(domains: Sequence[Domain], outer: int, inner: int) -> bool:
    while inner < outer:
        inner = domains[inner].parent
    return inner == outer
