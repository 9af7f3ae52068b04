"""Choices of devices within a cycle, while a pod leaves others: which ones are written."""

import numpy as np

from tests import device_labs
from tests.device_labs import Document, Lab
from vscheduler.core import cycle
from vscheduler.core.placement.placement import Placement
from vscheduler.core.session.session import Session
from vscheduler.model.jobs import Task, TaskStatus


def opened(*claims: Document, uses: dict[str, list[str]]) -> Session:
    """A session in which `old-0` leaves the first of two devices, and two pods wait."""
    old = device_labs.claim("old")
    result = {"request": "gpus", "driver": device_labs.DRIVER, "pool": "n1", "device": "gpu-0"}
    old["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "old-0", "uid": "uid-old-0"}],
    }
    lab = Lab(
        """
        node  n1 cpu=8
        queue q
        job   q/old min=1 cpu=1  n1
        job   q/new min=2 cpu=1  - -
        """,
        *(device_labs.device_class(), device_labs.resource_slice("n1", 2), old, *claims),
        uses={"old-0": ["old"], **uses},
    )
    pod = lab.get("Pod", "old-0")
    old["status"]["reservedFor"][0]["uid"] = pod["metadata"]["uid"]
    lab.put(old)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    lab.put(pod)
    return cycle.open_session(lab.mirror().snapshot(lab.now, lab.carried), lab.policy)


def waiting(session: Session) -> list[Task]:
    """The two pods, by name."""
    pending = TaskStatus.PENDING
    found = [task for state in session.job_states.values() for task in state.tasks(pending)]
    return sorted(found, key=lambda task: task.name)


def written(session: Session, task: Task) -> list[str]:
    """The devices that would be written into the claims of a pod that is placed."""
    return [
        device.id.device
        for claim in session.devices.unallocated(task)
        if claim.allocation is not None
        for device in claim.allocation.devices
    ]


def test_a_pod_that_waited_for_devices_takes_free_ones_when_it_is_placed_again() -> None:
    """It waited in an attempt that was undone, since another pod had the free device."""
    claims = [device_labs.claim(f"gpus-{number}") for number in range(2)]
    session = opened(*claims, uses={"new-0": ["gpus-0"], "new-1": ["gpus-1"]})
    one, two = waiting(session)
    with session.statement() as attempt:
        attempt.allocate(one, 0)
        attempt.pipeline(two, 0)
        assert written(session, one) == ["gpu-1"]
        assert session.devices.lacks_choice(two)
        assert written(session, two) == []
    with session.statement() as attempt:
        attempt.allocate(two, 0)
        assert not session.devices.lacks_choice(two)
        assert written(session, two) == ["gpu-1"]


def test_a_pod_waits_that_shares_a_claim_with_one_that_waits() -> None:
    """Its devices aren't free for either of them."""
    session = opened(device_labs.claim("both", 2), uses={"new-0": ["both"], "new-1": ["both"]})
    one, two = waiting(session)
    with session.statement() as attempt:
        attempt.pipeline(one, 0)
        placing = session.placement
        assert isinstance(placing, Placement)
        plan = placing._plan(two)
        assert not np.any(plan.idle > -np.inf)
        assert np.all(plan.future > -np.inf)
