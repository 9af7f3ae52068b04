"""Tables of queues, whole: a change of one is a change that people see."""

from textwrap import dedent
from typing import Any

import pytest

from tests.unit.cli import queue_objects
from vscheduler.cli.queue import queue_figures, queue_tables
from vscheduler.cli.queue.queue_figures import Figures, Group
from vscheduler.cli.queue.queue_tables import Style

FILE = Style(now=queue_objects.NOW)
WIDE = Style(now=queue_objects.NOW, wide=True)
LIMITS = {
    "capability": {"cpu": 40, "memory": "200Gi"},
    "guarantee": {"resource": {"cpu": 4, "memory": "1Gi", "nvidia.com/gpu": 1}},
}
SOME = [
    Group(
        key=f"team/{at}", queue="gold", phase="Pending", created=0.0, waits_because=f"reason {at}"
    )
    for at in range(12)
]


def terminal(width: int) -> Style:
    """Someone who looks at so many columns."""
    return Style(now=queue_objects.NOW, width=width)


def of(name: str, **fields: Any) -> Figures:
    """A queue's figures; nobody has a PodGroup."""
    return queue_figures.figures(queue_objects.a_queue(name, **fields), {})


def text(lines: list[str]) -> str:
    """As printed; no line ends in blanks."""
    assert [line for line in lines if line != line.rstrip()] == []
    return "\n".join(lines) + "\n"


def shown(picture: str) -> str:
    """A picture in a test, as printed."""
    return dedent(picture).lstrip("\n")


GOLD = of("gold", status=queue_objects.FIGURES)
SILVER = of("silver", status={"state": "Closing", "allocated": {"nvidia.com/gpu": "8"}}, weight=2)


def test_queues_as_lines() -> None:
    """A column per resource that anyone has; no parent, no column for parents."""
    assert text(queue_tables.listed([GOLD, SILVER], FILE)) == shown("""
    NAME    STATE    WEIGHT  CPU    MEMORY      NVIDIA.COM/GPU  SHARE       WAITING  RUNNING  AGE
    gold    Open     1       24/25  96Gi/100Gi  0/0             0.96 (cpu)  0        0        5m
    silver  Closing  2       0/-    0/-         8/-             -           0        0        5m
    """)


def test_queues_with_all_their_limits() -> None:
    """Wide cells hold all resources, without blanks."""
    lines = queue_tables.listed([of("gold", status=queue_objects.FIGURES, **LIMITS)], WIDE)
    assert lines[0].split()[-5:] == ["AGE", "REQUEST", "REALCAPABILITY", "GUARANTEE", "CAPABILITY"]
    assert lines[1].split()[-4:] == [
        "cpu=32,memory=128Gi",
        "cpu=75",
        "cpu=4,memory=1Gi,nvidia.com/gpu=1",
        "cpu=40,memory=200Gi",
    ]


def test_parents_get_a_column_where_there_are_any() -> None:
    """No parent is root; root has none."""
    lines = queue_tables.listed([of("gold", parent="metals"), of("metals"), of("root")], FILE)
    assert [line.split()[3] for line in lines] == ["PARENT", "metals", "root", "-"]


def test_two_usual_queues_fit_80_columns() -> None:
    """A line each is what most people see."""
    lines = queue_tables.listed([GOLD, of("robotics")], terminal(80))
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80


def test_a_narrow_terminal_gets_figures_below_each_other() -> None:
    """Nothing is lost, and no line is broken at 80 columns."""
    narrow = of("robotics-and-vision", status=queue_objects.FIGURES, parent="research")
    lines = queue_tables.listed([narrow, SILVER], terminal(80))
    assert text(lines) == shown("""
        NAME                 ALLOCATED/DESERVED  SHARE       PODGROUPS  ABOUT
        robotics-and-vision  24/25 cpu           0.96 (cpu)  0 pending  Open
                             96Gi/100Gi memory               0 inqueue  in research
                             0/0 nvidia.com/gpu              0 running  weight 1
                                                                        5m
        silver               0/- cpu             -           0 pending  Closing
                             0/- memory                      0 inqueue  weight 2
                             8/- nvidia.com/gpu              0 running  5m
    """)


def test_no_queues_are_no_lines() -> None:
    """Not even titles."""
    assert queue_tables.listed([], terminal(80)) == []


def test_all_about_a_queue() -> None:
    """Figures by resource, the scheduler's sentence, and who waits."""
    gold = of("gold", status=queue_objects.FIGURES, **LIMITS, deserved={"cpu": 30}, priority=5)
    lines = queue_tables.block(gold, SOME[:1], FILE)
    assert text(lines) == shown(f"""
        Name:       gold
        State:      Open
        Weight:     1
        Priority:   5
        Parent:     root
        Share:      0.96 (cpu)
        PodGroups:  0 pending, 0 inqueue, 0 running
        Age:        5m

        RESOURCE         CPU  MEMORY  NVIDIA.COM/GPU
        Allocated        24   96Gi    0
        Deserved         25   100Gi   0
        Request          32   128Gi   0
        Real capability  75   -       -
        Capability       40   200Gi   -
        Guarantee        4    1Gi     1
        Quota            30   -       -

        vscheduler: {queue_objects.WHY}

        Waiting:
          team/0 (-): reason 0
    """)


def test_ten_that_wait_are_enough() -> None:
    """The others are counted."""
    lines = queue_tables.block(GOLD, SOME, FILE)
    assert lines[-2:] == ["  team/9 (-): reason 9", "  and 2 more"]


@pytest.mark.parametrize("groups", [None, []])
def test_nobody_waits(groups: list[Group] | None) -> None:
    """Or nobody may know."""
    assert "Waiting:" not in queue_tables.block(GOLD, groups, FILE)


def test_sentences_are_folded_on_a_terminal_alone() -> None:
    """What is piped into a search is one line."""
    assert max(map(len, queue_tables.block(GOLD, SOME, terminal(60)))) <= 60
    assert f"vscheduler: {queue_objects.WHY}" in queue_tables.block(GOLD, SOME, FILE)


def test_the_tree() -> None:
    """Children below their parents, by name; root without an object."""
    queues = [
        of("vision", parent="research"),
        of("speech", parent="research", status=queue_objects.FIGURES),
        of("research", parent="root"),
        of("asr", parent="speech"),
        of("robotics"),
    ]
    assert text(queue_tables.tree(queues, FILE)) == shown("""
        NAME          CPU    MEMORY      SHARE
        root          -      -           -
        ├─ research   -      -           -
        │  ├─ speech  24/25  96Gi/100Gi  0.96 (cpu)
        │  │  └─ asr  -      -           -
        │  └─ vision  -      -           -
        └─ robotics   -      -           -
    """)


def test_queues_without_a_place_come_last() -> None:
    """Those that lack a parent, those in a cycle, and all below them, once each."""
    queues = [
        of("root", status=queue_objects.FIGURES),
        of("a", parent="b"),
        of("b", parent="a"),
        of("lost", parent="nowhere"),
        of("below", parent="lost"),
        of("fine"),
    ]
    assert text(queue_tables.tree(queues, FILE)) == shown("""
        NAME     CPU    MEMORY      SHARE
        root     24/25  96Gi/100Gi  0.96 (cpu)
        └─ fine  -      -           -

        Without a place in the tree:
        NAME   CPU  MEMORY  SHARE
        a      -    -       -
        b      -    -       -
        below  -    -       -
        lost   -    -       -
        queue a is its own ancestor (a -> b -> a); correct spec.parent of one of them
        parent nowhere of queue lost doesn't exist; create it, or correct spec.parent
    """)


def test_weights_are_left_out_where_queues_have_quotas() -> None:
    """As with plugin capacity, which pays no attention to them."""
    condition = {"type": "x/FairShare", "status": "True", "reason": "Quota", "message": "1 of 2"}
    owner = of("owner", status={"deserved": {"cpu": "1"}, "conditions": [condition]})
    assert "WEIGHT" not in queue_tables.listed([owner, of("idle")], FILE)[0]
    assert "weight" not in text(queue_tables.listed([owner], terminal(40)))
    assert "Weight" not in text(queue_tables.block(owner, [], FILE))
    assert "WEIGHT" in queue_tables.listed([owner, GOLD], FILE)[0]


def test_a_tree_can_be_deep() -> None:
    """Deeper than Python's calls go."""
    queues = [of("q0"), *(of(f"q{at}", parent=f"q{at - 1}") for at in range(1, 1500))]
    grown, problems = queue_tables.grow(queues)
    assert [name for _, name in grown] == ["root", *(f"q{at}" for at in range(1500))]
    assert problems == {}


def test_the_wide_tree() -> None:
    """State, weight and limits; root, which has no object, has none of them."""
    lines = queue_tables.tree([of("gold", status=queue_objects.FIGURES, **LIMITS)], WIDE)
    titles = ["STATE", "WEIGHT", "REQUEST", "REALCAPABILITY", "GUARANTEE", "CAPABILITY"]
    assert lines[0].split()[-6:] == titles
    assert lines[1].split()[-6:] == ["-"] * 6
    assert lines[2].split()[-6:-4] == ["Open", "1"]


def test_colours_do_not_shift_columns() -> None:
    """They have no width."""
    plain = queue_tables.listed([GOLD, SILVER], FILE)
    painted = queue_tables.listed(
        [GOLD, SILVER],
        Style(now=queue_objects.NOW, paint=lambda _, cell: f"<{cell}>"),
    )
    assert [line.replace("<", "").replace(">", "").rstrip() for line in painted] == plain


def test_two_schedulers_of_a_queue_are_told_apart() -> None:
    """What one of them divides says nothing about what both have given."""
    parts = [
        {"name": "online", "allocated": {"cpu": "0.1"}, "deserved": {"cpu": "0.2"}, "share": 0.5},
        {"name": "batch", "allocated": {"cpu": "16.6"}, "deserved": {"cpu": "20"}, "share": 0.83},
    ]
    figures = {"allocated": {"cpu": "16.7"}, "deserved": {"cpu": "0.2"}, "share": 0.5}
    lab = of("lab", status={**figures, "schedulers": parts})
    lines = queue_tables.listed([lab], FILE)
    assert text(lines) == shown("""
        NAME          STATE  WEIGHT  CPU      MEMORY  SHARE       WAITING  RUNNING  AGE
        lab           Open   1       16.7/-   0/-     -           0        0        5m
        lab (batch)                  16.6/20  0/0     0.83 (cpu)
        lab (online)                 0.1/0.2  0/0     0.50 (cpu)
    """)
    block = text(queue_tables.block(lab, [], FILE))
    assert "batch has, of what it gives: 16.6/20 cpu, 0/0 memory; share 0.83 (cpu)" in block


@pytest.mark.parametrize(
    ("allocated", "deserved", "share", "shown_as"),
    [
        ({"cpu": "3", "pods": "6"}, {"cpu": "8", "pods": "10"}, 0.6, "0.60 (pods)"),
        ({"cpu": "3", "pods": "3"}, {"cpu": "6", "pods": "6"}, 0.5, "0.50 (cpu)"),
        ({"cpu": "3"}, {"cpu": "6"}, 2.0, "2.00"),
        ({}, {"cpu": "6"}, 0.0, "0.00"),
        ({"cpu": "x"}, {"cpu": "6"}, 1.0, "1.00"),
        ({"cpu": "2"}, {"cpu": "0", "pods": "4"}, 1.0, "borrowed"),
        ({"cpu": "0"}, {"pods": "4"}, 1.0, "-"),
    ],
)
def test_a_share_names_its_resource(
    allocated: dict[str, str], deserved: dict[str, str], share: float, shown_as: str
) -> None:
    """The one with the largest quotient, if that is the share."""
    status = {"allocated": allocated, "deserved": deserved, "share": share}
    assert queue_tables.share(of("lab", status=status)) == shown_as


def test_a_sentence_tells_how_old_it_is() -> None:
    """A scheduler that is gone leaves its last one."""
    conditions = [
        {"type": "gone/FairShare", "status": "True", "message": "9 of 9 usable CPU"},
        {"type": "vscheduler/FairShare", "status": "True", "message": "6 of 9 usable CPU"},
    ]
    queue = queue_objects.a_queue("gold", status={"conditions": conditions})
    queue["metadata"]["managedFields"] = [
        {"manager": "gone", "subresource": "status", "time": "2020-01-01T12:00:00Z"}
    ]
    shown = text(queue_tables.block(queue_figures.figures(queue, {}), [], FILE))
    age = queue_figures.age(queue_objects.NOW - queue_figures.instant("2020-01-01T12:00:00Z"))
    assert f"\ngone, {age} ago: 9 of 9 usable CPU\n" in shown
    assert "\nvscheduler: 6 of 9 usable CPU\n" in shown
