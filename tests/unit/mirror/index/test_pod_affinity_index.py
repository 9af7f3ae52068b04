"""Who is where is counted for those who ask, and for nobody else."""

from typing import Any

import pytest

from tests.unit.mirror import manifests
from vscheduler.mirror.state import Mirror
from vscheduler.model import pod_affinity
from vscheduler.model.constraints import Operator, PodSet, Requirement, Selector
from vscheduler.model.jobs import TaskId
from vscheduler.model.pod_affinity import AffinityEffect, PodAffinityIndex, SelectorIndex

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DB = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}


def near(**term: Any) -> dict[str, Any]:
    """The spec of a pod that must be near some."""
    return {"affinity": {"podAffinity": {REQUIRED: [{**DB, **term}]}}}


def apart() -> dict[str, Any]:
    """The spec of a pod that must be away from databases."""
    return {"affinity": {"podAntiAffinity": {REQUIRED: [DB]}}}


def labelled(name: str, app: str, node: str = "n1", **rest: Any) -> dict[str, Any]:
    """A pod with a label, on a node."""
    metadata = {"labels": {"app": app}, **rest.pop("metadata", {})}
    return manifests.pod(name, node=node, metadata=metadata, **rest)


def show(seen: Mirror, *documents: dict[str, Any]) -> PodAffinityIndex:
    """What is counted after these."""
    for document in documents:
        seen.apply(manifests.event_of(document))
    return seen.snapshot(0.0).affinity_index


def seats(found: PodAffinityIndex) -> dict[str, tuple[int, int]]:
    """The only company that is counted."""
    (only,) = found.pod_set_counts.values()
    return dict(only)


def test_without_conditions_on_pods_nothing_is_counted() -> None:
    """The common case: no counts, and no pod is looked at."""
    seen = manifests.mirror()
    assert show(seen, labelled("a", "db"), manifests.pod("w")) == pod_affinity.NOBODY
    assert seen.work["residents"] == 0


def test_counts_follow_pods() -> None:
    """A pod comes, starts to leave, and is gone; one that has finished doesn't count."""
    seen = manifests.mirror(manifests.pod("w", spec=near()))
    assert seats(show(seen, labelled("a", "db"), labelled("b", "web"))) == {"n1": (1, 0)}
    leaving = labelled("a", "db", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert seats(show(seen, leaving)) == {"n1": (0, 1)}
    assert seats(show(seen, labelled("c", "db", "n2"))) == {"n1": (0, 1), "n2": (1, 0)}
    seen.apply(manifests.removal_of(leaving))
    assert seats(show(seen, labelled("c", "db", "n2", phase="Succeeded"))) == {}


def test_a_label_that_changes_moves_the_pod() -> None:
    """Labels of running pods may be changed by hand."""
    seen = manifests.mirror(manifests.pod("w", spec=near()), labelled("a", "web"))
    assert seats(show(seen)) == {}
    assert seats(show(seen, labelled("a", "db"))) == {"n1": (1, 0)}


def test_who_waits_no_more_asks_no_more() -> None:
    """A pod that is bound asks nothing; what it carries with it is counted from then on."""
    seen = manifests.mirror(manifests.pod("w", spec=near()))
    before = show(seen)
    (term,) = before.term_counts
    assert term.effect is AffinityEffect.DRAWS
    assert before.term_counts == {term: {}}
    after = show(seen, manifests.pod("w", node="n1", spec=near()))
    assert after.pod_set_counts == {}
    assert after.term_counts == {term: {"n1": (1, 0)}}


def test_what_a_pod_carries_goes_with_it() -> None:
    """Also where nobody waits, and where the pod changes on its node."""
    seen = manifests.mirror()
    (term,) = show(seen, labelled("a", "web", spec=apart())).term_counts
    assert show(seen).term_counts == {term: {"n1": (1, 0)}}
    assert show(seen, labelled("a", "web", node="n2", spec=apart())).term_counts == {
        term: {"n2": (1, 0)}
    }
    seen.apply(manifests.removal_of(labelled("a", "web")))
    assert show(seen).term_counts == {}


def test_pods_of_other_schedulers_count_and_carry() -> None:
    """They are neighbours like ours; while they wait they ask nothing of us."""
    seen = manifests.mirror(manifests.pod("w", spec=near()))
    other = labelled("o", "db", scheduler="other", spec=apart())
    found = show(seen, other, manifests.pod("p", scheduler="other", spec=apart()))
    assert seats(found) == {"n1": (1, 0)}
    effects = {term.effect: dict(where) for term, where in found.term_counts.items()}
    assert effects[AffinityEffect.REPELS] == {"n1": (1, 0)}


def test_a_bind_that_is_on_the_way_counts() -> None:
    """And no more when it failed."""
    pod = manifests.pod("w", metadata={"labels": {"app": "db"}}, spec=near())
    seen = manifests.mirror(pod, manifests.pod("v", spec=near()))
    assert seen.assume(TaskId("w"), "n1", now=0.0)
    assert seats(seen.snapshot(0.0).affinity_index) == {"n1": (1, 0)}
    seen.expire(now=1e9)
    assert seats(seen.snapshot(0.0).affinity_index) == {}


def test_what_did_not_change_is_shared_and_what_was_given_away_stays() -> None:
    """Snapshots are read by another thread while events go on."""
    web = near(labelSelector={"matchLabels": {"app": "web"}})
    seen = manifests.mirror(manifests.pod("w", spec=near()), manifests.pod("v", spec=web))
    before = show(seen, labelled("a", "db"))
    copy = {pod_sets: dict(where) for pod_sets, where in before.pod_set_counts.items()}
    assert show(seen, manifests.pod("x")) is before
    after = show(seen, labelled("b", "db"))
    assert before.pod_set_counts == copy
    shared = [
        after.pod_set_counts[count] is before.pod_set_counts[count]
        for count in before.pod_set_counts
    ]
    assert sorted(shared) == [False, True]


def test_a_new_question_is_answered_from_the_pods_that_have_the_label() -> None:
    """The first question about a label costs a look at all pods, the next ones do not."""
    seen = manifests.mirror(*(labelled(f"p{at}", f"app-{at}") for at in range(100)))
    for at in (7, 8):
        spec = near(labelSelector={"matchLabels": {"app": f"app-{at}"}})
        show(seen, manifests.pod(f"w{at}", spec=spec))
    assert seen.work["residents"] == 100 + 2
    show(seen, labelled("late", "app-7"))
    assert seen.work["residents"] == 100 + 2


@pytest.mark.parametrize(
    ("labels", "expected"), [({"team": "red"}, {"n1": (1, 0)}), ({"team": "blue"}, {})]
)
def test_labels_of_namespaces_count(
    labels: dict[str, str], expected: dict[str, tuple[int, int]]
) -> None:
    """A namespace that gets or loses a label is counted anew, and so is one that is gone."""
    spec = near(namespaceSelector={"matchLabels": {"team": "red"}})
    seen = manifests.mirror(manifests.pod("w", spec=spec), labelled("a", "db"))
    assert seats(show(seen)) == {}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ns", "labels": labels},
    }
    assert seats(show(seen, namespace)) == expected
    seen.apply(manifests.removal_of(namespace))
    assert seats(show(seen)) == {}


def test_a_namespace_that_nobody_has_shown_has_its_name() -> None:
    """The label that API servers give all of them can be selected by."""
    selector = {"matchLabels": {pod_affinity.NAME_LABEL: "ns"}}
    spec = near(namespaceSelector=selector)
    seen = manifests.mirror(manifests.pod("w", spec=spec), labelled("a", "db"))
    assert seats(show(seen)) == {"n1": (1, 0)}


def test_what_is_looked_for_is_found_by_any_value_it_names() -> None:
    """A finder leads from labels to conditions, those without a value included."""
    finder: SelectorIndex[str] = SelectorIndex()
    within = Requirement("app", Operator.IN, ("a", "b"))
    without = Requirement("app", Operator.DOES_NOT_EXIST)
    sets = {
        "either": (PodSet(("ns",), Selector((within,))),),
        "neither": (PodSet(("ns",), Selector((without,))),),
        "nobody": (PodSet(("ns",), None),),
    }
    for name, pod_sets in sets.items():
        finder.add(name, pod_sets)
    assert finder.find("ns", {"app": "b"}, {}) == ["either"]
    assert finder.find("ns", {}, {}) == ["neither"]
    assert finder.find("other", {"app": "b"}, {}) == []
    finder.discard("either", sets["either"])
    assert finder.find("ns", {"app": "b"}, {}) == []
