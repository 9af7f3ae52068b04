"""What one tenant writes costs that tenant, and nobody else."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from sandbox.control_plane import ControlPlane
from sandbox.errors import ApiError
from tests.integration import daemons, tenancy, test_auto_groups
from tests.integration.daemons import Daemon, Start
from tests.integration.fuzzing import Maker
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path
from vscheduler.mirror.translate import pod_owners

UID = "11111111-1111-1111-1111-111111111111"
NAMES = (
    "?limit=1&x=%",
    "a#b",
    "../../../../../v1/pods",
    "web/scale",
    "web/status",
    "..%2f..%2f..",
    "..",
    ".",
    "a b",
    "line\r\nHost: elsewhere",
    "\x00\x1b[2J",
    "пример",
    "x" * 5000,
)
"""Of owners, all of which an API server takes."""
KINDS = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("a/../b/v1", "ReplicaSet"),
    ("apps/v1", "Replica?Set"),
)
TENANT = "hostile"
TENANTS = ("odd-a", "odd-b", "odd-c")
QUEUE = "good"
"""Of the tenant that is to be served."""
WAIT_SECONDS = 300.0
PARTS = 4
"""So often another tenant wants something meanwhile."""
MANAGED = {"app.kubernetes.io/managed-by": "vscheduler"}
MARK = {
    "scheduling.volcano.sh/scheduler-name": "vscheduler",
    "vscheduler.io/leaving": "2026-01-01T00:00:00Z",
}
DEFINITIONS = ("queues", "podgroups")


def an_owner(number: int, name: str, kind: tuple[str, str]) -> dict[str, Any]:
    """A reference to somebody who isn't there."""
    uid = f"{number:08d}{UID[8:]}"
    version, what = kind
    return {"apiVersion": version, "kind": what, "name": name, "uid": uid, "controller": True}


def owners() -> list[dict[str, Any]]:
    """Each name with each kind."""
    every = [(name, kind) for name in NAMES for kind in KINDS]
    return [an_owner(number, *each) for number, each in enumerate(every)]


def taken(plane: ControlPlane, path: str, body: dict[str, Any]) -> bool:
    """Create it; whether the API server takes it, or the daemon was quicker."""
    try:
        plane.api.create(path, body)
    except ApiError as error:
        if error.status not in (400, 403, 409, 413, 422):
            raise
        return error.status == 409
    return True


def test_an_owners_name_leads_nowhere(cluster: ControlPlane, start: Start) -> None:
    """Pods and PodGroups whose owners have names that mean something in a URL; before the daemon
    starts, and while it runs. Others get their PodGroup and a node.
    """
    cluster.create_nodes(count=1, cpu="64")
    cluster.create_namespace(TENANT)
    every = owners()

    def attack(first: int) -> int:
        made = 0
        for number, owner in enumerate(every[first::2]):
            named = pod_owners.short_name if number % 2 else lambda _, uid: f"podgroup-{uid}"
            name = f"own-{first}-{number}"
            pod = test_auto_groups.template(name)
            pod["metadata"] |= {"name": name, "ownerReferences": [owner]}
            made += taken(cluster, paths.PODS.within(TENANT), pod)
            metadata = {
                "name": named(str(owner["name"]), str(owner["uid"])),
                "labels": MANAGED,
                "annotations": MARK,
                "ownerReferences": [owner],
            }
            group = {"apiVersion": paths.VOLCANO, "kind": "PodGroup", "metadata": metadata}
            made += taken(
                cluster, paths.POD_GROUPS.within(TENANT), {**group, "spec": {"minMember": 1}}
            )
        return made

    # A pod may go as soon as its owner is seen to be missing; nothing here waits for that.
    assert attack(0) > len(every) // 2
    daemon = start()
    daemons.until(lambda: daemon.said("serving"), daemon)
    assert attack(1) > len(every) // 2
    test_auto_groups.a_set(cluster, "Deployment", "web", 2)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 2, daemon)
    time.sleep(3)  # what is marked and unused is looked at again
    test_auto_groups.a_set(cluster, "Deployment", "more", 2)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, daemon)
    assert daemon.stop() == 0


@pytest.mark.parametrize("objects", [60, pytest.param(2000, marks=pytest.mark.at_length)], ids=str)
def test_whatever_tenants_write_the_others_are_served(
    cluster: ControlPlane, start: Start, objects: int
) -> None:
    """Odd pods, PodGroups and Queues, most of which an API server takes: nothing unexpected comes
    of them, and another tenant's gangs are bound meanwhile, as its queue is its own.

    Groups that never start may hold all that their queues are promised until admission expires.
    """
    cluster.create_nodes(count=4, cpu="64", pods=10_000)
    daemons.a_queue(cluster, QUEUE)
    for tenant in TENANTS:
        cluster.create_namespace(tenant)
    maker = Maker(seed=7)
    daemon = start()
    daemons.until(lambda: tenancy.queue_of(cluster, "default"), daemon)
    taken_of: Counter[str] = Counter()
    of: Counter[str] = Counter()
    for part in range(PARTS):
        for number in range(objects // PARTS):
            where, body = maker.one()
            tenant = TENANTS[number % len(TENANTS)]
            path = where.within(tenant) if where.namespaced else where.everywhere
            of[body["kind"]] += 1
            taken_of[body["kind"]] += taken(cluster, path, body)
        daemons.a_gang(cluster, f"good-{part}", 2, cpu="100m", group={"queue": QUEUE})
        wait(partial(is_bound, cluster, part), daemon)
    annotations = {"scheduling.volcano.sh/queue-name": QUEUE}
    test_auto_groups.a_set(cluster, "Deployment", "web", 2, annotations)
    wait(partial(is_bound, cluster, PARTS), daemon)
    print(f"taken: {dict(taken_of)} of {dict(of)}")  # noqa: T201 - for `make test-faults`
    assert taken_of.total() > 0.85 * of.total()
    assert daemon.said("cycle.dropped") == []
    assert daemon.stop() == 0


def wait(done: Callable[[], bool], daemon: Daemon) -> None:
    """Until it is so; with two thousand odd objects to think about that may take minutes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert daemon.process.poll() is None, "the daemon has ended"
        assert time.monotonic() < deadline
        time.sleep(0.2)


def is_bound(cluster: ControlPlane, part: int) -> bool:
    """Whether all pods of the other tenant up to this part have a node."""
    return len(daemons.nodes_of(cluster)) == 2 * (part + 1)


@pytest.fixture
def definitions(
    cluster: ControlPlane,
) -> Iterator[dict[Path, dict[str, Any]]]:
    """Those of both kinds, which are there again afterwards."""
    found = {}
    for kind in DEFINITIONS:
        path = paths.DEFINITIONS.at(f"{kind}.scheduling.volcano.sh")
        stored = cluster.api.get(path)
        found[path] = {
            "apiVersion": stored["apiVersion"],
            "kind": stored["kind"],
            "metadata": {"name": stored["metadata"]["name"]},
            "spec": stored["spec"],
        }
    yield found
    for path, definition in found.items():
        if cluster.api.find(path) is not None:
            seen = cluster.api.get(path)
            if not seen["metadata"].get("deletionTimestamp"):
                continue
            for queue in cluster.api.list(paths.QUEUES.everywhere):
                body = {"metadata": {"finalizers": None}}
                cluster.api.patch(paths.QUEUES.at(queue["metadata"]["name"]), body)
            cluster.api.wait_until_gone(path)
        cluster.api.create(paths.DEFINITIONS.everywhere, definition)
    for path in found:
        cluster.api.wait_for(path, is_established)


def is_established(definition: dict[str, Any]) -> bool:
    """Whether its objects are served."""
    told = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in told)


def finalizers(cluster: ControlPlane, queue: str) -> list[str]:
    """Those of a Queue."""
    return list(tenancy.queue_of(cluster, queue)["metadata"].get("finalizers", []))


@pytest.mark.parametrize(
    "gone",
    [DEFINITIONS, pytest.param(("queues",), marks=pytest.mark.at_length)],
    ids="-".join,
)
def test_queues_go_with_their_definition(
    cluster: ControlPlane,
    start: Start,
    definitions: dict[Path, dict[str, Any]],
    gone: tuple[str, ...],
) -> None:
    """A Queue in use holds up nobody who takes the kind away; and it may come back."""
    cluster.create_nodes(count=1, cpu="8")
    daemon = start()
    daemons.until(lambda: tenancy.queue_of(cluster, "default"), daemon)
    daemons.a_queue(cluster, "lab")
    daemons.a_gang(cluster, "job", 2, group={"queue": "lab"})
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 2, daemon)
    daemons.until(
        lambda: (
            tenancy.IN_USE in tenancy.queue_of(cluster, "lab")["metadata"].get("finalizers", [])
        ),
        daemon,
    )
    leaving = {
        path: each
        for path, each in definitions.items()
        if path.rpartition("/")[2].split(".")[0] in gone
    }
    for path in leaving:
        cluster.api.delete(path)
    daemons.until(lambda: not any(cluster.api.find(path) for path in leaving), daemon)
    for definition in leaving.values():
        cluster.api.create(paths.DEFINITIONS.everywhere, definition)
    for path in leaving:
        cluster.api.wait_for(path, is_established)
    daemons.until(lambda: tenancy.queue_of(cluster, "default"), daemon)
    daemons.a_queue(cluster, "again")
    daemons.a_gang(cluster, "second", 2, group={"queue": "again"})
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, daemon)
    assert daemon.stop() == 0
