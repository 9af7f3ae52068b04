import random
from collections.abc import Iterable
from typing import Any

from hypothesis import given, strategies

from tests import volume_manifests as made
from tests.oracle import manifests, volumes
from tests.properties import clusters
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.index import entries
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model import storage
from vscheduler.model.constraints import ClaimUse
from vscheduler.model.snapshot import FRESH
from vscheduler.model.storage import Storage
from vscheduler.testing import pictures

Document = dict[str, Any]
Change = entries.Change


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


def stored(mirror: Mirror) -> Storage:
    """The storage in the mirror's snapshot."""
    return mirror.snapshot(0.0, FRESH).storage


def user(name: str = "p", *, mine: bool = True, **spec: Any) -> Document:
    """A pod that uses the claim `c`."""
    pod = manifests.pod(name, "default")
    pod["metadata"]["uid"] = name
    scheduler = pictures.SCHEDULER if mine else "somebody"
    pod["spec"] |= {"volumes": made.using("c"), "schedulerName": scheduler, **spec}
    return pod


USE = ClaimUse("default/c")


def test_a_cluster_without_users_has_no_storage() -> None:
    """And nothing about volumes wakes a cycle, however much of it there is."""
    mirror = shown([])
    for document in (made.storage_class("s"), made.claim("c"), made.volume("v")):
        assert show(mirror, document) is Change.NONE
    assert show(mirror, user(mine=False, nodeName="n")) is Change.OTHER
    assert stored(mirror) is storage.NO_STORAGE
    assert show(mirror, user()) is Change.OTHER
    found = stored(mirror)
    assert set(found.claims) == {"default/c"}
    assert set(found.volumes) == {"v"}
    assert show(mirror, made.volume("w")) is Change.OTHER


def test_users_are_counted_by_node() -> None:
    """Of all schedulers, on their way out or not; waiting and finished pods use nothing."""
    leaving = user("leaves", nodeName="n")
    leaving["metadata"]["deletionTimestamp"] = manifests.LEAVING
    finished = user("done", nodeName="n")
    finished["status"] = {"phase": "Succeeded"}
    mirror = shown(
        [
            *(user(), user("here", nodeName="n"), user("foreign", mine=False, nodeName="m")),
            *(leaving, finished),
        ]
    )
    found = stored(mirror)
    assert found.uses == {"n": {USE: (1, 1)}, "m": {USE: (1, 0)}}
    assert found.claim_uses == {"default/c": (2, 1)}
    mirror.apply(Remove(kind=Kind.POD, namespace="default", name="leaves", uid="leaves"))
    mirror.apply(Remove(kind=Kind.POD, namespace="default", name="here", uid="here"))
    assert stored(mirror).uses == {"m": {USE: (1, 0)}}
    assert found.uses["n"] == {USE: (1, 1)}  # what was frozen stays


def test_parts_without_changes_are_the_same_objects() -> None:
    """Tables that are made of them are kept."""
    mirror = shown([user(), made.claim("c"), made.volume("v"), made.storage_class("wait")])
    before = stored(mirror)
    assert stored(mirror) is before
    show(mirror, user("here", nodeName="n"))
    moved = stored(mirror)
    assert moved is not before
    assert moved.has_same_objects(before)
    show(mirror, made.claim("d"))
    after = stored(mirror)
    assert not after.has_same_objects(moved)
    assert after.volumes is before.volumes
    assert after.available is before.available


def test_volumes_are_grouped_for_claims() -> None:
    """What any claim of a class could get, the smallest first; and what is kept for one."""
    kept = made.volume("kept", claimRef={"namespace": "default", "name": "c"})
    released = {**made.volume("released"), "status": {"phase": "Released"}}
    sizes = [made.volume("large", size="3Gi"), made.volume("b"), made.volume("a"), kept, released]
    found = stored(shown([user(), *sizes]))
    assert [each.name for each in found.available["wait"]] == ["a", "b", "large"]
    assert [each.name for each in found.reserved["default/c"]] == ["kept"]


def test_notes_of_ours_keep_storage_alive_until_all_is_bound() -> None:
    """Whoever left a request behind finds it again."""
    note = {f"{pictures.SCHEDULER}/volume-binding": "n 2026-01-01T00:00:00Z"}
    claim, volume = made.claim("c", annotations=note), made.volume("v")
    volume["metadata"]["annotations"] = note
    mirror = shown([claim, volume])
    found = stored(mirror)
    assert (found.selected_claims, found.selected_volumes) == (("default/c",), ("v",))
    for document in made.bound(claim, volume):
        show(mirror, document)
    assert stored(mirror) is storage.NO_STORAGE


def test_storage_that_isnt_served_says_so() -> None:
    """And comes back."""
    mirror = shown([user()])
    mirror.storage.serve(served=False)
    assert not stored(mirror).served
    mirror.storage.serve(served=True)
    assert stored(mirror).served


@given(strategies.integers(0, 10**6), strategies.randoms(use_true_random=False))
@clusters.bounded(40)
def test_the_order_of_events_doesnt_matter(seed: int, chance: random.Random) -> None:
    """Nor what was there in between."""
    world = volumes.world("volumes-mixed", seed)
    probes = [
        {**each, "spec": {**each["spec"], "schedulerName": pictures.SCHEDULER}}
        for each in world.waiting
    ]
    documents = [*world.storage, *world.standing, *probes]
    expected = stored(shown(documents))
    mirror = shown(chance.sample(documents, len(documents)))
    for document in chance.sample(documents, len(documents) // 3):
        kind = events.kind_of(document)
        assert kind is not None
        converted = events.convert(kind, document)
        mirror.apply(events.removal(converted))
        stored(mirror)
        show(mirror, document)
    assert stored(mirror) == expected
