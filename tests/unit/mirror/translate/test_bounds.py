"""A pod that asks for more than is looked at waits and says why; one that runs costs little."""

from typing import Any

import msgspec
import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.model import pod_affinity
from vscheduler.model.constraints import PodSet, PodTerm, Selector
from vscheduler.model.jobs import InvalidPod
from vscheduler.model.pod_affinity import AffinityEffect, AffinityTermOfPods

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SMALL = Bounds(
    max_pod_affinity_terms=3,
    max_pod_affinity_values=15,
    max_pod_selector_values=20,
    max_pod_topology_spreads=2,
    max_pod_tolerations=2,
    max_pod_resources=4,
    max_pod_bytes=4000,
    max_podgroup_bytes=4000,
)
Spec = dict[str, Any]


def term(number: int = 0, key: str = "host", **more: Any) -> Spec:
    """A term about pods with a label of this number."""
    return {
        "topologyKey": key,
        "labelSelector": {"matchLabels": {f"k{number}": "v"}},
        **more,
    }


def apart(*terms: Spec) -> Spec:
    """Required anti-affinity."""
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def both(count: int) -> Spec:
    """One term of affinity, and the rest, preferences of anti-affinity."""
    liked = [{"weight": 1, "podAffinityTerm": term(number)} for number in range(count - 1)]
    affinity = {"podAffinity": {REQUIRED: [term()]}, "podAntiAffinity": {PREFERRED: liked}}
    return {"affinity": affinity}


def on_nodes(values: int) -> Spec:
    """A node affinity of one term with one expression, and a node selector of one label."""
    listed = [str(number) for number in range(values - 3)]
    expressions = [{"key": "zone", "operator": "In", "values": listed}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeSelector": {"a": "b"}, "affinity": {"nodeAffinity": {REQUIRED: required}}}


def of_pods(values: int) -> Spec:
    """One term that names a namespace and pods by one expression."""
    listed = [str(number) for number in range(values - 3)]
    labels = {"matchExpressions": [{"key": "app", "operator": "In", "values": listed}]}
    return apart(
        term(
            labelSelector=labels,
            namespaces=["other"],
            namespaceSelector={"matchLabels": {"team": "red"}},
        )
    )


def spread(count: int) -> Spec:
    """Topology spread constraints."""
    one = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [one] * count}


def tolerating(count: int) -> Spec:
    """Tolerations."""
    return {"tolerations": [{"key": f"t{number}", "operator": "Exists"} for number in range(count)]}


def of_resources(count: int) -> Spec:
    """Requests of so many resources, a pod slot included."""
    requests = {f"example.com/r{number}": "1" for number in range(count - 1)}
    return {"containers": [{"name": "c", "resources": {"requests": requests}}]}


CASES = {
    "max_pod_affinity_terms": (both, "spec.affinity", "pod affinity terms"),
    "max_pod_topology_spreads": (
        spread,
        "spec.topologySpreadConstraints",
        "topology spread constraints",
    ),
    "max_pod_tolerations": (tolerating, "spec.tolerations", "tolerations"),
    "max_pod_resources": (of_resources, "spec.containers", "resources"),
}


def rejected(spec: Spec, most: Bounds = SMALL, **pod: Any) -> InvalidPod | None:
    """What is wrong with a pod of ours that waits, if something is."""
    seen = manifests.mirror(
        manifests.group("g"), manifests.pod("p", group="g", spec=spec, **pod), most=most
    )
    (job,) = seen.snapshot(0.0).jobs
    assert len(job.tasks) + len(job.rejections) == 1
    return job.rejections[0] if job.rejections else None


@pytest.mark.parametrize("bound", CASES)
def test_at_its_bound_a_pod_is_looked_at_and_beyond_it_waits(bound: str) -> None:
    """It is told what it asks for, how much is looked at, and the setting."""
    make, field, what = CASES[bound]
    most = getattr(SMALL, bound)
    assert rejected(make(most)) is None
    found = rejected(make(most + 1))
    assert found is not None
    assert found.field == field
    assert found.message == (
        f"asks for {most + 1} {what}; at most {most} are looked at (--{bound.replace('_', '-')})"
    )


@pytest.mark.parametrize(
    ("make", "bound", "what"),
    [
        (on_nodes, "max_pod_selector_values", "its selectors"),
        (of_pods, "max_pod_affinity_values", "its selectors of pods"),
    ],
)
def test_all_that_selectors_list_is_counted_together(make: Any, bound: str, what: str) -> None:
    """Labels, expressions, values, namespaces and terms, of nodes or of pods."""
    most = getattr(SMALL, bound)
    assert rejected(make(most)) is None
    found = rejected(make(most + 1))
    assert found is not None
    assert found.field == "spec"
    assert found.message == (
        f"asks for {most + 1} values in {what}; at most {most} are looked at "
        f"(--{bound.replace('_', '-')})"
    )


def test_selectors_of_nodes_and_pods_are_counted_together_too() -> None:
    """Each for itself would be fine."""
    spec = on_nodes(SMALL.max_pod_selector_values)
    spec["affinity"] |= of_pods(10)["affinity"]
    found = rejected(spec)
    assert found is not None
    assert found.message.startswith("asks for 30 values in its selectors; at most 20")


@pytest.mark.parametrize("part", ["spec", "labels"])
def test_a_pod_of_which_too_much_is_to_be_read_waits(part: str) -> None:
    """What isn't read doesn't count: neither environment nor annotations."""
    most = msgspec.structs.replace(SMALL, max_pod_selector_values=10**6)
    unread = {"containers": [{"name": "c", "env": [{"name": "A", "value": "x" * 10_000}]}]}
    annotations = {"scheduling.k8s.io/group-name": "g", "note": "x" * 10_000}
    assert rejected(unread, most, metadata={"annotations": annotations}) is None
    if part == "spec":
        found = rejected({"nodeSelector": {"a": "x" * 4000}}, most)
    else:
        found = rejected({}, most, metadata={"labels": {"a": "x" * 4000}})
    assert found is not None
    assert found.field == ""
    assert found.message.endswith("bytes; at most 4000 are looked at (--max-pod-bytes)")


def test_a_refused_pod_costs_nothing_and_is_taken_once_it_asks_for_less() -> None:
    """None of its conditions is kept; the pod in its place is a task."""
    many = manifests.pod("p", group="g", spec=apart(*map(term, range(9))), version=1)
    seen = manifests.mirror(manifests.group("g"), many, most=SMALL)
    assert seen.snapshot(0.0).affinity_index == pod_affinity.NOBODY
    few = manifests.pod("p", group="g", spec=apart(term()), version=2)
    seen.apply(manifests.event_of(few))
    (job,) = seen.snapshot(0.0).jobs
    assert (len(job.tasks), job.rejections) == (1, ())
    assert not seen.rejections


LONG = "x" * 4000
LARGE = {
    "a role": {"spec": {"minTaskMember": {LONG: 1}}},
    "a resource": {"spec": {"minResources": {LONG: "1"}}},
    "a sub-group": {"spec": {"subGroupPolicy": [{"name": LONG}]}},
    "a label": {"metadata": {"labels": {"a": LONG}}},
    "an annotation": {"metadata": {"annotations": {"a": LONG}}},
    "a condition": {"status": {"conditions": [{"type": "T", "message": LONG}]}},
}


@pytest.mark.parametrize("part", LARGE.values(), ids=LARGE)
def test_nothing_of_a_podgroup_is_kept_that_is_too_large(part: dict[str, Any]) -> None:
    """Whatever makes it large; its pods wait, and start once it is smaller."""
    small = manifests.group("g")
    large = {**small, **{name: {**small.get(name, {}), **each} for name, each in part.items()}}
    seen = manifests.mirror(large, manifests.pod("p", group="g"), most=SMALL)
    (found,) = seen.rejections.values()
    assert (found.key, found.field) == ("ns/g", "")
    assert found.message.endswith("bytes; at most 4000 are looked at (--max-podgroup-bytes)")
    assert len(found.message) < 100
    assert not seen.snapshot(0.0).jobs
    seen.apply(manifests.event_of(small))
    assert not seen.rejections
    assert [len(job.tasks) for job in seen.snapshot(0.0).jobs] == [1]


def test_what_is_not_read_of_a_podgroup_does_not_count() -> None:
    """Its managed fields, for example, which are none of ours."""
    large = manifests.group("g")
    large["metadata"]["managedFields"] = [{"manager": LONG}]
    assert not manifests.mirror(large, most=SMALL).rejections


def affinity_terms(*documents: Document, most: Bounds = SMALL) -> list[AffinityTermOfPods]:
    """What pods on nodes carry."""
    seen = manifests.mirror(*documents, most=most)
    assert not seen.rejections
    return list(seen.snapshot(0.0).affinity_index.term_counts)


ANYBODY = Selector()


@pytest.mark.parametrize("scheduler", [manifests.OURS, "default-scheduler"])
def test_a_running_pod_beyond_the_bound_keeps_away_all_that_its_terms_could(
    scheduler: str,
) -> None:
    """One condition for each label of nodes, however many terms; what is preferred is left out."""
    spec = apart(
        *map(term, range(5)),
        term(5, namespaces=["b", "a"]),
        term(6, "zone", namespaces=["c"], namespaceSelector={"matchLabels": {"x": "y"}}),
        term(7, "rack", labelSelector=None),
    )
    spec["affinity"] |= both(2)["affinity"] | spec["affinity"]
    found = affinity_terms(manifests.pod("p", node="n1", spec=spec, scheduler=scheduler))
    assert set(found) == {
        AffinityTermOfPods(
            AffinityEffect.REPELS,
            PodTerm(PodSet(("a", "b", "ns"), ANYBODY), "host"),
        ),
        AffinityTermOfPods(
            AffinityEffect.REPELS,
            PodTerm(PodSet((), ANYBODY, ANYBODY), "zone"),
        ),
    }


def test_required_distance_is_exact_where_only_the_rest_is_too_much() -> None:
    """Preferences are left out first."""
    spec = both(9)
    spec["affinity"]["podAntiAffinity"][REQUIRED] = [term(1), term(2)]
    found = affinity_terms(manifests.pod("p", node="n1", spec=spec))
    exact = affinity_terms(manifests.pod("p", node="n1", spec=apart(term(1), term(2))))
    assert set(found) == set(exact)
    assert len(exact) == 2


def test_so_many_labels_of_nodes_and_namespaces_are_told_apart() -> None:
    """Beyond that, the first labels by name, and every namespace."""
    spec = apart(*(term(0, f"k{number}") for number in range(9)))
    found = affinity_terms(manifests.pod("p", node="n1", spec=spec))
    assert {each.term.topology_key for each in found} == {"k0", "k1", "k2"}
    spec = apart(*(term(number, namespaces=[f"ns{number}"]) for number in range(9)))
    (only,) = affinity_terms(manifests.pod("p", node="n1", spec=spec))
    assert only.term.pods == PodSet((), ANYBODY, ANYBODY)


def test_a_running_pod_of_ours_stays_a_task_with_its_node_selector() -> None:
    """Only what is too much is cut short."""
    spec = apart(*map(term, range(9))) | {"nodeSelector": {"a": "b"}}
    seen = manifests.mirror(
        manifests.group("g"), manifests.pod("p", group="g", node="n1", spec=spec), most=SMALL
    )
    (job,) = seen.snapshot(0.0).jobs
    assert job.tasks[0].pod_class.constraints.node_selector == (("a", "b"),)
    assert len(job.tasks[0].pod_class.constraints.pod_anti_affinity) == 1


def test_a_pod_that_was_bound_before_a_bound_was_set_keeps_its_room() -> None:
    """As it is decided by the node that it has, and the same class is known again."""
    seen = Mirror(Options(scheduler_names=(manifests.OURS,), most=SMALL))
    for node in ("n1", "n2"):
        seen.apply(manifests.event_of(manifests.node(node)))
        pod = manifests.pod(f"on-{node}", node=node, spec=apart(*map(term, range(9))))
        seen.apply(manifests.event_of(pod))
    table = seen.snapshot(0.0).nodes
    assert (table.used > 0).any(axis=1).all()
