"""Checks of Kubernetes' own PodGroups (scheduling.k8s.io), and of what names or makes them."""

from collections.abc import Iterator, Mapping
from typing import Any

from vscheduler.cli.checks.findings import FindingText
from vscheduler.cli.checks.schemas import Schema
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.translate.translation import Group
from vscheduler.mirror.wording import phrases
from vscheduler.mirror.wording.sentences import CONSTRAINTS
from vscheduler.model import jobs
from vscheduler.model.decisions import ReasonCode
from vscheduler.model.jobs import MIN_COUNT, JobId

Tree = Mapping[str, Any]

QUEUE_FIELD = "metadata.annotations"
TOPOLOGY_FIELD = f"{CONSTRAINTS}.topology"
FIELDS: Mapping[ReasonCode, str] = {
    ReasonCode.QUEUE_MISSING: QUEUE_FIELD,
    ReasonCode.QUEUE_CLOSED: QUEUE_FIELD,
    ReasonCode.QUEUE_BARRED: QUEUE_FIELD,
    ReasonCode.NOT_LEAF: QUEUE_FIELD,
    ReasonCode.BAD_SETTING: QUEUE_FIELD,
    ReasonCode.TOO_FEW_PODS: MIN_COUNT,
    ReasonCode.POD_GROUP_ERROR: "spec",
}

MIN_GROUP_COUNT = "spec.schedulingPolicy.gang.minGroupCount"
PARENT = "spec.parentCompositePodGroupName"
FIELDS_OF_TREES: Mapping[ReasonCode, str] = {
    **FIELDS,
    ReasonCode.TOO_FEW_PODS: MIN_GROUP_COUNT,
    ReasonCode.TOO_FEW_SUB_GROUPS: MIN_GROUP_COUNT,
    ReasonCode.TOO_FEW_OF_SUB_GROUP: MIN_GROUP_COUNT,
}
"""Fields of CompositePodGroups."""

NO_PLUGIN = (
    "keeps the group from starting: plugin network-topology-aware isn't configured; add it, or "
    "hardNetworkTopology: anywhere in the scheduler's configuration"
)
NOT_READ = (
    "isn't looked at without plugin network-topology-aware: the pods start wherever there is room"
)
NO_SCHEDULER = (
    "is missing, so kube-scheduler starts the pods, without queues and fair shares; name {}"
)


def _one_of(*names: str) -> list[Tree]:
    counted = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return [{"rule": f"{counted} == 1", "message": f"must have one of {' and '.join(names)}"}]


_TEXT: Schema = {"type": "string"}
_EMPTY: Schema = {"type": "object"}


def _policy(minimum: str) -> Schema:
    """Return the schema of a scheduling policy; `minimum` is the field of policy gang."""
    return {
        "type": "object",
        "properties": {
            "basic": _EMPTY,
            "gang": {
                "type": "object",
                "required": [minimum],
                "properties": {minimum: {"type": "integer", "minimum": 1}},
            },
        },
        "x-kubernetes-validations": _one_of("basic", "gang"),
    }


_CLAIM: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": dict.fromkeys(("name", "resourceClaimName", "resourceClaimTemplateName"), _TEXT),
}
_KEY: Schema = {"type": "string", "minLength": 1}
_CONSTRAINTS: Schema = {
    "type": "object",
    "properties": {
        "topology": {
            "type": "array",
            "maxItems": 1,
            "items": {"type": "object", "required": ["key"], "properties": {"key": _KEY}},
        }
    },
}


def _schema(minimum: str, *required: str, **further: Schema) -> Schema:
    """Return what an API server of Kubernetes 1.37 demands; there is no CRD to take it from.

    `required` and `further` are fields of the spec that only this kind needs, and has.
    """
    spec: Schema = {
        "type": "object",
        "required": ["schedulingPolicy", *required],
        "properties": {
            "parentCompositePodGroupName": _TEXT,
            "workloadRef": {
                "type": "object",
                "properties": {"workloadName": _TEXT, "templateName": _TEXT},
            },
            "schedulingPolicy": _policy(minimum),
            "schedulingConstraints": _CONSTRAINTS,
            "disruptionMode": {
                "type": "object",
                "properties": {"single": _EMPTY, "all": _EMPTY},
                "x-kubernetes-validations": _one_of("single", "all"),
            },
            "priorityClassName": _TEXT,
            "priority": {"type": "integer"},
            "preemptionPolicy": _TEXT,
            **further,
        },
    }
    return {
        "type": "object",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": _EMPTY,
            "status": _EMPTY,
            "spec": spec,
        },
        "required": ["spec"],
    }


SCHEMAS: Mapping[Kind, Schema] = {
    Kind.NATIVE_POD_GROUP: _schema(
        "minCount", resourceClaims={"type": "array", "maxItems": 4, "items": _CLAIM}
    ),
    Kind.COMPOSITE_POD_GROUP: _schema("minGroupCount", "workloadRef"),
}


def fields(job: JobId) -> Mapping[ReasonCode, str]:
    """Return the field that a reason is about, of a PodGroup or a CompositePodGroup."""
    return FIELDS_OF_TREES if jobs.is_composite(job) else FIELDS


def of_trees(groups: Mapping[JobId, Group]) -> Iterator[FindingText]:
    """Iterate over PodGroups whose pods can't start, as their tree breaks a rule, or as a group
    above them doesn't exist.
    """
    for key, group in groups.items():
        if group.parent and group.defect:
            yield FindingText(key, PARENT, group.defect)


def without_topologies(key: str, spec: Tree, *, hard_waits: bool) -> Iterator[FindingText]:
    """Iterate over constraints of which no plugin knows anything.

    `hard_waits`: such gangs wait.
    """
    if (spec.get("schedulingConstraints") or {}).get("topology"):
        yield FindingText(key, TOPOLOGY_FIELD, NO_PLUGIN if hard_waits else NOT_READ)


def of_job(
    scheduling: Tree, count: int | None, scheduler: str | None, ours: str
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Iterate over mistakes in `spec.scheduling` of a Job: the path below it, or of its template
    with `template` before it, and the message.

    `count` is how many pods there are at a time, if known; `scheduler` what they name, `ours` what
    they should.
    """
    gang = (scheduling.get("schedulingPolicy") or {}).get("gang")
    least = gang.get("minCount") if isinstance(gang, Mapping) else None
    if isinstance(least, int) and count is not None and least > count:
        message = f"{least} is more than the {phrases.pods(count)} that there will be: none starts"
        yield ("scheduling", "schedulingPolicy", "gang", "minCount"), message
    if gang is not None and not scheduler:
        yield ("template", "spec", "schedulerName"), NO_SCHEDULER.format(ours)
