"""Queues, PodGroups and Commands as the Queue controller needs them: plain data → values.

Of each object only what decisions depend on is kept, so that thousands of PodGroups cost little. A
field that isn't what its kind has there counts as absent: the schema refuses such objects, and one
that slipped through must stop nobody else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from vscheduler.core.model import resources
from vscheduler.mirror import paths
from vscheduler.mirror.decode import fields

WANTED_STATE = "vscheduler.io/wanted-state"
"""Annotation on a Queue: Open or Closed, what its owner wants it to be."""

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
"""Annotation on a Queue that is closed because one above it is (Volcano's)."""

IN_USE = "vscheduler.io/in-use"
"""Finalizer on a Queue that holds PodGroups or child queues."""

OUR_CONDITIONS = "vscheduler.io/"
"""What the types of this controller's conditions begin with."""

PHASES: Mapping[str, str] = {
    "": "pending",
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Unknown": "unknown",
    "Completed": "completed",
}
"""Where in a Queue's status PodGroups of a phase are counted."""

COUNTERS = tuple(dict.fromkeys(PHASES.values()))

Object: TypeAlias = Mapping[str, Any]


class Kind(StrEnum):
    """The kinds that this controller follows; the values are their plural names."""

    QUEUE = "queues"
    POD_GROUP = "podgroups"
    COMMAND = "commands"


class Action(StrEnum):
    """What a Command may ask of a Queue (bus.volcano.sh/v1alpha1)."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A Queue as it is stored."""

    name: str
    uid: str
    version: str
    """metadata.resourceVersion."""
    parent: str = ""
    deserved: resources.ResourceMap = field(default_factory=dict)
    guarantee: resources.ResourceMap = field(default_factory=dict)
    wanted: str = ""
    """The annotation `vscheduler.io/wanted-state`, whatever stands there."""
    closed_by_parent: bool = False
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    status: Mapping[str, Any] = field(default_factory=dict)
    """Of the status what this controller writes: state, counts, conditions of its own."""

    @property
    def state(self) -> str:
        """The stored state; empty where nobody has written one."""
        return str(self.status.get("state", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A PodGroup: where it counts."""

    uid: str
    version: str
    queue: str
    """spec.queue; empty where it names none."""
    counter: str
    """The field of a Queue's status in which it counts, by what its own status says."""
    key: str = ""
    """`namespace/name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A request to open or close a Queue."""

    uid: str
    version: str
    namespace: str
    name: str
    created: str
    action: Action
    queue: str
    queue_uid: str
    """Empty where it doesn't say which Queue of that name."""

    @property
    def path(self) -> paths.Path:
        """Where it is."""
        return paths.COMMANDS.at(self.name, self.namespace)


Known: TypeAlias = Queue | Group | Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The object is there, and this is how it looks."""

    item: Known
    listed: bool = False
    """Whether a list began with it: what was deleted before that is told by nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The object is no more."""

    kind: Kind
    uid: str


Event: TypeAlias = Seen | Gone


def read(kind: Kind, body: Object) -> Known | None:
    """The object; None where it is nothing to this controller."""
    match kind:
        case Kind.QUEUE:
            return queue(body)
        case Kind.POD_GROUP:
            return group(body)
        case Kind.COMMAND:
            return command(body)


def queue(body: Object) -> Queue:
    """A Queue."""
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
        closed_by_parent=annotations.get(CLOSED_BY_PARENT) == "true",
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
        status=_own_status(status),
    )


def group(body: Object) -> Group:
    """A PodGroup; one in a phase that nobody knows counts as unknown."""
    metadata = _part(body, "metadata")
    return Group(
        uid=_text(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        queue=_text(_part(body, "spec"), "queue"),
        counter=PHASES.get(_text(_part(body, "status"), "phase"), "unknown"),
        key=f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}",
    )


def command(body: Object) -> Command | None:
    """A Command to a Queue; None for those to Jobs, which are somebody else's."""
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


def newer(version: str, than: str) -> bool:
    """Whether an object's version is newer than another of the same object.

    Kubernetes 1.35: resourceVersions are numbers that only grow. Any other text may be newer.
    """
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return True


def _own_status(status: Object) -> dict[str, Any]:
    """What of a status this controller may have written."""
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


def _amounts(quantities: Object) -> resources.ResourceMap:
    try:
        return fields.totals(quantities, "")
    except fields.FieldError:
        return {}
