"""Controllers and provisioners of volumes do what those of Kubernetes do."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation import actors
from tests.simulation.actors import objects, provisioners, volume_users
from tests.simulation.actors.base import Object
from tests.simulation.actors.informers import path
from tests.simulation.judges import objects as reading
from tests.simulation.judges import volumes
from tests.simulation.test_actors import QUIET, Run, template

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
WELL = actors.Storage(part=1.0, seconds=0.2)
SOON_SECONDS = 30.0


def world(**storage: Any) -> Run:
    """Three nodes, and nobody but controllers, kubelets and provisioners."""
    made = replace(QUIET, nodes=3, storage=replace(WELL, **storage))
    trouble = tuple(name for name in made.without if name != "storage-trouble")
    run = Run(scale=replace(made, without=trouble))
    run.kernel.run(SOON_SECONDS)
    return run


def wanted(name: str, storage_class: str, size: str = "1Gi", **spec: Any) -> Object:
    """A claim."""
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return volume_users.claim(name, {**asked, "storageClassName": storage_class, **spec})


def claim(run: Run, name: str) -> Object:
    """A claim as it is now."""
    return run.client.get(path(CLAIMS, "default", name))


def volume_of(run: Run, name: str) -> Object:
    """The volume of a claim."""
    return run.client.get(path(VOLUMES, name=claim(run, name)["spec"]["volumeName"]))


def select(run: Run, name: str, node: str) -> None:
    """Choose a node for a claim, as schedulers do."""
    body = {"metadata": {"annotations": {volumes.SELECTED: node}}}
    run.client.patch(path(CLAIMS, "default", name), body)
    run.kernel.run(SOON_SECONDS)


def labelled(run: Run, zone: str) -> str:
    """Put the first node into a zone."""
    body = {"metadata": {"labels": {"zone": zone}}}
    run.client.patch(path("nodes", name="node-000"), body)
    run.kernel.run(1)
    return "node-000"


def user(name: str, *claims: str, **volume: Any) -> Object:
    """A pod that uses claims."""
    used = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    if volume:
        used.append({"name": "own", **volume})
    return objects.pod(name, volume_users.with_volumes(template(), *used).written())


def test_a_claim_of_an_immediate_class_is_bound_at_once() -> None:
    """Both sides say so."""
    run = world()
    run.create(CLAIMS, wanted("a", "network"), SOON_SECONDS)
    found, volume = claim(run, "a"), volume_of(run, "a")
    assert volumes.is_bound(found)
    assert found["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    assert (volume["status"]["phase"], volume["spec"]["claimRef"]["uid"]) == (
        "Bound",
        found["metadata"]["uid"],
    )


@pytest.mark.parametrize("storage_class", ["zonal", "nodal"])
def test_a_claim_that_waits_is_provisioned_for_the_selected_node(storage_class: str) -> None:
    """And not before one is selected."""
    run = world()
    run.create(CLAIMS, wanted("a", storage_class), SOON_SECONDS)
    assert not volumes.is_bound(claim(run, "a"))
    select(run, "a", "node-001")
    assert volumes.is_bound(claim(run, "a"))
    reached = [
        each["metadata"]["name"]
        for each in run.client.list(path("nodes"))
        if volumes.reaches(volume_of(run, "a"), each)
    ]
    assert "node-001" in reached
    assert storage_class != "nodal" or reached == ["node-001"]


def test_a_node_where_nothing_can_be_provisioned_is_handed_back() -> None:
    """Class picky has zones a and b only."""
    run = world()
    for zone, bound in (("c", False), ("a", True)):
        run.create(CLAIMS, wanted(zone, "picky"))
        select(run, zone, labelled(run, zone))
        found = claim(run, zone)
        assert volumes.is_bound(found) == bound
        assert (volumes.selected(found) == "") == (not bound)


def test_a_node_that_is_missing_is_handed_back() -> None:
    """So that the scheduler can choose another."""
    run = world()
    run.create(CLAIMS, wanted("a", "zonal"))
    select(run, "a", "nowhere")
    assert volumes.selected(claim(run, "a")) == ""


def test_a_node_without_capacity_is_handed_back_and_says_so() -> None:
    """Twelve GiB each, less what is used there."""
    run = world()
    for number in range(4):
        run.create(CLAIMS, wanted(f"c{number}", "nodal", "4Gi"))
        select(run, f"c{number}", "node-000")
    bound = [volumes.is_bound(claim(run, f"c{number}")) for number in range(4)]
    assert bound == [True, True, True, False]
    told = run.client.get(path("csistoragecapacities", "storage", "nodal-node-000"))
    assert told["capacity"] == "0"
    assert told["nodeTopology"] == {"matchLabels": {objects.HOST: "node-000"}}


@pytest.mark.parametrize("trouble", [{"failing": 0.9}, {"seconds": 20.0}])
def test_a_provisioner_that_fails_or_is_slow_is_done_some_time(trouble: dict[str, float]) -> None:
    """It tries again."""
    run = world(**trouble)
    run.create(CLAIMS, wanted("a", "network"), 2)
    assert not volumes.is_bound(claim(run, "a"))
    run.kernel.run(400)
    assert volumes.is_bound(claim(run, "a"))


def test_nothing_happens_about_a_claim_that_is_stuck() -> None:
    """For more than ten minutes, unless the world calms down."""
    run = world(stuck=1.0)
    run.create(CLAIMS, wanted("a", "network"), 600)
    run.create(CLAIMS, wanted("b", "network"), 10)
    assert not volumes.is_bound(claim(run, "a"))
    run.kernel.run(400)
    assert volumes.is_bound(claim(run, "a"))
    run.world.calm()
    run.kernel.run(SOON_SECONDS)
    assert volumes.is_bound(claim(run, "b"))


def test_provisioners_refuse_nodes() -> None:
    """Until the world calms down."""
    run = world(refusing=1.0)
    run.create(CLAIMS, wanted("a", "zonal"))
    select(run, "a", "node-000")
    assert volumes.selected(claim(run, "a")) == ""
    run.world.calm()
    select(run, "a", "node-000")
    assert volumes.is_bound(claim(run, "a"))


def test_a_reserved_volume_is_bound_and_comes_back_empty() -> None:
    """A local volume: reserved as schedulers do, used, and offered anew under another UID."""
    run = world(local=1)
    run.create(CLAIMS, wanted("a", "local"), 5)
    assert not volumes.is_bound(claim(run, "a"))
    where = path(VOLUMES, name="local-node-002-0")
    uid = claim(run, "a")["metadata"]["uid"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "a", "uid": uid}
    first = run.client.patch(where, {"spec": {"claimRef": reference}})
    run.kernel.run(5)
    assert volume_of(run, "a")["metadata"]["uid"] == first["metadata"]["uid"]
    run.client.delete(path(CLAIMS, "default", "a"))
    run.kernel.run(120)
    again = run.client.get(where)
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert (again["status"]["phase"], "claimRef" in again["spec"]) == ("Available", False)


def test_a_claim_without_its_volume_is_lost() -> None:
    """Somebody deleted it by force."""
    run = world()
    run.create(CLAIMS, wanted("a", "network"), SOON_SECONDS)
    where = path(VOLUMES, name=claim(run, "a")["spec"]["volumeName"])
    run.client.patch(where, {"metadata": {"finalizers": None}})
    run.client.delete(where)
    run.kernel.run(5)
    assert claim(run, "a")["status"]["phase"] == "Lost"


def test_a_deleted_claim_takes_its_volume_with_it() -> None:
    """Policy Delete."""
    run = world()
    run.create(CLAIMS, wanted("a", "network"), SOON_SECONDS)
    name = claim(run, "a")["spec"]["volumeName"]
    run.client.delete(path(CLAIMS, "default", "a"))
    run.kernel.run(SOON_SECONDS)
    assert run.client.find(path(VOLUMES, name=name)) is None


def test_a_pod_starts_once_its_claims_are_bound() -> None:
    """It has a node already, because this scheduler looks at no claims."""
    run = world()
    run.create(CLAIMS, wanted("a", "zonal"))
    run.create("pods", user("p", "a"), SOON_SECONDS)
    assert run.phases() == Counter(Pending=1)
    node = reading.node_of(run.pods()[0])
    select(run, "a", node)
    assert run.phases() == Counter(Running=1)


def test_a_claim_in_use_stays_until_its_pod_is_gone() -> None:
    """A pod without a node doesn't keep it."""
    run = world()
    for name in ("a", "b"):
        run.create(CLAIMS, wanted(name, "network"))
    run.create("pods", user("p", "a"))
    gated = user("q", "b")
    gated["spec"]["schedulingGates"] = [{"name": "tests/wait"}]
    run.create("pods", gated, SOON_SECONDS)
    for name in ("a", "b"):
        run.client.delete(path(CLAIMS, "default", name))
    run.kernel.run(SOON_SECONDS)
    assert run.client.find(path(CLAIMS, "default", "b")) is None
    assert reading.leaving(claim(run, "a"))
    run.client.delete(path("pods", "default", "p"))
    run.kernel.run(SOON_SECONDS)
    assert run.client.find(path(CLAIMS, "default", "a")) is None


def test_a_claim_made_for_a_pod_goes_with_it() -> None:
    """A generic ephemeral volume."""
    run = world()
    spec = wanted("any", "network")["spec"]
    pod = user("p", ephemeral={"volumeClaimTemplate": {"spec": spec}})
    made = run.create("pods", pod, SOON_SECONDS)
    found = claim(run, "p-own")
    assert volumes.is_bound(found)
    assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    run.client.delete(path("pods", "default", "p"))
    run.kernel.run(60)
    assert run.client.list(path(CLAIMS, "default")) == []


def test_the_pods_of_a_set_keep_their_claims() -> None:
    """A pod that comes back has the claim that it had; with the set, all go."""
    run = world()
    body = objects.workload("StatefulSet", "s", template(), 2)
    body["spec"]["volumeClaimTemplates"] = [wanted("data", "network")]
    run.create("statefulsets", body, 60)
    before = {each["metadata"]["uid"] for each in run.client.list(path(CLAIMS, "default"))}
    assert (len(before), run.phases()) == (2, Counter(Running=2))
    run.client.delete(path("pods", "default", "s-1"))
    run.kernel.run(60)
    after = {each["metadata"]["uid"] for each in run.client.list(path(CLAIMS, "default"))}
    assert (after, run.phases()) == (before, Counter(Running=2))
    run.client.delete(path("statefulsets", "default", "s"))
    run.kernel.run(60)
    assert run.client.list(path(CLAIMS, "default")) == []


def test_volumes_are_attached_while_pods_use_them() -> None:
    """And a little longer."""
    run = world()
    run.create(CLAIMS, wanted("a", "network"))
    run.create("pods", user("p", "a"), SOON_SECONDS)
    (found,) = run.client.list(path("volumeattachments"))
    assert found["spec"]["nodeName"] == reading.node_of(run.pods()[0])
    assert (
        found["spec"]["source"]["persistentVolumeName"] == volume_of(run, "a")["metadata"]["name"]
    )
    run.client.delete(path("pods", "default", "p"))
    run.kernel.run(SOON_SECONDS)
    assert run.client.list(path("volumeattachments")) == []


def test_each_node_says_how_many_volumes_it_can_have() -> None:
    """A CSINode, which comes and goes with it."""
    run = world(limit=2)
    found = {each["metadata"]["name"]: each for each in run.client.list(path("csinodes"))}
    assert found.keys() == {"node-000", "node-001", "node-002"}
    drivers = found["node-000"]["spec"]["drivers"]
    assert {driver["allocatable"]["count"] for driver in drivers} == {2}
    assert len(drivers) == len(provisioners.KINDS)
    run.client.delete(path("nodes", name="node-000"))
    run.kernel.run(5)
    assert len(run.client.list(path("csinodes"))) == 2


def test_a_world_with_volumes_calms_down() -> None:
    """Nothing but heartbeats is left, although this scheduler looks at no claims."""
    storage = actors.Storage(part=0.8, seconds=3.0, failing=0.3, refusing=0.3, delete_seconds=20.0)
    scale = actors.Scale(nodes=3, jobs=8, job_seconds=20, quiet=0.3, storage=storage)
    run = Run(scale=scale)
    run.kernel.run(300)
    used = Counter(each.resource for each in run.server.history)
    assert min(used[CLAIMS], used[VOLUMES]) > 10
    assert used["volumeattachments"]
    run.world.calm()
    run.kernel.run(900)
    before = len(run.server.history)
    run.kernel.run(300)
    later = Counter((each.user, each.resource) for each in run.server.history[before:])
    assert set(later) <= {("kubelets", "nodes")}
