"""The tree of HyperNodes: which nodes they have, and what is wrong with them."""

import itertools
import random
import re
from collections.abc import Sequence

import pytest

from tests import running
from vscheduler.core.topology import hyper_nodes
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.nodes import NodeLayout, NodeSpec
from vscheduler.model.topology import HyperNode, Member
from vscheduler.testing import pictures

NAMES = sorted(
    {
        *(f"rack-{rack}-n{number}" for rack in (1, 2, 11, 12) for number in (1, 2, 10)),
        *("gpu", "gpu-1", "gpu-11.example.com", "a", "x-rack-1", "rack-1-", "rack-1-n"),
    }
)
LAYOUT = NodeLayout(tuple(NodeSpec(name=name) for name in NAMES))


def nodes_of(member: Member, layout: NodeLayout = LAYOUT) -> list[str]:
    """The names of the nodes of a domain with this member only."""
    tree, problems = hyper_nodes.tree([HyperNode(name="h", tier=1, members=(member,))], layout)
    assert not problems
    return [layout.names[row] for row in tree.rows(0)]


@pytest.mark.parametrize(
    "pattern",
    [
        *("^rack-1-", "^rack-1", "rack-1-", "rack-1", "^rack-1-n1$", "^gpu$", "gpu", "-", "n1$"),
        *("^rack-1?", "^rack-1*-", "rack-1+-", "rack-1{2}", "^rack-[12]-n1", "^.*-n1$", ".*gpu"),
        *("^rack-1-|gpu", "^(rack-2|gpu)", "^x|rack-2-", ".*?x", ".", "^", "$", "zzz", "^zzz"),
        *("^a", "^a$", "a?", "^a?", r"gpu-1\.", r"^gpu-1\d", "(?i)GPU", "^gpu-11.example.com$"),
    ],
)
def test_a_pattern_is_found_anywhere_in_names(pattern: str) -> None:
    """However its beginning helps to find it."""
    expected = [name for name in NAMES if re.search(pattern, name)]
    assert nodes_of(Member(pattern=pattern)) == expected


def test_patterns_may_name_classes_of_characters() -> None:
    """As in Go, which Volcano is written in."""
    found = nodes_of(Member(pattern="^gpu-[[:digit:]]+[.][[:alpha:]]"))
    assert found == ["gpu-11.example.com"]


def test_nodes_are_selected_by_labels() -> None:
    """As anything else is; a selector without any condition selects none."""
    chance = random.Random(3)
    specs = tuple(
        NodeSpec(
            name=f"n{number:03}",
            labels=tuple((key, chance.choice("abc")) for key in "rsz" if chance.random() < 0.7),
        )
        for number in range(100)
    )
    layout = NodeLayout(specs)
    conditions = [
        Requirement("r", Operator.IN, ("a", "b", "a")),
        Requirement("s", Operator.NOT_IN, ("a",)),
        Requirement("z", Operator.EXISTS, ()),
        Requirement("r", Operator.DOES_NOT_EXIST, ()),
        Requirement("s", Operator.IN, ("c",)),
    ]
    for size in (1, 2, 3):
        for chosen in itertools.permutations(conditions, size):
            selector = Selector(chosen)
            expected = [spec.name for spec in specs if selector.matches(dict(spec.labels))]
            assert nodes_of(Member(selector=selector), layout) == expected
    assert nodes_of(Member(selector=Selector()), layout) == []


def problems_of(picture: str) -> dict[str, Sequence[str]]:
    """What is wrong with the HyperNodes of a picture with the nodes a1 to a3."""
    nodes = " ".join(f"node a{number} cpu=1" for number in (1, 2, 3))
    snapshot = running.snapshot_of(pictures.documents(f"{nodes} {picture}"))
    return dict(hyper_nodes.tree(snapshot.hyper_nodes.every, snapshot.nodes.layout)[1])


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        ("hypernode r nodes=a1,a9   hypernode s tier=2 children=r", {}),
        ("hypernode s tier=2 children=r", {"s": ["its member r doesn't exist"]}),
        (
            "hypernode r tier=2 nodes=a1   hypernode s tier=2 children=r",
            {"s": ["its member r is of tier 2, which is not below 2"]},
        ),
        (
            "hypernode r nodes=a1   hypernode s tier=2 children=r   hypernode t tier=3 children=r",
            {"r": ["it is a member of s and t"]},
        ),
        (
            "hypernode r nodes=a1,a2   hypernode s nodes=a2,a3",
            {
                "r": ["it has nodes in common with s"],
                "s": ["it has nodes in common with r"],
            },
        ),
        (
            "hypernode r called=rack nodes=a1   hypernode s tier=2 called=rack children=r",
            {
                name: ["its tierName rack names the tiers 1, 2; the highest counts"]
                for name in ("r", "s")
            },
        ),
        (
            "hypernode r pattern=a(",
            {"r": ["its pattern a(: missing ), unterminated subpattern at position 1"]},
        ),
        (
            "hypernode r pattern=a{99999999999}",
            {"r": ["its pattern a{99999999999}: the repetition number is too large"]},
        ),
    ],
)
def test_what_is_wrong_is_said_of_each(picture: str, expected: dict[str, list[str]]) -> None:
    """And of no other."""
    assert {name: list(said) for name, said in problems_of(picture).items()} == expected
