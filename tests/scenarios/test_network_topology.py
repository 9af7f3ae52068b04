"""Gangs that are to be near together in the network, as long as nobody here knows the network."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import bind, written
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, Reason, ReasonCode
from vscheduler.model.jobs import Phase, TaskId
from vscheduler.model.snapshot import Carried
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

HARD = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
BY_DEFAULT: Mapping[str, Any] = {"networkTopology": {}}
SOFT = {"networkTopology": {"mode": "soft"}}
PART = {"subGroupPolicy": [{"name": "a"}, {"name": "b", "networkTopology": {"mode": "hard"}}]}
SOFT_PART = {"subGroupPolicy": [{"networkTopology": {"mode": "soft"}}]}
TREE = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "tiers": running.tiers("priority gang conformance | overcommit predicates proportion"),
}
WITH_PLUGIN = {
    **TREE,
    "tiers": running.tiers(
        "priority gang conformance | overcommit predicates proportion network-topology-aware"
    ),
}
VOLCANO = {"compatibility": "volcano"}
ANYWHERE = {"hardNetworkTopology": "anywhere"}
WAIT = {"hardNetworkTopology": "wait"}

ALONE = """
    node  n1 cpu=4
    queue q
    job   q/gang min=2 cpu=1 minresources=cpu:2 phase={phase}   - -
    """


def with_spec(picture: str, spec: Mapping[str, Any]) -> list[Document]:
    """The manifests, with more in the spec of the PodGroup `gang`."""
    found = pictures.documents(picture)
    for document in found:
        if document["kind"] == "PodGroup" and document["metadata"]["name"] == "gang":
            document["spec"] |= spec
    return found


def told(result: CycleResult, job: str = "gang") -> Reason | None:
    """What the job is told."""
    (group,) = (group for group in result.groups if group.job == f"default/{job}")
    return group.reason


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (HARD, "spec.networkTopology"),
        (BY_DEFAULT, "spec.networkTopology"),
        (PART, "spec.subGroupPolicy[1].networkTopology"),
        (PART | SOFT, "spec.subGroupPolicy[1].networkTopology"),
    ],
)
@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_gang_that_must_be_near_together_waits(
    spec: Mapping[str, Any], field: str, phase: str
) -> None:
    """It isn't let in, keeps no promise that it had, and is told what to do."""
    result = running.run(with_spec(ALONE.format(phase=phase), spec), TREE)
    assert written(result) == []
    (group,) = result.groups
    assert group.phase is Phase.PENDING
    assert group.reason is not None
    assert group.reason.code is ReasonCode.TOPOLOGY_UNKNOWN
    assert sentences.sentence(group.reason) == (
        f"{field} is hard, and this scheduler knows no network topology yet; set mode soft, or "
        f"hardNetworkTopology: anywhere in the scheduler's configuration"
    )
    assert result.carried.admitted == {}


@pytest.mark.parametrize("spec", [SOFT, SOFT_PART, {"networkTopology": None}, {}])
def test_a_preference_starts_anywhere(spec: Mapping[str, Any]) -> None:
    """Mode soft doesn't keep anybody from starting."""
    result = running.run(with_spec(ALONE.format(phase="Pending"), spec), TREE)
    assert written(result) == [bind("gang-0", "n1"), bind("gang-1", "n1")]


@pytest.mark.parametrize(
    ("tree", "starts"),
    [
        (TREE | ANYWHERE, True),
        (TREE | WAIT, False),
        (WITH_PLUGIN, False),
        (TREE | VOLCANO, True),
        (WITH_PLUGIN | VOLCANO, False),
        (TREE | VOLCANO | WAIT, False),
        (WITH_PLUGIN | VOLCANO | ANYWHERE, True),
    ],
)
def test_a_setting_lets_it_start_anywhere(tree: Mapping[str, Any], starts: bool) -> None:
    """And Volcano's way does, unless the file names the plugin that keeps such gangs together."""
    result = running.run(with_spec(ALONE.format(phase="Pending"), HARD), tree)
    assert (written(result) != []) == starts


def test_without_admission_it_waits_as_well() -> None:
    """Its best-effort pods, too; and nobody is told to add nodes."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/gang min=2 cpu=0   - -
        """
    tree = {"actions": "allocate, backfill", "tiers": running.tiers("gang | predicates")}
    result = running.run(with_spec(picture, HARD), tree)
    assert written(result) == []
    reason = told(result)
    assert reason is not None
    assert reason.code is ReasonCode.TOPOLOGY_UNKNOWN


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_nobody_is_evicted_for_it(action: str) -> None:
    """Without admission, too, where it asks at once."""
    picture = f"""
        node  n1 cpu=4
        queue q weight=1
        queue p weight=3
        job   q/cheap cpu=2   n1 n1
        job   {"q" if action == "preempt" else "p"}/gang cpu=2 priority=9   -
        """
    tree = TREE | {"actions": f"allocate, {action}"}
    assert running.run(pictures.documents(picture), tree).evicts != ()
    assert running.run(with_spec(picture, HARD), tree).evicts == ()


def test_it_holds_no_room_that_was_promised_to_it_before() -> None:
    """Somebody made the topology hard in between."""
    picture = ALONE.format(phase="Inqueue") + "job q/other cpu=4   -"
    named = {TaskId(f"gang-0000{number}"): "n1" for number in range(2)}
    carried = Carried(nominations=named)
    before = running.run(pictures.documents(picture), TREE, carried=carried)
    assert [bind.task.name for bind in before.binds] == ["gang-0", "gang-1"]
    after = running.run(with_spec(picture, HARD), TREE, carried=carried)
    assert [bind.task.name for bind in after.binds] == ["other-0"]


def test_its_minimum_keeps_nobody_out() -> None:
    """What it would be promised is promised to the next one, in the same cycle."""
    picture = """
        node  n1 cpu=2
        queue q capability=cpu:2
        job   q/gang min=2 cpu=1 minresources=cpu:2 phase=Inqueue   - -
        job   q/other min=2 cpu=1 minresources=cpu:2 phase=Pending   - -
        """
    result = running.run(with_spec(picture, HARD), TREE)
    assert written(result) == [bind("other-0", "n1"), bind("other-1", "n1")]


def test_what_runs_of_it_runs_on() -> None:
    """It started elsewhere, or before; a pod that is made anew waits."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/gang min=1 cpu=1 phase=Running   n1 -
        """
    result = running.run(with_spec(picture, HARD), TREE)
    assert written(result) == []
    (group,) = result.groups
    assert group.phase is Phase.RUNNING
