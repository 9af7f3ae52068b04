import asyncio

import pytest
from msgspec.structs import replace
from structlog import testing

from tests import device_labs, volume_labs
from vscheduler.cluster.http.connection import ApiError, Forbidden, NotFound, Unavailable
from vscheduler.daemon import informers
from vscheduler.daemon.health import WatchState
from vscheduler.daemon.informers import KindAccess
from vscheduler.mirror import paths
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.storage import Storage
from vscheduler.testing import pictures


def watch(kind: paths.Kind, problem: ApiError | None = None) -> WatchState:
    """A watch that has failed for a minute, or works."""
    return WatchState(kind=kind, listed=problem is None, problem=problem, seconds=60.0)


def stored(mirror: Mirror) -> Storage:
    """What a cycle sees."""
    return mirror.snapshot(pictures.NOW.timestamp()).storage


def a_mirror() -> Mirror:
    """A cluster with a pod that uses a claim."""
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    *_, pod = pictures.documents("node n1 cpu=1\nqueue q\njob q/a min=1 -")
    source = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pod["spec"]["volumes"] = [source]
    for document in (pod, volume_labs.claim("data")):
        kind = events.kind_of(document)
        assert kind is not None
        mirror.apply(events.convert(kind, document))
    return mirror


async def test_where_claims_cannot_be_read_volumes_are_no_obstacle() -> None:
    """The log says so once, and says when they can be read; a cycle is due then."""
    mirror = a_mirror()
    refused = Forbidden("no right to list", status=403)
    states = [watch(paths.Kind.CLAIM, refused), watch(paths.Kind.VOLUME)]
    access = KindAccess(mirror, lambda: states)
    assert stored(mirror).served
    with testing.capture_logs() as said:
        assert access.look()
        assert not access.look()
        assert not stored(mirror).served
        states[0] = watch(paths.Kind.CLAIM)
        assert access.look()
        assert stored(mirror).served
    assert [(each["event"], each["log_level"]) for each in said] == [
        ("volumes.off", "warning"),
        ("volumes.on", "info"),
    ]
    assert said[0]["kinds"] == ["PersistentVolumeClaim"]
    assert said[0]["message"] == "no right to list"


async def test_where_devices_cannot_be_read_pods_with_claims_wait() -> None:
    """As on an API server that doesn't serve these kinds, which nobody waits for."""
    *_, pod = pictures.documents("node n1 cpu=1\nqueue q\njob q/a min=1 -")
    device_labs.use(pod, {pod["metadata"]["name"]: ["gpus"]})
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    mirror.apply(events.convert(events.Kind.POD, pod))
    absent = NotFound("no such kind")
    missing = WatchState(kind=paths.Kind.RESOURCE_SLICE, listed=False, problem=absent, seconds=0.0)
    access = KindAccess(mirror, lambda: [missing])
    with testing.capture_logs() as said:
        assert access.look()
    assert [each["event"] for each in said] == ["devices.off"]
    taken = mirror.snapshot(pictures.NOW.timestamp())
    assert (taken.devices.served, taken.storage.served) == (False, True)


async def test_kinds_that_only_limit_pods_may_be_missing() -> None:
    """Without attach limits, volumes are considered all the same."""
    mirror = a_mirror()
    absent = NotFound("no such kind")
    states = [watch(paths.Kind.CSI_NODE, absent), watch(paths.Kind.CLAIM)]
    assert not KindAccess(mirror, lambda: states).look()
    assert stored(mirror).served


async def test_a_change_makes_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights may be granted at any time."""
    monkeypatch.setattr(informers, "ACCESS_LOOK_SECONDS", 0.001)
    mirror, cycle = a_mirror(), asyncio.Event()
    refused = Forbidden("no", status=403)
    access = KindAccess(mirror, lambda: [watch(paths.Kind.CLAIM, refused)])
    following = asyncio.create_task(access.follow(cycle.set))
    await asyncio.wait_for(cycle.wait(), 40)
    following.cancel()


async def test_volcanos_kinds_are_absent_until_they_are_listed() -> None:
    """An error that says nothing of them doesn't bring them back."""
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    absent = WatchState(
        kind=paths.Kind.QUEUE,
        listed=False,
        problem=NotFound("no such kind"),
        seconds=60.0,
        unserved=True,
        replaced=True,
    )
    states = [absent]
    access = KindAccess(mirror, lambda: states)
    with testing.capture_logs() as said:
        assert access.look()
        assert mirror.has_queue("default")
        states[0] = replace(absent, problem=Unavailable("busy"), unserved=False)
        assert not access.look()
        assert mirror.has_queue("default")
        states[0] = watch(paths.Kind.QUEUE)
        assert access.look()
        assert not mirror.has_queue("default")
    assert [each["event"] for each in said] == ["queues.off", "queues.on"]
