"""HyperNodes: the tree of domains that they describe, and what is wrong with them.

What is contradictory is left out: a member that is in two domains of which neither contains the
other belongs to neither, and a member whose tier isn't below is no member.
"""

import bisect
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from vscheduler.core.topology.tree import Domain, Ints, Tree, contains
from vscheduler.model import computed, nodes
from vscheduler.model.constraints import Operator, Selector, Term
from vscheduler.model.nodes import NodeLayout
from vscheduler.model.topology import HyperNode, Member

Problems = Mapping[str, Sequence[str]]
"""By HyperNode, what is wrong with it."""

LEADING = re.compile(r"^\^?\.\*(?![?+*{])")
"""What doesn't matter, since patterns are found anywhere."""

LITERAL = re.compile(r"(\^?)([A-Za-z0-9-]+)")
"""The beginning of a pattern that stands for itself, unless a quantifier follows."""

CLASSES: Mapping[str, str] = {
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:alpha:]": "a-zA-Z",
    "[:alnum:]": "a-zA-Z0-9",
}

PATTERNS_MAX = 16_384
"""So many patterns are kept compiled: that takes longer than to find what they match."""


def tree(every: Sequence[HyperNode], layout: NodeLayout) -> tuple[Tree, Problems]:
    """Return the domains that these HyperNodes describe, and the problems found."""
    return _Builder(every, layout).built()


class _Builder:
    def __init__(self, every: Sequence[HyperNode], layout: NodeLayout) -> None:
        self._layout = layout
        self._every = sorted(every, key=lambda each: (each.tier, each.name))
        self._at = {each.name: at for at, each in enumerate(self._every)}
        self._problems: defaultdict[str, list[str]] = defaultdict(list)
        self._rows_by_label: dict[str, defaultdict[str, list[int]]] = {}

    def built(self) -> tuple[Tree, Problems]:
        parents = self._parents()
        root = len(self._every)
        domains = [
            Domain(each.name, each.tier, each.tier_name, parents.get(at, root))
            for at, each in enumerate(self._every)
        ]
        top = max((each.tier for each in self._every), default=0) + 1
        domains.append(Domain("", top, "", root))
        lowest = self._lowest([each.parent for each in domains])
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

    def _lowest(self, parents: Sequence[int]) -> Ints:
        """Return the smallest domain of each node, (N,)."""
        root = len(parents) - 1
        found = np.full(self._layout.size, root, dtype=np.int64)
        torn: set[int] = set()
        between: set[tuple[int, int]] = set()
        for at, each in enumerate(self._every):  # children come before what is around them
            for member in each.members:
                for row in self._rows(each, member):
                    inner = int(found[row])
                    if inner == root and row not in torn:
                        found[row] = at
                    elif inner != at and not contains(parents, at, inner):
                        torn.add(row)
                        between.add((inner, at))
        for row in torn:
            found[row] = root
        for first, second in sorted(between):
            one, other = self._every[first].name, self._every[second].name
            self._problems[one].append(f"it has nodes in common with {other}")
            self._problems[other].append(f"it has nodes in common with {one}")
        return found

    def _rows(self, owner: HyperNode, member: Member) -> Iterable[int]:
        if member.node:
            row = self._layout.rows.get(member.node)
            return () if row is None else (row,)
        if member.selector is not None:
            return self._labelled(member.selector)
        if not member.pattern:
            return ()
        try:
            return self._named(member.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            self._problems[owner.name].append(f"its pattern {member.pattern}: {error}")
            return ()

    def _labelled(self, selector: Selector) -> Iterable[int]:
        """Return the rows of nodes with these labels; none without any condition.

        Where values of a label are named, only nodes with one of them are looked at: a domain
        has few of all nodes.
        """
        for requirement in selector.requirements:
            if requirement.operator is Operator.IN:
                rows = self._by_label(requirement.key)
                values = set(requirement.values)
                found = sorted(row for value in values for row in rows.get(value, ()))
                if len(selector.requirements) == 1:
                    return found
                specs = self._layout.specs
                return [row for row in found if selector.matches(dict(specs[row].labels))]
        return nodes.matches(self._layout, Term(labels=selector.requirements)).nonzero()[0].tolist()

    def _by_label(self, key: str) -> Mapping[str, Sequence[int]]:
        """Return the rows of nodes by value of a label."""
        rows = self._rows_by_label.get(key)
        if rows is None:
            rows = self._rows_by_label[key] = defaultdict(list)
            for row, spec in enumerate(self._layout.specs):
                for name, value in spec.labels:
                    if name == key:
                        rows[value].append(row)
        return rows

    def _named(self, pattern: str) -> Iterable[int]:
        """Return the rows of nodes whose name contains the pattern."""
        pattern, names = LEADING.sub("", pattern), self._layout.names
        literal = None if "|" in pattern else LITERAL.match(pattern)
        if literal is None:
            return _searched(pattern, names, range(len(names)))
        is_whole = literal.end() == len(pattern)
        # The last character may belong to a quantifier.
        text = literal[2] if is_whole else literal[2][:-1]
        rows = self._beginning(text) if literal[1] else self._containing(text)
        return rows if is_whole else _searched(pattern, names, rows)

    def _beginning(self, text: str) -> Iterable[int]:
        """Return the rows of names with this beginning, which stand together: names are sorted."""
        names = self._layout.names
        return range(
            bisect.bisect_left(names, text), bisect.bisect_right(names, text + "\U0010ffff")
        )

    def _containing(self, text: str) -> Iterable[int]:
        """Return the rows of names with this text anywhere."""
        every, starts = self._text
        at = every.find(text)
        while at >= 0:
            row = bisect.bisect_right(starts, at) - 1
            if row == len(starts) - 1:
                return
            yield row
            at = every.find(text, starts[row + 1])

    @computed.once
    def _text(self) -> tuple[str, Sequence[int]]:
        """All names, each on a line, and where each of them starts; the last start is the end."""
        lines = [f"{name}\n" for name in self._layout.names]
        return "".join(lines), [0, *itertools.accumulate(map(len, lines))]

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


def _searched(pattern: str, names: Sequence[str], rows: Iterable[int]) -> list[int]:
    search = _compiled(pattern).search
    return [row for row in rows if search(names[row])]


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern, written as in Go: classes of characters have names there."""
    for name, characters in CLASSES.items():
        pattern = pattern.replace(name, characters)
    return re.compile(pattern)
