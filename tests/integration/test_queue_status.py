"""What a scheduler writes to the status of Queues, as `kubectl get queue -o yaml` shows it."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from sandbox.client import PATCH_TYPES, Client, Object
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, permissions
from tests.integration.daemons import Daemon, Start
from vscheduler.cli.queue import queue_figures
from vscheduler.controllers.ports import Api, RefusedError, Trouble
from vscheduler.controllers.queues.gone_schedulers import GoneSchedulers
from vscheduler.mirror import paths, queue_status

DEFINITION = f"{paths.DEFINITIONS.everywhere}/queues.scheduling.volcano.sh"
TAINT = "node-role.kubernetes.io/control-plane"
OURS = ("deserved", "request", "realCapability", "share", "schedulers", "conditions")
CONDITION = "vscheduler/FairShare"


def status_of(cluster: ControlPlane, queue: str) -> dict[str, Any]:
    """A queue's status, as it is stored; empty where there is no such queue."""
    stored = cluster.api.find(f"{daemons.QUEUES}/{queue}") or {}
    status: dict[str, Any] = stored.get("status", {})
    return status


def condition_of(cluster: ControlPlane, queue: str) -> dict[str, str]:
    """The scheduler's condition on a queue; empty where there is none."""
    conditions = status_of(cluster, queue).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == CONDITION), {})


def versions(cluster: ControlPlane) -> dict[str, str]:
    """The version of each queue."""
    return {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"]
        for each in cluster.api.list(daemons.QUEUES)
    }


def weighted(cluster: ControlPlane, name: str, weight: int) -> None:
    """A queue of this weight."""
    daemons.a_queue(cluster, name)
    cluster.api.patch(f"{daemons.QUEUES}/{name}", {"spec": {"weight": weight}})


def until_still(cluster: ControlPlane, daemon: Daemon) -> None:
    """Until the controllers have begun, which make the root, and then nothing has been written to
    queues, and no cycle run, for two seconds.
    """
    daemons.until(lambda: status_of(cluster, "root").get("state") == "Open", daemon)

    def seen() -> object:
        return versions(cluster), len(daemon.said("cycle.done"))

    daemons.until_at_rest(seen, daemon, 2)


def test_queues_say_what_they_deserve_and_why(cluster: ControlPlane, start: Start) -> None:
    """Figures and a sentence; nothing at rest, whoever writes; a queue made anew gets its own."""
    cluster.create_nodes(count=5, prefix="worker", cpu="15")
    cluster.create_nodes(
        count=1,
        prefix="control-plane",
        cpu="14500m",
        taints=[{"key": TAINT, "effect": "NoSchedule"}],
    )
    for name, weight in (("red", 1), ("blue", 2), ("green", 3)):
        weighted(cluster, name, weight)
    for name in ("red", "blue"):
        daemons.a_gang(cluster, name, 12, cpu="5", minimum=1, group={"queue": name})
    daemon = start("--log-level=debug")
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 15, daemon)
    daemons.until(
        lambda: status_of(cluster, "blue").get("allocated", {}).get("cpu") == "50", daemon
    )
    daemons.until(lambda: status_of(cluster, "red").get("allocated", {}).get("cpu") == "25", daemon)
    red = status_of(cluster, "red")
    assert red["allocated"] == {"cpu": "25", "memory": "0", "pods": "5"}
    assert red["request"] == {"cpu": "60", "pods": "12"}
    assert red["deserved"]["cpu"] == "25"
    assert red["realCapability"]["cpu"] == "75"
    assert red["share"] == 1
    left_out = f"control-plane-0 not usable: taint {TAINT}"
    told = condition_of(cluster, "red")
    assert (told["status"], told["reason"]) == ("True", "Weight")
    assert told["message"] == f"25 of 75 usable CPU: weight 1 of 3 that want more; {left_out}"
    daemons.until(lambda: condition_of(cluster, "green"), daemon)
    assert condition_of(cluster, "green")["message"] == "asks for nothing"
    total = daemon.said("total.changed")[-1]
    assert total["total"]["cpu"] == "75"
    assert total["nodes_left_out"] == [f"taint {TAINT}: 1 node, e.g. control-plane-0"]

    until_still(cluster, daemon)
    cycles, before = len(daemon.said("cycle.done")), versions(cluster)
    cluster.api.patch(f"{daemons.QUEUES}/blue/status", {"status": {"share": 9}})
    time.sleep(5)
    assert len(daemon.said("cycle.done")) == cycles
    assert status_of(cluster, "blue")["share"] == 9
    after = versions(cluster)
    assert {name for name in before if before[name] != after[name]} == {"blue"}

    cluster.api.delete(f"{daemons.QUEUES}/green")
    daemons.a_queue(cluster, "green")
    daemons.until(lambda: condition_of(cluster, "green"), daemon)
    assert condition_of(cluster, "green")["reason"] == "NoRequest"
    assert daemon.stop() == 0


def test_a_restart_keeps_the_time_of_a_condition(cluster: ControlPlane, start: Start) -> None:
    """The next process finds what the one before wrote, and changes nothing."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_gang(cluster, "job", 6, minimum=1)
    first = start()
    daemons.until(lambda: condition_of(cluster, "default").get("reason") == "Weight", first)
    daemons.until(
        lambda: status_of(cluster, "default").get("allocated", {}).get("cpu") == "4", first
    )
    daemons.until(lambda: status_of(cluster, "default").get("running") == 1, first)
    assert first.stop() == 0
    before = cluster.api.get(f"{daemons.QUEUES}/default")
    time.sleep(1.1)  # times have whole seconds
    second = start("--log-level=debug")
    daemons.until(
        lambda: [line for line in second.said("queue.told") if line["queue"] == "default"], second
    )
    time.sleep(2)
    after = cluster.api.get(f"{daemons.QUEUES}/default")
    assert after["status"] == before["status"]
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert second.stop() == 0


def test_a_queue_that_has_no_pods_any_more_says_so(cluster: ControlPlane, start: Start) -> None:
    """What it had is taken back, and the server takes that."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_gang(cluster, "job", 2)
    daemon = start()

    def has(cpu: str) -> bool:
        return bool(status_of(cluster, "default").get("allocated", {}).get("cpu") == cpu)

    daemons.until(lambda: has("2"), daemon)
    for number in range(2):
        cluster.api.delete(f"{daemons.PODS}/job-{number}")
    daemons.until(lambda: has("0"), daemon)
    assert condition_of(cluster, "default")["message"] == "asks for nothing"
    assert daemon.said("write.failed") == []
    assert daemon.stop() == 0


def test_two_schedulers_share_a_queues_status(cluster: ControlPlane, start: Start) -> None:
    """A condition each, the same sum of what is held, and then neither writes any more."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "red")
    daemons.a_gang(cluster, "job", 6, minimum=1, group={"queue": "red"})
    first = start("--log-level=debug")
    daemons.until(lambda: status_of(cluster, "red").get("allocated", {}).get("cpu") == "4", first)
    second = start("--log-level=debug", "--scheduler-name=other")
    daemons.until(lambda: second.said("queue.told"), second)
    until_still(cluster, second)
    status = status_of(cluster, "red")
    assert status["allocated"] == {"cpu": "4", "memory": "0", "pods": "4"}
    told = {each["type"]: (each["reason"], each["message"]) for each in status["conditions"]}
    assert told == {
        "vscheduler/FairShare": ("Weight", "4 of 4 usable CPU: all that others leave"),
        "other/FairShare": ("NoRequest", "asks for nothing"),
    }
    assert status["request"] in ({}, {"cpu": "6", "pods": "6"}), "the last writer's, whole"
    assert (first.stop(), second.stop()) == (0, 0)


class Port:
    """The API server, as the controllers' account may use it."""

    def __init__(self, api: Client) -> None:
        self._api = api

    async def get(self, path: str) -> Object:
        """An object, or a refusal."""
        answer = self._api.ask("GET", path)
        if answer.status >= 400:
            raise RefusedError(Trouble.MISSING, answer.message)
        return answer.body

    async def list(self, path: str) -> list[Object]:
        """All of a collection."""
        return self._api.list(path)

    async def patch(
        self, path: str, body: Object, content_type: str, params: dict[str, str]
    ) -> Object:
        """An object after a change."""
        headers = {"content-type": content_type}
        return self._api.request("PATCH", path, body, query=params, headers=headers).body


def test_the_status_of_a_scheduler_that_is_gone_is_removed(
    cluster: ControlPlane, start: Start
) -> None:
    """Its condition, its entry and what it alone has written; nothing of one that lives."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "red")
    daemons.a_gang(cluster, "job", 6, minimum=1, group={"queue": "red"})
    gone = start("--scheduler-name=other")
    daemons.until(lambda: status_of(cluster, "red").get("schedulers"), gone)
    alive = start()
    daemons.until(lambda: len(status_of(cluster, "red")["schedulers"]) == 2, alive)
    assert gone.stop() == 0
    until_still(cluster, alive)
    before = status_of(cluster, "red")
    api = cluster.client_for_service_account(permissions.NAMESPACE, permissions.TESTED)
    looking = GoneSchedulers(cast("Api", Port(api)), permissions.NAMESPACE, gone_seconds=0)

    async def look() -> None:
        for pause in (0, 2):  # the Lease that was given back lasts a second, the other one 15
            await asyncio.sleep(pause)
            await looking.look()

    asyncio.run(look())
    stored = cluster.api.get(f"{daemons.QUEUES}/red")
    after = stored["status"]
    assert [each["name"] for each in after["schedulers"]] == ["vscheduler"]
    assert "other/FairShare" not in {each["type"] for each in after["conditions"]}
    assert after["allocated"] == before["allocated"]
    assert after["deserved"] == before["deserved"]
    figures = queue_figures.figures(stored, None)
    assert [each.scheduler for each in figures.sentences] == ["vscheduler"]
    assert figures.schedulers == ()
    assert alive.stop() == 0
    asyncio.run(look())
    after = status_of(cluster, "red")
    assert not {"schedulers", "conditions", "deserved", "share"} & after.keys()


def test_a_status_can_be_given_up_whole(cluster: ControlPlane) -> None:
    """By whoever has written all of it: the API server refuses an empty one."""
    daemons.a_queue(cluster, "red")
    headers, query = {"content-type": PATCH_TYPES["apply"]}, {"fieldManager": "me", "force": "true"}
    for status in ({"share": 1}, {}):
        body = queue_status.applied("red", status)
        path = f"{daemons.QUEUES}/red/status"
        cluster.api.request("PATCH", path, body, query=query, headers=headers)
        assert status_of(cluster, "red") == status


@pytest.fixture
def narrow(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The sandbox with a CRD of Queue that lacks our fields, as Volcano's does."""
    daemons.a_queue(cluster, "probe")
    definition = cluster.api.get(DEFINITION)
    ours = definition["spec"]["versions"]
    lacking = [
        {**each, "schema": {"openAPIV3Schema": without_ours(each["schema"]["openAPIV3Schema"])}}
        for each in ours
    ]
    cluster.api.patch(DEFINITION, {"spec": {"versions": lacking}})
    try:
        wait_until_taken(cluster, 500)
        yield cluster
    finally:
        cluster.api.patch(DEFINITION, {"spec": {"versions": ours}})
        wait_until_taken(cluster, 200)


def without_ours(schema: Object) -> Object:
    """A schema of Queue without the status fields that only ours has."""
    status = schema["properties"]["status"]
    fields = {name: each for name, each in status["properties"].items() if name not in OURS}
    return {
        **schema,
        "properties": {**schema["properties"], "status": {**status, "properties": fields}},
    }


def wait_until_taken(cluster: ControlPlane, answer: int) -> None:
    """Until the API server answers so to an apply of one of our fields."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "probe"},
        "status": {"share": 1},
    }
    query = {"fieldManager": "probe", "force": "true"}
    headers = {"content-type": PATCH_TYPES["apply"]}
    path = f"{daemons.QUEUES}/probe/status"
    patience.wait_until(
        lambda: cluster.api.ask("PATCH", path, body, query=query, headers=headers).status == answer
    )


def test_volcanos_crd_gets_what_it_has_a_place_for(narrow: ControlPlane, start: Start) -> None:
    """Scheduling goes on, `allocated` is written, and the log says once what is missing."""
    narrow.create_nodes(count=2, cpu="4")
    daemons.a_queue(narrow, "red")
    daemons.a_gang(narrow, "red", 12, minimum=1, group={"queue": "red"})
    daemon = start("--log-level=debug")
    daemons.until(lambda: len(daemons.nodes_of(narrow)) == 8, daemon)
    daemons.until(lambda: status_of(narrow, "red").get("allocated", {}).get("cpu") == "8", daemon)
    assert not status_of(narrow, "red").keys() & set(OURS)
    until_still(narrow, daemon)
    (line,) = daemon.said("queue.fields_missing")
    assert line["fields"] == sorted(OURS)
    assert not daemon.said("write.failed")
    (told,) = [each for each in daemon.said("queue.told") if each["queue"] == "red"][-1:]
    assert told["deserved"]["cpu"] == "8"
    assert daemon.stop() == 0
