"""The queue of PodGroups of Kubernetes' own API that name none."""

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from tests import patience
from tests.unit.controllers import group_api
from tests.unit.controllers.group_api import World
from tests.unit.controllers.podgroups.test_podgroup_controller_pauses import PAUSES_SECONDS, TRIES
from vscheduler.controllers.ports import Trouble
from vscheduler.mirror.translate import translation

pytestmark = pytest.mark.usefixtures("virtual_time")

QUEUE, MIN_MEMBER = translation.QUEUE, translation.MIN_MEMBER
PATH = f"{group_api.NATIVE}/g"
MEMBER = f"{group_api.PODS}/a"


def annotate(made: World, path: str, queue: str) -> None:
    """Name a queue on an object, as its owner does."""
    made.server.change(path, {"metadata": {"annotations": {QUEUE: queue}}})


@pytest.mark.parametrize("said_by", ["label", "pod", "pod's label", "owner", "namespace", ""])
async def test_the_nearest_queue_counts(said_by: str) -> None:
    """That of the newest pod, else the owner's, else the namespace's, else the default."""
    label = {"labels": {QUEUE: "label"}}
    async with group_api.world() as made:
        owner = made.a_replica_set("train", 1, {QUEUE: "owner"} if said_by != "" else {})
        path = f"{group_api.REPLICA_SETS}/train"
        if said_by == "label":
            made.server.change(path, {"metadata": {"annotations": {QUEUE: None}, **label}})
        if said_by == "namespace":
            made.server.change(path, {"metadata": {"annotations": {QUEUE: None}}})
        if said_by:
            made.annotate_namespace({QUEUE: "namespace"})
        made.deaf = True
        made.a_native_group("g", owner)
        made.a_member("a", "g")
        if said_by == "pod":
            annotate(made, MEMBER, "pod")
        if said_by == "pod's label":
            made.server.change(MEMBER, {"metadata": {"labels": {QUEUE: "pod"}}})
        made.deaf = False
        made.show("ADDED", made.server.objects[PATH])
        made.show("ADDED", made.server.objects[MEMBER])
        await patience.until(lambda: made.queue_of("g"))
        expected = {"pod's label": "pod", "": "default"}.get(said_by, said_by)
        assert made.queue_of("g") == expected


async def test_the_controller_of_the_pods_counts_if_nobody_owns_the_group() -> None:
    """As with a PodGroup that a user has made for the pods of a Job."""
    async with group_api.world() as made:
        owner = made.a_replica_set("train", 1, {QUEUE: "owner"})
        made.a_native_group("g")
        made.a_member("a", "g", owner)
        await patience.until(lambda: made.queue_of("g") == "owner")


@pytest.mark.parametrize("said_by", ["owner", "pod"])
async def test_a_group_without_a_minimum_gets_that_of_its_job(said_by: str) -> None:
    """Every Job has a PodGroup with policy basic where its controller makes them: Jobs that were
    gangs by annotation stay so.
    """
    least = {MIN_MEMBER: "3"}
    async with group_api.world() as made:
        owner = made.a_replica_set("train", 4, least if said_by == "owner" else {})
        made.deaf = True
        made.a_native_group("g", owner)
        made.a_member("a", "g", owner)
        if said_by == "pod":
            made.server.change(MEMBER, {"metadata": {"annotations": least}})
        made.deaf = False
        made.show("ADDED", made.server.objects[PATH])
        made.show("ADDED", made.server.objects[MEMBER])
        await patience.until(lambda: made.queue_of("g") == "default")
        assert made.server.objects[PATH]["metadata"]["annotations"][MIN_MEMBER] == "3"


@pytest.mark.parametrize(
    ("root", "middle", "expected"),
    [("top", "low", "top"), ("top", "", "top"), ("", "low", "low"), ("", "", "own")],
)
async def test_a_group_of_a_larger_gang_has_the_queue_of_the_gang(
    root: str, middle: str, expected: str
) -> None:
    """Of the topmost CompositePodGroup that names one, as for schedulers; else as any other."""
    async with group_api.world() as made:
        made.deaf = True
        for name, queue, above in (("root", root, ""), ("middle", middle, "root")):
            metadata = {"name": name, "annotations": {QUEUE: queue} if queue else {}}
            spec = {"parentCompositePodGroupName": above} if above else {}
            made.server.put(group_api.COMPOSITE, {"metadata": metadata, "spec": spec})
        made.deaf = False
        owner = made.a_replica_set("train", 1, {QUEUE: "own"})
        made.a_native_group("g", owner, parentCompositePodGroupName="middle")
        made.a_member("a", "g", owner)
        await patience.until(lambda: made.queue_of("g"))
        assert made.queue_of("g") == expected


GANG = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
NEAR = {**BASIC, "schedulingConstraints": {"topology": [{"key": "rack"}]}}


def a_tree(made: World, root: dict[str, Any], middle: dict[str, Any]) -> None:
    """CompositePodGroups `root` and below it `middle`, without queues."""
    for name, spec, above in (("root", root, ""), ("middle", middle, "root")):
        more = {"parentCompositePodGroupName": above} if above else {}
        made.server.put(
            group_api.COMPOSITE,
            {"metadata": {"name": name, "annotations": {}}, "spec": {**spec, **more}},
        )


def queues_of_tree(made: World) -> dict[str, str]:
    """The queues that CompositePodGroups name."""
    found = {}
    for name in ("root", "middle"):
        metadata = made.server.objects[f"{group_api.COMPOSITE}/{name}"]["metadata"]
        if QUEUE in metadata["annotations"]:
            found[name] = metadata["annotations"][QUEUE]
    return found


@pytest.mark.parametrize(
    ("root", "middle", "expected"),
    [
        (GANG, GANG, ["root"]),
        (NEAR, BASIC, ["root"]),
        (BASIC, GANG, ["middle"]),
        (BASIC, BASIC, []),
    ],
)
async def test_a_tree_gets_the_queue_of_its_first_group(
    root: dict[str, Any], middle: dict[str, Any], expected: list[str]
) -> None:
    """Where it is one job, whatever owners of others name; other groups are jobs of their own."""
    async with group_api.world() as made:
        made.deaf = True
        a_tree(made, root, middle)
        made.deaf = False
        for name in ("a", "b"):
            owner = made.a_replica_set(name, 1, {QUEUE: name})
            made.a_native_group(name, owner, parentCompositePodGroupName="middle")
            made.a_member(name, name, owner)
            await patience.until(partial(made.queue_of, name))
        assert queues_of_tree(made) == dict.fromkeys(expected, "a")
        assert made.queue_of("b") == ("a" if expected else "b")


@pytest.mark.parametrize(
    ("root", "middle", "expected"), [(GANG, GANG, {"root": "mine"}), (BASIC, BASIC, {})]
)
async def test_a_tree_gets_the_queue_that_its_groups_name(
    root: dict[str, Any], middle: dict[str, Any], expected: dict[str, str]
) -> None:
    """Where it is one job; a group without a queue gets that one, too. Each is looked at once."""
    async with group_api.world() as made:
        made.deaf = True
        a_tree(made, root, middle)
        made.deaf = False
        for name, queue in (("b", "mine"), ("c", "other")):
            made.a_native_group(name, queue=queue, parentCompositePodGroupName="middle")
        owner = made.a_replica_set("a", 1, {QUEUE: "own"})
        made.a_native_group("a", owner, parentCompositePodGroupName="middle")
        for name in ("b", "c", "a"):
            made.a_member(name, name)
            await made.rest()
        assert queues_of_tree(made) == expected
        assert made.queue_of("a") == ("mine" if expected else "own")
        assert (made.queue_of("b"), made.queue_of("c")) == ("mine", "other")
        before = len(made.server.calls)
        made.controller.changed()
        await made.rest()
        assert len(made.server.calls) == before


async def test_a_tree_of_others_is_left_alone() -> None:
    """No pod of it names one of our schedulers."""
    async with group_api.world() as made:
        made.deaf = True
        a_tree(made, GANG, GANG)
        made.deaf = False
        made.a_native_group("a", queue="mine", parentCompositePodGroupName="middle")
        made.a_member("a", "a", schedulerName="second")
        await made.rest()
        assert made.server.calls == []


async def test_groups_of_a_tree_that_are_adopted_at_once_get_one_queue() -> None:
    """The first to write it on the CompositePodGroup decides; nobody's queue is overwritten."""
    async with group_api.world() as made:
        made.deaf = True
        a_tree(made, GANG, GANG)
        made.deaf = False
        root = f"{group_api.COMPOSITE}/root"
        made.server.late["patch", root] = asyncio.Event()
        for name in ("a", "b", "c"):
            owner = made.a_replica_set(name, 1, {QUEUE: name})
            made.a_native_group(name, owner, parentCompositePodGroupName="middle")
            made.a_member(name, name, owner)
        await patience.until(lambda: made.server.asked("patch")[root] == 3)
        made.server.late.pop(("patch", root)).set()
        await patience.until(lambda: all(map(made.queue_of, ("a", "b", "c"))))
        (queue,) = queues_of_tree(made).values()
        assert {made.queue_of(name) for name in ("a", "b", "c")} == {queue}


async def adopt_below(made: group_api.World, trouble: Trouble) -> None:
    """A group gets its queue while its tree can't be patched at first."""
    made.deaf = True
    a_tree(made, GANG, GANG)
    made.deaf = False
    made.server.refusals["patch", f"{group_api.COMPOSITE}/root"] = [trouble]
    made.a_native_group("g", parentCompositePodGroupName="middle")
    made.a_member("a", "g")
    await patience.until(lambda: made.queue_of("g") == "default")


@pytest.mark.parametrize("trouble", [Trouble.FORBIDDEN, Trouble.MISSING])
async def test_groups_are_adopted_if_their_tree_cant_be(trouble: Trouble) -> None:
    """Schedulers take the queue of one of them."""
    async with group_api.world() as made:
        await adopt_below(made, trouble)
        assert queues_of_tree(made) == {}


@pytest.mark.parametrize("trouble", [Trouble.UNANSWERED, Trouble.THROTTLED])
async def test_a_group_waits_until_its_tree_has_a_queue(trouble: Trouble) -> None:
    """An adoption that ends in between is tried again, and changes nothing that was written."""
    async with group_api.world() as made:
        await adopt_below(made, trouble)
        assert queues_of_tree(made) == {"root": "default"}


@pytest.mark.parametrize("trouble", [Trouble.MISSING, Trouble.FORBIDDEN])
async def test_a_group_is_adopted_if_what_is_above_it_cant_be_read(trouble: Trouble) -> None:
    """Then schedulers say what is wrong; without a queue, it is no job for them."""
    async with group_api.world() as made:
        made.server.refusals["get", f"{group_api.COMPOSITE}/root"] = [trouble]
        made.a_native_group("g", parentCompositePodGroupName="root")
        made.a_member("a", "g")
        await patience.until(lambda: made.queue_of("g") == "default")


async def test_many_groups_are_adopted_once_and_then_all_is_quiet() -> None:
    """One patch for each, and nothing at rest."""
    async with group_api.world() as made:
        for number in range(300):
            made.a_native_group(f"g{number}")
            made.a_member(f"p{number}", f"g{number}")
        await patience.until(lambda: made.counted["adopt", "done"] == 300)
        await made.rest()
        assert {made.queue_of(f"g{number}") for number in range(300)} == {"default"}
        assert set(made.server.asked("patch").values()) == {1}
        assert made.groups() == {}
        before = len(made.server.calls)
        await made.rest(0.3)
        assert len(made.server.calls) == before


async def test_groups_that_arent_ours_or_have_a_queue_are_left_alone() -> None:
    """Those without a live pod of ours, too: they may become somebody else's."""
    async with group_api.world() as made:
        for name in ("empty", "other", "done", "leaving"):
            made.a_native_group(name)
        made.a_native_group("named", queue="mine")
        made.a_member("a", "named")
        made.a_member("b", "other", schedulerName="second")
        for name, rest in (
            ("done", {"status": {"phase": "Succeeded"}}),
            ("leaving", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ):
            made.deaf = True
            made.a_member(name, name)
            made.deaf = False
            made.server.change(f"{group_api.PODS}/{name}", rest)
        await made.rest()
        assert made.server.calls == []


async def test_a_queue_that_somebody_names_meanwhile_stays() -> None:
    """Before any watch shows it: the patch is for the version without a queue."""
    async with group_api.world() as made:

        def name(method: str, path: str) -> None:
            made.server.before = lambda _method, _path: None
            assert (method, path) == ("patch", PATH)
            made.deaf = True
            annotate(made, PATH, "theirs")
            made.deaf = False

        made.server.before = name
        made.a_native_group("g")
        made.a_member("a", "g")
        await patience.until(lambda: made.counted["adopt", "conflict"])
        await made.rest()
        assert made.queue_of("g") == "theirs"


async def test_a_group_that_changes_otherwise_meanwhile_is_adopted_all_the_same() -> None:
    """Another scheduler writes a condition, say."""
    async with group_api.world() as made:

        def touch(*_: str) -> None:
            made.server.before = lambda _method, _path: None
            made.server.change(PATH, {"status": {"conditions": []}})

        made.server.before = touch
        made.a_native_group("g")
        made.a_member("a", "g")
        await patience.until(lambda: made.queue_of("g") == "default")
        assert made.counted["adopt", "conflict"] == 1


async def test_another_group_of_the_name_isnt_given_the_queue_of_the_old_one() -> None:
    """Its owner deletes it and creates it anew; then it gets its own."""
    async with group_api.world() as made:
        old = made.a_replica_set("old", 1, {QUEUE: "old"})

        def replace(*_: str) -> None:
            made.server.before = lambda _method, _path: None
            made.deaf = True
            made.server.drop(PATH)
            made.a_native_group("g")
            made.server.change(PATH, {"metadata": {"uid": "new"}})
            made.deaf = False

        made.server.late["patch", PATH] = asyncio.Event()
        made.a_native_group("g", old)
        made.a_member("a", "g")
        await patience.until(lambda: ("patch", PATH) in made.server.calls)
        made.server.before = replace
        made.server.late.pop(("patch", PATH)).set()
        await patience.until(lambda: made.counted["adopt", "conflict"])
        await made.rest()
        assert made.queue_of("g") is None
        made.show("MODIFIED", made.server.objects[PATH])
        await patience.until(lambda: made.queue_of("g") == "default")


@pytest.mark.parametrize("trouble", [Trouble.UNANSWERED, Trouble.THROTTLED])
async def test_an_adoption_that_goes_wrong_is_tried_again(trouble: Trouble) -> None:
    """The answer is lost, or the server is busy; nobody is told."""
    async with group_api.world() as made:
        made.server.refusals["patch", PATH] = [trouble, trouble]
        made.a_native_group("g")
        made.a_member("a", "g")
        await patience.until(lambda: made.queue_of("g") == "default")
        await made.rest()
        assert made.noticed == []


async def test_the_group_and_its_pods_are_told_of_a_refusal_once() -> None:
    """However often it is tried."""
    async with group_api.world() as made:
        refusals = made.server.refusals["patch", PATH] = [Trouble.FORBIDDEN] * 1000
        made.a_native_group("g")
        made.a_member("a", "g")
        await patience.until(lambda: made.counted["adopt", "forbidden"] > 3)
        told = {(each.api_version, each.kind, each.name) for each in made.noticed}
        assert told == {(group_api.KINDS[group_api.NATIVE][0], "PodGroup", "g"), ("", "Pod", "a")}
        assert len(made.noticed) == 2
        assert {each.message for each in made.noticed} == {"waits for a queue: no"}
        refusals.clear()
        await patience.until(lambda: made.queue_of("g") == "default")


async def test_a_group_that_may_not_be_patched_is_tried_ever_less() -> None:
    """Pauses double, up to a maximum."""
    async with group_api.world() as made:
        made.server.refusals["patch", PATH] = [Trouble.INVALID] * 100
        began = time.monotonic()
        made.a_native_group("g")
        made.a_member("a", "g")
        await patience.until(lambda: made.server.asked("patch")[PATH] >= TRIES)
        assert time.monotonic() - began > PAUSES_SECONDS


async def test_a_queue_name_that_cant_be_one_is_reported() -> None:
    """The default is used, as for automatic PodGroups."""
    async with group_api.world() as made:
        made.a_native_group("g")
        owner = made.a_replica_set("train", 1, {QUEUE: "No Queue"})
        made.a_member("a", "g", owner)
        await patience.until(lambda: made.queue_of("g") == "default")
        (event,) = made.noticed
        assert (event.kind, event.name) == ("ReplicaSet", "train")
        assert event.message.startswith("ReplicaSet ns/train: metadata.annotations[")


async def test_a_group_whose_owner_is_gone_isnt_adopted() -> None:
    """The garbage collector deletes it."""
    async with group_api.world() as made:
        owner = made.a_replica_set("train", 1)
        made.server.drop(f"{group_api.REPLICA_SETS}/train")
        made.a_native_group("g", owner)
        made.a_member("a", "g")
        await patience.until(lambda: made.server.asked("get").total() > 2)
        assert made.server.asked("patch").total() == 0
