"""Annotations that can't be read: an event of the workload, and a condition of its PodGroup."""

import pytest

from tests import patience
from tests.unit.controllers import group_api
from vscheduler.mirror.translate.group_terms import MIN_MEMBER

pytestmark = pytest.mark.usefixtures("virtual_time")


async def test_a_workload_is_told_of_annotations_that_cannot_be_read() -> None:
    """By an event, once, and a condition of its PodGroup, until they are corrected."""
    async with group_api.world() as made:
        owner = made.a_replica_set("web", 3, {MIN_MEMBER: "eight"})
        made.a_pod("first", owner)
        await patience.until(lambda: made.group_of("first"))
        await made.rest()
        (told,) = made.noticed
        assert (told.kind, told.api_version, told.name) == ("ReplicaSet", "apps/v1", "web")
        assert (told.type, told.reason) == ("Warning", "AnnotationUnreadable")
        assert told.message.endswith("'eight' is not a number of pods; 1 is used")
        name = group_api.name_of(owner)
        (condition,) = made.groups()[name]["status"]["conditions"]
        assert condition["message"] == told.message
        right = {"metadata": {"annotations": {MIN_MEMBER: "1"}}}
        made.server.change(f"{group_api.REPLICA_SETS}/web", right)
        await patience.until(lambda: not made.groups()[name]["status"]["conditions"])
        await made.rest()
        assert len(made.noticed) == 1


async def test_a_bare_pod_is_told_itself() -> None:
    """It has no other workload."""
    async with group_api.world() as made:
        pod = made.a_pod("bare")
        made.server.drop(f"{group_api.PODS}/bare")
        pod["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-resources": "much"}
        made.server.put(group_api.PODS, {key: pod[key] for key in ("metadata", "spec")})
        await patience.until(lambda: made.noticed)
        (told,) = made.noticed
        assert (told.kind, told.name, told.reason) == ("Pod", "bare", "AnnotationUnreadable")
