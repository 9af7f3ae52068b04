"""Queues, PodGroups and Commands as values, reduced to the fields that the Queue controller needs.

Only relevant fields are kept, so thousands of PodGroups cost little. A field with a wrong type
counts as absent: the schema refuses such objects, and a single bad object must not stop the
controller.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from vscheduler.mirror import paths, queue_status
from vscheduler.mirror.decode import fields
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.paths import Path
from vscheduler.mirror.statuses import ObjectReference
from vscheduler.mirror.translate import translation
from vscheduler.model import jobs
from vscheduler.model.jobs import JobId
from vscheduler.model.resources import ResourceMap

WANTED_STATE = "vscheduler.io/wanted-state"
"""Annotation on a Queue: Open or Closed, the state that its owner wants."""

IN_USE = "vscheduler.io/in-use"
"""Finalizer on a Queue that holds PodGroups or child queues."""

OUR_CONDITIONS = "vscheduler.io/"
"""Type prefix of this controller's conditions."""

PHASES: Mapping[str, str] = {
    "": "pending",
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Unknown": "unknown",
    "Completed": "completed",
}
"""The field of a Queue's status that counts PodGroups of a phase."""

COUNTERS = tuple(dict.fromkeys(PHASES.values()))

Object: TypeAlias = Mapping[str, Any]

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class FollowedKind(StrEnum):
    """The kinds that Kopf follows; the values name their indices."""

    QUEUE = "queues"
    POD_GROUP = "podgroups"
    NATIVE_POD_GROUP = "nativepodgroups"
    """Kubernetes' own."""
    COMMAND = "commands"
    HYPER_NODE = "hypernodes"


class Action(StrEnum):
    """Actions of a Command on a Queue (bus.volcano.sh/v1alpha1)."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A Queue as stored."""

    name: str
    uid: str
    version: str
    """metadata.resourceVersion."""
    parent: str = ""
    deserved: ResourceMap = msgspec.field(default_factory=dict)
    guarantee: ResourceMap = msgspec.field(default_factory=dict)
    wanted: str = ""
    """The annotation `vscheduler.io/wanted-state`, unchecked."""
    problem: str = ""
    """Which setting for evictions can't be read, and why; empty if none."""
    closed_by_parent: bool = False
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    status: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The part of the status that this controller writes: state, counts, its own conditions."""
    schedulers: frozenset[str] = frozenset()
    """The schedulers that place pods of queues, as far as their figures in the status tell."""

    @property
    def state(self) -> str:
        """The stored state; empty if none was written yet."""
        return str(self.status.get("state", ""))

    @property
    def reference(self) -> ObjectReference:
        """The Queue in events."""
        return ObjectReference(kind="Queue", namespace="", name=self.name, uid=self.uid)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup, with the queue and the field that count it."""

    uid: str
    version: str
    queue: str
    """spec.queue; empty if absent."""
    counter: str
    """The field of a Queue's status that counts the group, by the group's own status."""
    key: JobId = JobId("")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to open or close a Queue."""

    uid: str
    version: str
    namespace: str
    name: str
    created: str
    action: Action
    queue: str
    queue_uid: str
    """Empty if the Command names no UID."""

    @property
    def path(self) -> Path:
        """The path of the Command."""
        return paths.COMMANDS.at(self.name, self.namespace)


def queue(body: Object) -> Queue:
    """Return a Queue from its JSON."""
    metadata, spec, status = (_part(body, name) for name in ("metadata", "spec", "status"))
    annotations = _part(metadata, "annotations")
    return Queue(
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        parent=_text(spec, "parent"),
        deserved=_amounts(_part(spec, "deserved")),
        guarantee=_amounts(_part(_part(spec, "guarantee"), "resource")),
        wanted=_text(annotations, WANTED_STATE),
        problem=translation.eviction_setting_problem(annotations),
        closed_by_parent=annotations.get(translation.CLOSED_BY_PARENT) == "true",
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
        status=_own_status(status),
        schedulers=_schedulers(status),
    )


def group(body: Object) -> Group:
    """Return a PodGroup from its JSON; an unknown phase counts as `unknown`."""
    metadata = _part(body, "metadata")
    return Group(
        uid=_text(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        queue=_text(_part(body, "spec"), "queue"),
        counter=PHASES.get(_text(_part(body, "status"), "phase"), "unknown"),
        key=JobId(f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}"),
    )


def native_group(body: Object) -> Group | None:
    """Return a PodGroup of Kubernetes' own API from its JSON; None if it is in no queue yet.

    Queue and phase are where translation.native_pod_group reads them.
    """
    metadata = _part(body, "metadata")
    texts = (_part(metadata, part) for part in ("annotations", "labels"))
    queue = next(filter(None, (_text(each, translation.QUEUE) for each in texts)), "")
    if not queue:
        return None
    return Group(
        uid=_text(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        queue=queue,
        counter=_native_counter(_part(body, "status")),
        key=jobs.native_id(_text(metadata, "namespace"), _text(metadata, "name")),
    )


def _native_counter(status: Object) -> str:
    """Return the counter of our phase, or else of a group that another scheduler has started."""
    conditions = filter(lambda each: isinstance(each, Mapping), status.get("conditions") or ())
    by_type = {_text(each, "type"): each for each in conditions}
    phase = _text(_part(by_type, jobs.PHASE), "reason")
    started = _text(_part(by_type, jobs.INITIALLY_SCHEDULED), "status") == translation.TRUE
    return PHASES[phase if phase in PHASES and phase else "Running" if started else "Pending"]


class _Metadata(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    uid: str
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    queue: str = ""


class _Status(msgspec.Struct, frozen=True, omit_defaults=True):
    phase: str = ""


class _PodGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields that `group` reads; all others are skipped."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


def fields_of_group(item: msgspec.Raw) -> dict[str, Any] | None:
    """Return what `group` reads of a PodGroup in a list; None if a field has another type."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(msgspec.json.decode(item, type=_PodGroup))
    except UNREADABLE:
        return None
    return found


def command(body: Object) -> Command | None:
    """Return a Command on a Queue from its JSON; None for Commands on Jobs, handled by Volcano."""
    metadata, target = _part(body, "metadata"), _part(body, "target")
    try:
        action = Action(_text(body, "action"))
    except ValueError:
        return None
    if target.get("kind") != "Queue":
        return None
    return Command(
        uid=_text(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        created=_text(metadata, "creationTimestamp"),
        action=action,
        queue=_text(target, "name"),
        queue_uid=_text(target, "uid"),
    )


def age(command: Command) -> tuple[int, str]:
    """Return a sort key by age. The resourceVersion of a Command never changes after creation."""
    return (int(command.version) if command.version.isdecimal() else 0, command.uid)


def newer(version: str, than: str) -> bool:
    """Whether a version of an object is newer than `than`.

    Kubernetes 1.35: resourceVersions are growing integers. Any other text is assumed to be newer.
    """
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return True


def _schedulers(status: Object) -> frozenset[str]:
    found = {
        name: [each for each in status.get(name) or () if isinstance(each, Mapping)]
        for name in ("conditions", "schedulers")
    }
    return frozenset(queue_status.schedulers(found))


def _own_status(status: Object) -> dict[str, Any]:
    """Return the part of a status that this controller may have written."""
    own = {
        name: status[name] for name in ("state", *sorted(set(PHASES.values()))) if name in status
    }
    conditions = [
        each
        for each in status.get("conditions") or ()
        if isinstance(each, Mapping) and _text(each, "type").startswith(OUR_CONDITIONS)
    ]
    if conditions:
        own["conditions"] = sorted(conditions, key=lambda each: str(each["type"]))
    return own


def _part(body: Object, name: str) -> Object:
    part = body.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(body: Object, name: str) -> str:
    text = body.get(name)
    return text if isinstance(text, str) else ""


def _amounts(quantities: Object) -> ResourceMap:
    try:
        return fields.totals(quantities, "")
    except FieldError:
        return {}
