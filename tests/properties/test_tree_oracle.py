"""Trees of PodGroups start if and only if there are nodes for as many groups as they need: all
ways to choose groups and nodes are gone through.
"""

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from tests.scenarios.test_group_trees import group, root, started
from tests.scenarios.test_native_pod_groups import node, pods, simulate

Document = dict[str, Any]
Sizes = dict[str, tuple[int, int]]
"""By PodGroup, its minCount, and the cpu of each of its pods."""


class Tree:
    """A gang of a PodGroup and of a gang of others, or only one of both."""

    def __init__(self, chance: random.Random) -> None:
        names = "abcd"[: chance.randint(2, 4)]
        self.sizes: Sizes = {
            name: (chance.randint(1, 3), chance.choice([1, 1, 2, 3])) for name in names
        }
        self.nested = chance.random() < 0.4 and len(names) > 2
        self.some = [name for name in names if not (self.nested and name == "a")]
        self.count = chance.randint(1, len(self.some))
        self.more = {name: chance.choice([0, 0, 1]) for name in names}
        """How many pods each has above its minCount."""

    @property
    def documents(self) -> list[Document]:
        """Groups and pods."""
        found = [root("r", 2)] if self.nested else []
        found.append(root("m", self.count, parent="r" if self.nested else ""))
        for name, (minimum, cpu) in self.sizes.items():
            found.append(group(name, minimum, "m" if name in self.some else "r"))
            found += pods(name, minimum + self.more[name], cpu=cpu)
        return found

    def fits(self, nodes: list[int]) -> bool:
        """Whether some choice of the needed groups has nodes for all pods that it needs."""
        needed = [name for name in self.sizes if name not in self.some]
        return any(
            _packs(self._pods([*needed, *chosen]), nodes)
            for chosen in itertools.combinations(self.some, self.count)
        )

    def is_whole(self, found: dict[str, int]) -> bool:
        """Whether nothing has started, or enough groups have, each with its minCount."""
        if not found:
            return True
        whole = all(found[name] >= self.sizes[name][0] for name in found)
        others = set(self.sizes) - set(self.some)
        return whole and others <= set(found) and len(set(found) & set(self.some)) >= self.count

    def _pods(self, names: list[str]) -> list[int]:
        return sorted(cpu for name in names for cpu in [self.sizes[name][1]] * self.sizes[name][0])


def _packs(asked: list[int], nodes: list[int]) -> bool:
    """Whether these pods fit on nodes with so much free: the largest pod on each node in turn."""
    if not asked:
        return True
    *rest, cpu = asked
    return any(
        free >= cpu and _packs(rest, [*nodes[:at], free - cpu, *nodes[at + 1 :]])
        for at, free in enumerate(nodes)
        if free not in nodes[:at]
    )


@pytest.mark.parametrize("seed", range(250))
def test_a_tree_starts_if_enough_of_its_groups_fit(seed: int) -> None:
    """However unlike these are; otherwise none of its pods does."""
    chance = random.Random(seed)
    tree = Tree(chance)
    nodes = [chance.randint(1, 6) for _ in range(chance.randint(1, 3))]
    documents = [node(f"n{at}", cpu) for at, cpu in enumerate(nodes)]
    found = started(simulate(*documents, *tree.documents, cycles=3))
    assert bool(found) is tree.fits(nodes), (nodes, tree.sizes, tree.count, tree.some)
    assert tree.is_whole(found), found


def test_the_trees_vary() -> None:
    """About half of them fit, and many are of unlike groups of which only some are needed."""
    seen: Counter[str] = Counter()
    for seed in range(250):
        chance = random.Random(seed)
        tree = Tree(chance)
        fits = tree.fits([chance.randint(1, 6) for _ in range(chance.randint(1, 3))])
        unlike = len({tree.sizes[name] for name in tree.some}) > 1 and tree.count < len(tree.some)
        seen.update(
            name
            for name, value in (("fits", fits), ("unlike", unlike), ("both", fits and unlike))
            if value
        )
    assert 60 < seen["fits"] < 190
    assert seen["unlike"] > 80
    assert seen["both"] > 40
