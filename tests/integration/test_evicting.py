"""Room that is made by evictions, on a real API server with pods that take their time to end."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons
from tests.integration.daemons import Daemon, Start

SLOW = {"vscheduler.sandbox/terminates-after": "3s"}
SLOWER = {"vscheduler.sandbox/terminates-after": "20s"}
"""For what can be seen only in between."""
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CONFIGURATION = """
actions: enqueue, allocate, backfill, {action}
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}, {{name: pdb}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


@pytest.fixture
def conf(tmp_path: Path) -> str:
    """The flag of a configuration that reclaims."""
    path = tmp_path / "conf.yaml"
    path.write_text(CONFIGURATION.format(action="reclaim"))
    return f"--scheduler-conf={path}"


def names(cluster: ControlPlane, group: str) -> list[str]:
    """The pods of a group that aren't being deleted."""
    return sorted(
        pod["metadata"]["name"]
        for pod in cluster.api.list(daemons.PODS, labelSelector=f"app={group}")
        if "deletionTimestamp" not in pod["metadata"]
    )


def going(cluster: ControlPlane, group: str) -> list[dict[str, Any]]:
    """The pods of a group that are being deleted."""
    return [
        pod
        for pod in cluster.api.list(daemons.PODS, labelSelector=f"app={group}")
        if "deletionTimestamp" in pod["metadata"]
    ]


def notices(cluster: ControlPlane, reason: str) -> list[tuple[str, str, str]]:
    """Events of this reason: kind and name of the object, and their type."""
    return sorted(
        (each["regarding"]["kind"], each["regarding"]["name"], each["type"])
        for each in cluster.api.list(daemons.EVENTS)
        if each["reason"] == reason
    )


def borrowed(
    cluster: ControlPlane,
    start: Start,
    conf: str,
    annotations: dict[str, str] = SLOW,
) -> Daemon:
    """A scheduler, two queues, and one of them with all there is."""
    cluster.create_nodes(count=2, cpu="2")
    for queue in ("gold", "lead"):
        daemons.a_queue(cluster, queue)
    daemons.a_gang(
        cluster, "greedy", 4, minimum=1, group={"queue": "lead"}, annotations=annotations
    )
    daemon = start(conf)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, daemon)
    daemons.until(lambda: daemons.phase(cluster, "greedy") == "Running", daemon)
    return daemon


def test_a_queue_gets_back_what_it_is_owed_and_all_is_told(
    cluster: ControlPlane, start: Start, conf: str
) -> None:
    """Two of four pods go, say for whom, and their room is kept until they are gone."""
    daemon = borrowed(cluster, start, conf, SLOWER)
    daemons.a_gang(cluster, "needy", 2, group={"queue": "gold"})
    victims = patience.wait_until(lambda: marked(cluster, "greedy"), check=daemon.check)
    assert len(victims) == 2
    daemons.until(lambda: len(nominated(cluster, "needy")) == 2, daemon)
    assert not set(daemons.nodes_of(cluster)) & {"needy-0", "needy-1"}
    assert {condition(pod)["reason"] for pod in victims} == {"PreemptionByScheduler"}
    for pod in victims:
        assert re.fullmatch(
            r"evicted from \S+ by reclaim so that default/needy can start",
            condition(pod)["message"],
        )
    daemons.until(lambda: {"needy-0", "needy-1"} <= set(daemons.nodes_of(cluster)), daemon)
    daemons.until(lambda: daemons.phase(cluster, "needy") == "Running", daemon)
    assert len(names(cluster, "greedy")) == 2
    gone = sorted(pod["metadata"]["name"] for pod in victims)
    told = [("Pod", name, "Warning") for name in gone] + [("PodGroup", "greedy", "Normal")]
    daemons.until(lambda: notices(cluster, "Evict") == told, daemon)
    assert daemon.said("eviction.failed") == []
    assert daemon.said("write.failed") == []
    assert daemon.stop() == 0


def marked(cluster: ControlPlane, group: str) -> list[dict[str, Any]]:
    """The pods of a group that are being deleted, once all of them say why."""
    found = going(cluster, group)
    return found if len(found) > 1 and all(map(condition, found)) else []


def condition(pod: dict[str, Any]) -> dict[str, str]:
    """The pod's DisruptionTarget as this scheduler writes it; empty before."""
    found = {each["type"]: each for each in pod["status"].get("conditions", [])}
    target: dict[str, str] = found.get("DisruptionTarget", {})
    return target if target.get("reason") != "EvictionByEvictionAPI" else {}


def nominated(cluster: ControlPlane, group: str) -> list[str]:
    """Nodes that are kept for waiting pods of a group."""
    return [
        pod["status"]["nominatedNodeName"]
        for pod in cluster.api.list(daemons.PODS, labelSelector=f"app={group}")
        if pod["status"].get("nominatedNodeName") and not pod["spec"].get("nodeName")
    ]


def test_what_matters_more_takes_the_place_of_what_matters_less(
    cluster: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Inside one queue, by PriorityClass; a gang that would be split goes whole."""
    path = tmp_path / "conf.yaml"
    path.write_text(CONFIGURATION.format(action="preempt"))
    cluster.create_nodes(count=1, cpu="4")
    cluster.api.create(PRIORITIES, {"metadata": {"name": "urgent"}, "value": 1000})
    daemons.a_gang(cluster, "lesser", 4, annotations=SLOWER)
    daemon = start(f"--scheduler-conf={path}")
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, daemon)
    daemons.until(lambda: daemons.phase(cluster, "lesser") == "Running", daemon)
    daemons.a_gang(cluster, "urgent", 3, group={"priorityClassName": "urgent"})
    daemons.until(lambda: len(marked(cluster, "lesser")) == 4, daemon)
    wanted = {f"urgent-{number}" for number in range(3)}
    daemons.until(lambda: wanted <= set(daemons.nodes_of(cluster)), daemon)
    assert names(cluster, "lesser") == []
    notes = [each["note"] for each in cluster.api.list(daemons.EVENTS) if each["reason"] == "Evict"]
    assert any("its whole gang goes, and needs 4 pods" in note for note in notes)
    assert daemon.stop() == 0


def test_a_budget_that_forbids_is_kept(cluster: ControlPlane, start: Start, conf: str) -> None:
    """Nobody goes while it allows none, and the pods go once it does."""
    cluster.api.create(
        BUDGETS,
        {
            "metadata": {"name": "all"},
            "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "greedy"}}},
        },
    )
    daemon = borrowed(cluster, start, conf)
    cluster.api.wait_for(f"{BUDGETS}/all", lambda each: each["status"].get("currentHealthy") == 4)
    daemons.a_gang(cluster, "needy", 2, group={"queue": "gold"})
    daemons.until(lambda: "Unschedulable" in daemons.conditions(cluster, "needy"), daemon)
    assert len(names(cluster, "greedy")) == 4
    cluster.api.patch(f"{BUDGETS}/all", {"spec": {"minAvailable": 2}})
    daemons.until(lambda: {"needy-0", "needy-1"} <= set(daemons.nodes_of(cluster)), daemon)
    assert len(names(cluster, "greedy")) == 2
    assert daemon.stop() == 0


@pytest.fixture
def protected(cluster: ControlPlane) -> Iterator[str]:
    """A pod whose eviction admission refuses: greedy-0."""
    policy = {
        "metadata": {"name": "keep"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/eviction"],
                    }
                ]
            },
            "validations": [
                {"expression": "object.metadata.name != 'greedy-0'", "message": "greedy-0 stays"}
            ],
        },
    }
    binding = {
        "metadata": {"name": "keep"},
        "spec": {"policyName": "keep", "validationActions": ["Deny"]},
    }
    cluster.api.create(f"{ADMISSION}/validatingadmissionpolicies", policy)
    cluster.api.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    yield "greedy-0"
    cluster.api.delete(f"{ADMISSION}/validatingadmissionpolicybindings/keep")
    cluster.api.delete(f"{ADMISSION}/validatingadmissionpolicies/keep")


def rehearse(cluster: ControlPlane, pod: str) -> int:
    """The HTTP status of an eviction that is only tried."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "default"},
        "deleteOptions": {"dryRun": ["All"]},
    }
    return cluster.api.ask("POST", f"{daemons.PODS}/{pod}/eviction", body).status


def test_who_the_server_refuses_to_evict_stays_and_others_go(
    cluster: ControlPlane, start: Start, conf: str, protected: str
) -> None:
    """The refused plan harms nobody; the job gets its room from the other pods."""
    daemon = borrowed(cluster, start, conf)
    daemons.until(lambda: rehearse(cluster, protected) in (403, 422), daemon)
    daemons.a_gang(cluster, "needy", 2, group={"queue": "gold"})
    daemons.until(lambda: {"needy-0", "needy-1"} <= set(daemons.nodes_of(cluster)), daemon)
    left = names(cluster, "greedy")
    assert len(left) == 2
    assert protected in left
    failed = daemon.said("eviction.failed")
    assert {(each["pod"], each["outcome"], each["evicted"]) for each in failed} <= {
        (f"default/{protected}", "refused", 0)
    }
    assert daemon.stop() == 0


def test_a_pod_under_two_budgets_is_no_victim(
    cluster: ControlPlane, start: Start, conf: str
) -> None:
    """The Eviction API answers 500 for it, whatever both allow: so nobody asks."""
    for name in ("one", "two"):
        budget = {"maxUnavailable": 4, "selector": {"matchLabels": {"app": "greedy"}}}
        cluster.api.create(BUDGETS, {"metadata": {"name": name}, "spec": budget})
    daemon = borrowed(cluster, start, conf)
    assert rehearse(cluster, "greedy-0") == 500
    daemons.a_gang(cluster, "needy", 2, group={"queue": "gold"})
    daemons.until(lambda: "Unschedulable" in daemons.conditions(cluster, "needy"), daemon)
    assert len(names(cluster, "greedy")) == 4
    assert daemon.said("eviction.failed") == []
    assert daemon.stop() == 0
