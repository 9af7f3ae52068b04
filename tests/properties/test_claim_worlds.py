"""Worlds whose pods have volumes and devices, and vanish once they have ended; and their judges."""

import copy
import dataclasses
from collections import defaultdict
from typing import Any

import pytest

from tests import device_labs, volume_manifests
from tests.properties.test_worlds import MEETING_CYCLES, lives_well
from tests.properties.worlds import census as censuses
from tests.properties.worlds import (
    claim_rules,
    configurations,
    manifests,
    rest_rules,
    sentence_case,
    statements,
)
from tests.properties.worlds.histories import Plan
from tests.properties.worlds.moments import Moment, Placement
from tests.properties.worlds.sentence_case import Case
from tests.properties.worlds.world import World
from vscheduler.testing import pictures

WORLDS = 1000

PICTURE = """
    node  n1 cpu=4 label=kubernetes.io/hostname=n1
    node  n2 cpu=4 label=kubernetes.io/hostname=n2
    queue q
    job   q/a min=1 n1
    job   q/late min=2 cpu=3 -*2
    """
UIDS = iter(range(10**6))


def plan(seed: int, configuration: str) -> Plan:
    """The plan of such a world; features meet in every other one."""
    made = Plan(seed=seed, configuration=configuration, claiming=True)
    return dataclasses.replace(made, cycles=MEETING_CYCLES, meeting=True) if seed % 2 else made


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_worlds_with_claims_break_no_rule(configuration: str) -> None:
    """A sample, another seed for each configuration."""
    lives_well(plan(configurations.NAMES.index(configuration), configuration))


def test_pods_may_get_their_nodes_back_near_one_that_has_come() -> None:
    """Those that they must be near are gone, so they give their nodes up, until another comes."""
    lives_well(dataclasses.replace(plan(297, "capacity"), cycles=10))


def test_a_queue_may_be_above_its_share_in_devices_of_shared_claims() -> None:
    """Its pod goes for a gang whose only device is that of a claim which its pods share."""
    made = Plan(seed=320243, configuration="preempt", claiming=True, meeting=True, cycles=20)
    lives_well(made)


def test_a_sub_group_may_be_whole_with_a_pod_that_is_gone() -> None:
    """Nobody knows of which sub-group it was."""
    lives_well(Plan(seed=420502, configuration="drf", claiming=True, cycles=20))


def test_a_pod_whose_claim_was_made_is_unlike_others() -> None:
    """No node with a device plugin takes it."""
    lives_well(Plan(seed=420494, configuration="drf-volcano", claiming=True, cycles=13))


def test_who_is_moved_may_ask_for_devices_by_another_name() -> None:
    """A pod of its queue that asks for them by claims gets some, so the queue is as well off."""
    lives_well(Plan(seed=600049, configuration="built-in", claiming=True, cycles=8))


@pytest.mark.at_length
@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_many_worlds_with_claims_break_no_rule(configuration: str) -> None:
    """All of them, each with one configuration."""
    step = len(configurations.NAMES)
    for seed in range(configurations.NAMES.index(configuration), WORLDS, step):
        lives_well(plan(seed, configuration))


def moment(*more: Any, uses: Any = None, **spec: Any) -> Moment:
    """A cycle on the picture and these objects, that decides nothing; late's pods have a spec."""
    found = pictures.documents(PICTURE)
    for number, pod in enumerate(each for each in found if _is_late(each)):
        pod["spec"] |= copy.deepcopy(spec)
        if uses:
            pod["spec"]["volumes"] = volume_manifests.using(uses[number])
    stored = [*found, volume_manifests.storage_class("local", volume_manifests.NOBODY), *more]
    for document in stored:
        document["metadata"].setdefault("uid", f"uid-{next(UIDS)}")
    around = World(stored, "preempt", 0)
    return dataclasses.replace(around.step(), binds=(), pipelined=(), evicts=())


def _is_late(document: Any) -> bool:
    return bool(document["kind"] == "Pod" and document["metadata"]["name"].startswith("late"))


def words(found: Any) -> list[str]:
    """The rules that are broken."""
    return [problem.split()[0] for problem in found]


def local(name: str, node: str) -> Any:
    """A volume of one node."""
    terms = volume_manifests.on_labels(volume_manifests.HOST, node)
    return volume_manifests.volume(name, "local", terms=terms)


@pytest.mark.parametrize(("node", "idle"), [("n2", ["IDLE"]), ("n1", [])])
def test_who_finds_no_volume_where_room_is_does_not_idle(node: str, idle: list[str]) -> None:
    """One of the two can't go elsewhere, and on n1 there is room for one only."""
    claims = [volume_manifests.claim(name, "local") for name in ("c0", "c1")]
    made = moment(*claims, local("pv0", "n1"), local("pv1", node), uses=("c0", "c1"))
    assert words(rest_rules.nothing_is_idle(made)) == idle


@pytest.mark.parametrize(("count", "idle"), [(1, ["IDLE"]), (2, [])])
def test_who_finds_no_devices_does_not_idle(count: int, idle: list[str]) -> None:
    """A claim of one device fits on each node, and one of two on none."""
    assert words(rest_rules.nothing_is_idle(sharing(count))) == idle


@pytest.mark.parametrize(
    ("cpu", "node", "idle"),
    [("3", "n1", ["IDLE"]), ("4", "n1", []), ("5", "n1", ["IDLE"]), ("3", "n3", ["IDLE"])],
)
def test_a_pod_for_which_a_shared_claim_counts_starts_first(
    cpu: str, node: str, idle: list[str]
) -> None:
    """The most important one of the job, unless no node could ever take it; others wait for it."""
    made = sharing(1)
    spec = made.census.pods["default/late-1"]["spec"]
    spec |= {"priority": 9, "nodeSelector": {volume_manifests.HOST: node}}
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpu
    assert words(rest_rules.nothing_is_idle(made)) == idle


@pytest.mark.parametrize(("count", "nodes"), [(1, ["n1", "n2"]), (2, [])])
def test_a_node_is_of_use_if_it_has_devices_for_each_claim_alone(
    count: int, nodes: list[str]
) -> None:
    """As sentences count them: whether it has enough for all claims together is said apart."""
    made = sharing(count)
    claim = next(each for each in made.census.others if each["kind"] == claim_rules.DEVICES)
    more = copy.deepcopy(claim)
    more["metadata"]["name"] = "more"
    found = dataclasses.replace(made.census, others=[*made.census.others, more])
    pod = found.pods["default/late-0"]
    pod["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": "more"})
    case = Case.of(dataclasses.replace(made, census=found), "default/late", "")
    case.strict = True
    assert sentence_case.usable(case, pod) == nodes


def sharing(count: int) -> Moment:
    """A moment in which pods that may start alone share a claim of so many devices of a node."""
    slices = [device_labs.resource_slice(name, 1) for name in ("n1", "n2")]
    for each in slices:
        for device in each["spec"]["devices"]:
            device["attributes"] = {}
    entry = {"name": "own", "resourceClaimName": f"gpu-{count}.late"}
    claim = device_labs.claim(f"gpu-{count}.late", count)
    claim["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] = "ExactCount"
    made = moment(device_labs.device_class(), *slices, claim, resourceClaims=[entry])
    found = dataclasses.replace(made.census, groups=dict(made.census.groups))
    group = copy.deepcopy(found.groups["default/late"])
    group["spec"]["minMember"] = 1
    found.groups["default/late"] = group
    return dataclasses.replace(made, census=found)


def test_what_is_given_twice_or_kept_in_vain_is_seen() -> None:
    """A device of two claims, a volume that is kept, and a claim that waits for one."""
    claims = [device_labs.claim(name) for name in ("gpu-1.a", "gpu-1.b")]
    for each in claims:
        result = {"driver": device_labs.DRIVER, "pool": "n1", "device": "gpu-0", "request": "r"}
        consumer = {"resource": "pods", "name": "late-0", "uid": "late-0"}
        each["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [consumer],
        }
    selected = volume_manifests.claim("c0", "local", annotations={volume_manifests.SELECTED: "n1"})
    _, kept = volume_manifests.bound(selected, local("pv0", "n1"))
    made = moment(*claims, device_labs.resource_slice("n1", 1), selected, kept)
    assert words(claim_rules.nothing_is_given_twice(made)) == ["SHARED"]
    assert words(claim_rules.nothing_is_kept_in_vain(made)) == ["KEPT"] * 4


def test_too_many_volumes_and_early_starts_are_seen() -> None:
    """Two volumes of a node that can attach one; and a bind before claims are bound."""
    claims = [volume_manifests.claim(name, "zonal") for name in ("c0", "c1")]
    node = volume_manifests.csi_node("n1", {"disk.example.com": 1})
    made = moment(*claims, node, uses=("c0", "c1"))
    pods = [pod for key, pod in made.census.pods.items() if "late" in key]
    placed = dataclasses.replace(made.census, residents=defaultdict(list, n1=pods))
    there = dataclasses.replace(made, census=placed)
    assert words(claim_rules.nodes_attach_their_volumes(there)) == ["ATTACHED"]
    early = dataclasses.replace(made, binds=(Placement(pod="default/late-0", node="n1"),))
    assert words(claim_rules.pods_start_with_their_claims(early)) == ["UNBOUND"]


@pytest.mark.parametrize(("restarts", "standing"), [(False, 3), (True, 2)])
def test_pods_that_are_gone_and_pods_that_just_ended_count(
    *, restarts: bool, standing: int
) -> None:
    """The group's status counts only the first yet, and a standby knows no more than that."""
    around = World(pictures.documents("node n1 cpu=9 queue q job q/a min=3 n1*3"), "preempt", 0)
    first, second, _ = around.of_kind("Pod")
    around.step()
    around.end_well(first)
    around.step()
    around.collect(manifests.key_of(first))
    around.step()
    around.end_well(second)
    if restarts:
        around.restart()
    moment = around.step()
    assert moment.census.standing("default/a") == standing
    assert moment.statuses["default/a"][0]["succeeded"] == standing - 1


@pytest.mark.parametrize(("phase", "gone"), [("Running", 3), ("Completed", 0)])
def test_a_completed_group_begins_anew(phase: str, gone: int) -> None:
    """What its status counts was another gang's."""
    documents = pictures.documents(f"node n1 cpu=4 queue q job q/a min=3 phase={phase} -")
    (group,) = (each for each in documents if each["kind"] == "PodGroup")
    group["status"]["succeeded"] = 3
    assert censuses.take(documents).gone("default/a") == gone


@pytest.mark.parametrize(
    ("most", "true"),
    [("4 cpu on n1", True), ("3 cpu on n1", False), ("4 cpu on n2", False), ("9 cpu on n3", False)],
)
def test_volumes_may_leave_one_pod_fewer_nodes(most: str, *, true: bool) -> None:
    """Of two that ask for the same, the other one could start."""
    found = pictures.documents("node n3 cpu=9 label=kubernetes.io/hostname=n3")
    for name, node in (("c0", "n3"), ("c1", "n1")):
        claim = volume_manifests.claim(name, "local")
        found += volume_manifests.bound(claim, local(f"pv-{name}", node))
    large = [{"name": "main", "resources": {"requests": {"cpu": "5"}}, "ports": []}]
    made = moment(*found, uses=("c0", "c1"), containers=large)
    text = f"a pod of 5 cpu is larger than any node it may use, the most is {most}"
    assert (not list(statements.problems(Case.of(made, "default/late", text)))) == true


def test_pods_whose_volumes_are_made_for_other_nodes_are_not_alike() -> None:
    """The second one fits on its node, and the first one doesn't on its own."""
    claims = [volume_manifests.claim(name, "zonal") for name in ("c0", "c1")]
    for claim, node in zip(claims, ("n1", "n2"), strict=True):
        claim["metadata"]["annotations"] = {volume_manifests.SELECTED: node}
    zonal = volume_manifests.storage_class("zonal", "disk.example.com")
    large = [{"name": "main", "resources": {"requests": {"cpu": "4"}}, "ports": []}]
    made = moment(zonal, *claims, uses=("c0", "c1"), containers=large)
    causes = "1 Insufficient cpu, 1 node(s) didn't find available persistent volumes to bind"
    text = f"needs 2 pods of 4 cpu; %s of 2 fit; 0/2 nodes are available: {causes}"
    assert not list(statements.problems(Case.of(made, "default/late", text % 1)))
    assert list(statements.problems(Case.of(made, "default/late", text % 2)))


@pytest.mark.parametrize(("count", "told"), [(2, []), (3, ["2 fit"])])
def test_claims_that_are_not_bound_yet_are_no_matter_of_room(count: int, told: list[str]) -> None:
    """They keep pods off all nodes for now, however empty these are."""
    made = moment(volume_manifests.claim("c0", volumeName="gone"), uses=("c0", "c0"))
    room = f"the nodes that it may use have room for at most {count} of 2 pods of 3 cpu"
    text = f"{room}, even when empty"
    assert list(statements.problems(Case.of(made, "default/late", text))) == told
