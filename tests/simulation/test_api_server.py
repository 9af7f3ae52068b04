"""What the API server in memory has beyond kube-apiserver: levers, and a history."""

import hashlib
import os
import random
import subprocess
import sys
from typing import Any

import pytest

from sandbox.errors import ApiError
from tests.simulation.api_server import wire
from tests.simulation.api_server.client import Client
from tests.simulation.api_server.server import ApiServer
from tests.simulation.api_server.wire import Answer, Request
from tests.simulation.contract.sides import Case, Clock, Memory
from vscheduler.mirror import paths

PODS = paths.PODS.within("default")
POD: dict[str, Any] = {
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}
GROUP: dict[str, Any] = {
    "apiVersion": paths.VOLCANO,
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {},
}


@pytest.fixture
def memory() -> Memory:
    """An API server of the test's own."""
    return Memory.made()


def pod(name: str) -> dict[str, Any]:
    """A pod."""
    return {**POD, "metadata": {"name": name}}


def status(call: Any) -> int:
    """The status with which a call is refused."""
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.status


def test_compaction_forgets_versions_and_pages(memory: Memory) -> None:
    """410 for a watch and for the next page; a new list is served."""
    for name in ("a", "b"):
        memory.api.create(PODS, pod(name))
    page = memory.api.get(f"{PODS}?limit=1")["metadata"]
    memory.api.create(PODS, pod("c"))
    memory.server.compact()
    query = {"continue": page["continue"]}
    answer = memory.api.ask("GET", PODS, query=query)
    assert (answer.status, answer.body["reason"]) == (410, "Expired")
    ((kind, body),) = memory.watch(PODS, most=1, resourceVersion=page["resourceVersion"])
    assert (kind, body["code"]) == ("ERROR", 410)
    assert len(memory.api.list(PODS)) == 3


def test_the_history_limit_forgets_as_well() -> None:
    """The oldest events first."""
    clock = Clock()
    api = ApiServer(clock, random.Random(1), history_limit=2)
    me = Client(api, "me")
    versions = [
        int(me.create(PODS, pod(name))["metadata"]["resourceVersion"]) for name in ("a", "b", "c")
    ]
    seen: list[str] = []

    def note(kind: str, body: dict[str, Any]) -> None:
        seen.append(f"{kind} {body['metadata'].get('name', '')}".strip())

    me.watch(PODS, note, lambda: seen.append("end"), resourceVersion=versions[0] - 1)
    assert seen == ["ERROR", "end"]
    seen.clear()
    me.watch(PODS, note, lambda: None, resourceVersion=versions[0])
    assert seen == ["ADDED b", "ADDED c"]


def test_requests_are_throttled(memory: Memory) -> None:
    """429 with Retry-After, for some users or all, until it ends."""
    memory.server.faults.throttle(1.0, retry_after=3, users={"admin"})
    request = Request(method="GET", path=PODS, query={}, headers={}, body=b"", user="admin")
    answer = memory.server.ask(request)
    assert isinstance(answer, Answer)
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    assert Client(memory.server, "other").list(PODS) == []
    memory.server.faults.throttle(0.0)
    assert memory.api.list(PODS) == []


def test_rights_are_denied(memory: Memory) -> None:
    """403, in reviews too; other verbs are served."""
    memory.server.faults.deny("admin", "create", "pods")
    assert status(lambda: memory.api.create(PODS, POD)) == 403
    spec = {"resourceAttributes": {"resource": "pods", "verb": "create"}}
    review = memory.api.create(paths.REVIEWS.everywhere, {"spec": spec})
    assert review["status"] == {"allowed": False}
    assert memory.api.list(PODS) == []
    memory.server.faults.permit("admin", "create", "pods")
    memory.api.create(PODS, POD)


def test_subresources_have_rights_of_their_own(memory: Memory) -> None:
    """Such as pods/binding."""
    memory.api.create(PODS, POD)
    memory.server.faults.deny("admin", "create", "pods/binding")
    case = Case(memory, "default")
    assert case.bind("a").status == 403
    memory.api.create(PODS, pod("b"))


def test_a_revoked_user_is_unknown(memory: Memory) -> None:
    """401 until accepted again."""
    memory.server.faults.revoke("admin")
    assert status(lambda: memory.api.list(PODS)) == 401
    memory.server.faults.accept("admin")
    assert memory.api.list(PODS) == []


def test_a_kind_is_no_longer_served(memory: Memory) -> None:
    """404, in discovery too; its watches end, and its objects come back."""
    groups = paths.POD_GROUPS.within("default")
    memory.api.create(groups, GROUP)
    ended: list[bool] = []
    me = Client(memory.server, "me")
    me.watch(groups, lambda *_: None, lambda: ended.append(True))
    memory.server.serve("podgroups", on=False)
    assert ended == [True]
    assert status(lambda: memory.api.list(groups)) == 404
    found = memory.api.get(paths.version(paths.VOLCANO))["resources"]
    assert [each["name"] for each in found] == ["queues", "queues/status"]
    memory.server.serve("podgroups", on=True)
    assert len(memory.api.list(groups)) == 1


def test_the_server_is_down_for_a_while(memory: Memory) -> None:
    """503 for everything."""
    memory.server.faults.go_down(5.0)
    assert status(lambda: memory.api.list(PODS)) == 503
    memory.pass_time(5.0)
    assert memory.api.list(PODS) == []


def test_an_answer_is_lost(memory: Memory) -> None:
    """500 although the write was carried out, as the history knows."""
    memory.server.faults.lose_answers(1.0)
    assert status(lambda: memory.api.create(PODS, POD)) == 500
    memory.server.faults.lose_answers(0.0)
    assert len(memory.api.list(PODS)) == 1
    assert memory.server.history[-1].code == 201


def test_the_history_has_every_write(memory: Memory) -> None:
    """Served or refused, with the object before and after; no reads, no dry runs."""
    made = memory.api.create(PODS, POD)
    case = Case(memory, "default")
    case.bind("a", "n")
    case.bind("a", "n")
    memory.api.list(PODS)
    memory.api.ask("POST", PODS, pod("b"), query={"dryRun": "All"})
    case.api.delete(case.at("a"), gracePeriodSeconds=0)
    history = memory.server.history
    shown = [(each.verb, each.code, each.name, each.uid) for each in history]
    uid = made["metadata"]["uid"]
    assert shown == [
        ("create", 201, "a", uid),
        ("bind", 201, "a", uid),
        ("bind", 409, "a", uid),
        ("delete", 200, "a", uid),
    ]
    created, bound, refused, deleted = history
    assert created.before is None
    assert bound.before is created.after
    assert bound.after is not None
    assert bound.after["spec"]["nodeName"] == "n"
    assert refused.after is None
    assert (deleted.before, deleted.after) == (bound.after, None)
    assert {each.user for each in history} == {"admin"}


def test_what_is_stored_never_changes(memory: Memory) -> None:
    """The history shares it."""
    memory.api.create(PODS, POD)
    created = memory.server.history[-1].after
    before = wire.encode(created)
    case = Case(memory, "default")
    case.bind("a")
    memory.api.patch(f"{case.at('a')}/status", {"status": {"phase": "Running"}}, kind="merge")
    memory.api.patch(case.at("a"), {"metadata": {"labels": {"x": "y"}}})
    case.api.delete(case.at("a"))
    assert wire.encode(created) == before


def test_events_are_forgotten_after_an_hour(memory: Memory) -> None:
    """When the next one comes."""
    path = paths.EVENTS.within("default")
    body = {"eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal"}
    memory.api.create(path, {**body, "metadata": {"name": "one"}})
    memory.pass_time(3601)
    memory.api.create(path, {**body, "metadata": {"name": "two"}})
    assert [each["metadata"]["name"] for each in memory.api.list(path)] == ["two"]


def test_no_client_is_called_while_another_asks(memory: Memory) -> None:
    """Events of a watch come in a call of the clock, in order."""
    seen: list[str] = []
    me = Client(memory.server, "me")

    def answer(kind: str, body: dict[str, Any]) -> None:
        seen.append(f"{kind} {body['metadata']['name']}")
        if body["metadata"]["name"] == "a":
            me.create(PODS, pod("b"))

    me.watch(PODS, answer, lambda: None)
    memory.api.create(PODS, POD)
    assert seen == []
    memory.pass_time(0.0)
    assert seen == ["ADDED a", "ADDED b"]


def test_garbage_is_refused_and_never_raised(memory: Memory) -> None:
    """Whatever a hostile tenant sends."""
    chance = random.Random(3)
    values: list[Any] = [None, 1, -1.5, "x", [], {}, [1], {"a": 1}, True, "x" * 300]
    places = ["metadata", "spec", "status", "kind", "apiVersion", "involvedObject", "type"]
    inner = ["name", "labels", "finalizers", "containers", "conditions", "resources", "selector"]
    collections = [PODS, paths.EVENTS.within("default"), paths.BUDGETS.within("default")]
    collections += [paths.POD_GROUPS.within("default"), paths.LEASES.within("default")]
    kinds = ["merge", "strategic", "json", "apply"]
    case = Case(memory, "default")
    memory.api.create(PODS, POD)
    for _ in range(800):
        body: Any = {chance.choice(places): chance.choice(values) for _ in range(3)}
        body["spec"] = {chance.choice(inner): chance.choice(values) for _ in range(2)}
        if chance.random() < 0.8:
            body["metadata"] = {"name": "g", chance.choice(inner): chance.choice(values)}
        path = chance.choice(collections)
        assert case.ask("POST", path, body).status < 600
        assert case.patch(case.at("a"), body, chance.choice(kinds), fieldManager="m").status < 600
        assert case.patch(f"{path}/g", body, chance.choice(kinds), fieldManager="m").status < 600
        status = {"status": chance.choice(values)}
        part = f"{case.at('a')}/status"
        assert case.patch(part, status, chance.choice(kinds), fieldManager="m").status < 600
    for path in collections:
        selected = {"labelSelector": "a!=b", "fieldSelector": "metadata.name!=b"}
        assert case.ask("GET", path, query=selected).status == 200
    assert case.ask("GET", PODS, query={"fieldSelector": "status.phase=x"}).status == 200
    case.api.patch(f"{case.at('a')}/status", {"status": {"phase": "Running"}})
    path = paths.PODS.part("a", "default", "eviction")
    assert case.ask("POST", path, {"metadata": {"name": "a"}}).status in (201, 429)


SCENE = """
import random
from tests.simulation.api_server import wire
from tests.simulation.contract import sides
memory = sides.Memory.made()
case = sides.Case(memory, "default")
for number in range(20):
    case.create_pod(f"p{number}")
    path, _ = case.create_queue(f"q{number}")
    for manager in ("one", "two"):
        conditions = [{"type": manager, "status": "True"}]
        case.apply_queue(f"{path}/status", manager, status={"conditions": conditions})
    case.apply_queue(f"{path}/status", "one", status={"allocated": {"cpu": "1", "memory": "2"}})
    case.apply_queue(f"{path}/status", "one", status={})
    case.bind(f"p{number}")
    memory.pass_time(1.5)
for change in memory.server.history:
    print(change.at, change.verb, change.code, wire.encode([change.before, change.after]))
"""


def test_the_hash_seed_does_not_matter() -> None:
    """The same history, byte for byte."""
    digests = set()
    for seed in ("1", "2"):
        done = subprocess.run(  # noqa: S603  # our own interpreter and script
            [sys.executable, "-c", SCENE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert done.stdout
        digests.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(digests) == 1
