"""Task classes: what pods of a job share."""

import gc
from typing import Any

from tests.unit.mirror import manifests
from tests.unit.mirror.translate.test_pods import wire_pod
from vscheduler.mirror.decode.wire import Pod
from vscheduler.mirror.translate import pods
from vscheduler.mirror.translate.pods import Translator
from vscheduler.model.jobs import PodClass

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_equal_pods_share_a_class_while_there_are_any() -> None:
    """A class is one object for as long as a pod uses it, and no longer."""
    translator = Translator((manifests.OURS,))
    documents = [
        manifests.pod("a", requests={"cpu": "1", "memory": "1Gi"}),
        manifests.pod("b", requests={"memory": "1024Mi", "cpu": "1000m"}),
        manifests.pod("c"),
    ]
    objects = [manifests.read(document) for document in documents]
    found = [translator.pod(each) for each in objects if isinstance(each, Pod)]
    assert found[0].pod_class is found[1].pod_class is not found[2].pod_class
    assert translator.classes == 2
    del found
    gc.collect()
    assert translator.classes == 0


def class_of(document: dict[str, Any], translator: Translator) -> PodClass:
    """The class that a translator gives to a pod."""
    return translator.pod(wire_pod(document)).pod_class


def test_a_class_is_looked_up_by_all_that_it_is_worked_out_from() -> None:
    """Pods that differ in one field that counts differ for a translator that knows the others, as
    they do for one that knows none.
    """
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"podAntiAffinity": {REQUIRED: [term]}}
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread |= {"labelSelector": {}, "matchLabelKeys": ["app"]}
    port = {"ports": [{"containerPort": 80}]}
    specs: list[dict[str, Any]] = [
        {},
        {"containers": [container | {"resources": {"limits": {"cpu": "2"}}}]},
        {"initContainers": [container | {"resources": {"requests": {"cpu": "2"}}}]},
        {"resources": {"requests": {"cpu": "5"}}},
        {"overhead": {"cpu": "1"}},
        {"containers": [container | port]},
        {"containers": [container | port], "hostNetwork": True},
        {"containers": [container | port], "hostNetwork": True, "hostUsers": False},
        {"containers": [container | {"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
        {"nodeSelector": {"zone": "a"}},
        {"affinity": affinity},
        {"affinity": {"podAffinity": affinity["podAntiAffinity"]}},
        {"tolerations": [{"operator": "Exists"}]},
        {"topologySpreadConstraints": [spread]},
        {"topologySpreadConstraints": [spread | {"maxSkew": 2}]},
    ]
    documents = [manifests.pod("p", spec={"containers": [container]} | spec) for spec in specs]
    bare: dict[str, Any] = {"containers": [container]}
    own: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"affinity": affinity}, {"namespace": "x"}),
        ({"topologySpreadConstraints": [spread]}, {"labels": {"app": "x"}}),
        ({}, {"annotations": {pods.REVOCABLE_ZONE: "*"}}),
    ]
    documents += [manifests.pod("p", spec=bare | spec, metadata=more) for spec, more in own]
    documents += resized(bare)
    documents += [manifests.pod("p", spec=bare | spec, scheduler="other") for spec in specs]
    translator = Translator((manifests.OURS,))
    known = [class_of(document, translator) for document in documents]
    again = [class_of(document, translator) for document in documents]
    alone = [class_of(document, Translator((manifests.OURS,))) for document in documents]
    assert [words(each) for each in known] == [words(each) for each in alone]
    assert all(one is other for one, other in zip(known, again, strict=True))


def resized(bare: dict[str, Any]) -> list[dict[str, Any]]:
    """Pods on a node that have something else than they ask for by now."""
    small, large = [
        {"name": "c", "resources": {"requests": {"cpu": amount}}} for amount in ("500m", "3")
    ]
    infeasible = {"type": "PodResizePending", "reason": "Infeasible"}
    given = [
        {"containerStatuses": [large]},
        {"containerStatuses": [small]},
        {"containerStatuses": [small], "conditions": [infeasible]},
        {"containerStatuses": [small], "initContainerStatuses": [large | {"name": "s"}]},
        {"containerStatuses": [small], "initContainerStatuses": [small | {"name": "s"}]},
        {"initContainerStatuses": [large | {"name": "s"}]},
        {"containerStatuses": [{"name": "c"}], "initContainerStatuses": [large | {"name": "s"}]},
        {"containerStatuses": [{"name": "c"}]},
        {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]},
        {"conditions": [infeasible]},
    ]
    second = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    sidecar = bare | {"initContainers": [second]}
    documents: list[dict[str, Any]] = []
    for status in ({}, *given):
        documents += [
            manifests.pod("p", spec=spec, node="n1", status=status) for spec in (bare, sidecar)
        ]
    whole = bare | {"resources": {"requests": {"cpu": "1"}}}
    for more in (
        {"resources": large["resources"]},
        {"resources": small["resources"]},
        {"resources": small["resources"], "allocatedResources": {"cpu": "2"}},
        {"resources": small["resources"], "conditions": [infeasible]},
    ):
        documents.append(manifests.pod("p", spec=whole, node="n1", status=more))
    return documents


def words(pod_class: PodClass) -> tuple[object, ...]:
    """All that is in a class."""
    return pod_class.request, pod_class.constraints, pod_class.hints
