"""Gangs of unequal pods: whole on any nodes that have room for them, or a proof that none have."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import bind, decide, evict, pipeline
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.model.gang_proof import GangProof
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

TIERS = "priority gang | predicates nodeorder binpack"
TREE: dict[str, Any] = {"actions": "allocate", "tiers": running.tiers(TIERS)}
TIGHT = """
    node n1 cpu=4
    node n2 cpu=3
    queue q
    job q/g min=3 -@3 -@2 -@2
    """
"""The first pod likes n1 best, where most is free, and then there is no room for both others."""
IMPOSSIBLE = """
    node n1 cpu=4
    node n2 cpu=4
    queue q
    job q/g min=4 -@3 -@3 -@2 -@0.1
    """
PUZZLE = """
    node n1 cpu=14
    node n2 cpu=22
    node n3 cpu=25
    queue q
    job q/g min=10 -@3 -@3 -@3 -@5 -@6 -@6 -@6 -@7 -@11 -@11
    """
"""All but nothing stays free."""
HARD = """
    node n1 cpu=12 label=x=z
    node n2 cpu=25 label=x=z
    node n3 cpu=14 label=x=z
    node n4 cpu=22 label=x=z
    queue q
    job q/g min=10 -@4 -@5 -@5 -@7 -@8*4 -@9 -@11
    """
"""As PUZZLE, but impossible."""
QUIET = "queue q job q/h min=3 select=x=y -@3 -@2 -@2"
"""Another tenant's gang, on nodes of its own."""


def limited(steps: int) -> dict[str, Any]:
    """The configuration with so many steps for the searches of a cycle."""
    arguments = {"allocate.gangSearchSteps": steps}
    return {**TREE, "configurations": [{"name": "allocate", "arguments": arguments}]}


def proof(result: CycleResult) -> GangProof:
    """What the search for the only job has shown."""
    (status,) = result.groups
    assert status.reason is not None
    assert status.reason.proof is not None
    return status.reason.proof


def blocking(result: CycleResult) -> Sequence[tuple[int, float, int]]:
    """How many pods with how much cpu don't fit together, and how many nodes take one of them."""
    return [(each.count, each.request["cpu"], each.nodes) for each in proof(result).blocking]


def test_a_pod_beyond_the_minimum_is_told_why_it_waits_in_the_same_cycle() -> None:
    """A pod like it found no node before the search; what was reported then is out of date."""
    picture = TIGHT.replace("-@2 -@2", "-@2 -@2 -@2")
    result = running.run(pictures.documents(picture), TREE)
    assert len(result.binds) == 3
    (status,) = result.groups
    assert status.reason is not None
    assert "2 cpu" in sentences.sentence(status.reason)


def test_a_gang_starts_although_its_first_pods_like_the_wrong_nodes() -> None:
    """Placed one by one, the pod of 3 cpu leaves no node for the second pod of 2."""
    expected = [bind("g-0", "n2"), bind("g-1", "n1"), bind("g-2", "n1")]
    assert decide(TIGHT, "allocate", TIERS) == expected


@pytest.mark.parametrize(
    ("nodes", "job", "places"),
    [
        ("node n1 cpu=4 node n2 cpu=3", "min=3 -@3 -@2 -@2 -@9", "n2 n1 n1 -"),
        ("node n1 cpu=4 node n2 cpu=3", "min=3 roles=a:1,b:2 a:-@3 b:-@2*2", "n2 n1 n1"),
        (
            "node n1 cpu=4 node n2 cpu=3",
            "min=4 subgroups=2x2 a:-@1 a:-@1 b:-@1 b:-@4",
            "n2 n2 n2 n1",
        ),
        ("node n1 cpu=9 node n2 cpu=3", "min=3 port=80 -@2 -@3", None),
        ("node n1 cpu=4 node n2 cpu=3", "min=2 port=80 -@3 -@4", "n2 n1"),
    ],
    ids=["with more pods than needed", "roles", "sub-groups", "too few nodes for ports", "ports"],
)
def test_all_that_decides_takes_part(nodes: str, job: str, places: str | None) -> None:
    """Roles, sub-groups, members above the minimum, and host ports."""
    decided = decide(f"{nodes} queue q job q/g {job}", "allocate", TIERS)
    wanted = enumerate((places or "").split())
    assert decided == [bind(f"g-{number}", node) for number, node in wanted if node != "-"]


def test_room_that_is_being_freed_counts_if_there_is_no_other() -> None:
    """The pod that needs the room of one being deleted waits for it, and with it the gang."""
    picture = TIGHT.replace("queue q", "queue q job q/old ~n2")
    waits = [pipeline("g-0", "n2"), pipeline("g-1", "n1"), pipeline("g-2", "n1")]
    assert decide(picture, "allocate", TIERS) == waits


def test_the_reason_names_the_pods_that_do_not_fit_together() -> None:
    """Not the small one, which would fit besides any of them."""
    result = running.run(pictures.documents(IMPOSSIBLE), TREE)
    assert result.binds == ()
    assert proof(result).proved
    assert blocking(result) == [(2, 3000, 2), (1, 2000, 2)]
    reason = result.groups[0].reason
    assert reason is not None
    assert sentences.sentence(reason).startswith(
        "needs 4 pods; 2 pods with 3 cpu (2 nodes have room for one) and 1 pod with 2 cpu "
        "(2 nodes have room for one) don't fit at the same time, however they are placed; "
        "with any one fewer they would; 0/2 nodes are available"
    )


def test_what_is_proved_is_not_searched_again_before_something_changes() -> None:
    """Not in the next cycle; but when a node is larger, or the gang has another pod."""
    documents = pictures.documents(IMPOSSIBLE)
    first = running.run(documents, TREE)
    assert first.work["searches"] == 1
    again = running.run(documents, TREE, carried=first.carried)
    assert "searches" not in again.work
    assert proof(again) == proof(first)
    larger = pictures.documents(IMPOSSIBLE.replace("n2 cpu=4", "n2 cpu=5"))
    assert len(running.run(larger, TREE, carried=again.carried).binds) == 4


def test_a_search_that_is_cut_short_goes_on_in_the_next_cycle() -> None:
    """From where it was, and a cycle is due for it."""
    documents, tree = pictures.documents(PUZZLE), limited(30)
    first = running.run(documents, tree)
    assert (proof(first).proved, proof(first).steps) == (False, 30)
    assert first.wake_at == pictures.NOW.timestamp() + 1.0
    second = running.run(documents, tree, carried=first.carried)
    assert len(second.binds) == 10
    assert second.wake_at is None


def test_a_search_ends_in_a_proof_however_often_it_is_cut_short() -> None:
    """Each cycle takes its steps, and what has failed isn't tried again."""
    documents, steps, carried = pictures.documents(HARD), [], FRESH
    for _ in range(8):
        result = running.run(documents, limited(30), carried=carried)
        carried = result.carried
        steps.append(proof(result).steps)
    assert proof(result).proved
    assert result.wake_at is None
    assert "searches" not in result.work
    assert steps == sorted(steps)
    assert all(after - before <= 45 for before, after in itertools.pairwise([0, *steps]))


@pytest.mark.parametrize("more", [("n1 cpu=12", "n1 cpu=13"), ("n2 cpu=25", "n2 cpu=26")])
def test_states_that_have_failed_are_forgotten_when_a_node_grows(more: tuple[str, str]) -> None:
    """The gang is then searched for as if it had never been searched for before."""
    carried, tree = FRESH, limited(30)
    for _ in range(3):
        carried = running.run(pictures.documents(HARD), tree, carried=carried).carried
    assert any(search.failed for search in carried.gang_searches.values())
    outcomes: list[list[Sequence[str]]] = []
    for known in (carried, FRESH):
        cycles: list[Sequence[str]] = []
        result = running.run(pictures.documents(HARD.replace(*more)), tree, carried=known)
        while not result.binds:
            cycles.append(())
            result = running.run(
                pictures.documents(HARD.replace(*more)), tree, carried=result.carried
            )
        outcomes.append([*cycles, [bind.node for bind in result.binds]])
    assert outcomes[0] == outcomes[1]


def test_a_search_is_given_up_in_the_end() -> None:
    """After as many steps as 16 cycles may take; it isn't begun again before something changes."""
    documents, carried = pictures.documents(HARD), FRESH
    for _ in range(18):
        result = running.run(documents, limited(4), carried=carried)
        carried = result.carried
    assert proof(result) == GangProof(proved=False, steps=64)
    assert "searches" not in result.work
    assert result.wake_at is None


def test_a_tenant_with_hard_gangs_does_not_keep_others_from_being_searched() -> None:
    """The namespace whose searches have cost less comes first, whatever the order of jobs is."""
    hard = pictures.documents(HARD.replace("job q/g", "job q/g select=x=z priority=10"))
    easy = pictures.documents("node n5 cpu=4 label=x=y node n6 cpu=3 label=x=y " + QUIET)
    for each in easy:
        if each["kind"] in ("Pod", "PodGroup"):
            each["metadata"]["namespace"] = "other"
    documents = hard + [each for each in easy if each["kind"] != "Queue"]
    first = running.run(documents, limited(30))
    assert first.binds == ()
    second = running.run(documents, limited(30), carried=first.carried)
    assert [bind.task.key for bind in second.binds] == ["other/h-0", "other/h-1", "other/h-2"]


def test_evictions_make_room_on_nodes_that_suit_the_whole_gang() -> None:
    """Where the first pod would go, the others would have no room, whoever is evicted."""
    picture = """
        node n1 cpu=4
        node n2 cpu=3
        queue q
        job q/low min=1 priority=1 n1*4 n2*3
        job q/g min=3 priority=10 -@3 -@2 -@2
        """
    decided = decide(picture, "allocate, preempt", "priority gang | predicates nodeorder")
    placed = [pipeline("g-0", "n2"), pipeline("g-1", "n1"), pipeline("g-2", "n1")]
    assert decided == [evict(f"low-{number}", for_="g") for number in range(7)] + placed


def test_searches_for_other_victims_go_on_beside_each_other() -> None:
    """Preempt may free four nodes, reclaim the others; each search takes all steps of a cycle."""
    picture = """
        node n1 cpu=12 node n2 cpu=25 node n3 cpu=14 node n4 cpu=22
        node n5 cpu=12 node n6 cpu=25 node n7 cpu=14 node n8 cpu=22
        queue q deserved=cpu:200
        queue r deserved=cpu:1
        job q/low   min=1 priority=1 n1*12 n2*25 n3*14 n4*22
        job r/other min=1 priority=1 n5*12 n6*25 n7*14 n8*22
        job q/g min=10 priority=10 -@4 -@5 -@5 -@7 -@8*4 -@9 -@11
        """
    tiers = running.tiers("priority gang | predicates capacity")
    tree = {**limited(30), "actions": "allocate, preempt, reclaim", "tiers": tiers}
    carried, steps = FRESH, []
    for _ in range(4):
        result = running.run(pictures.documents(picture), tree, carried=carried)
        carried = result.carried
        steps.append(sum(search.steps for search in carried.gang_searches.values()))
    assert steps == [30, 60, 60, 60]
    assert result.wake_at is None


def test_the_search_can_be_turned_off() -> None:
    """By its steps, and by the compatibility with Volcano, which has none."""
    assert running.run(pictures.documents(TIGHT), limited(0)).binds == ()
    volcano = {**TREE, "compatibility": "volcano"}
    for tree in (limited(0), volcano):
        assert "searches" not in running.run(pictures.documents(IMPOSSIBLE), tree).work
