import dataclasses

import pytest

from tests import running
from tests.running import Tree
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import TaskId
from vscheduler.model.snapshot import FRESH, Carried, Reported
from vscheduler.testing import pictures

NOW = pictures.NOW.timestamp()
SIXTY = {"actions": "allocate", "tiers": running.tiers(running.STANDARD)}
HALF = """
    node  n1 cpu=3  node n2 cpu=1
    queue q
    job   q/half min=4  n1 +n2 -
    job   q/next min=1  -
"""


def cycle(
    picture: str = HALF,
    now: float = 0.0,
    tree: Tree = SIXTY,
    carried: Carried = FRESH,
) -> CycleResult:
    """One cycle, some seconds after the picture was taken."""
    return running.run_at(pictures.documents(picture), tree, NOW + now, carried)


def evicted(result: CycleResult) -> list[str]:
    """Who goes."""
    return [evict.task.name for evict in result.evicts]


def test_a_gang_that_is_bound_in_part_has_its_time_and_then_goes() -> None:
    """The next cycle is at that instant; all of it goes at once; others get its room then."""
    first = cycle()
    assert evicted(first) == []
    (since,) = first.carried.partial_since.values()
    assert (since, first.wake_at) == (NOW, NOW + 60)
    before = cycle(now=59.0, carried=first.carried)
    assert (evicted(before), before.wake_at) == ([], NOW + 60)
    assert before.carried.partial_since == first.carried.partial_since
    after = cycle(now=60.0, carried=first.carried)
    assert evicted(after) == ["half-0", "half-1"]
    assert {(evict.action, evict.beneficiary, evict.whole) for evict in after.evicts} == {
        ("gang", None, True)
    }


def test_what_it_had_in_its_queue_is_free_once_it_goes() -> None:
    """The API server may refuse the evictions, and the queue may have no more than two pods."""
    picture = """
        node  n1 cpu=9
        queue q capability=cpu:2
        job   q/half min=3  n1 n1 -@9
        job   q/next min=1  -
    """
    after = cycle(picture, 60.0, carried=cycle(picture).carried)
    assert (evicted(after), after.binds) == (["half-0", "half-1"], ())


def test_it_stays_if_it_has_become_complete() -> None:
    """In the last cycle of its time; the API server may refuse that as well, so it isn't the last
    look.
    """
    missing = HALF.replace("n2 -", "n2 -@9")
    late = cycle(HALF.replace("min=4", "min=3"), 60.0, carried=cycle(missing).carried)
    assert evicted(late) == []
    assert [bind.task.name for bind in late.binds][:1] == ["half-2"]
    assert late.wake_at == NOW + 61


@pytest.mark.parametrize(
    "pods",
    [
        "- - - -",
        "n1 n1 n1 n2",
        "~n1 - - -",
    ],
)
def test_a_gang_with_all_or_nothing_bound_is_left_alone(pods: str) -> None:
    """Time that was running ends."""
    picture = HALF.replace("n1 +n2 -", pods)
    result = cycle(picture, 99.0, carried=Carried(partial_since=halves_of(picture)))
    assert (evicted(result), result.carried.partial_since) == ([], {})


def halves_of(picture: str) -> dict[str, float]:
    """As if every gang of the picture had been bound in part since it was taken."""
    found = running.snapshot_of(pictures.documents(picture))
    return {job.uid: NOW for job in found.jobs}


@pytest.mark.parametrize("phase", ["Running", "Unknown"])
def test_a_gang_that_had_its_minimum_keeps_what_is_left(phase: str) -> None:
    """It lost pods to a node or to its user; time that was running ends."""
    picture = HALF.replace("min=4", f"min=4 phase={phase}").replace("n2 -", "n2 -@9")
    assert cycle(picture).carried.partial_since == {}
    running_out = Carried(partial_since=halves_of(picture))
    late = cycle(picture, 60.0, carried=running_out)
    assert (evicted(late), late.carried.partial_since) == ([], {})


BORN = -3600.0
"""When the objects of pictures are made, seconds from their instant."""
BOUND = HALF.replace("min=4", "min=4 age=99 scheduled=50")
"""Its pods were bound 50 seconds before that."""


def since(result: CycleResult) -> list[float]:
    """Since when gangs are bound in part, seconds from the pictures' objects."""
    return [instant - NOW - BORN for instant in result.carried.partial_since.values()]


def test_its_time_goes_on_under_another_leader() -> None:
    """Who hasn't seen it before knows from the API server since when it is bound in part."""
    first = cycle(BOUND, BORN)
    assert (evicted(first), since(first)) == ([], [-50])
    assert first.wake_at == NOW + BORN + 10
    assert evicted(cycle(BOUND, BORN + 9)) == []
    assert evicted(cycle(BOUND, BORN + 10)) == ["half-0", "half-1"]


def test_the_first_that_was_bound_counts() -> None:
    """And not a pod of an earlier attempt that has failed long ago."""
    documents = pictures.documents(BOUND)
    instants = {"half-0": ("Failed", "10:00:00"), "half-1": ("Running", "10:59:40")}
    for document in documents:
        if document["metadata"]["name"] in instants:
            phase, instant = instants[document["metadata"]["name"]]
            document["status"]["phase"] = phase
            document["status"]["conditions"][0]["lastTransitionTime"] = f"2026-01-01T{instant}Z"
    assert since(running.run_at(documents, SIXTY, NOW + BORN)) == [-20]


def after_two(picture: str, now: float, carried: Carried) -> CycleResult:
    """One cycle in which the first two pods of the gang have succeeded."""
    documents = pictures.documents(picture)
    for document in documents:
        if document["metadata"]["name"] in ("half-0", "half-1"):
            document["status"]["phase"] = "Succeeded"
    return running.run_at(documents, SIXTY, NOW + BORN + now, carried)


def test_time_begins_anew_with_a_pod_that_is_bound_after_all_others_have_ended() -> None:
    """Such a gang kept nothing meanwhile; its last pods may have been refused for hours."""
    ended = after_two(BOUND, 0.0, cycle(BOUND, BORN).carried)
    assert (ended.carried.partial_since, ended.wake_at) == ({}, None)
    third = BOUND.replace("+n2 -", "+n2 +n1 -@9")
    again = after_two(third, 99.0, ended.carried)
    assert (evicted(again), since(again)) == ([], [99])
    assert evicted(after_two(third, 159.0, again.carried)) == ["half-2"]


def without_n9(pods: str, now: float, carried: Carried = FRESH) -> CycleResult:
    """One cycle on the gang's pods after node n9 has gone."""
    picture = HALF.replace("node n2", "node n9 cpu=1  node n2").replace("n1 +n2 -", pods)
    documents = [
        document for document in pictures.documents(picture) if document["metadata"]["name"] != "n9"
    ]
    return running.run_at(documents, SIXTY, NOW + now, carried)


def test_time_begins_anew_with_pods_that_come_while_one_is_on_a_lost_node() -> None:
    """That one can't be evicted and keeps nothing. If it counted, all others would go as soon as
    they are bound, and their owner would make new ones, for ever.
    """
    first = without_n9("n1 n1 n9 -@9", 0.0)
    gone = without_n9("n1 n1 n9 -@9", 60.0, first.carried)
    assert evicted(gone) == ["half-0", "half-1"]
    left = without_n9("~n1 ~n1 n9 -@9", 60.3, gone.carried)
    assert left.carried.partial_since == {}
    again = without_n9("n1 n1 n9 -@9", 60.6, left.carried)
    assert (evicted(again), again.wake_at) == ([], NOW + 120.6)
    assert evicted(without_n9("n1 n1 n9 -@9", 120.6, again.carried)) == ["half-0", "half-1"]


def test_who_has_seen_it_come_about_goes_by_its_own_clock() -> None:
    """One that is ahead of the API server's evicts no gang that is being bound."""
    seen = cycle("node n1 cpu=1 queue q").carried
    later = cycle(BOUND, BORN + 30, carried=seen)
    assert (evicted(later), since(later)) == ([], [30])


def test_a_clock_behind_the_servers_waits_no_longer_than_its_time() -> None:
    """What was bound in the future was bound now."""
    assert since(cycle(BOUND, BORN - 80)) == [-80]


def test_a_group_made_for_pods_that_ran_before_has_all_its_time() -> None:
    """It is younger than they are."""
    assert since(cycle(BOUND.replace("age=99", "age=7"), BORN)) == [-7]


def test_how_long_is_an_argument_of_gang() -> None:
    """Without that plugin nobody goes."""
    tiers = [{"plugins": [{"name": "gang", "arguments": {"gang.bindTimeout": "2m"}}]}]
    first = cycle(tree={"actions": "allocate", "tiers": tiers})
    assert first.wake_at == NOW + 120
    none = cycle(tree={"actions": "allocate", "tiers": running.tiers("predicates")})
    assert (none.wake_at, none.carried.partial_since) == (None, {})


def test_not_in_volcanos_way() -> None:
    """There it stays as it is."""
    result = cycle(tree={**SIXTY, "compatibility": "volcano"})
    assert (result.wake_at, result.carried.partial_since) == (None, {})


def test_it_is_left_alone_while_the_server_refuses_one_of_its_pods() -> None:
    """All of it or none."""
    first = cycle()
    tasks = [
        task.uid
        for job in running.snapshot_of(pictures.documents(HALF)).jobs
        for task in job.tasks
        if task.name == "half-1"
    ]
    carried = dataclasses.replace(
        first.carried, reported=Reported(eviction_refused_pods=frozenset(map(TaskId, tasks)))
    )
    assert evicted(cycle(now=60.0, carried=carried)) == []


@pytest.mark.parametrize(("allowed", "gone"), [(1, []), (2, ["half-0", "half-1"])])
def test_budgets_keep_a_part_that_was_bound(allowed: int, gone: list[str]) -> None:
    """All of it goes, or nothing."""
    picture = f"{HALF.replace('min=4', 'min=4 label=app=db')} budget b allowed={allowed}"
    result = cycle(picture, 99.0, carried=Carried(partial_since=halves_of(picture)))
    assert evicted(result) == gone


def test_members_that_ask_for_nothing_are_members() -> None:
    """One that the API server refused keeps the others waiting no longer than any other would."""
    picture = "node n1 cpu=3 pods=1 queue q job q/half min=2 n1 -@0"
    first = cycle(picture)
    assert evicted(first) == []
    assert evicted(cycle(picture, 60.0, carried=first.carried)) == ["half-0"]
