"""The manifests of manifests/monitoring as promtool and tests want them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "manifests" / "monitoring"
RULES = "vscheduler-alerts.yaml"
DASHBOARD = "vscheduler-dashboard.yaml"
CASES = sorted(Path(__file__).parent.glob("*.yaml"))

VARIABLES = {"__rate_interval": "5m"}
"""What stands for Grafana's variables that aren't inside a string."""


def loaded(path: Path) -> dict[str, Any]:
    """The one object of a file."""
    whole: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return whole


def rules() -> dict[str, Any]:
    """The PrometheusRule."""
    return loaded(FOLDER / RULES)


def alerts() -> list[dict[str, Any]]:
    """Its alerts."""
    return [rule for group in rules()["spec"]["groups"] for rule in group["rules"]]


def dashboard_object() -> dict[str, Any]:
    """The ConfigMap that holds the dashboard."""
    return loaded(FOLDER / DASHBOARD)


def dashboard() -> dict[str, Any]:
    """The dashboard itself."""
    (text,) = dashboard_object()["data"].values()
    whole: dict[str, Any] = json.loads(text)
    return whole


def queries() -> Iterator[tuple[str, str]]:
    """Panel and expression of every query of the dashboard, as Prometheus gets them."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], interpolated(target["expr"])


def variables() -> Iterator[tuple[str, str]]:
    """Name and metric selector of every variable that is asked of Prometheus."""
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            (selector,) = re.findall(r"^label_values\((.+), \w+\)$", variable["definition"])
            yield variable["name"], interpolated(selector)


def interpolated(expression: str) -> str:
    """A query with some value in place of each of Grafana's variables."""
    return re.sub(r"\$(\w+)", lambda found: VARIABLES.get(found[1], "x"), expression)


def as_rules() -> dict[str, Any]:
    """The dashboard's queries as recording rules, for promtool reads only these."""
    asked = [*queries(), *variables()]
    return {
        "groups": [
            {
                "name": "dashboard",
                "rules": [
                    {"record": f"dashboard:query:{number}", "expr": expression}
                    for number, (_, expression) in enumerate(asked)
                ],
            }
        ]
    }
