import asyncio
from typing import Any

import pytest
from structlog import testing

from tests import patience
from tests.unit.controllers import group_api
from tests.unit.controllers.group_api import World
from vscheduler.controllers.podgroups import deletion
from vscheduler.controllers.ports import Trouble

pytestmark = pytest.mark.usefixtures("virtual_time")

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


async def test_pods_of_one_owner_share_one_group_and_then_all_is_quiet() -> None:
    """Many pods at once: one group, one patch for each of them, and nothing at rest."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 300)
        for number in range(300):
            made.a_pod(f"p{number}", owner)
        await patience.until(lambda: made.counted["attach", "done"] == 300)
        await made.rest()
        name = group_api.name_of(owner)
        assert list(made.groups()) == [name]
        assert {made.group_of(f"p{number}") for number in range(300)} == {name}
        assert sum(made.server.asked("create").values()) == 1
        assert set(made.server.asked("patch").values()) == {1}
        before = len(made.server.calls)
        await made.rest(0.3)
        assert len(made.server.calls) == before


async def test_bare_pods_have_one_each_and_others_pods_none() -> None:
    """What has finished, is being deleted, has a group or another scheduler is left alone."""
    async with group_api.world() as made:
        made.a_pod("bare")
        made.a_pod("other", schedulerName="second")
        made.a_pod("gated", schedulingGates=[{"name": "x"}])
        for name, rest in (
            ("done", {"status": {"phase": "Succeeded"}}),
            ("leaving", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ("early", {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "mine"}}}),
        ):
            made.deaf = True
            made.a_pod(name)
            made.deaf = False
            made.server.change(f"{group_api.PODS}/{name}", rest)
        await patience.until(lambda: made.counted["attach", "done"] == 2)
        await made.rest()
        assert sorted(made.groups()) == sorted(map(group_api.name_of_bare, ("bare", "gated")))
        assert made.group_of("bare") == group_api.name_of_bare("bare")
        assert [made.group_of(name) for name in ("other", "done", "leaving", "early")] == [
            None,
            None,
            None,
            "mine",
        ]


async def test_a_pod_that_cant_be_used_has_a_group_as_well_which_says_so() -> None:
    """For which others of its owner speak, where there are any; on a node nobody needs to know."""
    claims: dict[str, Any] = {"resourceClaims": [{"name": "gpu"}]}
    broken: dict[str, Any] = {"overhead": {"cpu": "x"}}
    async with group_api.world() as made:
        made.a_pod("bare", **claims)
        made.a_pod("placed", nodeName="n1", **broken)
        owner = made.a_replica_set("web", 2)
        made.a_pod("z", owner, **claims, overhead={"cpu": "8"})
        await patience.until(lambda: made.counted["attach", "done"] == 2)
        made.deaf = True
        made.a_pod("a", owner)
        made.deaf = False
        born = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
        made.server.change(f"{group_api.PODS}/a", born)
        await patience.until(lambda: made.counted["attach", "done"] == 3)
        await made.rest()
        name = group_api.name_of(owner)
        assert sorted(made.groups()) == sorted([group_api.name_of_bare("bare"), name])
        assert [made.group_of(pod) for pod in ("a", "z", "placed")] == [name, name, None]
        assert made.groups()[name]["spec"]["minResources"]["cpu"] == "1"


@pytest.mark.parametrize("trouble", [Trouble.UNANSWERED, Trouble.THROTTLED])
async def test_a_group_whose_making_goes_wrong_is_made_once(trouble: Trouble) -> None:
    """The answer is lost, or the server is busy: again, a little later."""
    async with group_api.world() as made:
        made.server.refusals["create", group_api.GROUPS] = [trouble, trouble]
        made.server.refusals["patch", f"{group_api.PODS}/bare"] = [trouble]
        with testing.capture_logs() as said:
            made.a_pod("bare")
            await patience.until(lambda: made.group_of("bare"))
            await made.rest()
        assert list(made.groups()) == [made.group_of("bare")]
        warned = [each["action"] for each in said if each["event"] == "podgroup.failed"]
        assert len(warned) == len(set(warned))


async def test_what_is_refused_for_ever_is_asked_for_ever_less_and_told_once() -> None:
    """A namespace that ends takes no new objects; pauses double."""
    async with group_api.world() as made:
        made.server.refusals["create", group_api.GROUPS] = [Trouble.FORBIDDEN] * 100
        with testing.capture_logs() as said:
            made.a_pod("bare")
            made.a_pod("second")
            await patience.until(lambda: made.counted["create", "forbidden"] > 6)
        assert [each["outcome"] for each in said if each["event"] == "podgroup.failed"] == [
            "forbidden"
        ]


async def test_pods_are_told_of_each_refusal_once() -> None:
    """Whoever comes later, too; not of a server that is busy, nor of a namespace that ends."""
    async with group_api.world() as made:
        refusals = made.server.refusals["create", group_api.GROUPS] = []
        refusals += [Trouble.THROTTLED] * 2 + [Trouble.FORBIDDEN] * 1000
        owner = made.a_replica_set("web", 2)
        made.a_pod("first", owner)
        await patience.until(lambda: made.noticed)
        made.a_pod("second", owner)
        await patience.until(lambda: len(made.noticed) == 2)
        await patience.until(lambda: made.counted["create", "forbidden"] > 6)
        assert [each.name for each in made.noticed] == ["first", "second"]
        told = made.noticed[0]
        assert (told.kind, told.type, told.reason) == ("Pod", "Warning", "PodGroupRefused")
        assert told.message == "waits for a PodGroup: no"
        made.server.refusal = "another"
        await patience.until(lambda: len(made.noticed) == 4)
        made.server.refusal = "namespace ns is being terminated"
        before = made.counted["create", "forbidden"]
        await patience.until(lambda: made.counted["create", "forbidden"] > before + 3)
        assert len(made.noticed) == 4
        refusals.clear()
        await patience.until(lambda: made.group_of("first") and made.group_of("second"))


async def test_a_pod_that_may_not_be_put_into_its_group_is_told_so() -> None:
    """Once, however often it is tried."""
    async with group_api.world() as made:
        made.server.refusals["patch", f"{group_api.PODS}/bare"] = [Trouble.INVALID] * 3
        made.a_pod("bare")
        await patience.until(lambda: made.group_of("bare"))
        assert [each.name for each in made.noticed] == ["bare"]


async def test_a_mark_is_taken_off_before_a_pod_joins() -> None:
    """Where the group isn't as it was read, it is read again."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 1)
        made.a_pod("first", owner)
        name = group_api.name_of(owner)
        await patience.until(lambda: made.group_of("first") == name)
        path = f"{group_api.GROUPS}/{name}"
        made.deaf = True
        made.server.change(path, {"metadata": {"annotations": {deletion.LEAVING: "x"}}})
        made.deaf = False
        made.server.calls.clear()
        made.server.refusals["patch", path] = [Trouble.CONFLICT]
        made.a_pod("second", owner)
        await patience.until(lambda: made.group_of("second") == name)
        assert deletion.LEAVING not in made.groups()[name]["metadata"]["annotations"]
        writes = [path for method, path in made.server.calls if method == "patch"]
        assert writes == [path, path, f"{group_api.PODS}/second"]


async def test_an_unused_group_is_marked_and_then_deleted_as_it_was_marked() -> None:
    """Scaled to zero: it goes after the grace, and comes back with another UID."""
    async with group_api.world(grace_seconds=0.1) as made:
        owner = made.a_replica_set("web", 1)
        name = group_api.name_of(owner)
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == name)
        uid = made.groups()[name]["metadata"]["uid"]
        made.scale("web", 0)
        made.server.drop(f"{group_api.PODS}/first")
        with testing.capture_logs() as said:
            await patience.until(lambda: not made.groups())
            await made.rest()
        assert [each["uid"] for each in said if each["event"] == "podgroup.deleted"] == [uid]
        assert (made.counted["mark", "done"], made.counted["delete", "done"]) == (1, 1)
        made.scale("web", 1)
        made.a_pod("second", owner)
        await patience.until(lambda: made.group_of("second") == name)
        assert made.groups()[name]["metadata"]["uid"] != uid


async def test_a_group_in_use_stays_whatever_its_owner_says() -> None:
    """Scaled to zero, and a pod of it lives on; then used again within the grace."""
    async with group_api.world(grace_seconds=0.15) as made:
        owner = made.a_replica_set("web", 1)
        name = group_api.name_of(owner)
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == name)
        uid = made.groups()[name]["metadata"]["uid"]
        made.scale("web", 0)
        await made.rest(0.3)
        made.server.drop(f"{group_api.PODS}/first")
        made.scale("web", 1)
        made.a_pod("second", owner)
        await made.rest(0.3)
        assert made.groups()[name]["metadata"]["uid"] == uid
        assert made.counted["delete", "done"] == 0


async def test_a_delete_that_meets_another_version_is_skipped_and_told() -> None:
    """A pod comes between the judgement and the delete: the group stays, and is used."""
    async with group_api.world(grace_seconds=0.02) as made:
        owner = made.a_replica_set("web", 1)
        name = group_api.name_of(owner)
        path = f"{group_api.GROUPS}/{name}"
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == name)
        uid = made.groups()[name]["metadata"]["uid"]

        def interfere(method: str, asked: str) -> None:
            came = f"{group_api.PODS}/second" in made.server.objects
            if (method, asked) == ("delete", path) and not came:
                made.a_pod("second", owner)
                mark: dict[str, Any] = {"metadata": {"annotations": {deletion.LEAVING: None}}}
                made.server.change(path, mark)
                joining = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": name}}}
                made.server.change(f"{group_api.PODS}/second", joining)

        made.server.before = interfere
        with testing.capture_logs() as said:
            made.scale("web", 0)
            made.server.drop(f"{group_api.PODS}/first")
            await patience.until(lambda: f"{group_api.PODS}/second" in made.server.objects)
            await made.rest()
        assert made.groups()[name]["metadata"]["uid"] == uid
        kept = [each for each in said if each["event"] == "podgroup.kept"]
        assert kept
        assert all(each["judged_uid"] == each["uid"] == uid for each in kept)
        assert all(each["judged_resource_version"] != each["resource_version"] for each in kept)


async def test_a_delete_without_an_answer_is_judged_anew() -> None:
    """It was done: it isn't sent again."""
    async with group_api.world(grace_seconds=0.02) as made:
        owner = made.a_replica_set("web", 1)
        name = group_api.name_of(owner)
        path = f"{group_api.GROUPS}/{name}"
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == name)
        made.server.refusals["delete", path] = [Trouble.UNANSWERED]
        made.scale("web", 0)
        made.server.drop(f"{group_api.PODS}/first")
        await patience.until(lambda: not made.groups())
        await made.rest()
        assert made.server.asked("delete")[path] == 1


async def test_late_deletes_hold_up_no_other_group() -> None:
    """More of them than there are workers: newer groups are made; and go, once there is a worker.

    Each is sent once.
    """
    async with group_api.world(grace_seconds=0.02) as made:
        came = asyncio.Event()
        slow = [made.a_replica_set(f"slow{number}", 1) for number in range(group_api.WORKERS + 2)]
        for owner in slow:
            made.server.late["delete", f"{group_api.GROUPS}/{group_api.name_of(owner)}"] = came
        await goes(made, *slow[:-3])
        await patience.until(lambda: made.server.asked("delete").total() == len(slow) - 3)
        quick = made.a_replica_set("quick", 1)
        await goes(made, quick)
        await patience.until(lambda: group_api.name_of(quick) not in made.groups())
        await goes(made, *slow[-3:])
        await patience.until(lambda: made.server.asked("delete").total() == len(slow) - 1)
        made.a_pod("newcomer")
        await patience.until(lambda: made.group_of("newcomer"))
        came.set()
        await patience.until(lambda: list(made.groups()) == [made.group_of("newcomer")])
        assert set(made.server.asked("delete").values()) == {1}


async def goes(made: World, *owners: dict[str, Any]) -> None:
    """Give each a pod, wait for its group, and scale to zero."""
    names = [owner["metadata"]["name"] for owner in owners]
    for name, owner in zip(names, owners, strict=True):
        made.a_pod(name, owner)
    await patience.until(lambda: all(map(made.group_of, names)))
    for name in names:
        made.scale(name, 0)
        made.server.drop(f"{group_api.PODS}/{name}")


async def test_an_unreadable_owner_keeps_its_own_group_only() -> None:
    """The others of the namespace go."""
    async with group_api.world(grace_seconds=0.02) as made:
        broken, sound = made.a_replica_set("broken", 1), made.a_replica_set("sound", 1)
        path = f"{group_api.REPLICA_SETS}/broken"
        made.a_pod("first", broken)
        await patience.until(lambda: made.group_of("first"))
        made.server.refusals["get", path] = [Trouble.THROTTLED] * 1000
        await goes(made, sound)
        made.scale("broken", 0)
        made.server.drop(f"{group_api.PODS}/first")
        await patience.until(lambda: list(made.groups()) == [group_api.name_of(broken)])


async def test_groups_that_we_did_not_make_stay() -> None:
    """Without our label, of another name, for another scheduler, or of an owner nobody knows."""
    async with group_api.world(grace_seconds=0.0) as made:
        label = {"app.kubernetes.io/managed-by": "vscheduler"}
        ours = {"scheduling.volcano.sh/scheduler-name": "vscheduler"}
        theirs = {"scheduling.volcano.sh/scheduler-name": "second"}
        stranger = [{"apiVersion": "x/v1", "kind": "Strange", "name": "s", "uid": "5"}]
        for number, (labels, annotations, references) in enumerate(
            (({}, ours, []), (label, theirs, []), (label, ours, stranger), (label, ours, []))
        ):
            metadata = {
                "name": f"podgroup-{number if not references else 5}",
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": references,
            }
            made.server.put(group_api.GROUPS, {"metadata": metadata, "spec": {"minMember": 1}})
        copied = {"name": "copied", "labels": label, "annotations": ours}
        made.server.put(group_api.GROUPS, {"metadata": copied, "spec": {"minMember": 1}})
        await patience.until(lambda: made.counted["delete", "done"])
        await made.rest()
        assert sorted(made.groups()) == ["copied", "podgroup-0", "podgroup-1", "podgroup-5"]


async def test_a_missing_group_of_a_live_pod_is_made_anew() -> None:
    """Whoever deleted it."""
    async with group_api.world() as made:
        made.a_pod("bare")
        await patience.until(lambda: made.group_of("bare"))
        (name,) = made.groups()
        made.server.drop(f"{group_api.GROUPS}/{name}")
        await patience.until(lambda: name in made.groups())
        await made.rest()
        assert made.server.asked("patch")[f"{group_api.PODS}/bare"] == 1


async def test_numbers_follow_the_owner() -> None:
    """The minimum is what is asked for, as far as there are pods."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 2, {MIN_MEMBER: "3"})
        name = group_api.name_of(owner)
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == name)
        assert made.groups()[name]["spec"]["minMember"] == 2
        path = f"{group_api.GROUPS}/{name}"
        made.server.refusals["patch", path] = [Trouble.CONFLICT]
        made.scale("web", 5)
        await patience.until(lambda: made.groups()[name]["spec"]["minMember"] == 3)
        made.server.calls.clear()
        made.scale("web", 6)
        await made.rest()
        assert made.server.calls == []


async def test_an_owner_that_may_not_be_read_wants_any_number() -> None:
    """Its pods get their group; it is said once."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 1)
        path = f"{group_api.REPLICA_SETS}/web"
        made.server.refusals["get", path] = [Trouble.FORBIDDEN] * 10
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == group_api.name_of(owner))


async def test_pods_whose_owner_is_gone_wait() -> None:
    """They are about to go as well; Kubernetes would delete a group of such an owner at once."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 1)
        made.server.drop(f"{group_api.REPLICA_SETS}/web")
        made.a_pod("first", owner)
        await patience.until(lambda: len(made.server.calls) > 3)
        assert made.groups() == {}


async def test_a_group_follows_the_pods_of_a_new_template() -> None:
    """Queue and class are those of the newest pod. Whoever names no queue stays where it is."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 2)

        def a_pod(name: str, hour: int, queue: str, priority: str) -> None:
            metadata: dict[str, Any] = {
                "name": name,
                "creationTimestamp": f"2026-01-01T{hour:02}:00:00Z",
                "annotations": {"scheduling.volcano.sh/queue-name": queue} if queue else {},
                "ownerReferences": [group_api.reference(owner)],
            }
            spec = {
                "schedulerName": "vscheduler",
                "priorityClassName": priority,
                "containers": [{"name": "main"}],
            }
            made.server.put(group_api.PODS, {"metadata": metadata, "spec": spec})

        def spec() -> dict[str, Any]:
            (group,) = made.groups().values()
            return {name: group["spec"].get(name) for name in ("queue", "priorityClassName")}

        a_pod("old", 1, "full", "low")
        await patience.until(lambda: made.group_of("old"))
        assert spec() == {"queue": "full", "priorityClassName": "low"}
        a_pod("new", 2, "free", "high")
        await patience.until(lambda: spec()["queue"] == "free")
        await made.rest()
        assert spec() == {"queue": "free", "priorityClassName": "high"}
        a_pod("newest", 3, "", "")
        await patience.until(lambda: spec()["priorityClassName"] is None)
        await made.rest()
        assert spec()["queue"] == "free"


async def test_a_name_that_a_client_gave_is_not_taken_for_an_automatic_one() -> None:
    """Its group comes later. Meanwhile no other one is made, and the pod keeps its name."""
    name = "model-307-0-7486df6b86"
    async with group_api.world() as made:
        owner = made.a_replica_set("model-307", 1)
        metadata = {
            "name": "leader",
            "annotations": {"scheduling.k8s.io/group-name": name},
            "ownerReferences": [group_api.reference(owner)],
        }
        spec = {"schedulerName": "vscheduler", "containers": [{"name": "main"}]}
        made.server.put(group_api.PODS, {"metadata": metadata, "spec": spec})
        await made.rest()
        assert made.group_of("leader") == name
        assert not made.groups()
