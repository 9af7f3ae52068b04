"""Gangs that lost pods which nobody replaces go when their recovery time-out is over."""

import dataclasses
from typing import Any

import pytest

from tests import running
from vscheduler.core.plugins import gang
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH, Carried, Reported
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

NOW = pictures.NOW.timestamp()
PICTURE = """
    node  n1 cpu=8
    queue q
    job   q/g min=4 phase=Unknown n1 n1 n1 n1
    """
"""The last pod has failed, and nobody makes another one."""
UNREADABLE = "'soon' is no duration such as 15s, 1m30s or 100ms"
STANDARD = "priority gang conformance pdb cdp | predicates proportion"
TEN = STANDARD.replace("gang", "gang:gang.recoveryTimeout=10m")


def world(
    picture: str = PICTURE,
    *,
    queue: str = "",
    group: str = "",
    ended: str = "Failed",
    **status: Any,
) -> list[Document]:
    """The last of four pods has ended; time-outs of the queue and the PodGroup."""
    documents = pictures.documents(picture)
    for document in documents:
        annotations = document["metadata"].setdefault("annotations", {})
        if document["metadata"]["name"] == "g-3" and ended:
            document["status"]["phase"] = ended
        if document["kind"] == "Queue" and queue:
            annotations[gang.RECOVERY] = queue
        if document["kind"] == "PodGroup":
            document["status"].update(status)
            if group:
                annotations[gang.RECOVERY] = group
    return documents


def cycle(
    documents: list[Document],
    now: float = 0.0,
    carried: Carried = FRESH,
    tiers: str = TEN,
    *,
    compatibility: str = "",
) -> CycleResult:
    """One cycle, some seconds after the picture."""
    settings: dict[str, Any] = {
        "actions": "allocate",
        "tiers": running.tiers(tiers),
    }
    if compatibility:
        settings["compatibility"] = compatibility
    return running.run_at(documents, settings, NOW + now, carried)


def late(documents: list[Document], tiers: str = TEN, compatibility: str = "") -> list[str]:
    """Who goes after an hour."""
    first = cycle(documents, tiers=tiers, compatibility=compatibility)
    assert not first.evicts
    return evicted(
        cycle(documents, 3600.0, first.carried, tiers=tiers, compatibility=compatibility)
    )


def evicted(result: CycleResult) -> list[str]:
    """Who goes."""
    return [evict.task.name for evict in result.evicts]


def test_what_is_left_of_a_gang_goes_after_its_time_with_numbers() -> None:
    """The next cycle is at that instant, with no event; it all goes at once."""
    first = cycle(world())
    assert (evicted(first), first.wake_at) == ([], NOW + 600)
    before = cycle(world(), 599.0, first.carried)
    assert (evicted(before), before.wake_at) == ([], NOW + 600)
    after = cycle(world(), 600.0, before.carried)
    assert evicted(after) == ["g-0", "g-1", "g-2"]
    assert {(evict.action, evict.beneficiary, evict.whole) for evict in after.evicts} == {
        ("gang", None, True)
    }
    (job,) = running.snapshot_of(world()).jobs
    assert sentences.evicted(after.evicts[0], job) == (
        "evicted from n1 by gang.recoveryTimeout, as 3 of 4 pods ran for 10m after one failed; "
        "its whole gang goes, and needs 4 pods, this one of 1 cpu, to run again"
    )


def test_a_pod_that_was_deleted_is_lost_too() -> None:
    """By a drain, say."""
    documents = world(PICTURE.replace("n1 n1 n1 n1", "n1 n1"))
    result = cycle(documents, 5400.0, cycle(documents).carried)
    assert sentences.lost(result.evicts) == (
        "2 pods evicted by gang.recoveryTimeout, as 2 of 4 pods ran for 1h30m after 2 were lost"
    )


def test_without_a_time_out_nothing_goes() -> None:
    """That's the default; nor in Volcano's way, whatever is set."""
    assert late(world(), STANDARD) == []
    first = cycle(world(), tiers=STANDARD)
    assert (first.wake_at, first.carried.stale_since) == (None, {})
    assert late(world(queue="1m"), compatibility="volcano") == []


TIMEOUTS = {
    "of the queue": (STANDARD, "1m", "", 60.0),
    "the queue's instead of the configured one": (TEN, "1h", "", 3600.0),
    "off for the queue": (TEN, "0s", "", None),
    "of the job": (STANDARD, "", "1m", 60.0),
    "shorter of the job": (STANDARD, "1h", "1m", 60.0),
    "a job makes it no longer": (STANDARD, "1m", "1h", 60.0),
    "nor turns it off": (TEN, "", "0s", 600.0),
}


@pytest.mark.parametrize(("tiers", "queue", "group", "due"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_who_sets_it(tiers: str, queue: str, group: str, due: float | None) -> None:
    """The configuration, the Queue instead, and the job if that is shorter."""
    result = cycle(world(queue=queue, group=group), tiers=tiers)
    assert result.wake_at == (None if due is None else NOW + due)


SPARED = {
    "it is being refilled": (PICTURE + " -@9", "Failed"),
    "a replacement is behind a gate": (PICTURE + " !", "Failed"),
    "it has what it needs": (PICTURE.replace("min=4", "min=3"), "Failed"),
    "the missing pod has succeeded": (PICTURE, "Succeeded"),
    "nothing of it runs": (PICTURE.replace("n1 n1 n1 n1", "~n1 ~n1 ~n1 n1"), "Failed"),
    "its PodGroup protects it": (PICTURE.replace("min=4", "min=4 preemptable=false"), "Failed"),
    "a budget protects it": (PICTURE + " budget b allowed=2", "Failed"),
}


@pytest.mark.parametrize(("picture", "ended"), SPARED.values(), ids=SPARED)
def test_a_gang_stays_though_its_time_would_be_over(picture: str, ended: str) -> None:
    """If it isn't stale, or protected."""
    assert late(world(picture, ended=ended)) == []


def test_pods_that_succeeded_and_were_deleted_are_not_lost() -> None:
    """The status counts them."""
    picture = PICTURE.replace("n1 n1 n1 n1", "n1 n1 n1")
    assert late(world(picture)) == ["g-0", "g-1", "g-2"]
    assert late(world(picture, succeeded=1)) == []


def test_a_pod_that_cools_down_holds_the_gang_until_then() -> None:
    """The next cycle is at the end of that time."""
    picture = PICTURE.replace("min=4", "min=4 label=volcano.sh/cooldown-time=2h scheduled=0")
    documents = world(picture)
    first = cycle(documents)
    spared = cycle(documents, 1800.0, first.carried)
    assert evicted(spared) == []
    assert spared.wake_at is not None
    assert evicted(cycle(documents, spared.wake_at - NOW, spared.carried)) == ["g-0", "g-1", "g-2"]


def test_its_time_begins_anew_when_it_was_complete_meanwhile() -> None:
    """Each loss has all its time."""
    first = cycle(world())
    whole = cycle(world(ended=""), 300.0, first.carried)
    assert (whole.carried.stale_since, whole.wake_at) == ({}, None)
    again = cycle(world(), 400.0, whole.carried)
    assert again.wake_at == NOW + 1000


@pytest.mark.parametrize(
    ("instant", "due"),
    [
        ("2026-01-01T11:55:00Z", 300.0),
        ("2025-12-31T00:00:00Z", -3000.0),
        ("2026-01-02T00:00:00Z", 600.0),
        ("soon", 600.0),
        ("2026-01-01T11:55:00", 600.0),
    ],
)
def test_its_time_goes_on_under_another_leader(instant: str, due: float) -> None:
    """The condition tells since when it lacks pods, but not before there was such a PodGroup, and
    whatever a tenant writes there.
    """
    condition = {"type": "Unschedulable", "status": "True", "lastTransitionTime": instant}
    documents = world(conditions=[condition])
    result = cycle(documents)
    if due > 0:
        assert (evicted(result), result.wake_at) == ([], NOW + due)
    else:
        assert evicted(result) == ["g-0", "g-1", "g-2"]
    first = cycle(world(ended=""))
    assert cycle(documents, 0.0, first.carried).wake_at == NOW + 600


def test_it_stays_while_the_server_refuses_one_of_its_pods() -> None:
    """All of it or none."""
    first = cycle(world())
    (job,) = running.snapshot_of(world()).jobs
    refused = frozenset(task.uid for task in job.tasks if task.name == "g-1")
    carried = dataclasses.replace(first.carried, reported=Reported(eviction_refused_pods=refused))
    assert evicted(cycle(world(), 600.0, carried)) == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            {"group": "soon"},
            "annotation vscheduler.io/recovery-timeout: {}; correct it on the PodGroup",
        ),
        (
            {"queue": "soon"},
            "queue q: annotation vscheduler.io/recovery-timeout: {}; correct it on the Queue",
        ),
    ],
    ids=["PodGroup", "Queue"],
)
def test_what_cannot_be_read_starts_no_job_and_evicts_none(
    setting: dict[str, str], said: str
) -> None:
    """The reason names the object and the annotation."""
    assert late(world(**setting)) == []
    result = cycle(world(PICTURE.replace("n1 n1 n1 n1", "-*4"), ended="", **setting))
    (group,) = result.groups
    assert not result.binds
    assert group.reason is not None
    assert sentences.sentence(group.reason) == said.format(UNREADABLE)


def test_a_time_out_of_the_configuration_that_cannot_be_read_is_refused() -> None:
    """When the file is read."""
    tree = {"actions": "allocate", "tiers": running.tiers(TEN.replace("10m", "soon"))}
    with pytest.raises(ValueError, match=r"gang\.recoveryTimeout"):
        running.policy_of(tree)
