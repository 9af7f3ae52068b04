"""Each judge of what always holds flags a broken rule, and lets pass what breaks none."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.simulation import judges
from tests.simulation.judges import amounts
from tests.simulation.made_histories import (
    History,
    group,
    meta,
    node,
    pod,
    queue,
    started,
)


def test_a_gang_that_is_bound_in_time_breaks_nothing() -> None:
    """A usual course of events."""
    history = started(2, 2)
    history.bind("p0", "n1")
    history.bind("p1", "n1")
    for _ in range(60):
        history.later(5)
        history.leads("a")
    assert history.broken() == []


def test_a_pod_is_bound_once() -> None:
    """A second bind of the same UID."""
    history = started(1, 1)
    history.bind("p0", "n1")
    history.bind("p0", "n1")
    assert history.broken() == ["bound once"]


def test_another_pod_of_the_name_may_be_bound() -> None:
    """A new UID is another pod."""
    history = started(1, 1)
    history.bind("p0", "n1")
    history.drop("pods", "p0")
    again = pod("p0")
    again["metadata"]["uid"] = "another"
    history.put("pods", again)
    history.bind("p0", "n1")
    assert history.broken() == []


def test_a_node_is_not_overfull() -> None:
    """Five pods of one cpu on a node with four."""
    history = started(1, 5)
    for number in range(5):
        history.bind(f"p{number}", "n1")
    assert history.broken() == ["no overfull node"]


def test_a_bind_by_another_scheduler_may_be_unknown() -> None:
    """For a moment, but not for long."""
    for seconds, broken in ((1, []), (10, ["no overfull node"])):
        history = started(1, 1, cpu="1")
        history.put("pods", pod("other", group="", schedulerName="default-scheduler"))
        history.bind("other", "n1", origin="")
        history.later(seconds)
        history.leads("a")
        history.bind("p0", "n1")
        assert history.broken() == broken


CLOSED = (
    {"unschedulable": True},
    {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
)


@pytest.mark.parametrize("spec", CLOSED)
def test_no_bind_to_a_closed_node(spec: Mapping[str, Any]) -> None:
    """A cordon, a taint."""
    history = started(1, 1, **spec)
    history.bind("p0", "n1")
    assert history.broken() == ["no bind to a closed node"]


def test_no_bind_to_a_missing_node() -> None:
    """A name that no node has."""
    history = started(1, 1)
    history.bind("p0", "n2")
    assert history.broken() == ["no bind to a closed node"]


@pytest.mark.parametrize("spec", CLOSED)
def test_pods_may_tolerate(spec: Mapping[str, Any]) -> None:
    """A toleration of everything."""
    history = started(1, 0, **spec)
    history.put("pods", pod("p", tolerations=[{"operator": "Exists"}]))
    history.bind("p", "n1")
    assert history.broken() == []


def test_a_new_cordon_may_be_unknown() -> None:
    """Until the watch has told the daemon."""
    history = started(1, 1)
    history.put("nodes", node(unschedulable=True))
    history.bind("p0", "n1")
    assert history.broken() == []


def test_only_known_pods_are_touched() -> None:
    """A pod that took the name of another has no PodGroup yet, and no node."""
    history = started(1, 1)
    history.drop("pods", "p0")
    history.put("pods", pod("p0", group=""))
    history.bind("p0", "n1")
    assert history.broken() == ["only known pods are touched"]
    history = started(1, 1)
    history.evict("p0")
    assert history.broken() == ["only known pods are touched"]
    history = started(1, 1)
    history.drop("podgroups", "gang")
    history.bind("p0", "n1")
    assert history.broken() == []
    history.later(10)
    history.leads("a")
    history.put("pods", pod("p1"))
    history.bind("p1", "n1")
    assert history.broken() == ["only known pods are touched"]


def releases(history: History) -> History:
    """The daemon takes its finalizer from a Queue that is being deleted."""
    held = queue()
    held["metadata"] |= {"deletionTimestamp": "x", "finalizers": ["vscheduler.io/in-use"]}
    history.put("queues", held)
    history.put("queues", {**held, "metadata": {**held["metadata"], "finalizers": []}}, "a")
    return history


def test_no_queue_goes_under_its_pod_groups() -> None:
    """But an empty one does, and one whose PodGroup has just come."""
    assert releases(started(1, 0)).broken() == ["no Queue goes under its PodGroups"]
    history = started(1, 0)
    history.drop("podgroups", "gang")
    assert releases(history).broken() == []
    history.put("podgroups", group(1))
    assert releases(history).broken() == []


def partial(seconds: float) -> History:
    """Two of three pods are bound, for a while."""
    history = started(3, 3)
    history.bind("p0", "n1")
    history.bind("p1", "n1")
    for _ in range(int(seconds // 10)):
        history.later(10)
        history.leads("a")
    return history


def test_no_gang_stays_in_part() -> None:
    """Longer than its timeout, until the end or not."""
    history = partial(200)
    assert history.broken() == ["no partial gang"]
    history.bind("p2", "n1")
    assert history.broken() == ["no partial gang"]


def test_a_gang_may_be_in_part_for_a_while() -> None:
    """Until the rest is bound."""
    history = partial(60)
    history.bind("p2", "n1")
    assert history.broken() == []


def test_faults_give_a_gang_more_time() -> None:
    """Time in which something was broken doesn't count."""
    history = partial(200)
    settings = judges.Settings(faults=[(history.now - 150, history.now - 20)])
    assert history.broken(settings) == []


def test_a_gang_that_lost_pods_by_other_hands_may_stay_in_part() -> None:
    """A user deletes one of its pods."""
    history = partial(60)
    history.bind("p2", "n1")
    history.drop("pods", "p1")
    history.later(1000)
    history.leads("a")
    assert history.broken() == []


def test_a_gang_may_wait_next_to_a_pod_that_others_bound() -> None:
    """The gang starts at last; the pod that somebody else bound was never the daemon's doing."""
    history = started(3, 3)
    history.bind("p0", "n1", origin="")
    for _ in range(20):
        history.later(10)
        history.leads("a")
    history.bind("p1", "n1")
    history.bind("p2", "n1")
    assert history.broken() == []


def test_the_daemon_leaves_no_gang_in_part() -> None:
    """An eviction below the minimum counts, too."""
    history = partial(60)
    history.bind("p2", "n1")
    history.evict("p1")
    history.later(1000)
    history.leads("a")
    assert history.broken() == ["no partial gang"]


def test_no_pod_group_is_deleted_under_its_pods() -> None:
    """By the daemon; users may, and the daemon may once its pods are gone or done."""
    history = started(1, 1)
    history.drop("podgroups", "gang", "a")
    assert history.broken() == ["no PodGroup deleted under pods"]
    history = started(1, 1)
    history.drop("podgroups", "gang")
    assert history.broken() == []
    history = started(1, 1)
    history.put("pods", {**pod("p0"), "status": {"phase": "Succeeded"}})
    history.drop("podgroups", "gang", "a")
    assert history.broken() == []


def test_capability_is_kept() -> None:
    """The third cpu of two."""
    history = started(1, 3)
    history.put("queues", queue({"cpu": "2"}))
    history.later(20)
    history.leads("a")
    history.bind("p0", "n1")
    history.bind("p1", "n1")
    assert history.broken() == []
    history.bind("p2", "n1")
    assert history.broken() == ["no exceeded capability"]


def test_a_new_capability_may_be_unknown() -> None:
    """Until the watch has told the daemon."""
    history = started(1, 1)
    history.put("queues", queue({"cpu": "500m"}))
    history.bind("p0", "n1")
    assert history.broken() == []


def test_a_gang_without_nodes_is_not_partial() -> None:
    """One pod has succeeded, and the other is evicted."""
    history = started(2, 2)
    for name in ("p0", "p1"):
        history.bind(name, "n1")
        history.runs(name)
    done = {**pod("p0"), "status": {"phase": "Succeeded"}}
    history.put("pods", {**done, "spec": {**done["spec"], "nodeName": "n1"}})
    history.evict("p1")
    for _ in range(60):
        history.later(5)
        history.leads("a")
    assert history.broken() == []


def budgeted(minimum: int) -> History:
    """Two running pods, and a budget."""
    history = started(1, 2)
    selector = {"matchLabels": {"app": "gang"}}
    budget = {"metadata": meta("b", namespace="n")}
    budget["spec"] = {"selector": selector, "minAvailable": minimum}
    history.put("poddisruptionbudgets", budget)
    for name in ("p0", "p1"):
        history.bind(name, "n1")
        history.runs(name)
    history.later(10)
    history.leads("a")
    return history


def test_budgets_are_kept() -> None:
    """Of two pods, one may go."""
    history = budgeted(1)
    history.evict("p0")
    assert history.broken() == []
    history.evict("p1")
    assert history.broken() == ["no broken budget"]


def test_a_refused_eviction_breaks_no_budget() -> None:
    """The API server said no."""
    history = budgeted(2)
    history.evict("p0", code=429)
    assert history.broken() == []


@pytest.mark.parametrize(("pause", "rules"), [(0.2, ["pauses between retries"]), (0.5, [])])
def test_retries_have_pauses(pause: float, rules: list[str]) -> None:
    """The same eviction is refused thirty times."""
    history = budgeted(2)
    for _ in range(30):
        history.later(pause)
        history.evict("p0", code=429)
    assert history.broken() == rules


@pytest.mark.parametrize(
    ("stay", "pause", "rules"),
    [(1.0, 1.0, ["no evictions in a row"]), (1.0, 14.0, []), (10.0, 0.0, [])],
)
def test_pods_are_not_bound_and_evicted_in_a_row(
    stay: float, pause: float, rules: list[str]
) -> None:
    """Their owner makes new ones; six rounds are too many in a minute, unless pods stay a while."""
    history = started(1, 0)
    for number in range(6):
        history.put("pods", pod(f"p{number}"))
        history.bind(f"p{number}", "n1")
        history.later(stay)
        history.evict(f"p{number}")
        history.drop("pods", f"p{number}")
        history.later(pause)
        history.leads("a")
    assert history.broken() == rules


def test_many_evictions_at_once_are_one_round() -> None:
    """Of six pods that were bound together."""
    history = started(1, 0)
    for number in range(6):
        history.put("pods", pod(f"p{number}", cpu="100m"))
        history.bind(f"p{number}", "n1")
    for number in range(6):
        history.later(0.1)
        history.evict(f"p{number}")
    assert history.broken() == []


@pytest.mark.parametrize(("pause", "rules"), [(0.1, ["pauses between retries"]), (1.0, [])])
def test_who_is_asked_for_patience_has_some(pause: float, rules: list[str]) -> None:
    """The same write is refused seven times, because the API server is too busy."""
    history = started(1, 0)
    for _ in range(7):
        history.later(pause)
        history.put("podgroups", group(1), "a", code=429)
    assert history.broken() == rules


def test_two_parts_of_a_process_are_patient_each_for_itself() -> None:
    """Its scheduler and its controllers write to the same object, by chance one after the other."""
    history = started(1, 0)
    for _ in range(7):
        history.later(1.0)
        for manager in ("volcano", "vscheduler-controllers"):
            history.later(0.05)
            history.put("podgroups", group(1), "a", code=429, manager=manager)
    assert history.broken() == []


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        *(("cpu", "1", 1000), ("cpu", "100m", 100), ("cpu", "1n", 1), ("memory", "1Gi", 2**30)),
        *(
            ("memory", "100m", 1),
            ("memory", "1e3", 1000),
            ("memory", "2Ei", 2**61),
            ("pods", "1k", 1000),
            ("cpu", "x", 0),
        ),
    ],
)
def test_quantities(resource: str, text: str, amount: int) -> None:
    """Rounded up; what can't be read is nothing."""
    assert amounts.quantity(resource, text) == amount


@pytest.mark.parametrize(
    ("init", "cpu"),
    [
        ([], 1000),
        ([("3", "")], 3000),
        ([("1", "Always")], 2000),
        ([("1", "Always"), ("4", "")], 5000),
    ],
)
def test_requests_count_init_containers(init: Sequence[tuple[str, str]], cpu: int) -> None:
    """The largest of one after the other, with the sidecars that started before."""
    containers = [
        {"resources": {"requests": {"cpu": each}}, **({"restartPolicy": policy} if policy else {})}
        for each, policy in init
    ]
    assert amounts.request(pod("p", initContainers=containers))["cpu"] == cpu
