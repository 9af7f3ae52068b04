"""Priorities of pods, filled in from PriorityClasses as the API server's admission does.

kubernetes: plugin/pkg/admission/priority.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.mirror.decode.events import Kind
from vscheduler.simulator.manifests import Named, Problem

Tree = Mapping[str, Any]

ALWAYS: Mapping[str, Tree] = {
    "system-cluster-critical": {"value": 2_000_000_000},
    "system-node-critical": {"value": 2_000_001_000},
}
"""The PriorityClasses that every cluster has."""


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """Objects as an API server would have stored them."""

    objects: Sequence[Named]
    unknown: Sequence[Named]
    """Pods whose PriorityClass doesn't exist. An API server would refuse them."""


def filled(objects: Iterable[Named]) -> Filled:
    """Return the objects, with priority and preemptionPolicy of pods from their PriorityClasses.

    A pod with a priority has been admitted before, whatever has become of its class.
    """
    listed = list(objects)
    classes = dict(ALWAYS)
    for each in listed:
        if each.kind is Kind.PRIORITY_CLASS:
            classes[each.name] = each.tree
    default = _default(classes)
    found, unknown = [], []
    for each in listed:
        spec = each.tree.get("spec")
        if each.kind is not Kind.POD or not isinstance(spec, Mapping):
            found.append(each)
            continue
        name = spec.get("priorityClassName") or ("" if _has_priority(spec) else default)
        if name and name not in classes and not _has_priority(spec):
            unknown.append(each)
        else:
            found.append(_with_class(each, spec, str(name), classes.get(name)))
    return Filled(objects=found, unknown=unknown)


def problem(pod: Named) -> Problem:
    """Return why a pod of an unknown PriorityClass can't be used, in the API server's words."""
    field = "spec.priorityClassName"
    name = pod.tree["spec"]["priorityClassName"]
    message = f"Pod {pod.key}: {field}: no PriorityClass with name {name} was found"
    return Problem(place=pod.manifest.place(field), message=message)


def _default(classes: Mapping[str, Tree]) -> str:
    """Return the name of the default class, the one of lowest value; empty without any."""
    found = [
        (each.get("value"), name) for name, each in classes.items() if each.get("globalDefault")
    ]
    return min((each for each in found if isinstance(each[0], int)), default=(0, ""))[1]


def _has_priority(spec: Tree) -> bool:
    return spec.get("priority") is not None


def _with_class(pod: Named, spec: Tree, name: str, priority_class: Tree | None) -> Named:
    if priority_class is None:
        return pod
    given = {
        "priorityClassName": name,
        "priority": priority_class.get("value"),
        "preemptionPolicy": priority_class.get("preemptionPolicy"),
    }
    missing = {key: value for key, value in given.items() if value and spec.get(key) is None}
    return replace(pod, tree={**pod.tree, "spec": {**spec, **missing}}) if missing else pod
