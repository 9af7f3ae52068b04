"""Why reclaim frees no room for a queue below its share, in a sentence of the queue."""

from typing import Any

import pytest

from tests import running
from vscheduler.mirror.wording import sentences
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

RECLAIM = "enqueue, allocate, backfill, reclaim"
STARVED = "reclaim makes no room, though queue poor has 0 of the 4 cpu it deserves: "


def outlook(
    picture: str, actions: str = RECLAIM, tiers: str = running.STANDARD, **arguments: object
) -> str:
    """What queue `poor` is told after a cycle; empty if nothing."""
    tree: dict[str, Any] = {"actions": actions, "tiers": running.tiers(tiers)}
    if arguments:
        named = {f"reclaim.{name}": value for name, value in arguments.items()}
        tree["configurations"] = [{"name": "reclaim", "arguments": named}]
    outcome = run.simulate(pictures.documents(picture), running.policy_of(tree), Options())
    found = next(queue for queue in outcome.last.queues if queue.name == "poor")
    return "" if found.reclaim is None else sentences.reclaim_outlook(found.name, found.reclaim)


FULL = """
    node n1 cpu=4   node n2 cpu=4
    queue poor   queue rich{rich}
    job rich/busy min={min} {how} cpu=1 n1*4 n2*4
    job poor/late min=2 cpu=2 - -
"""


def full(*, rich: str = "", least: int = 1, how: str = "") -> str:
    """Two nodes that queue `rich` fills with a job of 8 pods."""
    return FULL.format(rich=rich, min=least, how=how)


CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "reclaim does help": (full(), {}, ""),
    "no action reclaim": (
        full(),
        {"actions": "enqueue, allocate, backfill"},
        f"{STARVED}action reclaim isn't configured",
    ),
    "nothing to be had from others": (
        full(rich=" reclaimable=false"),
        {},
        f"{STARVED}the only other queue with pods has reclaimable: false",
    ),
    "annotated pods": (
        full(how="preemptable=false"),
        {},
        (
            f"{STARVED}queue rich has 4 cpu more than deserved, but of 8 pods, "
            '8 forbid evictions (volcano.sh/preemptable: "false")'
        ),
    ),
    "a gang that stays whole": (
        full(least=8),
        {"wholeGangs": "never"},
        (
            f"{STARVED}queue rich has 4 cpu more than deserved, but of 8 pods, "
            "8 belong to gangs that reclaim.wholeGangs protects"
        ),
    ),
    "young pods": (
        full(),
        {"minRuntime": "1h"},
        (
            f"{STARVED}queue rich has 4 cpu more than deserved, but of 8 pods, "
            "8 haven't run for their minimum run time"
        ),
    ),
    "pods of a budget, and critical ones": (
        """
        node n1 cpu=6   node n2 cpu=6
        queue poor   queue rich   queue also   queue shut reclaimable=false
        job rich/busy min=1 cpu=1 class=system-node-critical n1*3 n2*2
        job also/db min=1 cpu=1 label=app=db n1*3 n2*3
        job shut/one min=1 cpu=1 n2
        job poor/late min=1 cpu=3 -
        budget db select=app=db allowed=0
        """,
        {"tiers": "priority gang conformance pdb | predicates proportion"},
        (
            "reclaim makes no room, though queue poor has 0 of the 3 cpu it deserves: "
            "queues also and rich have 3 cpu more than deserved, but of 11 pods, "
            "6 are protected by PodDisruptionBudgets and 5 are protected by a plugin, "
            "such as conformance"
        ),
    ),
    "a job beyond the share": (
        """
        node n1 cpu=4   node n2 cpu=4
        queue poor   queue rich
        job rich/busy min=1 cpu=1 n1*4 n2*4
        job poor/late min=5 cpu=1 -*5
        """,
        {},
        f"{STARVED}its job needs 5 cpu more",
    ),
    "pods too large to lose": (
        """
        node n1 cpu=4   node n2 cpu=4
        queue poor   queue rich
        job rich/busy min=1 cpu=3 n1 n2
        job poor/late min=1 cpu=4 -
        """,
        {},
        (
            f"{STARVED}queue rich has 2 cpu more than deserved, "
            "but of 2 pods, 2 hold more than their queues have to give back"
        ),
    ),
    "not enough on any node, even without them": (
        """
        node n1 cpu=8   node n2 cpu=8
        queue poor   queue rich   queue shut reclaimable=false
        job rich/busy min=1 cpu=1 n1*4 n2*4
        job shut/one min=1 cpu=4 n1 n2
        job poor/late min=1 cpu=5 -
        """,
        {},
        (
            "reclaim makes no room, though queue poor has 0 of the 5 cpu it deserves: "
            "queue rich has 2.5 cpu more than deserved, but evicting those that may go, "
            "8 of 8 pods, doesn't make enough room"
        ),
    ),
    "a full share of the resource that it lacks": (
        """
        node n1 cpu=8 memory=8Gi
        queue poor deserved=cpu:4,memory:4Gi   queue rich deserved=cpu:4,memory:4Gi
        job poor/has min=1 cpu=1 memory=4Gi n1
        job rich/busy min=1 cpu=1 memory=585Mi n1*7
        job poor/late min=1 cpu=1 memory=1Gi -
        """,
        {"tiers": "priority gang | predicates capacity"},
        (
            "reclaim makes no room, as queue poor has 4Gi of the 4Gi memory it deserves, "
            "and its job needs 1Gi memory more"
        ),
    ),
    "nobody above its share": (
        """
        node n1 cpu=4   node n2 cpu=4
        queue poor   queue rich
        job rich/busy min=1 cpu=3 n1 n2
        job poor/late min=1 cpu=2 -
        """,
        {},
        (
            "reclaim makes no room, though queue poor has 0 of the 2 cpu it deserves: "
            "the only other queue with pods doesn't have more of it than it deserves"
        ),
    ),
}


@pytest.mark.parametrize(("picture", "how", "expected"), CASES.values(), ids=CASES)
def test_a_queue_below_its_share_is_told_why(
    picture: str, how: dict[str, Any], expected: str
) -> None:
    """One reason each, with numbers."""
    assert outlook(picture, **how) == expected


SINGLE = "queue rich has 2 cpu more than deserved, but of 2 pods, 2 hold more than "


@pytest.mark.parametrize(
    ("single", "gang", "expected"),
    [("a", "b", f"{SINGLE}their queues have to give back"), ("b", "a", "its job needs 5 cpu more")],
)
def test_the_first_job_by_name_speaks_for_its_queue(single: str, gang: str, expected: str) -> None:
    """Of two jobs that lack room, whichever had its turn first."""
    picture = f"""
        node n1 cpu=4   node n2 cpu=4
        queue poor   queue rich
        job rich/busy min=1 cpu=3 n1 n2
        job poor/{single} min=1 cpu=4 -
        job poor/{gang} min=5 cpu=1 -*5
        """
    assert outlook(picture) == f"{STARVED}{expected}"
