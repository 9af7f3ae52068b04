from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import differences, manifests, ours, special_cases
from tests.oracle.differences import Difference, Explanations

DOCS = Path(__file__).parents[2] / "docs" / "kube-scheduler.md"
NAMESPACES = [
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": dict(labels)},
    }
    for name, labels in manifests.NAMESPACES.items()
]
NUMBERED = list(enumerate(special_cases.CASES))


@pytest.mark.parametrize(
    ("number", "case"), NUMBERED, ids=[case["case"].replace(" ", "-") for _, case in NUMBERED]
)
def test_special_cases(number: int, case: Mapping[str, Any]) -> None:
    """The nodes that kube-scheduler lets the probe onto, but for differences that are meant."""
    world = special_cases.world(number)
    (probe,) = world.waiting
    asked = {**probe, "spec": {**probe["spec"], "schedulerName": manifests.ORACLE}}
    documents = [*NAMESPACES, *world.nodes, *world.standing, asked]
    verdict = ours.verdicts(documents)[manifests.key(probe)]
    assert verdict == set(case.get("ours", case["kube"]))
    explanations = Explanations(documents)
    for node in verdict ^ set(case["kube"]):
        kube = node in case["kube"]
        assert explanations.why(manifests.key(probe), node, kube=kube) == case["difference"]


@pytest.mark.parametrize("difference", differences.TABLE, ids=lambda each: each.name)
def test_differences_are_documented(difference: Difference) -> None:
    """With their reasons, in the table of filters."""
    filters = DOCS.read_text().partition("## Filters")[2].partition("\n## ")[0]
    rows = [line for line in filters.splitlines() if line.startswith("| ")]
    assert [row for row in rows if difference.docs in row and difference.why in row]
