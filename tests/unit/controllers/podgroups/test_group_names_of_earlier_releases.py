"""Automatic PodGroups had other names in earlier releases; their pods never get a second one."""

import pytest

from tests import patience
from tests.unit.controllers import group_api
from tests.unit.controllers.group_api import Document, World
from vscheduler.mirror.translate import pod_owners

pytestmark = pytest.mark.usefixtures("virtual_time")

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
NAMED = "scheduling.k8s.io/group-name"
LABELS = {"app.kubernetes.io/managed-by": "vscheduler"}
OURS = {"scheduling.volcano.sh/scheduler-name": "vscheduler"}


def old_group(made: World, owner: Document) -> str:
    """A group as an earlier release made it."""
    name = f"podgroup-{owner['metadata']['uid']}"
    written = {"vscheduler.io/written": '{"minMember":1}'}
    metadata = {
        "name": name,
        "labels": LABELS,
        "annotations": OURS | written,
        "ownerReferences": [group_api.reference(owner)],
    }
    made.server.put(group_api.GROUPS, {"metadata": metadata, "spec": {"minMember": 1}})
    return name


async def test_new_pods_join_the_group_that_is_there() -> None:
    """Whether pods are in it or not; and it goes on following its owner."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 1, {MIN_MEMBER: "9"})
        name = old_group(made, owner)
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == name)
        made.scale("web", 3)
        made.a_pod("second", owner)
        await patience.until(lambda: made.groups()[name]["spec"]["minMember"] == 3)
        await made.rest()
        assert made.group_of("second") == name
        assert list(made.groups()) == [name]


async def test_a_missing_group_is_made_anew_under_the_name_that_pods_have() -> None:
    """For their annotation may not change; pods without a name follow them."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 2)
        name = f"podgroup-{owner['metadata']['uid']}"
        made.deaf = True
        made.a_pod("new", owner)
        made.a_pod("old", owner)
        made.deaf = False
        made.server.change(f"{group_api.PODS}/new", {"metadata": {"labels": {"seen": "1"}}})
        annotated = {"metadata": {"annotations": {NAMED: name}}}
        made.server.change(f"{group_api.PODS}/old", annotated)
        await patience.until(lambda: made.group_of("new") is not None)
        await made.rest()
        assert [made.group_of(pod) for pod in ("old", "new")] == [name, name]
        assert list(made.groups()) == [name]


async def test_an_unused_one_goes() -> None:
    """As before."""
    async with group_api.world(grace_seconds=0.0) as made:
        owner = made.a_replica_set("web", 0)
        old_group(made, owner)
        await patience.until(lambda: not made.groups())


@pytest.mark.parametrize("orphaned", [False, True])
async def test_one_with_a_short_name_goes_too(orphaned: bool) -> None:
    """Also after its owner was deleted with `--cascade=orphan`."""
    async with group_api.world(grace_seconds=0.0) as made:
        owner = made.a_replica_set("web", 1)
        name = group_api.name_of(owner)
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first") == name)
        if orphaned:
            for path in (f"{group_api.PODS}/first", f"{group_api.GROUPS}/{name}"):
                made.server.change(path, {"metadata": {"ownerReferences": None}})
            made.server.drop(f"{group_api.REPLICA_SETS}/web")
            await made.rest()
            assert list(made.groups()) == [name]
        else:
            made.scale("web", 0)
        made.server.drop(f"{group_api.PODS}/first")
        await patience.until(lambda: not made.groups())


async def test_pods_of_the_scheduler_volcano_share_volcanos_group() -> None:
    """The one that its controllers have made, or would make."""
    async with group_api.world(schedulers=("volcano",)) as made:
        owner = made.a_replica_set("web", 2)
        made.a_pod("first", owner, schedulerName="volcano")
        name = pod_owners.volcano_name(owner["metadata"]["uid"])
        await patience.until(lambda: made.group_of("first") == name)
        assert list(made.groups()) == [name]
