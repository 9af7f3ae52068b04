"""Devices decide about nodes: what a claim asks for, what is free, and why a pod waits."""

import re
from typing import Any

import pytest

from tests import device_labs, running
from tests.device_labs import Lab
from tests.volume_labs import binds, waits
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult

Document = dict[str, Any]

GPU = device_labs.device_class()
LARGE = f'device.capacity["{device_labs.DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
PAIR = """
    node  n1 cpu=8
    node  n2 cpu=8
    queue q
    job   q/train min=2 cpu=1  - -
"""
BOTH = {f"train-{number}": [f"gpus-{number}"] for number in range(2)}


def asking(name: str, count: int = 1, **fields: Any) -> Document:
    """A claim with more in its request."""
    found = device_labs.claim(name, count)
    found["spec"]["devices"]["requests"][0]["exactly"] |= fields
    return found


def large(name: str) -> Document:
    """A claim of one device with 80Gi."""
    return asking(name, selectors=[{"cel": {"expression": LARGE}}])


def mixed(node: str, *sizes: str) -> Document:
    """Devices of these sizes."""
    found = device_labs.resource_slice(node, len(sizes))
    for device, size in zip(found["spec"]["devices"], sizes, strict=True):
        device["capacity"]["memory"]["value"] = size
    return found


def reason(result: CycleResult) -> str:
    """Why the only job waits."""
    found = result.groups[0].reason
    assert found is not None
    return sentences.sentence(found)


def test_a_pod_that_any_device_would_do_for_leaves_the_large_one() -> None:
    """Devices of all pods on a node are chosen together, whichever pod comes first."""
    claims = [device_labs.claim("gpus-0"), large("gpus-1")]
    lab = Lab(PAIR, GPU, mixed("n1", "80Gi", "40Gi"), *claims, uses=BOTH)
    lab.cycle()
    assert lab.allocated() == {"gpus-0": [("n1", "gpu-1")], "gpus-1": [("n1", "gpu-0")]}
    assert binds(lab.cycle()) == {"train-0": "n1", "train-1": "n1"}


def test_a_gang_is_found_that_does_not_fit_pod_by_pod() -> None:
    """The pod that any node would do for goes where no large device is."""
    claims = [device_labs.claim("gpus-0"), large("gpus-1")]
    slices = [mixed("n1", "80Gi"), mixed("n2", "40Gi")]
    lab = Lab(PAIR, GPU, *slices, *claims, uses=BOTH)
    assert waits(lab.cycle()) == {"train-0": "n2", "train-1": "n1"}


def test_a_gang_that_lacks_devices_says_how_many_there_are() -> None:
    """The figures are those of the whole cluster."""
    claims = [large(f"gpus-{number}") for number in range(2)]
    taken = large("other")
    result = {"request": "gpus", "driver": device_labs.DRIVER, "pool": "n1", "device": "gpu-0"}
    taken["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}],
    }
    slices = [mixed("n1", "80Gi"), mixed("n2", "80Gi", "40Gi")]
    lab = Lab(PAIR, GPU, *slices, *claims, taken, uses=BOTH)
    said = reason(lab.cycle())
    assert "needs 2 pods" in said
    assert "2 node(s) had too few free devices of class gpu (2 such devices, 1 allocated)" in said


@pytest.mark.parametrize(
    ("others", "claim", "said"),
    [
        ([GPU], None, 'resourceclaim "gpus-0" not found'),
        (
            [],
            device_labs.claim("gpus-0"),
            "request gpus: device class gpu does not exist",
        ),
        (
            [GPU],
            asking("gpus-0", selectors=[{"cel": {"expression": "device.["}}]),
            'device selector "device.[" can\'t be evaluated: 1:8: Syntax error',
        ),
        (
            [GPU, device_labs.resource_slice("n1", 1)],
            asking(
                "gpus-0",
                selectors=[
                    {"cel": {"expression": f'device.attributes["{device_labs.DRIVER}"].x == 1'}}
                ],
            ),
            'failed: Key not found in map : "x"',
        ),
        (
            [GPU],
            device_labs.claim("gpus-0", 33),
            "request gpus asks for 33 devices, more than a claim can have",
        ),
        (
            [GPU],
            asking("gpus-0", capacity={"requests": {"memory": "1Gi"}}),
            "spec.devices.requests[0].exactly.capacity: is not supported",
        ),
        (
            [GPU, device_labs.resource_slice("n1", 2)],
            device_labs.claim("gpus-0", 3),
            "had too few such devices of class gpu (2 such devices, 0 allocated)",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_is_said(
    others: list[Document], claim: Document | None, said: str
) -> None:
    """No pod starts, and its owner learns what to do."""
    claims = [] if claim is None else [claim]
    lab = Lab(
        "node n1 cpu=8\nqueue q\njob q/train min=1 cpu=1  -",
        *others,
        *claims,
        uses={"train-0": ["gpus-0"]},
    )
    result = lab.cycle()
    assert result.binds == ()
    assert result.pipelined == ()
    assert said in reason(result)


TEXTS = [str(number) for number in range(100)]

COSTLY = {
    "more steps than the library takes": f"{TEXTS}.exists(x, {TEXTS}.exists(y, x + y == 'zz'))",
    "a long text": "'a'" + ".replace('a', 'aaaaaaaaaa')" * 7 + ".size() > 5",
    "a regular expression": r"'a'.matches('(x|y)*(\\pL{3}|x)*')",
    "a tree that doubles": "optional.of(1)" + ".optMap(x, x)" * 14 + ".hasValue()",
    "many words": "true || " * 1000 + "true",
    "a large exponent": "'\ue000quantity:1e999999999'.sign() == 1",
}
"""Selectors of a tenant that would hold up everybody."""


@pytest.mark.parametrize("expression", COSTLY.values(), ids=COSTLY)
def test_other_jobs_start_beside_a_claim_that_costs_too_much(expression: str) -> None:
    """Its pods wait, and are told."""
    lab = Lab(
        """
        node  n1 cpu=8
        queue q
        job   q/costly min=1 cpu=1  -
        job   q/train min=1 cpu=1  -
        """,
        *(GPU, device_labs.resource_slice("n1", 8)),
        asking("costly", selectors=[{"cel": {"expression": expression}}]),
        uses={"costly-0": ["costly"]},
    )
    result = lab.cycle()
    assert binds(result) == {"train-0": "n1"}
    assert re.search("can't be evaluated: |failed", reason(result))


def test_other_jobs_start_beside_a_claim_that_cant_be_read() -> None:
    """One bad object stops nobody else."""
    lab = Lab(
        """
        node  n1 cpu=8
        queue q
        job   q/bad min=1 cpu=1  -
        job   q/train min=1 cpu=1  -
        """,
        *(GPU, device_labs.resource_slice("n1", 1), device_labs.claim("gpus-0")),
        asking("broken", selectors=[{"cel": {"expression": "nonsense("}}]),
        uses={"train-0": ["gpus-0"], "bad-0": ["broken"]},
    )
    lab.cycle()
    assert binds(lab.cycle()) == {"train-0": "n1"}


def test_pods_that_share_a_claim_are_on_its_node() -> None:
    """The devices are there, and only there; the gang goes where all of it fits."""
    picture = PAIR.replace("node  n1 cpu=8", "node  n1 cpu=1")
    slices = [device_labs.resource_slice(node, 1) for node in ("n1", "n2")]
    shared = {name: ["shared"] for name in BOTH}
    lab = Lab(picture, GPU, *slices, device_labs.claim("shared"), uses=shared)
    assert waits(lab.cycle()) == {"train-0": "n2", "train-1": "n2"}
    assert lab.reserved() == {"shared": ["train-0", "train-1"]}
    assert binds(lab.cycle()) == {"train-0": "n2", "train-1": "n2"}


def test_a_full_claim_takes_no_more_pods() -> None:
    """An API server would refuse a reservation more."""
    claim = device_labs.claim("gpus-0")
    result = {"request": "gpus", "driver": device_labs.DRIVER, "pool": "n1", "device": "gpu-0"}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": f"x{n}", "uid": f"x{n}"} for n in range(256)],
    }
    lab = Lab(PAIR, GPU, claim, device_labs.claim("gpus-1"), uses=BOTH)
    assert "in use by as many pods as may use it" in reason(lab.cycle())


def test_a_device_with_a_taint_waits_for_a_toleration() -> None:
    """As nodes do."""
    tainted = device_labs.resource_slice("n1", 1)
    tainted["spec"]["devices"][0]["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
    tolerant = asking("gpus-0", tolerations=[{"key": "sick", "operator": "Exists"}])
    picture = "node n1 cpu=8\nqueue q\njob q/train min=1 cpu=1  -"
    uses = {"train-0": ["gpus-0"]}
    lab = Lab(picture, GPU, tainted, device_labs.claim("gpus-0"), uses=uses)
    assert not lab.cycle().pipelined
    lab = Lab(picture, GPU, tainted, tolerant, uses=uses)
    assert waits(lab.cycle()) == {"train-0": "n1"}


def leaving() -> Lab:
    """A node's only device belongs to a pod that is being deleted, and another pod asks for it."""
    lab = Lab(
        """
        node  n1 cpu=8
        queue q
        job   q/old min=1 cpu=1  -
        job   q/young min=1 cpu=1  -
        """,
        *(GPU, device_labs.resource_slice("n1", 1)),
        *(device_labs.claim("old"), device_labs.claim("new")),
        uses={"old-0": ["old"], "young-0": ["new"]},
    )
    young = lab.get("Pod", "young-0")
    lab.delete("Pod", "young-0")
    lab.cycle()
    assert binds(lab.cycle()) == {"old-0": "n1"}
    pod = lab.get("Pod", "old-0")
    pod["metadata"]["deletionTimestamp"] = statuses.timestamp(lab.now)
    lab.put(pod)
    lab.put(young)
    return lab


def test_devices_of_a_pod_that_leaves_are_waited_for() -> None:
    """The pod keeps its place, and nothing is written before they are free."""
    lab = leaving()
    result = lab.cycle()
    assert waits(result) == {"young-0": "n1"}
    assert result.claims == ()
    lab.delete("Pod", "old-0")
    assert [allocation.requests[0].name for allocation in lab.cycle().claims] == ["new"]
    assert binds(lab.cycle()) == {"young-0": "n1"}


def test_devices_of_a_pod_that_never_goes_are_taken() -> None:
    """Five minutes after its grace period it counts as one that stays, until it is gone."""
    lab = leaving()
    result = lab.cycle(299)
    assert waits(result) == {"young-0": "n1"}
    assert result.wake_at == lab.now + 1
    assert waits(lab.cycle(1)) == {}
    lab.delete("Pod", "old-0")
    assert [allocation.requests[0].name for allocation in lab.cycle().claims] == ["new"]


def test_preemption_frees_devices() -> None:
    """The pod of lower priority goes, although its node has room for both."""
    tree = {**device_labs.TREE, "actions": "allocate, preempt"}
    lab = Lab(
        """
        node  n1 cpu=8
        queue q
        job   q/old min=1 cpu=1 priority=1  -
        job   q/young min=1 cpu=1 priority=9  -
        """,
        *(GPU, device_labs.resource_slice("n1", 1)),
        *(device_labs.claim("old"), device_labs.claim("new")),
        uses={"old-0": ["old"], "young-0": ["new"]},
        tree=tree,
    )
    young = lab.get("Pod", "young-0")
    lab.delete("Pod", "young-0")
    lab.cycle()
    assert binds(lab.cycle()) == {"old-0": "n1"}
    lab.put(young)
    result = lab.cycle()
    assert [evict.task.name for evict in result.evicts] == ["old-0"]
    assert waits(result) == {"young-0": "n1"}


ONE = "node n1 cpu=8\nqueue q\njob q/train min=1 cpu=1  -"
USES = {"train-0": ["gpus-0"]}


def test_nothing_is_taken_of_a_pool_that_is_being_updated() -> None:
    """Its other slices might say that a device is gone."""
    unfinished = device_labs.resource_slice("n1", 1)
    unfinished["spec"]["pool"]["resourceSliceCount"] = 2
    lab = Lab(ONE, GPU, unfinished, device_labs.claim("gpus-0"), uses=USES)
    assert "too few such devices of class gpu (0 such devices, 0 allocated)" in reason(lab.cycle())


def test_devices_that_share_counters_are_never_allocated() -> None:
    """The reason says how many of those that the claim asks for do."""
    slices = device_labs.resource_slice("n1", 4)
    for device in slices["spec"]["devices"][1:3]:
        device["consumesCounters"] = [{"counterSet": "s", "counters": {"m": {"value": "1"}}}]
    slices["spec"]["devices"][3] |= {"allowMultipleAllocations": True, "capacity": {}}
    small = 'device.driver == "gpu.example.com" && size(device.capacity) > 0'
    claim = asking("gpus-0", 3, selectors=[{"cel": {"expression": small}}])
    lab = Lab(ONE, GPU, slices, claim, uses=USES)
    said = reason(lab.cycle())
    assert "(1 such device, 0 allocated; 2 more share counters with others, which" in said
    lab.put(asking("gpus-0", 1))
    assert [allocation.requests[0].name for allocation in lab.cycle().claims] == ["gpus-0"]


def test_a_claim_made_for_another_pod_is_not_used() -> None:
    """Somebody made a claim of the name that the controller would give."""
    lab = Lab(ONE, GPU, device_labs.resource_slice("n1", 1), device_labs.claim("c"), uses={})
    pod = lab.get("Pod", "train-0")
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    lab.put(pod)
    said = "waiting for the controller to create the resourceclaim of entry gpu"
    assert said in reason(lab.cycle())
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "c"}]
    lab.put(pod)
    assert 'resourceclaim "c" was not created for the pod' in reason(lab.cycle())


def test_no_pod_with_claims_starts_unless_something_looks_at_them() -> None:
    """Whatever the configuration says."""
    arguments = {"predicate.DynamicResourceAllocationEnable": False}
    tiers = [{"plugins": [{"name": "gang"}, {"name": "predicates", "arguments": arguments}]}]
    for plugins in (tiers, [{"plugins": [{"name": "gang"}]}]):
        lab = Lab(
            ONE,
            *(GPU, device_labs.resource_slice("n1", 1), device_labs.claim("gpus-0")),
            uses=USES,
            tree={"actions": "allocate", "tiers": plugins},
        )
        assert "resource claims can't be allocated" in reason(lab.cycle())


def test_a_gang_of_many_different_pods_is_found() -> None:
    """Five sizes, of which each node has the devices of some."""
    sizes = [f"{number}0Gi" for number in range(1, 6)]
    claims = []
    for number, size in enumerate(sizes):
        expression = f'device.capacity["{device_labs.DRIVER}"].memory == quantity("{size}")'
        claims.append(asking(f"gpus-{number}", selectors=[{"cel": {"expression": expression}}]))
    claims.append(device_labs.claim("gpus-5"))
    lab = Lab(
        """
        node  n1 cpu=3
        node  n2 cpu=3
        queue q
        job   q/train min=6 cpu=1  - - - - - -
        """,
        *(GPU, mixed("n1", *sizes[:2], "5Gi"), mixed("n2", *sizes[2:]), *claims),
        uses={f"train-{number}": [f"gpus-{number}"] for number in range(6)},
    )
    placed = waits(lab.cycle())
    assert placed == {f"train-{n}": "n1" if n in {0, 1, 5} else "n2" for n in range(6)}


def test_pods_of_a_job_with_devices_do_not_take_turns() -> None:
    """However much of the devices the job has, a pod of it doesn't go for another one like it."""
    claim = device_labs.claim("gpu")
    result = {"driver": device_labs.DRIVER, "pool": "n1", "device": "gpu-0", "request": "gpus"}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "train-0", "uid": "train-00000"}],
    }
    picture = """
        node  n1 cpu=2 label=zone=a
        node  n2 cpu=9
        queue q
        job   q/other min=1 n2
        job   q/train min=1 select=zone=a n1@0 n1@2 -@2
        """
    tree = {"actions": "allocate, preempt", "tiers": running.tiers("gang | drf predicates")}
    objects = (GPU, device_labs.resource_slice("n1", 1), claim)
    assert Lab(picture, *objects, uses={"train-0": ["gpu"]}, tree=tree).cycle().evicts == ()
