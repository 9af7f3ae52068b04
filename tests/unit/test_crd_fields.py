"""The CRDs as files: the contract with clients, which needs no API server to be checked."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests import crd_cases

# Every field that Volcano's clients read or write, one level per dot, [] for a list's items and
# {} for a map's values; the last lines of queues are the project's own.
FIELDS = {
    "queues": """
        spec.weight                        integer   spec.capability{}             quantity
        spec.deserved{}                    quantity  spec.guarantee.resource{}     quantity
        spec.reclaimable                   boolean   spec.parent                   string
        spec.priority                      integer   spec.type                     string
        spec.extendClusters[].name         string    spec.extendClusters[].weight  integer
        spec.extendClusters[].capacity{}   quantity  spec.dequeueStrategy          string
        spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution[]      string
        spec.affinity.nodeGroupAffinity.preferredDuringSchedulingIgnoredDuringExecution[]     string
        spec.affinity.nodeGroupAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]  string
        spec.affinity.nodeGroupAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[] string
        status.state                       string    status.allocated{}            quantity
        status.pending                     integer   status.inqueue                integer
        status.running                     integer   status.unknown                integer
        status.completed                   integer   status.reservation.nodes[]    string
        status.reservation.resource{}      quantity
        status.deserved{}                  quantity  status.request{}              quantity
        status.realCapability{}            quantity  status.share                  number
        status.schedulers[].name           string    status.schedulers[].share     number
        status.schedulers[].allocated{}    quantity  status.schedulers[].deserved{} quantity
        status.conditions[].type           string    status.conditions[].status    string
        status.conditions[].reason         string    status.conditions[].message   string
        status.conditions[].lastTransitionTime       string
        status.conditions[].observedGeneration       integer
    """,
    "podgroups": """
        spec.minMember                     integer   spec.minTaskMember{}          integer
        spec.queue                         string    spec.priorityClassName        string
        spec.minResources{}                quantity  spec.networkTopology.mode     string
        spec.networkTopology.highestTierAllowed      integer
        spec.networkTopology.highestTierName         string
        spec.subGroupPolicy[].name         string    spec.subGroupPolicy[].subGroupSize integer
        spec.subGroupPolicy[].minSubGroups integer   spec.subGroupPolicy[].matchLabelKeys[] string
        spec.subGroupPolicy[].labelSelector.matchLabels{}                 string
        spec.subGroupPolicy[].labelSelector.matchExpressions[].key        string
        spec.subGroupPolicy[].labelSelector.matchExpressions[].operator   string
        spec.subGroupPolicy[].labelSelector.matchExpressions[].values[]   string
        spec.subGroupPolicy[].networkTopology.mode               string
        spec.subGroupPolicy[].networkTopology.highestTierAllowed integer
        spec.subGroupPolicy[].networkTopology.highestTierName    string
        status.phase                       string    status.running                integer
        status.succeeded                   integer   status.failed                 integer
        status.conditions[].type           string    status.conditions[].status    string
        status.conditions[].reason         string    status.conditions[].message   string
        status.conditions[].lastTransitionTime       string
        status.conditions[].transitionID   string
    """,
    "hypernodes": """
        spec.tier                          integer   spec.tierName                 string
        spec.members[].type                string    spec.members[].selector.exactMatch.name string
        spec.members[].selector.regexMatch.pattern                        string
        spec.members[].selector.labelMatch.matchLabels{}                  string
        spec.members[].selector.labelMatch.matchExpressions[].key         string
        spec.members[].selector.labelMatch.matchExpressions[].operator    string
        spec.members[].selector.labelMatch.matchExpressions[].values[]    string
        status.nodeCount                   integer
        status.conditions[].type           string    status.conditions[].status    string
        status.conditions[].reason         string    status.conditions[].message   string
        status.conditions[].lastTransitionTime       string
        status.conditions[].observedGeneration       integer
    """,
}

# What the file promises and no object in the integration tests comes near.
LIMITS: dict[str, dict[str, tuple[str, object]]] = {
    "queues": {
        "status.conditions": ("maxItems", 64),
        "status.conditions[].type": ("maxLength", 316),
        "status.conditions[].reason": ("maxLength", 1024),
        "status.conditions[].message": ("maxLength", 32768),
    },
    "podgroups": {
        "spec.queue": ("maxLength", 253),
        "spec.priorityClassName": ("maxLength", 253),
        "spec.networkTopology.highestTierName": ("maxLength", 253),
        "spec.subGroupPolicy": ("maxItems", 1024),
        "spec.subGroupPolicy[].name": ("maxLength", 253),
        "spec.subGroupPolicy[].networkTopology.highestTierName": ("maxLength", 253),
        "spec.subGroupPolicy[].labelSelector": ("x-kubernetes-map-type", "atomic"),
        "spec.subGroupPolicy[].labelSelector.matchExpressions": ("maxItems", 64),
    },
    "hypernodes": {
        "spec.tier": ("maximum", 2147483647),
        "spec.tierName": ("maxLength", 253),
        "spec.members": ("maxItems", 10000),
        "spec.members[].selector.exactMatch.name": ("maxLength", 253),
        "spec.members[].selector.regexMatch.pattern": ("maxLength", 1024),
        "spec.members[].selector.labelMatch": ("x-kubernetes-map-type", "atomic"),
        "spec.members[].selector.labelMatch.matchLabels": ("maxProperties", 64),
        "spec.members[].selector.labelMatch.matchExpressions": ("maxItems", 16),
        "spec.members[].selector.labelMatch.matchExpressions[].values": ("maxItems", 1024),
        "status.conditions": ("maxItems", 64),
    },
}


def schema(plural: str) -> dict[str, Any]:
    """The schema of the CRD's one version."""
    (version,) = crd_cases.definition(plural)["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def walk(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node below this one with its path, the node itself first."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}" if path else name)
    if "items" in node:
        yield from walk(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from walk(node["additionalProperties"], f"{path}{{}}")


def kind_of(node: dict[str, Any]) -> str:
    """The node's type, with `quantity` for numbers that may have a unit."""
    return "quantity" if "x-kubernetes-int-or-string" in node else str(node["type"])


@pytest.mark.parametrize("plural", FIELDS)
def test_schema_has_exactly_the_fields_that_clients_know(plural: str) -> None:
    """No field of Volcano's is missing, retyped, or added without being listed here."""
    words = FIELDS[plural].split()
    expected = dict(zip(words[::2], words[1::2], strict=True))
    leaves = {
        path: kind_of(node)
        for path, node in walk(schema(plural))
        if path.startswith(("spec.", "status.")) and kind_of(node) not in ("object", "array")
    }
    assert leaves == expected


@pytest.mark.parametrize("plural", FIELDS)
def test_every_field_is_described_and_every_rule_has_a_message(plural: str) -> None:
    """`kubectl explain` has a sentence for each field, and a refusal says what to do."""
    for path, node in walk(schema(plural)):
        if path != "metadata" and not path.endswith(("[]", "{}")):
            assert node.get("description", "").endswith("."), path
        for rule in node.get("x-kubernetes-validations", []):
            assert rule["message"], path


@pytest.mark.parametrize("plural", FIELDS)
def test_what_rules_loop_over_is_bounded(plural: str) -> None:
    """Maps of quantities and their values have a bound, which the cost of rules is reckoned by."""
    for path, node in walk(schema(plural)):
        if kind_of(node) == "quantity":
            assert node["maxLength"] == 64, path
        if node.get("additionalProperties", {}).get("x-kubernetes-int-or-string"):
            assert node["maxProperties"] == 64, path


@pytest.mark.parametrize("plural", LIMITS)
def test_limits_are_as_documented(plural: str) -> None:
    """A limit that is lowered, raised or lost changes what users can rely on."""
    nodes = dict(walk(schema(plural)))
    for path, (key, most) in LIMITS[plural].items():
        assert nodes[path].get(key) == most, path


@pytest.mark.parametrize("plural", FIELDS)
def test_documentation_has_a_row_for_every_field(plural: str) -> None:
    """docs/crds.md names each field, so that none is added in silence."""
    text = (crd_cases.CRDS.parent / "docs" / "crds.md").read_text()
    words = FIELDS[plural].split()
    missing = [path for path in words[::2] if f"`{path.strip('[]{}')}`" not in text]
    assert missing == []
