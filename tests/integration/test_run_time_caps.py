"""Pods whose time is up, on a real API server: ended once, though schedulers are killed."""

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons, permissions
from tests.integration.daemons import Start
from tests.integration.test_evicting import BUDGETS, condition, going, names
from vscheduler.model.run_times import CAP

CAP_SECONDS = 5
SLOW = {"vscheduler.sandbox/terminates-after": "30s"}


@pytest.fixture
def right(cluster: ControlPlane) -> Iterator[None]:
    """The right to delete pods, as the documentation gives it."""
    name = "vscheduler-run-time-caps"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]
    namespace, _, account = permissions.account(permissions.TESTED).rpartition(":")
    subject = {
        "kind": "ServiceAccount",
        "namespace": namespace.rpartition(":")[2],
        "name": account,
    }
    binding: dict[str, Any] = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    about = {"metadata": {"name": name}}
    cluster.api.create(f"{permissions.RBAC}/clusterroles", about | {"rules": rules})
    cluster.api.create(f"{permissions.RBAC}/clusterrolebindings", about | binding)
    yield
    for kind in ("clusterrolebindings", "clusterroles"):
        cluster.api.delete(f"{permissions.RBAC}/{kind}/{name}")


@pytest.mark.usefixtures("right")
def test_pods_are_ended_once_whoever_is_killed(cluster: ControlPlane, start: Start) -> None:
    """No budget counts; a newer pod of the name is left alone, once nothing is capped any more."""
    cluster.create_nodes(count=2, cpu="2")
    daemons.a_queue(cluster, "capped")
    cap = {"metadata": {"annotations": {CAP: f"{CAP_SECONDS}s"}}}
    cluster.api.patch(f"{daemons.QUEUES}/capped", cap)
    daemons.a_gang(cluster, "old", 3, group={"queue": "capped"}, annotations=SLOW)
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "old"}}}
    cluster.api.create(BUDGETS, {"metadata": {"name": "all"}, "spec": budget})
    first = start(daemons.ALONE)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 3, first)
    uids = {pod["metadata"]["uid"] for pod in cluster.api.list(daemons.PODS)}
    first.kill()
    second = start(daemons.ALONE)
    patience.wait_until(lambda: going(cluster, "old"), check=second.check)
    second.kill()
    third = start(daemons.ALONE)
    patience.wait_until(lambda: len(going(cluster, "old")) == 3, check=third.check)
    leaving = going(cluster, "old")
    assert {pod["metadata"]["uid"] for pod in leaving} == uids
    times = {pod["metadata"]["deletionTimestamp"] for pod in leaving}
    told = [condition(pod)["message"] for pod in leaving if condition(pod)]
    assert all(f"by {CAP}, as it ran for {CAP_SECONDS}s" in text for text in told)
    warned = [
        each["regarding"]["uid"]
        for each in cluster.api.list(daemons.EVENTS)
        if each["reason"] == "EndsSoon"
    ]
    assert len(warned) == len(set(warned))  # whoever warned them
    assert set(warned) <= uids
    cluster.api.patch(f"{daemons.QUEUES}/capped", {"metadata": {"annotations": {CAP: None}}})
    daemons.until(lambda: not cluster.api.list(daemons.PODS), third)
    assert len(times) <= 2  # of two instances, each of which deletes a pod once
    daemons.a_gang(cluster, "young", 3, group={"queue": "capped"})
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 3, third)
    daemons.until_at_rest(lambda: names(cluster, "young"), third, CAP_SECONDS + 2)
    assert len(names(cluster, "young")) == 3
    assert third.stop() == 0
