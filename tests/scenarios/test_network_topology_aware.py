"""Gangs on nodes that are near to each other: racks within spines, by labels of nodes."""

from typing import Any

import pytest

from tests import running
from tests.running import Document
from vscheduler.mirror.wording import sentences
from vscheduler.testing import pictures

LEVELS = {"topologies": [{"name": "fabric", "levels": ["spine", "rack"]}]}


def policy(actions: str = "allocate", tiers: str = "gang | predicates") -> dict[str, Any]:
    """A configuration with the plugin."""
    found = running.tiers(tiers)
    found[-1]["plugins"].append({"name": "network-topology-aware", "arguments": LEVELS})
    return {"actions": actions, "tiers": found}


def nodes(*racks: tuple[str, str, int, int]) -> str:
    """Nodes of so many racks: spine, rack, number of nodes, cpu of each."""
    names = iter(range(1, 1000))
    return "\n".join(
        f"node n{next(names)} cpu={cpu} label=spine={spine} label=rack={rack}"
        for spine, rack, count, cpu in racks
        for _ in range(count)
    )


T4 = nodes(("s", "a", 2, 2), ("s", "b", 2, 2))


def starts(picture: str, actions: str = "allocate") -> dict[str, str]:
    """Pods that are bound in the first cycle, with their nodes."""
    result = running.run(pictures.documents(picture), policy(actions))
    return {bind.task.name: bind.node for bind in result.binds}


def test_a_hard_gang_that_fits_no_rack_waits() -> None:
    """Three pods of a node each, and racks have two."""
    assert starts(T4 + "\n queue q \n job q/j min=3 cpu=2 topology=hard:1 -*3") == {}


def test_a_gang_starts_in_one_rack() -> None:
    """The first by name of two that are alike."""
    found = starts(T4 + "\n queue q \n job q/j min=2 cpu=2 topology=hard:1 -*2")
    assert found == {"j-0": "n1", "j-1": "n2"}


def test_a_wider_gang_starts_in_a_spine() -> None:
    """No rack holds it, and it may use two."""
    found = starts(T4 + "\n queue q \n job q/j min=3 cpu=2 topology=hard:2 -*3")
    assert len(found) == 3


def test_the_fullest_rack_that_suffices_is_taken() -> None:
    """The larger one stays whole."""
    picture = nodes(("s", "a", 4, 2), ("s", "b", 2, 2))
    found = starts(picture + "\n queue q \n job q/j min=2 cpu=2 topology=soft -*2")
    assert found == {"j-0": "n5", "j-1": "n6"}


def test_few_racks_are_filled() -> None:
    """Exactly two of three racks."""
    picture = nodes(("s", "a", 2, 4), ("s", "b", 2, 4), ("s", "c", 2, 4))
    found = starts(picture + "\n queue q \n job q/j min=4 cpu=4 topology=hard:2 -*4")
    assert sorted(found.values()) == ["n1", "n2", "n3", "n4"]


TWO_RACKS = nodes(("s", "a", 2, 2), ("s", "b", 2, 2))


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize(("first", "second"), [(2, 1), (1, 2)])
def test_evictions_come_where_they_cost_least(action: str, first: int, second: int) -> None:
    """One rack would lose pods of priority 2, the other one of priority 1."""
    victims = "victim" if action == "preempt" else "lender"
    queue = "q" if action == "preempt" else "lender"
    picture = f"""{TWO_RACKS}
        queue q   queue lender
        job {queue}/{victims}-a min=1 cpu=1 priority={first}  n1 n1 n2 n2
        job {queue}/{victims}-b min=1 cpu=1 priority={second} n3 n3 n4 n4
        job q/j min=2 cpu=1 priority=9 topology=hard:1 - -
        """
    result = running.run(
        pictures.documents(picture),
        policy(f"enqueue, allocate, {action}", "priority gang | predicates proportion"),
    )
    gone = {evict.task.job.rpartition("-")[2] for evict in result.evicts}
    assert gone == {"a" if first < second else "b"}
    assert len(result.evicts) == 2
    rack = {"n1", "n2"} if first < second else {"n3", "n4"}
    assert {each.node for each in result.pipelined} <= rack


def test_workers_start_near_a_pod_of_their_gang() -> None:
    """No node takes them before it is placed, and the room of racks is counted all the same."""
    picture = f"{T4} queue q job q/j min=3 cpu=1 topology=hard:1 ps:- w:- w:-"
    term = {
        "labelSelector": {"matchLabels": {pictures.ROLE: "ps"}},
        "topologyKey": "rack",
    }
    documents = pictures.documents(picture)
    for document in documents:
        if document["metadata"].get("labels", {}).get(pictures.ROLE) == "w":
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            document["spec"]["affinity"] = {"podAffinity": required}
    result = running.run(documents, policy())
    assert {bind.node for bind in result.binds} == {"n1", "n2"}


def patient(picture: str, *jobs: str) -> list[Document]:
    """A cluster in which these jobs wait two hours for a rack."""
    documents = pictures.documents(picture)
    for document in documents:
        if document["kind"] == "PodGroup" and document["metadata"]["name"] in jobs:
            document["metadata"]["annotations"] = {
                "volcano.sh/network-topology-patience": "2h",
                "volcano.sh/network-topology-preferred-tier": "1",
            }
    return documents


def test_a_job_whose_patience_has_ended_does_not_wait_with_others() -> None:
    """Their node is in no rack. One without patience starts, too."""
    picture = """
        node n1 cpu=8 label=spine=s   node n2 cpu=1 label=spine=s label=rack=a   queue q
        job q/a cpu=2 topology=soft -   job q/b cpu=2 topology=soft age=7200 -
        job q/c cpu=2 topology=soft -
        """
    result = running.run(patient(picture, "a", "b"), policy())
    assert {bind.task.name for bind in result.binds} == {"b-0", "c-0"}


def test_patience_ends_with_a_cycle_of_its_own() -> None:
    """Until then the gang waits for a rack, then it takes two."""
    documents = patient(f"{T4} queue q job q/j min=3 cpu=2 topology=hard:2 -*3", "j")
    waiting = running.run(documents, policy())
    end = pictures.BORN.timestamp() + 7200
    assert waiting.binds == ()
    assert waiting.wake_at == end
    result = running.run_at(documents, policy(), end, waiting.carried)
    assert len(result.binds) == 3


def sentence(documents: list[Document]) -> str:
    """Why job `j` waits."""
    result = running.run(documents, policy())
    (reason,) = [each.reason for each in result.groups if each.job == "default/j"]
    assert reason is not None
    return sentences.sentence(reason)


def test_the_room_for_pods_of_two_sizes_is_an_upper_bound() -> None:
    """Each size has room for itself, and a search shows that both together don't."""
    found = sentence(
        pictures.documents(f"{T4} queue q job q/j min=3 cpu=2 topology=hard:1 -@1 - -")
    )
    assert found == (
        "3 pods must start in one rack; the best, s/a, has room for at most 2 on its 2 nodes; "
        "then s/b for at most 2"
    )


def test_a_sub_group_without_a_domain_is_named() -> None:
    """Its own tier is narrower than the job's."""
    documents = pictures.documents(
        f"{T4} queue q job q/j min=3 cpu=2 subgroups=1x3 topology=soft a:-*3"
    )
    for document in documents:
        for entry in document.get("spec", {}).get("subGroupPolicy", ()):
            entry["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    assert sentence(documents) == (
        "3 pods of the sub-group with volcano.sh/task-spec=a of policy role must start in one "
        "rack; the best, s/a, has room for 2 on its 2 nodes; then s/b for 2"
    )


def test_pods_beyond_the_missing_ones_need_no_room_together() -> None:
    """One of three completes the minimum, and the rack has room for it."""
    found = starts(f"{T4} queue q job q/j min=2 cpu=2 topology=hard:1 n1 -*3")
    assert found == {"j-1": "n2"}


def test_pods_that_run_in_two_racks_are_joined_by_none() -> None:
    """Either would do no harm and be no help."""
    documents = pictures.documents(f"{T4} queue q job q/j min=3 cpu=1 topology=hard:1 n1 n3 -")
    assert running.run(documents, policy("allocate, backfill")).binds == ()
    assert sentence(documents) == (
        "1 more pod must join those that run, which aren't in one domain of the network"
    )


def test_a_gang_waits_for_a_rack_that_is_being_left() -> None:
    """Where it can start now comes first, even farther apart."""
    picture = f"{T4} queue q job q/o cpu=2 ~n1 ~n2 n3 job q/j min=2 cpu=2 topology=hard:1 -*2"
    result = running.run(pictures.documents(picture), policy())
    assert {each.node for each in result.pipelined} == {"n1", "n2"}
    free = picture.replace("~n2 n3", "n3").replace("hard:1", "soft")
    assert set(starts(free).values()) == {"n2", "n4"}


def test_a_best_effort_pod_stays_with_its_gang() -> None:
    """Backfill knows no domain that is tried, and has only one slot there."""
    picture = f"{T4.replace('cpu=2', 'cpu=2 pods=2')} queue q job q/o cpu=1 n1 n2"
    found = starts(f"{picture} job q/j min=1 cpu=1 topology=hard:1 n1 -@0 -@0", "backfill")
    assert found == {"j-1": "n2"}


SLOTS = """
    node n1 cpu=2 pods=1 label=spine=s label=rack=a
    node n2 cpu=2 pods=1 label=spine=s label=rack=b
    node n3 cpu=2 pods=1 label=spine=s label=rack=b
    queue q
    """


@pytest.mark.parametrize(("topology", "minimum"), [("hard:1", 2), ("hard:1", 1), ("soft", 2)])
def test_a_gang_of_best_effort_pods_only_starts_in_one_rack(topology: str, minimum: int) -> None:
    """All of it where there is room, rather than its first pod on the first node."""
    found = starts(
        f"{SLOTS} job q/j min={minimum} topology={topology} -@0 -@0", "allocate, backfill"
    )
    assert found == ({"j-0": "n2", "j-1": "n3"} if minimum == 2 else {"j-0": "n1"})


def test_best_effort_pods_that_fit_no_rack_wait() -> None:
    """And are told how many would."""
    documents = pictures.documents(f"{SLOTS} job q/j min=3 topology=hard:1 -@0 -@0 -@0")
    result = running.run(documents, policy("allocate, backfill"))
    assert not result.binds
    (status,) = (each for each in result.groups if each.job == "default/j")
    assert status.reason is not None
    assert sentences.sentence(status.reason).startswith(
        "3 pods must start in one rack; the largest, s/b, could hold 2 if it were empty; "
    )


def test_sub_groups_are_divided_among_racks() -> None:
    """One by one, two and three would leave no rack for four: only one division has room."""
    picture = nodes(("s", "a", 5, 1), ("s", "b", 4, 1))
    job = "job q/j min=9 cpu=1 subgroups=3x2 topology=hard:2 a:-*2 b:-*3 c:-*4"
    documents = pictures.documents(f"{picture} queue q {job}")
    for document in documents:
        for entry in document.get("spec", {}).get("subGroupPolicy", ()):
            entry["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    result = running.run(documents, policy())
    racks = {bind.task.name: bind.node > "n5" for bind in result.binds}
    assert [racks[f"j-{number}"] for number in range(9)] == [False] * 5 + [True] * 4


def test_the_last_of_many_racks_is_found() -> None:
    """Forty others are large enough for each size, and hold only two of the three pods."""
    racks = [("s", f"a{number}", 2, 4) for number in range(40)]
    picture = f"""{nodes(*racks)} queue q
        node x1 cpu=6 label=spine=s label=rack=z   node x2 cpu=2 label=spine=s label=rack=z
        job q/j min=3 topology=hard:1 -@3 -@3 -@2
        """
    assert starts(picture) == {"j-0": "x1", "j-1": "x1", "j-2": "x2"}


def apart(documents: list[Document], way: str) -> list[Document]:
    """The same, with no two pods of job `j` on one node: by their labels, or by a host port."""
    term = {"labelSelector": {"matchLabels": {"job": "j"}}, "topologyKey": "kubernetes.io/hostname"}
    for document in documents:
        if document["kind"] == "Pod" and document["metadata"]["name"].startswith("j-"):
            document["metadata"].setdefault("labels", {})["job"] = "j"
            spec = document["spec"]
            if way == "labels":
                required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                spec["affinity"] = {"podAntiAffinity": required}
            else:
                spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return documents


@pytest.mark.parametrize("way", ["labels", "ports"])
def test_evictions_come_where_pods_that_must_be_apart_have_nodes(way: str) -> None:
    """Not only in racks that have much room, all of it on one node."""
    racks = [("s", f"a{number}", 1, 8) for number in range(9)]
    picture = f"""{nodes(*racks)} queue q
        node x1 cpu=1 label=spine=s label=rack=z   node x2 cpu=1 label=spine=s label=rack=z
        job q/o min=1 priority=1 cpu=1 x1 x2
        job q/j min=2 priority=9 cpu=1 topology=hard:1 - -
        """
    tiers = "priority gang | predicates"
    result = running.run(
        apart(pictures.documents(picture), way), policy("allocate, preempt", tiers)
    )
    assert {each.node for each in result.pipelined} == {"x1", "x2"}


@pytest.mark.parametrize("way", ["labels", "ports"])
def test_a_rack_holds_as_many_pods_that_must_be_apart_as_it_has_nodes(way: str) -> None:
    """However large these are."""
    picture = f"{nodes(('s', 'a', 2, 8))} queue q job q/j min=4 cpu=1 topology=hard:1 -*4"
    result = running.run(apart(pictures.documents(picture), way), policy())
    (reason,) = (each.reason for each in result.groups if each.reason is not None)
    assert sentences.sentence(reason).startswith(
        "4 pods must start in one rack; the largest, s/a, could hold at most 2 if it were empty; "
    )
