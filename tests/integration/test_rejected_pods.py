"""Pods that can't be used, on a real API server: they say so themselves, until they can."""

from collections import Counter
from typing import Any

from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from tests.integration.daemons import Start

PRIORITY = "volcano.sh/task-priority"
FLAW = f"metadata.annotations[{PRIORITY}]: 'low' is not an integer"


def a_pod(
    cluster: ControlPlane, name: str, group: str, *, priority: str = "1", **spec: Any
) -> None:
    """A pod of the group, or of none yet."""
    container = {"name": "main", "image": "none"}
    annotations = {PRIORITY: priority} | ({daemons.GROUP_NAME: group} if group else {})
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "vscheduler", "containers": [container], **spec},
    }
    cluster.api.create(daemons.PODS, body)


def told(cluster: ControlPlane) -> dict[str, tuple[str, str]]:
    """Why pods aren't scheduled, by name: reason and message."""
    return {
        pod["metadata"]["name"]: (each["reason"], each["message"])
        for pod in cluster.api.list(daemons.PODS)
        for each in pod["status"].get("conditions", [])
        if (each["type"], each["status"]) == ("PodScheduled", "False")
    }


def events(cluster: ControlPlane) -> Counter[str]:
    """How often pods were said to wait, by name."""
    return Counter(
        each["regarding"]["name"]
        for each in cluster.api.list(daemons.EVENTS)
        if each["reason"] == "FailedScheduling"
    )


def group_says(cluster: ControlPlane) -> str:
    """Why the group waits."""
    found = daemons.conditions(cluster, "two").get("Unschedulable", {})
    return found.get("message", "")


def test_a_pod_that_cant_be_used_says_so_until_it_is_put_right_or_replaced(
    cluster: ControlPlane, start: Start
) -> None:
    """Its condition and its event have its own words, its group counts it."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "default")
    daemon = start()
    daemons.a_gang(cluster, "two", 0, minimum=2)
    a_pod(cluster, "broken", "two", priority="low")
    a_pod(cluster, "first", "two", priority="high")
    a_pod(cluster, "alone", "", priority="low")
    all_of_them = {
        "alone": ("SchedulerError", f"the pod can't be used: {FLAW}"),
        "broken": ("SchedulerError", f"the pod can't be used: {FLAW}"),
        "first": (
            "SchedulerError",
            f"the pod can't be used: metadata.annotations[{PRIORITY}]: 'high' is not an integer",
        ),
    }
    daemons.until(lambda: told(cluster) == all_of_them, daemon)
    said = f"2 of 2 pods can't be used, such as pod default/broken: {FLAW}"
    daemons.until(lambda: group_says(cluster) == said, daemon)
    daemons.until(lambda: events(cluster) == dict.fromkeys(all_of_them, 1), daemon)

    body = {"metadata": {"annotations": {PRIORITY: "5"}}}
    cluster.api.patch(f"{daemons.PODS}/first", body)
    said = f"1 of 2 pods can't be used: pod default/broken: {FLAW}"
    daemons.until(lambda: group_says(cluster) == said, daemon)
    daemons.until(lambda: told(cluster)["first"] == ("PodRejected", said), daemon)
    assert told(cluster)["broken"] == all_of_them["broken"]
    assert events(cluster)["broken"] == 1

    cluster.api.delete(f"{daemons.PODS}/broken", gracePeriodSeconds=0)
    a_pod(cluster, "second", "two")
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 2, daemon)
    assert told(cluster) == {"alone": all_of_them["alone"]}
