"""What a pod says about other pods is read whole, or refused with the field."""

from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.translate import pod_constraints
from vscheduler.model import constraints
from vscheduler.model.constraints import Constraints, PodSet, Requirement, Selector, Spread

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Operator = constraints.Operator
APP = Requirement("app", Operator.IN, ("db",))
DB = {"matchLabels": {"app": "db"}}


def read(spec: dict[str, Any], labels: dict[str, str] | None = None) -> Constraints:
    """The conditions of the pod `ns/p`."""
    found = manifests.read(manifests.pod("p", spec=spec, metadata={"labels": labels or {}}))
    assert isinstance(found, Pod)
    return pod_constraints.of_pod(found.spec, found.metadata)


def affinity(kind: str, strength: str, *terms: dict[str, Any]) -> dict[str, Any]:
    """A spec with these terms."""
    return {"affinity": {kind: {strength: list(terms)}}}


def pod_set(term: dict[str, Any], labels: dict[str, str] | None = None) -> PodSet:
    """Whom a term is about."""
    spec = affinity("podAffinity", REQUIRED, {"topologyKey": "zone", **term})
    (found,) = read(spec, labels).pod_affinity
    return found.pods


RED = Selector((Requirement("team", Operator.IN, ("red",)),))
SETS = {
    "the pod's own namespace": (
        {"labelSelector": DB},
        PodSet(("ns",), Selector((APP,))),
    ),
    "namespaces by name": (
        {"labelSelector": DB, "namespaces": ["b", "a", "a"]},
        PodSet(("a", "b"), Selector((APP,))),
    ),
    "namespaces by label, and no other": (
        {"labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "red"}}},
        PodSet((), Selector(), RED),
    ),
    "all namespaces": (
        {"labelSelector": {}, "namespaceSelector": {}},
        PodSet((), Selector(), Selector()),
    ),
    "no selector: no pod": ({}, PodSet(("ns",), None)),
    "labels that it shares, or must not": (
        {"labelSelector": DB, "matchLabelKeys": ["rev", "no"], "mismatchLabelKeys": ["cell"]},
        PodSet(
            ("ns",),
            Selector(
                (
                    APP,
                    Requirement("rev", Operator.IN, ("7",)),
                    Requirement("cell", Operator.NOT_IN, ("x",)),
                )
            ),
        ),
    ),
    "what the API server has merged already": (
        {"labelSelector": DB, "matchLabelKeys": ["app"]},
        PodSet(("ns",), Selector((APP,))),
    ),
}


@pytest.mark.parametrize(("term", "expected"), SETS.values(), ids=SETS)
def test_whom_a_term_is_about(term: dict[str, Any], expected: PodSet) -> None:
    """Namespaces, their labels, and labels of the pod itself."""
    assert pod_set(term, {"app": "db", "rev": "7", "cell": "x"}) == expected


def test_preferences_away_weigh_less_than_nothing() -> None:
    """Preferred affinity and anti-affinity are one list."""
    term = {"weight": 5, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": DB}}
    kinds = ("podAffinity", "podAntiAffinity")
    found = read({"affinity": {kind: {PREFERRED: [term]} for kind in kinds}})
    assert [each.weight for each in found.pod_preferred] == [5, -5]


def test_a_spread_is_read_whole() -> None:
    """Policies, domains, and labels that the pod shares."""
    found = read(
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 2,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": DB,
                    "matchLabelKeys": ["rev"],
                    "nodeAffinityPolicy": "Ignore",
                    "nodeTaintsPolicy": "Honor",
                },
                {"topologyKey": "host", "minDomains": 3, "labelSelector": {}},
            ]
        },
        {"rev": "7"},
    ).spread
    own = Requirement("rev", Operator.IN, ("7",))
    assert found == (
        Spread(
            pods=PodSet(("ns",), Selector((APP, own))),
            topology_key="zone",
            max_skew=2,
            hard=False,
            honours_affinity=False,
            honours_taints=True,
        ),
        Spread(pods=PodSet(("ns",), None), topology_key="host", min_domains=3),
    )


def test_on_its_node_a_pod_keeps_what_concerns_others() -> None:
    """Its spread and its selectors have done their work."""
    spec = affinity("podAntiAffinity", REQUIRED, {"topologyKey": "zone", "labelSelector": DB})
    spec |= {"nodeSelector": {"zone": "a"}, "topologySpreadConstraints": [{"topologyKey": "zone"}]}
    found = manifests.read(manifests.pod("p", spec=spec))
    assert isinstance(found, Pod)
    resident = pod_constraints.of_resident(found.spec, found.metadata)
    whole = pod_constraints.of_pod(found.spec, found.metadata)
    assert resident.pod_anti_affinity == whole.pod_anti_affinity != ()
    assert (resident.node_selector, resident.spread) == ((), ())


TERM = f"spec.affinity.podAffinity.{REQUIRED}[0]"
LIKE = f"spec.affinity.podAntiAffinity.{PREFERRED}[0]"
SPREAD = "spec.topologySpreadConstraints[0]"


def spread(**fields_: Any) -> dict[str, Any]:
    """A spec with this spread."""
    return {"topologySpreadConstraints": [{"topologyKey": "zone", **fields_}]}


WRONG = {
    f"{TERM}.topologyKey": affinity("podAffinity", REQUIRED, {"labelSelector": DB}),
    f"{TERM}.labelSelector.matchExpressions[0].operator": affinity(
        "podAffinity",
        REQUIRED,
        {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a"}]}},
    ),
    f"{LIKE}.weight": affinity("podAntiAffinity", PREFERRED, {"weight": 101}),
    f"{LIKE}.podAffinityTerm.topologyKey": affinity("podAntiAffinity", PREFERRED, {"weight": 1}),
    f"{SPREAD}.topologyKey": spread(topologyKey=""),
    f"{SPREAD}.maxSkew": spread(maxSkew=0),
    f"{SPREAD}.minDomains": spread(minDomains=0),
    f"{SPREAD}.whenUnsatisfiable": spread(whenUnsatisfiable="Never"),
    f"{SPREAD}.nodeAffinityPolicy": spread(nodeAffinityPolicy="Maybe"),
    f"{SPREAD}.nodeTaintsPolicy": spread(nodeTaintsPolicy="honor"),
}


@pytest.mark.parametrize(("field", "spec"), WRONG.items(), ids=WRONG)
def test_what_no_api_server_would_store_is_refused(field: str, spec: dict[str, Any]) -> None:
    """The field is named."""
    with pytest.raises(FieldError) as caught:
        read(spec)
    assert caught.value.field == field
