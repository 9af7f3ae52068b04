import asyncio

from tests.device_labs import Lab, claim, device_class, resource_slice
from tests.web import stage
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import Snapshot
from vscheduler.web import capacity, documents, node_devices
from vscheduler.web.cluster_view import ViewMaker

PICTURE = """
    node  n1 cpu=8   node n2 cpu=8   node n3 cpu=8
    queue q
    job   q/train min=1 - -
    job   q/later min=1 cpu=99 -
    """
USES = {"train-0": ["two"], "train-1": ["one"], "later-0": ["more"]}


def lab() -> Lab:
    """Two nodes with devices; a job of two pods gets three of them."""
    found = Lab(
        PICTURE,
        device_class(),
        resource_slice("n1", 2),
        resource_slice("n2", 4),
        *(claim("two", 2), claim("one"), claim("more", 2)),
        uses=USES,
    )
    for _ in range(4):
        found.cycle()
    return found


def snapshot(made: Lab) -> Snapshot:
    """What a scheduler sees of it."""
    return made.mirror().snapshot(made.now, made.carried)


def test_devices_are_on_the_nodes_that_can_use_them() -> None:
    """With the job that has them; parts add up to the total."""
    found = node_devices.of(snapshot(lab()), ("", "", ""))
    assert found.drivers == ("gpu.example.com",)
    assert found.parts["total"] == ((2,), (4,), (0,))
    assert sum(row[0] for row in found.parts["ours"]) == 3
    held = {node: dict(jobs) for node, jobs in found.held.items()}
    job = JobId("default/train")
    assert sum(held[node][job][0] for node in held) == 3
    for row, total in enumerate(found.parts["total"]):
        assert sum(found.parts[part][row][0] for part in node_devices.PARTS[1:]) == total[0]


def test_tainted_devices_and_those_of_closed_nodes_are_not_free() -> None:
    """Nor are those that are allocated to nobody, or used by pods of other schedulers."""
    made = lab()
    slices = made.get("ResourceSlice", "slice-n2")
    for device in slices["spec"]["devices"][2:]:
        device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    made.put(slices)
    found = node_devices.of(snapshot(made), ("cordoned", "", ""))
    assert found.parts["free"][0] == (0,)
    assert sum(found.parts["closed"][row][0] for row in range(2)) >= 2
    for name in ("one", "two"):
        found_claim = made.get("ResourceClaim", name)
        found_claim["status"]["reservedFor"] = (
            [] if name == "one" else [{"resource": "pods", "name": "x", "uid": "someone"}]
        )
        made.put(found_claim)
    found = node_devices.of(snapshot(made), ("", "", ""))
    sums = {part: sum(row[0] for row in rows) for part, rows in found.parts.items()}
    assert (sums["reserved"], sums["others"], sums["ours"], found.held) == (1, 2, 0, {})


def test_the_map_has_the_devices_of_drivers_first() -> None:
    """Beside the resources of nodes, and in the amounts of jobs."""
    made = lab()
    result = made.cycle()
    taken = snapshot(made)
    shown = stage.Stage([])
    shown.past.cycle(taken, result)
    view = ViewMaker(lambda _: {}, lambda _: {}).make(asyncio.run(shown.look()))
    found = documents.nodes(view, stage.everything(), documents.holdings(view))
    assert found["resources"][:2] == ["devices of gpu.example.com", "cpu"]
    first, second, third = found["nodes"]
    assert (first["total"][0], second["total"][0], third["total"][0]) == (2, 4, 0)
    on_nodes = [job for node in (first, second) for job in node["jobs"]]
    assert sum(devices for _, _, devices, *_ in on_nodes) == 3
    assert capacity.of(taken, result, (), view.capacity) is view.capacity
