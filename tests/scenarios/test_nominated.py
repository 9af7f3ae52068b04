"""Room that other schedulers nominated to pods of theirs: kube-scheduler's preemptor and ours."""

import pytest

from tests import running
from tests.scenarios.deciding import bind, decide, evict, pipeline
from vscheduler.mirror.wording import sentences
from vscheduler.testing import pictures

OTHERS = "scheduler=default-scheduler"


def the_reason(picture: str, job: str) -> str:
    """What the job is told."""
    tree = {"actions": "allocate", "tiers": running.tiers("gang | predicates")}
    result = running.run(pictures.documents(picture), tree)
    (group,) = (group for group in result.groups if group.job == f"default/{job}")
    assert group.reason is not None
    return sentences.sentence(group.reason)


@pytest.mark.parametrize(
    ("eager", "bound"),
    [("-", []), ("-^9", []), ("-^10", ["eager-0"])],
)
def test_the_preemptor_finds_the_room_that_its_victim_left(eager: str, bound: list[str]) -> None:
    """Its victim is gone, it isn't bound yet; only what is nominated to lesser pods is free."""
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/preemptor {OTHERS} nominated=n1 cpu=2   -^9
        job   q/eager cpu=1   {eager}
        """
    assert decide(picture, "allocate") == [bind(pod, "n1") for pod in bound]


def test_the_annotation_for_the_order_of_tasks_wins_no_nominated_room() -> None:
    """Priority is what admission lets a pod have: whoever makes pods writes annotations."""
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/preemptor {OTHERS} nominated=n1 cpu=2   -^9
        job   q/eager cpu=1 annotation=volcano.sh/task-priority=99   -
        """
    assert decide(picture, "allocate") == []


def test_what_the_victim_frees_is_counted_once() -> None:
    """The preemptor takes the place of the pod that goes, and the rest of the node is free."""
    picture = f"""
        node  n1 cpu=4
        queue q
        job   q/victim {OTHERS} cpu=2   ~n1
        job   q/preemptor {OTHERS} nominated=n1 cpu=2   -^9
        job   q/eager cpu=2   - -
        """
    assert decide(picture, "allocate") == [bind("eager-0", "n1")]


def test_a_pod_of_ours_goes_where_nothing_is_nominated() -> None:
    """Even where the nominated node would score higher."""
    picture = f"""
        node  n1 cpu=8
        node  n2 cpu=2
        queue q
        job   q/preemptor {OTHERS} nominated=n1 cpu=8   -^9
        job   q/eager cpu=1   -
        """
    assert decide(picture, "allocate") == [bind("eager-0", "n2")]


@pytest.mark.parametrize(
    "preemptor",
    [
        f"{OTHERS} nominated=gone cpu=2   -^9",
        f"{OTHERS} nominated=n1 cpu=2   !^9",
        "scheduler=vscheduler nominated=n1 min=2 cpu=2   -^9",
    ],
)
def test_nominations_that_nobody_counts(preemptor: str) -> None:
    """To a node that isn't there, of a pod behind a gate, of a pod of our own."""
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/preemptor {preemptor}
        job   q/eager cpu=2   -
        """
    assert decide(picture, "allocate") == [bind("eager-0", "n1")]


def test_host_ports_and_pod_slots_are_nominated_too() -> None:
    """The preemptor needs them on its node."""
    picture = f"""
        node  n1 cpu=8 pods=9
        node  n2 cpu=8 pods=1
        queue q
        job   q/server {OTHERS} nominated=n1 port=80 cpu=1   -^9
        job   q/small {OTHERS} nominated=n2 cpu=1   -^9
        job   q/same port=80   -
        job   q/other port=81   -
        """
    assert decide(picture, "allocate") == [bind("other-0", "n1")]


@pytest.mark.parametrize("terms", ["apart=app=db@zone", "label=app=web"])
def test_pods_that_may_not_be_near_keep_away(terms: str) -> None:
    """By our pod's own anti-affinity or by the nominated pod's, in the whole zone."""
    theirs = "label=app=db" if "apart" in terms else "apart=app=web@zone"
    picture = f"""
        node  n1 cpu=8 label=zone=a
        node  n2 cpu=8 label=zone=a
        node  n3 cpu=1 label=zone=b
        queue q
        job   q/preemptor {OTHERS} nominated=n1 {theirs} cpu=1   -^9
        job   q/ours {terms} cpu=1   -
        """
    assert decide(picture, "allocate") == [bind("ours-0", "n3")]


def test_nobody_counts_on_the_company_of_a_nominated_pod() -> None:
    """It may end up elsewhere (kube-scheduler: filters pass with nominated pods and without)."""
    picture = f"""
        node  n1 cpu=8 label=zone=a
        queue q
        job   q/preemptor {OTHERS} nominated=n1 label=app=db cpu=1   -^9
        job   q/ours near=app=db@zone cpu=1   -
        """
    assert decide(picture, "allocate") == []


def test_nobody_is_evicted_for_a_place_that_is_nominated_away() -> None:
    """What goes on n1 leaves too little for the claimant beside the preemptor; n2 has enough."""
    picture = f"""
        node  n1 cpu=4
        node  n2 cpu=4
        queue q
        job   q/cheap cpu=1   n1
        job   q/dear cpu=4 priority=5   n2
        job   q/preemptor {OTHERS} nominated=n1 cpu=3   -^9
        job   q/claimant cpu=4 priority=9   -
        """
    found = decide(picture, "allocate, preempt", "priority gang conformance | predicates")
    assert found == [evict("dear-0", "n2", for_="claimant"), pipeline("claimant-0", "n2")]


def test_a_claimant_of_higher_priority_takes_nominated_room() -> None:
    """As kube-scheduler would: pods make way for their betters only."""
    picture = f"""
        node  n1 cpu=4
        queue q
        job   q/cheap cpu=1   n1
        job   q/preemptor {OTHERS} nominated=n1 cpu=3   -^9
        job   q/claimant cpu=4 priority=9   -^10
        """
    found = decide(picture, "allocate, preempt", "priority gang conformance | predicates")
    assert found == [evict("cheap-0", "n1", for_="claimant"), pipeline("claimant-0", "n1")]


def test_jobs_of_one_class_may_differ_in_what_they_may_take() -> None:
    """Nothing that was found for pods of one priority is said of those of another."""
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/preemptor {OTHERS} nominated=n1 cpu=2   -^5
        job   q/a-low  cpu=1   -^4
        job   q/b-low  cpu=1   -^4
        job   q/c-high cpu=1   -^6
        """
    assert decide(picture, "allocate") == [bind("c-high-0", "n1")]


def test_the_pods_of_one_job_may_differ_in_what_they_may_take() -> None:
    """One class, two priorities: that there is no node for the first says nothing of the other."""
    picture = f"""
        node  n1 cpu=2
        queue q
        job   q/preemptor {OTHERS} nominated=n1 cpu=1   -^5
        job   q/full cpu=1   n1
        job   q/a cpu=1   -^4 -^6
        job   q/b cpu=1   -^4 -^6
        """
    assert decide(picture, "allocate", "gang | predicates") == [bind("a-1", "n1")]


def test_who_asks_in_vain_is_like_others_only_if_they_may_take_as_much() -> None:
    """Pods alike in all else, their order among ours included."""
    same = "cpu=4 priority=9 annotation=volcano.sh/task-priority=1"
    picture = f"""
        node  n1 cpu=4
        queue q
        job   q/cheap cpu=1   n1
        job   q/preemptor {OTHERS} nominated=n1 cpu=3   -^9
        job   q/a-low {same}   -
        job   q/b-high {same}   -^10
        """
    found = decide(picture, "allocate, preempt", "priority gang conformance | predicates")
    assert found == [evict("cheap-0", "n1", for_="b-high"), pipeline("b-high-0", "n1")]


def test_who_finds_no_victims_in_a_job_says_nothing_of_its_other_pods() -> None:
    """The second pod of the job may take what is nominated, the first one may not."""
    picture = f"""
        node  n1 cpu=4
        queue q
        job   q/cheap cpu=1   n1
        job   q/preemptor {OTHERS} nominated=n1 cpu=3   -^9
        job   q/claimant cpu=4 priority=9 annotation=volcano.sh/task-priority=1   - -^10
        """
    found = decide(picture, "allocate, preempt", "priority gang conformance | predicates")
    assert found == [evict("cheap-0", "n1", for_="claimant"), pipeline("claimant-1", "n1")]


def test_what_is_nominated_away_is_short_when_a_gang_is_to_go_whole() -> None:
    """Its memory doesn't count, of which there is enough; of cpu there seems to be."""
    picture = f"""
        node  n1 cpu=8 memory=100Gi
        queue q
        job   q/gang cpu=2 memory=40Gi min=2   n1 n1
        job   q/preemptor {OTHERS} nominated=n1 cpu=4 memory=1Gi   -^9
        job   q/claimant cpu=4 memory=1Gi priority=9   -
        """
    arguments = {"preempt.wholeGangs": "proportionate"}
    tree = {
        "actions": "allocate, preempt",
        "tiers": running.tiers("priority gang conformance | predicates"),
        "configurations": [{"name": "preempt", "arguments": arguments}],
    }
    result = running.run(pictures.documents(picture), tree)
    assert [evict.task.name for evict in result.evicts] == ["gang-0", "gang-1"]


def test_pods_of_one_class_are_kept_away_by_their_labels() -> None:
    """Labels are no part of a class."""
    picture = f"""
        node  n1 cpu=8 label=zone=a
        queue q
        job   q/preemptor {OTHERS} nominated=n1 apart=app=web@zone cpu=1   -^9
        job   q/a label=app=web cpu=1   -
        job   q/b label=app=db cpu=1   -
        """
    assert decide(picture, "allocate") == [bind("b-0", "n1")]


def test_who_keeps_away_depends_on_priority() -> None:
    """A pod has to yield to one of the two, or to both."""
    picture = f"""
        node  n1 cpu=8 label=zone=a
        node  n2 cpu=8 label=zone=b
        queue q
        job   q/first {OTHERS} nominated=n1 label=app=db cpu=1   -^9
        job   q/second {OTHERS} nominated=n2 label=app=db cpu=1   -^3
        job   q/high apart=app=db@zone cpu=1   -^5
        job   q/low apart=app=db@zone cpu=1   -^2
        """
    assert decide(picture, "allocate") == [bind("high-0", "n2")]


def test_jobs_that_are_refused_for_it_are_told() -> None:
    """The node has room, and not for them."""
    picture = f"""
        node  n1 cpu=2
        node  n2 cpu=1
        queue q
        job   q/preemptor {OTHERS} nominated=n1 cpu=2   -^9
        job   q/eager cpu=2   -
        """
    said = the_reason(picture, "eager")
    assert "1 node(s) had cpu that is nominated to pods of other schedulers" in said
    assert "1 Insufficient cpu" in said


def test_the_room_that_a_sentence_names_is_what_is_left() -> None:
    """Of what isn't short, beside what is."""
    picture = f"""
        node  n1 cpu=4 memory=1Gi
        queue q
        job   q/preemptor {OTHERS} nominated=n1 cpu=1   -^9
        job   q/eager cpu=2 memory=4Gi   -^9 -^10
        """
    tree = {"actions": "allocate", "tiers": running.tiers("predicates")}
    session = running.open_session(pictures.documents(picture), tree)
    (state,) = session.job_states.values()
    for task, free in zip(state.job.tasks, (3000, 4000), strict=True):
        (hole,) = (each for each in session.placement.refusals(task)[1] if each.resource == "cpu")
        assert hole.free == free


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_in_volcanos_way_nobody_is_evicted_for_nominated_room_either(action: str) -> None:
    """Whose victims are found task by task."""
    picture = f"""
        node  n1 cpu=4
        queue q weight=1
        queue p weight=9
        job   q/cheap cpu=1   n1 n1
        job   q/preemptor {OTHERS} nominated=n1 cpu=2   -^9
        job   {"q" if action == "preempt" else "p"}/claimant cpu=3 priority=9   -
        """
    tree = {
        "actions": f"allocate, {action}",
        "tiers": running.tiers("priority conformance | predicates proportion"),
        "compatibility": "volcano",
    }
    without = picture.replace("nominated=n1", "nominated=n2")
    assert running.run(pictures.documents(without), tree).evicts != ()
    assert running.run(pictures.documents(picture), tree).evicts == ()


def test_a_node_with_a_nominated_port_is_still_a_node_that_is_large_enough() -> None:
    """Nominations pass: the job waits, and isn't told that it can never fit."""
    picture = f"""
        node  n1 cpu=4
        node  n2 cpu=1
        queue q
        job   q/server {OTHERS} nominated=n1 port=80 cpu=1   -^9
        job   q/eager cpu=3 port=80   -
        """
    said = the_reason(picture, "eager")
    assert "1 node(s) had host ports that are nominated to pods of other schedulers" in said
    assert "more than any node" not in said


def test_who_needn_t_go_goes_where_nominated_room_needs_the_place() -> None:
    """What goes for the last job would do for the first one, too, and the cheap pod could stay; but
    its place is taken by now, and beside it the preemptor would find none.
    """
    picture = f"""
        node  n1 cpu=9 label=at=1
        node  n2 cpu=6 label=at=2
        queue q
        job   q/cheap cpu=5   n1
        job   q/dear cpu=6 priority=5   n2
        job   q/preemptor {OTHERS} nominated=n1 cpu=2   -^9
        job   q/first cpu=4 priority=9   -
        job   q/second cpu=3 priority=8 select=at=1   -
        job   q/third cpu=2 priority=7 select=at=2   -
        """
    tiers = "priority gang conformance | predicates"
    found = decide(picture, "preempt, allocate", tiers)
    going = [each for each in found if each.what == "evict"]
    assert going == [evict("cheap-0", for_="first"), evict("dear-0", for_="third")]
