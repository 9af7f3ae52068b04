"""The column REASON has what keeps a job waiting, and not what the job asks for."""

import pytest

from tests import running
from vscheduler.mirror.wording import phrases, sentences
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

STANDARD = "priority gang | predicates proportion"
TAINTED = "node n1 cpu=4 label=gpu-type=l40 taint=special=true:NoSchedule node n2 cpu=4"

CASES: dict[str, tuple[str, str]] = {
    "a label that no node has": (
        f"{TAINTED} queue q job q/j min=1 select=gpu-type=b200 -",
        "no node has gpu-type=b200",
    ),
    "a taint of the only nodes with the label": (
        f"{TAINTED} queue q job q/j min=1 select=gpu-type=l40 -",
        "only nodes with taint special=true may match its node selector",
    ),
    "taints everywhere": (
        "node n1 cpu=4 taint=special=true:NoSchedule queue q job q/j min=1 -",
        "there are only nodes with taint special=true",
    ),
    "nodes that are closed": (
        "node n1 cpu=4 cordoned node n2 cpu=4 unready queue q job q/j min=1 -",
        "there are only nodes that are cordoned or that aren't ready",
    ),
    "a gang in a cluster of one queue": (
        "node n1 cpu=4 queue q job q/i min=1 n1*3 job q/j min=2 cpu=1 - -",
        "queue q has 3 cpu of the 4 there are to share, which leaves 1",
    ),
    "a gang that is too large": (
        "node n1 cpu=4 queue q job q/j min=5 -*5",
        "the nodes that it may use have room for at most 4 of 5 pods of 1 cpu, e…",
    ),
    "a full node": (
        """
        node n1 cpu=4   node n2 cpu=4   queue q   job q/i min=1 n1*3 n2*3
        job q/j min=1 cpu=2 -
        """,
        "the largest hole is 1 cpu on n1",
    ),
    "a gang that finds room for a part": (
        "node n1 cpu=4 node n2 cpu=3 queue q job q/i min=1 cpu=3 n1 job q/j min=2 cpu=2 - -",
        "1 of 2 fits; the largest hole is 1 cpu on n1",
    ),
    "a gang for which no node has anything free": (
        """
        node n1 cpu=2   queue q   queue r   job r/i min=2 preemptable=false n1*2
        job q/j min=1 cpu=1 -
        """,
        "no node has cpu left",
    ),
    "a full queue": (
        """
        node n1 cpu=9   queue q capability=cpu:3   job q/i min=1 n1*2
        job q/j min=2 - -
        """,
        "queue q has 2 cpu of the 3 it may have, which leaves 1",
    ),
}


@pytest.mark.parametrize(("picture", "short"), CASES.values(), ids=CASES)
def test_the_short_reason_is_the_cause(picture: str, short: str) -> None:
    """In few words; the whole sentence has the figures."""
    tree = {"actions": "enqueue, allocate", "tiers": running.tiers(STANDARD)}
    outcome = run.simulate(pictures.documents(picture), running.policy_of(tree), Options())
    reason = next(group.reason for group in outcome.last.groups if group.job.endswith("/j"))
    assert reason is not None
    assert phrases.short(sentences.sentence(reason)) == short
