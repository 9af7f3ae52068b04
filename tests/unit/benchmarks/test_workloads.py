"""Pods with constraints, and the table that compares schedulers by them."""

from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks import competitors, workload_runs, workloads
from tests.benchmarks.loading import Customer
from tests.benchmarks.workload_runs import Measured
from tests.benchmarks.workloads import Workload

CUSTOMER = Customer(scheduler="someone", grouped=False)
NODES = [f"node-{number}" for number in range(10)]
NAMES = [workload.name for workload in workloads.ALL]
BENCHMARKS = Path(__file__).parents[3] / "docs" / "benchmarks.md"


@pytest.mark.parametrize("workload", workloads.ALL, ids=lambda workload: workload.name)
def test_sizes_are_those_of_the_pods(workload: Workload) -> None:
    """Running pods have nodes, the same number each; all others have none."""
    pods = list(workload.pods(CUSTOMER, NODES))
    names = [pod["metadata"]["name"] for pod in pods]
    kinds = Counter(name.rpartition("-")[0] for name in names)
    made, waiting, stuck = workload.sizes(len(NODES))
    assert (kinds["running"], kinds["waiting"], kinds["stuck"]) == (made, waiting, stuck)
    assert len(set(names)) == len(names)
    places = Counter(pod["spec"].get("nodeName") for pod in pods)
    assert places.pop(None) == waiting + stuck
    assert places == dict.fromkeys(NODES, workload.running_each)


@pytest.mark.parametrize("workload", workloads.ALL, ids=lambda workload: workload.name)
def test_there_is_room_for_all_that_wait(workload: Workload) -> None:
    """Else a run would never end."""
    pods = list(workload.pods(CUSTOMER, NODES))
    asked = Counter[str]()
    for pod in pods:
        kind = pod["metadata"]["name"].rpartition("-")[0]
        if kind == "running" and workload.evicts:
            continue
        if kind != "stuck":
            (container,) = pod["spec"]["containers"]
            asked[kind] += int(container["resources"]["requests"]["cpu"])
    assert asked.total() <= 32 * len(NODES)


def test_what_pods_refer_to_has_their_number() -> None:
    """Claims and secrets are made for the numbers of all pods."""
    for name, field in (("CSI volumes", "persistentVolumeClaim"), ("secrets", "secret")):
        (workload,) = (each for each in workloads.ALL if each.name == name)
        made, waiting, _ = workload.sizes(len(NODES))
        used = [
            pod["spec"]["volumes"][0][field]["claimName" if name == "CSI volumes" else "secretName"]
            for pod in workload.pods(CUSTOMER, NODES)
        ]
        assert len(set(used)) == made + waiting
        assert {each.rpartition("-")[2] for each in used} == set(map(str, range(made + waiting)))


def test_pods_have_no_pod_group() -> None:
    """kube-scheduler's have none either."""
    for workload in workloads.ALL:
        for competitor in workload_runs.competing(workload):
            for pod in workload.pods(competitor.customer, NODES):
                assert "annotations" not in pod["metadata"]
                assert pod["spec"]["schedulerName"] == competitor.customer.scheduler


def test_the_table_has_medians_and_who_is_quicker() -> None:
    """A scheduler without a run has none."""

    def measured(competitor: str, window: float, name: str = "secrets") -> Measured:
        return Measured(
            workload=name,
            competitor=competitor,
            nodes=5,
            pods=101,
            window=window,
            makespan=window + 1,
            cpu=window / 2,
            evicted=0,
        )

    theirs, ours = competitors.KUBE_SCHEDULER, competitors.VSCHEDULER
    several = [measured(theirs, window) for window in (1.0, 2.0, 9.0)]
    several += [measured(ours, 1.0), measured(ours, 1.0, "preemption")]
    _, _, secrets, preemption = workload_runs.table(several)
    assert secrets == "| secrets | 101 | 50 | 100 | 2.0 | 1.0 / 0.5 |"
    assert preemption == "| preemption | 101 | none | 100 |  | none / 0.5 |"


def test_every_workload_has_a_row_in_the_docs() -> None:
    """With the figures that were measured last."""
    text = BENCHMARKS.read_text(encoding="utf-8")
    assert [name for name in NAMES if f"| {name} |" not in text] == []
