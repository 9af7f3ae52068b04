"""Pods that wait on their nodes for claims give way to others, and may stay with other claims.

In each of the clusters, one queue has its share, so another queue's pod takes the only device or
disk that is good enough. The first pod stays on the node, in the same cycle, with what is left.
"""

from tests import device_labs, running, volume_labs

TIERS = {"tiers": running.tiers("priority gang | predicates proportion")}
PICTURE = """
    node  n1 cpu=8
    queue early   queue late
    job   early/any min=1 cpu=1 -
    job   late/best min=1 cpu=4 -
"""


def test_the_first_pod_gets_other_devices() -> None:
    """Not the same ones."""
    devices = device_labs.resource_slice("n1", 2)
    devices["spec"]["devices"][1]["capacity"]["memory"]["value"] = "40Gi"
    best = device_labs.claim("best")
    memory = f'device.capacity["{device_labs.DRIVER}"].memory'
    best["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [
        {"cel": {"expression": f'{memory}.compareTo(quantity("80Gi")) >= 0'}}
    ]
    lab = device_labs.Lab(
        PICTURE,
        *(device_labs.device_class(), devices, device_labs.claim("any"), best),
        uses={"any-0": ["any"], "best-0": ["best"]},
        tree={**device_labs.TREE, **TIERS},
    )
    lab.cycle()
    assert lab.allocated() == {"any": [("n1", "gpu-1")], "best": [("n1", "gpu-0")]}
    assert volume_labs.binds(lab.cycle()) == {"any-0": "n1", "best-0": "n1"}


def test_pods_that_stay_without_a_node_have_a_reason() -> None:
    """One pod takes the node of a lesser job; the other one is told that it is too large."""
    lab = device_labs.Lab(
        "node n1 cpu=8 queue q job q/any min=1 cpu=8 - job q/best min=1 priority=5 -@9 -@4",
        *(device_labs.device_class(), device_labs.resource_slice("n1", 1)),
        device_labs.claim("any"),
        uses={"any-0": ["any"]},
    )
    pods = [lab.stored.pop(("Pod", f"best-{number}")) for number in range(2)]
    assert set(volume_labs.waits(lab.cycle(write=0))) == {"any-0"}
    for pod in pods:
        lab.put(pod)
    result = lab.cycle()
    assert volume_labs.binds(result) == {"best-1": "n1"}
    (status,) = (group for group in result.groups if group.job == "default/best")
    assert [task.name for task in status.unplaced] == ["best-0"]
    assert status.reason is not None


def test_the_first_pod_gets_another_volume() -> None:
    """Likewise."""
    disks = [volume_labs.volume(f"disk-{n}", "n1", size=f"{n + 2}Gi") for n in range(2)]
    disks[0]["metadata"]["labels"] = {"disk": "best"}
    best = volume_labs.claim("best", "local")
    best["spec"]["selector"] = {"matchLabels": {"disk": "best"}}
    local = volume_labs.storage_class("local", "kubernetes.io/no-provisioner")
    lab = volume_labs.Lab(
        PICTURE,
        *(local, volume_labs.claim("any", "local"), best, *disks),
        uses={"any-0": ["any"], "best-0": ["best"]},
        tree={**volume_labs.TREE, **TIERS},
    )
    assert volume_labs.waits(lab.cycle()) == {"any-0": "n1", "best-0": "n1"}
    assert lab.given() == {"disk-0": "best", "disk-1": "any"}
