"""What the API server adds to new objects of built-in kinds, and what it refuses."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.api_server import (
    devices,
    kinds,
    metadata,
    quantities,
    selectors,
    volumes,
    wire,
)
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.store import Store
from tests.simulation.api_server.wire import Cause, Object

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
TIMES = ("renewTime", "acquireTime")
LEASE_FIELDS: Mapping[str, type[Any]] = {
    "holderIdentity": str,
    "leaseDurationSeconds": int,
    "leaseTransitions": int,
    "renewTime": str,
    "acquireTime": str,
}

NOT_READY = "node.kubernetes.io/not-ready"
PATIENCE_SECONDS = 300
POLICIES = {"PreemptLowerPriority", "Never"}


@dataclass(frozen=True, slots=True)
class Moment:
    """What admission may look at."""

    stored: Store
    now: float


def complete(kind: Kind, body: Object, moment: Moment) -> None:
    """Add defaults to a new object. Raises RefusedError."""
    without_nulls(body)
    fill = NEW.get(kind.plural)
    if fill is not None and not kind.custom:
        fill(body, moment)
    elif kind.plural in volumes.NEW:
        volumes.NEW[kind.plural](body, moment.stored)


def without_nulls(body: Any) -> None:
    """Take nulls out, in place: they are the same as nothing."""
    if isinstance(body, dict):
        for key in [key for key, value in body.items() if value is None]:
            del body[key]
        for value in body.values():
            without_nulls(value)
    elif isinstance(body, list):
        for value in body:
            without_nulls(value)


def problems(kind: Kind, body: Object) -> list[Cause]:
    """What is wrong with an object of a built-in kind. Raises RefusedError."""
    _check_types(kind, body)
    if kind is kinds.PODS:
        return _pod_problems(body)
    if kind is kinds.LEASES:
        return _lease_problems(body.get("spec") or {})
    if kind is kinds.EVENTS:
        return _event_problems(body)
    return volumes.problems(kind, body) + devices.problems(kind, body)


def _check_types(kind: Kind, body: Object) -> None:
    """Refuse what the API server couldn't even decode."""
    spec, status = body.get("spec", {}), body.get("status", {})
    sound = isinstance(spec, dict) and isinstance(status, dict)
    if sound:
        conditions = status.get("conditions", [])
        sound = isinstance(conditions, list) and all(
            isinstance(condition, dict) for condition in conditions
        )
    if sound and kind is kinds.PRIORITY_CLASSES:
        sound = isinstance(body.get("value", 0), int)
    if not sound:
        text = f"{kind.kind} in version {kind.version!r} cannot be handled as a {kind.kind}"
        raise wire.bad_request(text)
    if kind is kinds.BUDGETS:
        selectors.of_object(spec.get("selector"))({})


def _event_problems(body: Object) -> list[Cause]:
    causes = []
    if not body.get("eventTime") and not body.get("deprecatedFirstTimestamp"):
        causes.append(Cause("eventTime", "Required value", "FieldValueRequired"))
    if body.get("type") not in ("Normal", "Warning"):
        text = f'Invalid value: "{body.get("type", "")}": has invalid value: '
        causes.append(Cause("type", text))
    return causes


def _new_pod(body: Object, moment: Moment) -> None:
    spec = body.setdefault("spec", {})
    _check_pod_types(spec)
    for key, value in POD_DEFAULTS.items():
        spec.setdefault(key, value)
    spec.setdefault("securityContext", {})
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in _containers(spec):
        _fill_container(container)
    _fill_priority(body, moment)
    _fill_tolerations(spec)
    status: Object = {"phase": "Pending", "qosClass": _qos(spec)}
    if spec.get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": metadata.stamp(moment.now),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [gated]
    body["status"] = status


POD_DEFAULTS: Mapping[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}


def _containers(spec: Object) -> Iterable[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _fill_container(container: Object) -> None:
    resources = container.setdefault("resources", {})
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if missing := {name: value for name, value in limits.items() if name not in requests}:
        resources["requests"] = {**requests, **missing}
    for amounts in (resources.get("limits"), resources.get("requests")):
        for name, value in (amounts or {}).items():
            amounts[name] = canonical(value)
    image = str(container.get("image", ""))
    tag = image.rpartition(":")[2] if ":" in image else "latest"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", "Always" if tag == "latest" else "IfNotPresent")


def _fill_priority(body: Object, moment: Moment) -> None:
    spec = body["spec"]
    classes = moment.stored.of(kinds.PRIORITY_CLASSES)
    name = spec.get("priorityClassName", "")
    if name:
        item = classes.items.get(name)
        if item is None:
            why = f"no PriorityClass with name {name} was found"
            raise wire.forbidden(kinds.PODS, body["metadata"].get("name", ""), why)
        found = item.object
    else:
        default = [each.object for each in classes.within("") if each.object.get("globalDefault")]
        found = min(default, key=lambda each: each["value"], default={"value": 0})
        if default:
            spec["priorityClassName"] = found["metadata"]["name"]
    if spec.get("priority", found["value"]) != found["value"]:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {found['value']} from the given "
            "PriorityClass name"
        )
        raise wire.forbidden(kinds.PODS, body["metadata"].get("name", ""), why)
    spec["priority"] = found["value"]
    spec.setdefault("preemptionPolicy", found.get("preemptionPolicy", "PreemptLowerPriority"))


def _fill_tolerations(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in (NOT_READY, "node.kubernetes.io/unreachable"):
        if any(
            toleration.get("key") in (key, None, "")
            and toleration.get("effect") in ("NoExecute", None, "")
            for toleration in tolerations
        ):
            continue
        tolerations.append(
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": PATIENCE_SECONDS,
            }
        )


def _qos(spec: Object) -> str:
    """The class of the pod: Guaranteed where each container limits what it requests."""
    found = [container["resources"] for container in _containers(spec)]
    if not any(each.get("limits") or each.get("requests") for each in found):
        return "BestEffort"
    for each in found:
        limits, requests = each.get("limits") or {}, each.get("requests") or {}
        if not {"cpu", "memory"} <= limits.keys() or any(
            requests[name] != limits[name] for name in ("cpu", "memory")
        ):
            return "Burstable"
    return "Guaranteed"


def _check_pod_types(spec: Object) -> None:
    for number, each in enumerate(_containers(spec)):
        resources = each.get("resources") or {}
        for what in ("requests", "limits"):
            for value in (resources.get(what) or {}).values():
                if not quantities.is_quantity(value):
                    text = (
                        'Pod in version "v1" cannot be handled as a Pod: quantities must match '
                        "the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    )
                    raise wire.bad_request(text)
        if not isinstance(each.get("name", ""), str):
            raise wire.bad_request(f"json: cannot unmarshal into .spec.containers[{number}].name")
    for key in ("nodeName", "schedulerName", "priorityClassName"):
        if not isinstance(spec.get(key, ""), str):
            raise wire.bad_request(
                f"json: cannot unmarshal into Go struct field PodSpec.spec.{key}"
            )


def canonical(value: Any) -> str:
    """A quantity as text."""
    return value if isinstance(value, str) else str(value)


def _pod_problems(body: Object) -> list[Cause]:
    spec = body.get("spec") or {}
    causes = []
    if not spec.get("containers"):
        causes.append(Cause("spec.containers", "Required value", "FieldValueRequired"))
    for number, each in enumerate(spec.get("containers") or ()):
        where = f"spec.containers[{number}]"
        for field in ("name", "image"):
            if not each.get(field):
                text = "Required value"
                causes.append(Cause(f"{where}.{field}", text, "FieldValueRequired"))
        for what, amounts in (each.get("resources") or {}).items():
            for name, value in amounts.items() if what in ("requests", "limits") else ():
                if str(value).startswith("-"):
                    text = f'Invalid value: "{value}": must be greater than or equal to 0'
                    causes.append(Cause(f"{where}.resources.{what}[{name}]", text))
    return causes


def _lease_problems(spec: Object) -> list[Cause]:
    for field, kind in LEASE_FIELDS.items():
        value = spec.get(field, kind())
        if not isinstance(value, kind) or (value and field in TIMES and not TIME.fullmatch(value)):
            text = f'Lease in version "v1" cannot be handled as a Lease: {field}: {value!r}'
            raise wire.bad_request(text)
    causes = []
    for field, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = spec.get(field, least)
        if value < least:
            text = f"Invalid value: {value}: must be greater than {'or equal to ' * (not least)}0"
            causes.append(Cause(f"spec.{field}", text))
    return causes


def _new_node(body: Object, _: Moment) -> None:
    """A node starts with the taint that the node lifecycle controller lifts."""
    taints = body.setdefault("spec", {}).get("taints") or []
    if not any(taint.get("key") == NOT_READY for taint in taints):
        taints = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
    body["spec"]["taints"] = taints
    status = body.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _new_namespace(body: Object, _: Moment) -> None:
    found = body["metadata"]
    labels = {**(found.get("labels") or {}), "kubernetes.io/metadata.name": found["name"]}
    found["labels"] = labels
    body["spec"] = {"finalizers": ["kubernetes"]}
    body["status"] = {"phase": "Active"}


def _new_priority_class(body: Object, _: Moment) -> None:
    body.setdefault("value", 0)
    body.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _new_replicas(body: Object, _: Moment) -> None:
    body.setdefault("spec", {}).setdefault("replicas", 1)
    body["status"] = {"replicas": 0}


def _new_job(body: Object, _: Moment) -> None:
    spec = body.setdefault("spec", {})
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("backoffLimit", 6)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    found = body["metadata"]
    labels: dict[str, str] = {}
    for prefix in ("batch.kubernetes.io/", ""):
        labels |= {f"{prefix}controller-uid": found["uid"], f"{prefix}job-name": found["name"]}
    found["labels"] = {**found.get("labels", {}), **labels}
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    template["labels"] = {**template.get("labels", {}), **labels}
    key = "batch.kubernetes.io/controller-uid"
    spec.setdefault("selector", {"matchLabels": {key: found["uid"]}})


def _new_budget(body: Object, _: Moment) -> None:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    body["status"] = dict.fromkeys(counts, 0)


NEW: Mapping[str, Callable[[Object, Moment], None]] = {
    "pods": _new_pod,
    "nodes": _new_node,
    "namespaces": _new_namespace,
    "priorityclasses": _new_priority_class,
    "replicasets": _new_replicas,
    "statefulsets": _new_replicas,
    "jobs": _new_job,
    "poddisruptionbudgets": _new_budget,
}


def changes(kind: Kind, new: Object, old: Object) -> list[Cause]:
    """What an update of a built-in kind may not change."""
    if kind is kinds.PODS:
        return _pod_changes(new.get("spec") or {}, old["spec"])
    if kind is kinds.PRIORITY_CLASSES and new.get("value", 0) != old.get("value", 0):
        text = "Forbidden: may not be changed in an update."
        return [Cause("value", text, "FieldValueForbidden")]
    return volumes.changes(kind, new, old) + devices.changes(kind, new, old)


CHANGEABLE = {
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
    "containers",
    "initContainers",
}


def _pod_changes(new: Object, old: Object) -> list[Cause]:
    """A pod's spec is fixed, but for images, more tolerations and fewer gates."""
    if new == old:
        return []
    same = all(new.get(key) == old.get(key) for key in (new.keys() | old.keys()) - CHANGEABLE)
    gates = old.get("schedulingGates") or ()
    fewer = all(each in gates for each in new.get("schedulingGates") or ())
    tolerations = new.get("tolerations") or ()
    more = all(each in tolerations for each in old.get("tolerations") or ())
    if same and fewer and more and _but_images(new) == _but_images(old):
        return []
    text = (
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
        "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
        "set to 1 if it was previously negative)"
    )
    return [Cause("spec", text, "FieldValueForbidden")]


def _but_images(spec: Object) -> list[Object]:
    return [{**container, "image": ""} for container in _containers(spec)]
