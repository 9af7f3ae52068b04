"""What manifests/monitoring asks for is what /metrics tells."""

import re

import msgspec
import prometheus_client.parser
import pytest

from tests import running
from tests.alerts import monitoring
from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.observability import metric_table
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.history.records import WriterStatus
from vscheduler.model.decisions import (
    Entitlement,
    Exclusion,
    Fault,
    FreeByTier,
    QueueFigures,
)
from vscheduler.model.queues import QueueState
from vscheduler.model.refusals import Refusal, RefusalCode

AMOUNTS = {"cpu": 1000, "memory": 2**30, "nvidia.com/gpu": 1}
CORDONED = Exclusion(refusal=Refusal(RefusalCode.CORDONED), nodes=("n1",))
QUEUE = QueueFigures(
    name="gold",
    state=QueueState.OPEN,
    weight=1,
    allocated=AMOUNTS,
    request=AMOUNTS,
    used_by_other_schedulers=AMOUNTS,
    entitlement=Entitlement(deserved=AMOUNTS, real_capability=AMOUNTS),
)
RESULT = msgspec.structs.replace(
    running.EMPTY,
    queues=(QUEUE,),
    total=AMOUNTS,
    excluded=(CORDONED,),
    free_by_tier=(FreeByTier(topology="", tier=1, free=AMOUNTS),),
    work={"placements": 1},
    faults=(Fault(plugin="p", hook="score_nodes", error="e"),),
)

NAME = re.compile(r"\b(?:(?:volcano|vscheduler)_\w+|leader_election_master_status)")
SELECTOR = re.compile(r"\b((?:volcano|vscheduler)_\w+)\{([^}]*)\}")


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of every series of a process that has seen all there is to see, by name."""
    observed = Metrics()
    observed.observe_cycle(RESULT, {"snapshot": 0.1, "decide": 0.1, "commit": 0.1})
    observed.observe_bind("bound", bound=True, seconds=1)
    observed.observe_claim("written")
    observed.observe_allocation("written")
    observed.observe_plans(claimed=1, victims=1)
    observed.observe_plan("reclaim")
    observed.observe_eviction("evicted")
    observed.observe_write("event", "written")
    observed.observe_group_call("create", "done")
    observed.observe_hook("p", "score_nodes", 0.5)
    observed.observe_dropped_cycle()
    observed.observe_stuck("cycle")
    observed.observe_stalled({"cycle": 0.5})
    observed.observe_failure("call")
    observed.observe_history(WriterStatus(lost=1, written=1, size=1))
    observed.observe_reload(successful=True, now=0)
    observed.observe_lease_status(LeaseStatus(lease="a", leads=True, holder="b"))
    observed.observe_renewal("a", 0.1, "renewed")
    observed.observe_rejected(rejected=1, ungrouped=1)
    text = observed.exposition().decode()
    labels: dict[str, set[str]] = {}
    for family in prometheus_client.parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def asked() -> list[tuple[str, str]]:
    """Where, and what: every expression of rules and dashboard."""
    rules = [(rule["alert"], rule["expr"]) for rule in monitoring.alerts()]
    return [*rules, *monitoring.queries(), *monitoring.variables()]


def test_every_metric_of_the_table_is_exported(exported: dict[str, set[str]]) -> None:
    """So whatever isn't exported below isn't anywhere."""
    missing = [
        row.name
        for row in metric_table.EVERY
        if not any(name.startswith(row.name) for name in exported)
    ]
    assert missing == []


def test_rules_and_dashboard_ask_for_what_is_exported(exported: dict[str, set[str]]) -> None:
    """A renamed metric would leave an empty panel, or an alert that never fires."""
    assert len(asked()) > 30
    for place, expression in asked():
        names = NAME.findall(expression)
        assert names, place
        assert {name for name in names if name not in exported} == set(), place


def test_selectors_and_groupings_name_labels_that_series_have(
    exported: dict[str, set[str]],
) -> None:
    """Besides those that Prometheus adds: job, instance, pod."""
    added = {"job", "instance", "pod"}
    for place, expression in asked():
        for name, matchers in SELECTOR.findall(expression):
            labels = set(re.findall(r"(\w+)\s*(?:=|!)", matchers))
            assert labels - added <= exported[name], place
        known = added.union(*(exported[name] for name in NAME.findall(expression)))
        for listed in re.findall(r"\b(?:by|without|ignoring|on) \(([^)]*)\)", expression):
            assert set(listed.split(", ")) <= known, place


def test_legends_and_annotations_name_labels_that_are_left() -> None:
    """A label that the query doesn't keep would show up empty."""
    for panel in monitoring.dashboard()["panels"]:
        for target in panel.get("targets", ()):
            kept = {
                label.strip()
                for listed in re.findall(r"\bby \(([^)]*)\)", target["expr"])
                for label in listed.split(",")
            }
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_the_rules_are_a_prometheus_rule() -> None:
    """As the Prometheus operator's API has it; each alert says what, how bad and what to do."""
    loaded = monitoring.rules()
    assert (loaded["apiVersion"], loaded["kind"]) == (
        "monitoring.coreos.com/v1",
        "PrometheusRule",
    )
    assert loaded.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert loaded["spec"].keys() == {"groups"}
    for group in loaded["spec"]["groups"]:
        assert group.keys() == {"name", "rules"}
    for rule in monitoring.alerts():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert re.fullmatch("Vscheduler[A-Za-z]+", rule["alert"])


def test_every_alert_has_cases_in_which_it_fires_and_in_which_it_does_not() -> None:
    """Under promtool, by `make test-alerts`."""
    fires: set[str] = set()
    rests: set[str] = set()
    for case in monitoring.CASES:
        for test in monitoring.loaded(case)["tests"]:
            for check in test["alert_rule_test"]:
                (fires if check["exp_alerts"] else rests).add(check["alertname"])
    names = {rule["alert"] for rule in monitoring.alerts()}
    assert len(names) == len(monitoring.alerts())
    assert fires == names
    assert rests == names


def test_every_alert_is_documented() -> None:
    """docs/metrics.md has a row for each, and none that isn't there."""
    text = (monitoring.ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(Vscheduler\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(rule["alert"] for rule in monitoring.alerts())


def test_the_dashboard_is_what_the_sidecar_of_grafana_loads() -> None:
    """A ConfigMap with its label; panels don't overlap, ids and references are right."""
    assert monitoring.dashboard_object()["metadata"]["labels"]["grafana_dashboard"] == "1"
    loaded = monitoring.dashboard()
    panels = loaded["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (panel["gridPos"]["x"] + across, panel["gridPos"]["y"] + down)
        for panel in panels
        for across in range(panel["gridPos"]["w"])
        for down in range(panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(across for across, _ in places) < 24
    names = {variable["name"] for variable in loaded["templating"]["list"]}
    assert names >= {"datasource", "queue"}
    used = set(re.findall(r"\$\{?(\w+)", str(loaded)))
    assert used == {*names, "__rate_interval", "__all"}
