from collections.abc import Iterable
from typing import Any

import pytest

from tests import device_labs
from tests.oracle import manifests
from vscheduler.mirror import statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.index import entries
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model import devices
from vscheduler.model.devices import DeviceId, DeviceInventory, PoolId
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

Document = dict[str, Any]
Change = entries.Change
POOL = PoolId(device_labs.DRIVER, "n1")


def shown(documents: Iterable[Document]) -> Mirror:
    """A mirror that was shown these objects in this order."""
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    for document in documents:
        show(mirror, document)
    return mirror


def show(mirror: Mirror, document: Document) -> Change:
    """Show one object."""
    kind = events.kind_of(document)
    assert kind is not None
    return mirror.apply(events.convert(kind, document))


def known(mirror: Mirror) -> DeviceInventory:
    """The devices in the mirror's snapshot."""
    return mirror.snapshot(0.0, FRESH).devices


def user(name: str = "p", *, mine: bool = True, **spec: Any) -> Document:
    """A pod that uses the claim `c`."""
    pod = manifests.pod(name, "default")
    pod["metadata"]["uid"] = name
    scheduler = pictures.SCHEDULER if mine else "somebody"
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    pod["spec"] |= {"resourceClaims": claims, "schedulerName": scheduler, **spec}
    return pod


def allocated(name: str, device: str, *, admin: bool = False) -> Document:
    """A claim that has a device of node n1."""
    found = device_labs.claim(name)
    result = {"request": "gpus", "driver": device_labs.DRIVER, "pool": "n1", "device": device}
    if admin:
        result["adminAccess"] = True  # type: ignore[assignment]  # beside texts
    found["status"] = {"allocation": {"devices": {"results": [result]}}}
    return found


def test_a_cluster_without_users_has_no_devices() -> None:
    """And nothing about devices wakes a cycle, however much of it there is."""
    mirror = shown([])
    for document in (
        device_labs.device_class(),
        device_labs.resource_slice("n1", 2),
        device_labs.claim("c"),
    ):
        assert show(mirror, document) is Change.NONE
    for pod in (user(mine=False), user("bound", nodeName="n1")):
        show(mirror, pod)
        assert known(mirror) is devices.NO_DEVICES
    show(mirror, user())
    found = known(mirror)
    assert list(found.claims) == ["default/c"]
    assert list(found.classes) == ["gpu"]
    assert [device.name for device in found.pools[POOL].slices[0].devices] == ["gpu-0", "gpu-1"]
    assert show(mirror, device_labs.claim("d")) is Change.OTHER


def test_nothing_is_frozen_again_that_has_not_changed() -> None:
    """A claim that changes leaves the pools as they are, and the other way round."""
    mirror = shown([user(), device_labs.resource_slice("n1", 1), device_labs.claim("c")])
    first = known(mirror)
    assert known(mirror) is first
    show(mirror, allocated("c", "gpu-0"))
    second = known(mirror)
    assert second.pools is first.pools
    assert second.claims is not first.claims
    show(mirror, device_labs.resource_slice("n1", 2))
    third = known(mirror)
    assert third.claims is second.claims
    assert third.pools is not second.pools


def test_devices_say_which_pods_should_have_gone_long_ago() -> None:
    """From the instant on at which such a pod counts as one that stays; nothing else changes."""
    going = user("going", nodeName="n1")
    going["metadata"]["deletionTimestamp"] = statuses.timestamp(0.0)
    mirror = shown([user(), going, device_labs.claim("c")])
    before = mirror.snapshot(299.0, FRESH).devices
    assert before.overdue == frozenset()
    after = mirror.snapshot(300.0, FRESH).devices
    assert after.overdue == {"going"}
    assert after.claims is before.claims
    assert mirror.snapshot(301.0, FRESH).devices is after


@pytest.mark.parametrize(
    ("pools", "complete", "names"),
    [
        ([(1, 1)], True, ["gpu-0"]),
        ([(1, 2)], False, ["gpu-0"]),
        ([(1, 2), (1, 2)], True, ["gpu-0", "gpu-0"]),
        ([(1, 1), (2, 1)], True, ["gpu-0"]),
        ([(2, 2), (1, 1)], False, ["gpu-0"]),
    ],
)
def test_a_pool_is_its_newest_generation(
    pools: list[tuple[int, int]], names: list[str], *, complete: bool
) -> None:
    """And it is complete once all slices of that generation are there."""
    mirror = shown([user()])
    for number, (generation, count) in enumerate(pools):
        document = device_labs.resource_slice("n1", 1)
        document["metadata"]["name"] = f"slice-{number}"
        document["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": count}
        show(mirror, document)
    found = known(mirror).pools[POOL]
    assert found.complete is complete
    assert [device.name for of in found.slices for device in of.devices] == names
    assert found.duplicate == ("gpu-0" if len(names) > 1 else "")


def test_a_pool_goes_with_its_last_slice() -> None:
    """Nothing of it is left."""
    mirror = shown([user(), device_labs.resource_slice("n1", 1)])
    mirror.apply(Remove(kind=Kind.RESOURCE_SLICE, namespace="", name="slice-n1"))
    assert known(mirror).pools == {}


def test_devices_belong_to_claims_unless_these_only_administer_them() -> None:
    """Until the claim gives them back, or is gone."""
    one, other = (DeviceId(device_labs.DRIVER, "n1", f"gpu-{n}") for n in range(2))
    mirror = shown([user(), allocated("c", "gpu-0"), allocated("admin", "gpu-1", admin=True)])
    assert known(mirror).allocated == {one: ("default/c",)}
    show(mirror, allocated("twice", "gpu-0"))
    assert known(mirror).allocated == {one: ("default/c", "default/twice")}
    show(mirror, allocated("c", "gpu-1"))
    assert known(mirror).allocated == {one: ("default/twice",), other: ("default/c",)}
    mirror.apply(Remove(kind=Kind.RESOURCE_CLAIM, namespace="default", name="twice"))
    assert known(mirror).allocated == {other: ("default/c",)}


def test_what_is_not_served_is_said() -> None:
    """Pods with claims can't start then."""
    mirror = shown([user()])
    assert known(mirror).served
    mirror.devices.serve(served=False)
    assert not known(mirror).served
