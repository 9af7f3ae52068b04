"""Gangs that wait for their volumes: asked for as a whole, started as a whole, given back."""

import pytest

from tests import volume_labs
from tests.volume_labs import Document, Lab, binds, waits
from vscheduler.core import cycle
from vscheduler.core.claims.volumes.choices import VolumeChoices
from vscheduler.model.claim_decisions import ReleaseClaim, ReleaseVolume
from vscheduler.model.decisions import CycleResult, ReasonCode

TWO_NODES = """
    node  n1 cpu=2
    node  n2 cpu=2
    queue q
    job   q/train min=3 cpu=1  - - -
"""
EACH = {f"train-{number}": [f"data-{number}"] for number in range(3)}
CLAIMS = [volume_labs.claim(f"data-{number}") for number in range(3)]
SLOW = volume_labs.storage_class()
LOCAL = volume_labs.storage_class("local", "kubernetes.io/no-provisioner")
WAITS = ReasonCode.WAITS_FOR_VOLUMES
TIMEOUT = 600.0
AVOIDED = 3600.0


def released(result: CycleResult) -> set[str]:
    """The claims whose selected nodes a cycle withdraws."""
    found = result.releases
    return {each.key for each in found if isinstance(each, ReleaseClaim)}


def quiet(result: CycleResult) -> bool:
    """Whether a cycle asks for nothing, gives nothing back, and starts nothing."""
    return not (result.binds or result.claims or result.releases)


def test_a_gang_starts_once_all_its_claims_are_bound() -> None:
    """Nothing is bound before, its nodes are kept, and nothing is asked for twice."""
    lab = Lab(TWO_NODES, SLOW, *CLAIMS, uses=EACH)
    first = lab.cycle()
    asked = lab.now
    (prepared,) = first.claims
    assert [binding.key for binding in prepared.requests] == [f"default/data-{n}" for n in range(3)]
    assert binds(first) == {}
    assert lab.selected() == {f"data-{n}": waits(first)[f"train-{n}"] for n in range(3)}
    for bound in range(3):
        result = lab.cycle()
        assert quiet(result)
        assert waits(result) == waits(first)
        (status,) = result.groups
        assert status.reason is not None
        assert (status.reason.code, status.ready) == (WAITS, False)
        assert [task.name for task in status.without_claims] == ["train-0", "train-1", "train-2"]
        assert status.claims is not None
        assert (status.claims.ready, status.claims.claims) == (bound, 3)
        assert (status.claims.claim, status.claims.since) == (f"default/data-{bound}", asked)
        lab.bind(f"data-{bound}")
    last = lab.cycle()
    assert binds(last) == waits(first)
    assert last.groups[0].reason is None
    assert all(quiet(lab.cycle()) for _ in range(3))


def test_pods_without_claims_wait_with_their_gang() -> None:
    """A gang never starts in part."""
    lab = Lab(TWO_NODES, SLOW, CLAIMS[0], uses={"train-0": ["data-0"]})
    assert set(waits(lab.cycle())) == {"train-0", "train-1", "train-2"}
    assert binds(lab.cycle()) == {}
    lab.bind("data-0")
    assert set(binds(lab.cycle())) == {"train-0", "train-1", "train-2"}


def test_a_pod_alone_waits_like_a_gang() -> None:
    """Two claims of one pod."""
    picture = "node n1 cpu=2\nqueue q\njob q/one min=1 cpu=1 -"
    lab = Lab(picture, SLOW, *CLAIMS[:2], uses={"one-0": ["data-0", "data-1"]})
    assert waits(lab.cycle()) == {"one-0": "n1"}
    lab.bind("data-1")
    assert quiet(lab.cycle())
    lab.bind("data-0")
    assert binds(lab.cycle()) == {"one-0": "n1"}


def test_existing_volumes_are_given_to_claims() -> None:
    """Each to one claim, on the nodes where they are."""
    volumes = [volume_labs.volume(f"disk-{n}", node) for n, node in enumerate(["n2", "n1", "n2"])]
    claims = [volume_labs.claim(f"data-{n}", "local") for n in range(3)]
    lab = Lab(TWO_NODES, LOCAL, *claims, *volumes, uses=EACH)
    first = lab.cycle()
    places = sorted(waits(first).values())
    assert places == ["n1", "n2", "n2"]
    assert sorted(lab.given()) == ["disk-0", "disk-1", "disk-2"]
    assert quiet(lab.cycle())
    lab.bind("data-0", "data-1", "data-2")
    assert binds(lab.cycle()) == waits(first)


def test_a_gang_that_lacks_one_volume_asks_for_none() -> None:
    """Two disks for three pods."""
    volumes = [volume_labs.volume("disk-0", "n1"), volume_labs.volume("disk-1", "n2")]
    claims = [volume_labs.claim(f"data-{n}", "local") for n in range(3)]
    lab = Lab(TWO_NODES, LOCAL, *claims, *volumes, uses=EACH)
    assert quiet(lab.cycle())
    assert lab.given() == {}


def test_two_claims_of_a_pod_need_two_volumes() -> None:
    """A node with one that suits both is none for the pod."""
    picture = """
        node  n1 cpu=2
        node  n2 cpu=2
        queue q
        job   q/train min=1 cpu=1 -
    """
    disks = [volume_labs.volume("only", "n1")]
    disks += [volume_labs.volume(name, "n2") for name in ("one", "two")]
    claims = [volume_labs.claim(name, "local") for name in ("data-0", "data-1")]
    lab = Lab(picture, LOCAL, *claims, *disks, uses={"train-0": ["data-0", "data-1"]})
    assert waits(lab.cycle()) == {"train-0": "n2"}
    assert lab.given() == {"one": "data-0", "two": "data-1"}


def test_a_refused_node_is_avoided_for_a_while() -> None:
    """The gang is planned anew as a whole; what is no longer needed is given back."""
    picture = TWO_NODES.replace("node  n2 cpu=2", "node n2 cpu=2\nnode n3 cpu=3")
    lab = Lab(picture, SLOW, *CLAIMS, uses=EACH)
    lab.cycle()
    refused = lab.selected()["data-0"]
    lab.refuse("data-0")
    again = lab.cycle()
    assert waits(again)["train-0"] != refused
    assert lab.selected() == {f"data-{n}": waits(again)[f"train-{n}"] for n in range(3)}
    assert again.wake_at is not None
    lab.bind("data-0", "data-1", "data-2")
    assert binds(lab.cycle()) == waits(again)
    assert lab.carried.claim_attempts == {}


def test_where_only_the_refused_node_is_left_the_gang_waits_for_the_pause() -> None:
    """Each refusal doubles it; then the same node is asked again."""
    picture = "node n1 cpu=3\nqueue q\njob q/train min=3 cpu=1 - - -"
    lab = Lab(picture, SLOW, *CLAIMS, uses=EACH)
    lab.cycle()
    for pause in (60, 120):
        lab.refuse("data-1")
        began = lab.now + 1
        given_back = lab.cycle()
        assert released(given_back) == {"default/data-0", "default/data-2"}
        assert given_back.wake_at == began + pause
        assert lab.selected() == {}
        assert quiet(lab.cycle(pause - 1))
        assert waits(lab.cycle(1.0)).keys() == EACH.keys()
        assert len(lab.selected()) == 3
    lab.bind("data-0", "data-1", "data-2")
    assert len(binds(lab.cycle())) == 3


def test_a_time_out_frees_the_nodes_and_withdraws_the_requests() -> None:
    """Where no other node has room, others use the nodes for as long as these are avoided."""
    picture = TWO_NODES.replace("node  n2 cpu=2", "node n2 cpu=1") + "job q/next min=1 cpu=3 -"
    lab = Lab(picture, SLOW, *CLAIMS, uses=EACH)
    first = lab.cycle()
    assert first.wake_at == lab.now + TIMEOUT
    lab.bind("data-1")
    assert quiet(lab.cycle(TIMEOUT - 1))
    late = lab.cycle(1)
    assert released(late) == {"default/data-0", "default/data-2"}
    assert waits(late) == {}
    assert late.wake_at == lab.now + AVOIDED
    (status,) = (group for group in late.groups if group.job == "default/train")
    assert status.reason is not None
    assert status.reason.code is ReasonCode.NO_ROOM
    lab.put({**lab.get("Node", "n1"), **node_of(3)})
    assert binds(lab.cycle()) == {"next-0": "n1"}
    assert quiet(lab.cycle(AVOIDED - 10))
    lab.delete("Pod", "next-0")
    again = lab.cycle(10)
    assert waits(again).keys() == EACH.keys()
    assert [binding.key for binding in again.claims[0].requests] == [
        "default/data-0",
        "default/data-2",
    ]


def test_time_outs_lead_to_other_nodes_and_then_to_a_pause() -> None:
    """Three nodes in a row may be to blame, but a fourth is left to others for a while."""
    nodes = "\n".join(f"node n{row} cpu=1" for row in range(1, 6))
    lab = Lab(
        f"{nodes}\nqueue q\njob q/train min=1 -", SLOW, CLAIMS[0], uses={"train-0": ["data-0"]}
    )
    tried = []
    for _ in range(3):
        assert waits(lab.cycle()).keys() == {"train-0"}
        tried.append(lab.selected()["data-0"])
        late = lab.cycle(TIMEOUT)
        assert released(late) == {"default/data-0"}
    assert tried == ["n1", "n2", "n3"]
    (status,) = late.groups
    assert status.reason is not None
    assert status.reason.claims is not None
    assert (status.reason.code, status.reason.claims.pause) == (WAITS, 60)
    assert quiet(lab.cycle(59))
    assert waits(lab.cycle(1)) == {"train-0": "n4"}
    assert lab.cycle(TIMEOUT).wake_at == lab.now + 120


def test_pods_without_a_choice_for_their_claims_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the filters had let them pass: the cycle goes on, and other jobs start."""
    monkeypatch.setattr(VolumeChoices, "decided", lambda *_: ())
    result = Lab(TWO_NODES + "job q/next min=1 -", SLOW, *CLAIMS, uses=EACH).cycle()
    assert binds(result).keys() == {"next-0"}
    assert (result.claims, result.carried.nominations) == ((), {})


def node_of(cpus: int) -> Document:
    """The status of a larger node."""
    amounts = {"cpu": str(cpus), "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {"status": {"allocatable": amounts, "capacity": amounts, "conditions": conditions}}


@pytest.mark.parametrize("bound", [0, 1])
def test_what_a_deleted_job_asked_for_is_withdrawn(bound: int) -> None:
    """Selected nodes and volumes; never a volume that has been bound."""
    volumes = [volume_labs.volume("disk", "n1", "n2")]
    claims = [volume_labs.claim("data-0", "local"), *CLAIMS[1:]]
    lab = Lab(TWO_NODES, SLOW, LOCAL, *claims, *volumes, uses=EACH)
    lab.cycle()
    assert lab.given() == {"disk": "data-0"}
    lab.bind(*["data-0", "data-1"][: 2 * bound])
    lab.delete("Pod", *EACH)
    lab.delete("PodGroup", "train")
    last = lab.cycle()
    assert lab.selected() == {}
    assert ("disk" in lab.given()) is bool(bound)
    assert len(last.releases) == (1 if bound else 3)
    assert lab.get("PersistentVolume", "disk")["metadata"].get("annotations", {}).keys() <= (
        {volume_labs.NOTE, "pv.kubernetes.io/bound-by-controller"} if bound else set()
    )
    assert quiet(lab.cycle())


def test_a_cycle_that_is_cut_short_gives_nothing_back() -> None:
    """It hasn't looked at all pods that may need it; the next one that is finished has."""
    lab = Lab(f"{TWO_NODES}job q/waits min=1 cpu=2 -", SLOW, *CLAIMS, uses=EACH)
    lab.cycle()
    lab.delete("Pod", *EACH)
    lab.delete("PodGroup", "train")
    cut = cycle.run_cycle(lab.mirror().snapshot(lab.now, lab.carried), lab.policy, 1)
    assert (cut.finished, cut.releases) == (False, ())
    assert len(lab.cycle().releases) == 3


def test_a_volume_that_its_maker_has_reserved_stays_reserved() -> None:
    """Only what the scheduler has added to the reservation is withdrawn."""
    disk = volume_labs.volume("disk", "n1")
    disk["spec"]["claimRef"] = {"namespace": "default", "name": "data-0"}
    disk["spec"]["claimRef"]["uid"] = "uid-data-0"
    disk["metadata"]["annotations"] = {volume_labs.NOTE: "n1 2026-01-01T12:00:00Z"}
    lab = Lab("node n1 cpu=1\nqueue q", LOCAL, volume_labs.claim("data-0", "local"), disk, uses={})
    (release,) = lab.cycle().releases
    stored = lab.get("PersistentVolume", "disk")
    assert stored["spec"]["claimRef"] == {"namespace": "default", "name": "data-0"}
    assert stored["metadata"]["annotations"] == {}
    assert isinstance(release, ReleaseVolume)
    assert (release.name, release.reserved) == ("disk", True)


@pytest.mark.parametrize("written", range(4))
def test_after_a_restart_the_same_nodes_are_asked_for(written: int) -> None:
    """However many requests were written before the crash; each is written once."""
    lab = Lab(TWO_NODES, SLOW, *CLAIMS, uses=EACH)
    before = lab.cycle(write=False)
    lab.write(lab.mirror(), before, written)
    selected = lab.selected()
    assert len(selected) == written
    lab.restart()
    after = lab.cycle()
    assert len(after.claims[0].requests if after.claims else ()) == 3 - written
    assert lab.selected() == selected | {f"data-{n}": waits(after)[f"train-{n}"] for n in range(3)}
    lab.bind("data-0", "data-1", "data-2")
    lab.restart()
    assert len(binds(lab.cycle())) == 3


def test_the_time_goes_on_through_a_restart() -> None:
    """The time-out counts from the first request, by what the claim says."""
    lab = Lab(TWO_NODES, SLOW, *CLAIMS, uses=EACH)
    lab.cycle()
    asked = lab.now
    lab.restart()
    assert lab.cycle(TIMEOUT - 10).wake_at == asked + TIMEOUT
    lab.restart()
    assert len(lab.cycle(10).releases) == 3


def test_a_note_from_the_future_is_no_way_to_keep_nodes_for_ever() -> None:
    """Tenants can write what they like to their claims."""
    lab = Lab(TWO_NODES, SLOW, *CLAIMS, uses=EACH)
    lab.cycle()
    for number in range(3):
        forged = lab.get("PersistentVolumeClaim", f"data-{number}")
        node = lab.selected()[f"data-{number}"]
        forged["metadata"]["annotations"][volume_labs.NOTE] = f"{node} 2099-01-01T00:00:00Z"
        lab.put(forged)
    lab.restart()
    assert quiet(lab.cycle())
    assert quiet(lab.cycle(TIMEOUT - 1))
    assert len(lab.cycle(1).releases) == 3


def test_a_node_that_somebody_else_has_selected_is_waited_for_but_not_for_ever() -> None:
    """It isn't withdrawn, either: the scheduler didn't write it."""
    mine = volume_labs.claim("data-0")
    mine["metadata"]["annotations"] = {volume_labs.SELECTED: "n2"}
    lab = Lab(TWO_NODES, SLOW, mine, uses={"train-0": ["data-0"]})
    assert waits(lab.cycle())["train-0"] == "n2"
    assert waits(lab.cycle(TIMEOUT - 1))["train-0"] == "n2"
    late = lab.cycle(2)
    assert (waits(late), late.releases) == ({}, ())
    assert lab.selected() == {"data-0": "n2"}


def test_a_restart_keeps_the_nodes_from_jobs_in_front() -> None:
    """An older job of the same priority would take the nodes, had it been complete before."""
    picture = TWO_NODES + "job q/older min=1 cpu=2 age=60 {}"
    lab = Lab(picture.format("!"), SLOW, CLAIMS[0], uses={"train-0": ["data-0"]})
    before = waits(lab.cycle())
    for name, node in before.items():
        pod = lab.get("Pod", name)
        pod["status"]["nominatedNodeName"] = node
        lab.put(pod)
    lab.put(Lab(picture.format("-"), uses={}).get("Pod", "older-0"))
    lab.restart()
    result = lab.cycle()
    assert (waits(result), binds(result)) == (before, {})


def test_after_a_restart_the_node_of_a_claim_counts_more_than_an_earlier_nomination() -> None:
    """The volume is being made there; an older job starts on the nominated node."""
    picture = "node n1 cpu=1\nnode n2 cpu=1\nqueue q\njob q/train min=1 cpu=1 -"
    lab = Lab(picture, SLOW, CLAIMS[0], uses={"train-0": ["data-0"]})
    assert waits(lab.cycle()) == {"train-0": "n1"}
    pod = lab.get("Pod", "train-0")
    pod["status"]["nominatedNodeName"] = "n2"
    lab.put(pod)
    older = Lab("node n1 cpu=1\nqueue q\njob q/older min=1 cpu=1 age=60 -", uses={})
    lab.put(older.get("Pod", "older-0"))
    lab.put(older.get("PodGroup", "older"))
    lab.restart()
    result = lab.cycle()
    assert waits(result) == {"train-0": "n1"}
    assert binds(result) == {"older-0": "n2"}


@pytest.mark.parametrize(("of_volume", "starts"), [((), "n2"), (("n1",), "n1")])
def test_the_node_of_a_bound_volume_counts_more_than_a_nomination(
    of_volume: tuple[str, ...], starts: str
) -> None:
    """A pod whose volume can be used anywhere starts on its nominated node."""
    picture = "node n1 cpu=1\nnode n2 cpu=1\nqueue q\njob q/train min=1 cpu=1 nominated=n2 -"
    disk = volume_labs.volume("disk", *of_volume)
    lab = Lab(picture, LOCAL, volume_labs.claim("data", "local"), disk, uses={"train-0": ["data"]})
    lab.bind("data", to="disk")
    assert binds(lab.cycle()) == {"train-0": starts}


def test_a_claim_held_to_a_full_node_is_given_back_and_asked_for_elsewhere() -> None:
    """Someone took the node while no scheduler was there."""
    picture = "node n1 cpu=1\nnode n2 cpu=1 \nqueue q\njob q/train min=1 cpu=1 -"
    lab = Lab(picture, SLOW, CLAIMS[0], uses={"train-0": ["data-0"]})
    taken = waits(lab.cycle())["train-0"]
    other = Lab(f"node {taken} cpu=1\nqueue q\njob q/rival min=1 cpu=1 {taken}", uses={})
    lab.put(other.get("Pod", "rival-0"))
    lab.put(other.get("PodGroup", "rival"))
    lab.restart()
    assert [type(release).__name__ for release in lab.cycle().releases] == ["ReleaseClaim"]
    again = lab.cycle()
    assert waits(again)["train-0"] != taken
    assert lab.selected() == {"data-0": waits(again)["train-0"]}


def test_pods_of_an_array_wait_for_their_own_claims_only() -> None:
    """One claim that is never bound holds up no other pod."""
    picture = "node n1 cpu=5\nqueue q\njob q/array min=1 cpu=1 - - - - -"
    uses = {f"array-{n}": [f"data-{n}"] for n in range(3)}
    lab = Lab(picture, SLOW, *CLAIMS, uses=uses)
    first = lab.cycle()
    assert set(binds(first)) == {"array-3", "array-4"}
    assert set(waits(first)) == {"array-0", "array-1", "array-2"}
    lab.bind("data-1")
    assert set(binds(lab.cycle())) == {"array-1"}
    late = lab.cycle(TIMEOUT)
    assert (binds(late), len(late.releases)) == ({}, 2)


def test_pods_above_the_minimum_wait_alone() -> None:
    """The minimum has no claims, or has had them bound."""
    picture = "node n1 cpu=5\nqueue q\njob q/gang min=2 cpu=1 - - - -"
    lab = Lab(picture, SLOW, CLAIMS[0], uses={"gang-1": ["data-0"]})
    first = lab.cycle()
    assert waits(first) == {"gang-0": "n1", "gang-1": "n1"}
    lab.bind("data-0")
    assert set(binds(lab.cycle())) == {"gang-0", "gang-1", "gang-2", "gang-3"}


def test_a_sub_group_above_the_minimum_starts_whole() -> None:
    """Whichever claim is bound first, its pod waits for the other one of its sub-group."""
    picture = "node n1 cpu=9\nqueue q\njob q/gang min=2 subgroups=1x2 cpu=1 a:n1*2 b:-*2 c:-*2"
    uses = {f"gang-{pod}": [f"data-{claim}"] for claim, pod in enumerate((2, 3))}
    lab = Lab(picture, SLOW, *CLAIMS[:2], uses=uses)
    first = lab.cycle()
    assert (set(binds(first)), set(waits(first))) == ({"gang-4", "gang-5"}, {"gang-2", "gang-3"})
    lab.bind("data-1")
    assert binds(lab.cycle()) == {}
    lab.bind("data-0")
    assert set(binds(lab.cycle())) == {"gang-2", "gang-3"}


def test_two_jobs_that_share_a_claim_ask_for_it_once() -> None:
    """Both start when it is bound; it is kept while one of them waits."""
    picture = "node n1 cpu=4\nqueue q\njob q/a min=1 cpu=1 -\njob q/b min=1 cpu=1 -"
    shared = volume_labs.claim("data", mode="ReadWriteMany")
    lab = Lab(picture, SLOW, shared, uses={"a-0": ["data"], "b-0": ["data"]})
    first = lab.cycle()
    assert [len(claim.requests) for claim in first.claims] == [1]
    assert set(waits(first)) == {"a-0", "b-0"}
    lab.delete("Pod", "a-0")
    assert quiet(lab.cycle())
    lab.bind("data")
    assert binds(lab.cycle()) == {"b-0": "n1"}


def test_a_gang_on_two_nodes_may_share_one_claim() -> None:
    """Where its volume can be used is known only once there is one."""
    shared = volume_labs.claim("data", mode="ReadWriteMany")
    lab = Lab(TWO_NODES, SLOW, shared, uses={name: ["data"] for name in EACH})
    assert len(waits(lab.cycle())) == 3
    assert quiet(lab.cycle())
    lab.put({**volume_labs.volume("anywhere", of_class="slow")})
    lab.bind("data", to="anywhere")
    assert len(binds(lab.cycle())) == 3


def test_a_volume_that_fits_no_longer_is_planned_around() -> None:
    """The claim was bound to a volume of another node than the selected one."""
    picture = "node n1 cpu=1\nnode n2 cpu=1 \nqueue q\njob q/train min=1 cpu=1 -"
    lab = Lab(picture, SLOW, CLAIMS[0], uses={"train-0": ["data-0"]})
    node = waits(lab.cycle())["train-0"]
    other = "n2" if node == "n1" else "n1"
    lab.bind("data-0", node=other)
    assert binds(lab.cycle()) == {"train-0": other}


def test_a_deleted_claim_gives_the_others_back() -> None:
    """The gang can't start without it."""
    lab = Lab(TWO_NODES, SLOW, *CLAIMS, uses=EACH)
    lab.cycle()
    lab.delete("PersistentVolumeClaim", "data-1")
    result = lab.cycle()
    assert released(result) == {"default/data-0", "default/data-2"}
    assert lab.selected() == {}
    assert quiet(lab.cycle())


def test_a_lost_node_moves_the_gang() -> None:
    """Its claims are asked for on the node that is left."""
    picture = "node n1 cpu=1\nnode n2 cpu=1 \nqueue q\njob q/train min=1 cpu=1 -"
    lab = Lab(picture, SLOW, CLAIMS[0], uses={"train-0": ["data-0"]})
    lost = waits(lab.cycle())["train-0"]
    lab.delete("Node", lost)
    assert len(lab.cycle().releases) == 1
    assert waits(lab.cycle()) == {"train-0": "n2" if lost == "n1" else "n1"}
