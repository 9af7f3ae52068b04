"""Deployments that go 1→0→1 while deletes of their PodGroups are under way, and how it ends."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Any

from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from sandbox.errors import ApiError
from tests import patience
from tests.faults.plans import Delay, Duplicate, Fault, LoseAnswer, Reorder, Rule
from tests.faults.proxying import Proxy
from tests.integration import daemons, histories
from vscheduler.cli.http_client import NoAnswerError
from vscheduler.mirror.translate import pod_owners

APPS = "/apis/apps/v1/namespaces/{}"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"
PODS = "/api/v1/namespaces/{}/pods"
A_GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "spec": {"minMember": 1},
}
LATE_SECONDS = 2.5
"""With which Volcano lost the PodGroup in 2 of 20 rounds."""
UP_AGAIN_SECONDS = 3.2
"""At most so long after it went down, or after its delete was sent: some deletes are late no more
by then."""
PATIENT_SHARE = 0.75
"""Of the rounds that wait for the delete; the others go up whatever has been sent."""
SENT_SECONDS = 30.0
"""No longer is waited for a delete."""
POLL_SECONDS = 0.1

WAYS: dict[str, Fault] = {
    "delayed": Delay(seconds=LATE_SECONDS),
    "doubled": Duplicate(after_seconds=LATE_SECONDS),
    "overtaken": Reorder(later=r"^PATCH .*/podgroups/\1(\?|$)", at_most_seconds=LATE_SECONDS),
    "answer-lost": LoseAnswer(),
}
"""What becomes of every delete of a PodGroup, in a namespace for each."""


def deletes(way: str) -> str:
    """The requests to which this happens."""
    return f"^DELETE {GROUPS.format(way)}/([^/?]+)"


RULES = [Rule(requests=deletes(way), fault=fault) for way, fault in WAYS.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Some Deployments of one pod each, whose PodGroups' deletes come to grief in one way."""

    api: Client
    way: str
    names: Sequence[str]

    def launch(self) -> None:
        """Create them, one replica each."""
        path = f"{APPS.format(self.way)}/deployments"
        self.api.create_all(path, [a_deployment(name) for name in self.names])

    def scale(self, name: str, replicas: int) -> None:
        """As `kubectl scale` does."""
        path = f"{APPS.format(self.way)}/deployments/{name}"
        self.api.patch(path, {"spec": {"replicas": replicas}})

    def go_round(self, name: str, proxy: Proxy, chance: Random, up_again_seconds: float) -> None:
        """1→0→1, mostly while a delete of its PodGroup is under way."""
        owned = {"labelSelector": f"app={name}"}
        (owner,) = self.api.list(f"{APPS.format(self.way)}/replicasets", **owned)
        group = pod_owners.short_name(owner["metadata"]["name"], owner["metadata"]["uid"])
        delete = f"DELETE {GROUPS.format(self.way)}/{group}"
        before = proxy.times_struck(delete)
        time.sleep(chance.uniform(0, 0.4))
        self.scale(name, 0)
        patience = SENT_SECONDS if chance.random() < PATIENT_SHARE else 0.0
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and proxy.times_struck(delete) == before:
            time.sleep(POLL_SECONDS)
        time.sleep(chance.uniform(0, up_again_seconds))
        self.scale(name, 1)

    def end(self) -> None:
        """Scale all to zero."""
        for name in self.names:
            self.scale(name, 0)

    def problems(self) -> list[str]:
        """Why not every Deployment has one pod that runs, in a PodGroup that is there."""
        pods = [pod for pod in self.api.list(PODS.format(self.way)) if histories.lives(pod)]
        groups = {group["metadata"]["name"] for group in self.api.list(GROUPS.format(self.way))}
        found = []
        for name in self.names:
            own = [pod for pod in pods if pod["metadata"]["labels"].get("app") == name]
            running = [pod for pod in own if pod["status"]["phase"] == "Running"]
            if len(own) != 1 or len(running) != 1:
                found.append(f"{name}: {len(running)} of {len(own)} pods run")
            found += [
                f"{name}: {pod['metadata']['name']} has no PodGroup {histories.named_group(pod)}"
                for pod in own
                if histories.named_group(pod) not in groups
            ]
        return found


@contextmanager
def racing(
    fleets: Sequence[Fleet],
    proxy: Proxy,
    seed: str,
    *,
    up_again_seconds: float = UP_AGAIN_SECONDS,
) -> Iterator[None]:
    """Every Deployment goes round once, all at a time; the block's end waits for them."""
    names = [(fleet, name) for fleet in fleets for name in fleet.names]
    with futures.ThreadPoolExecutor(len(names)) as threads:
        rounds = [
            threads.submit(fleet.go_round, name, proxy, Random(f"{seed} {name}"), up_again_seconds)
            for fleet, name in names
        ]
        yield
    for each in rounds:
        each.result()


def versions(api: Client) -> dict[str, int]:
    """Of all pods and PodGroups that are there, by name."""
    return {
        item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
        for path in (histories.PODS, histories.GROUPS)
        for item in api.list(path)
    }


def a_deployment(name: str) -> dict[str, Any]:
    """One pod that vscheduler is to bind, and that goes at once when it is deleted."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "schedulerName": "vscheduler",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    }


def until_none(problems: Callable[[], Collection[object]]) -> None:
    """Wait until there are no problems; else say which they are."""
    patience.wait_until(lambda: not problems(), told=lambda: list(problems())[:10])


def until_quiet(proxy: Proxy) -> None:
    """Wait until nothing late is still to come."""
    patience.wait_until(lambda: not proxy.busy)


@dataclass(slots=True)
class NaiveKeeper:
    """Makes and deletes PodGroups as Volcano does: by name, on what was seen some time ago.

    Its deletes carry no precondition, and one without an answer is sent again. Runs in a thread.
    """

    plane: ControlPlane
    link: Client
    """Through the proxy; what it looks at, it takes from the API server."""
    ended: Event = field(default_factory=Event)
    _empty: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Until `ended`."""
        with futures.ThreadPoolExecutor(64) as threads:
            while not self.ended.wait(POLL_SECONDS):
                pods = self.plane.api.list(histories.PODS)
                for owner in self.plane.api.list("/apis/apps/v1/replicasets"):
                    uid = owner["metadata"]["uid"]
                    way = owner["metadata"]["namespace"]
                    if owner["spec"]["replicas"] == 0 and uid not in self._empty:
                        self._empty.add(uid)
                        threads.submit(self._delete, f"{GROUPS.format(way)}/podgroup-{uid}")
                    elif owner["spec"]["replicas"] > 0:
                        self._empty.discard(uid)
                        self._group(way, uid, pods)

    def _group(self, way: str, owner: str, pods: list[dict[str, Any]]) -> None:
        """Pods that name no group get one."""
        name = f"podgroup-{owner}"
        for pod in pods:
            owners = [each["uid"] for each in pod["metadata"].get("ownerReferences", ())]
            if owner in owners and not histories.named_group(pod):
                self.link.ask("POST", GROUPS.format(way), {**A_GROUP, "metadata": {"name": name}})
                path = f"{PODS.format(way)}/{pod['metadata']['name']}"
                patch = {"metadata": {"annotations": {daemons.GROUP_NAME: name}}}
                try:
                    self.link.patch(path, patch)
                except ApiError as error:
                    if error.status != 404:
                        raise

    def _delete(self, path: str) -> None:
        for _ in range(3):
            try:
                self.link.delete(path)
            except NoAnswerError:
                self.ended.wait(LATE_SECONDS)
            else:
                return
