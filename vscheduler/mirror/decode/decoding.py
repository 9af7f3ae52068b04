"""JSON, or plain data from YAML, → events. An object that doesn't decode becomes a Reject.

The lists and watch lines around the objects are read where they arrive; here is one object at a
time, so that a bad one takes no other with it.
"""

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from vscheduler.mirror.decode import events, large_pods, wire

STRUCTS: Mapping[events.Kind, type[wire.Object]] = {
    events.Kind.POD: wire.Pod,
    events.Kind.NODE: wire.Node,
    events.Kind.QUEUE: wire.Queue,
    events.Kind.POD_GROUP: wire.PodGroup,
    events.Kind.PRIORITY_CLASS: wire.PriorityClass,
    events.Kind.BUDGET: wire.PodDisruptionBudget,
    events.Kind.QUOTA: wire.ResourceQuota,
    events.Kind.NAMESPACE: wire.Namespace,
}
"""What an object of each kind decodes to."""

DECODERS: Mapping[events.Kind, msgspec.json.Decoder[wire.Object]] = {
    kind: msgspec.json.Decoder(struct) for kind, struct in STRUCTS.items()
}

API_VERSIONS: Mapping[events.Kind, str] = {
    events.Kind.POD: "v1",
    events.Kind.NODE: "v1",
    events.Kind.QUEUE: "scheduling.volcano.sh/v1beta1",
    events.Kind.POD_GROUP: "scheduling.volcano.sh/v1beta1",
    events.Kind.PRIORITY_CLASS: "scheduling.k8s.io/v1",
    events.Kind.BUDGET: "policy/v1",
    events.Kind.QUOTA: "v1",
    events.Kind.NAMESPACE: "v1",
}
"""apiVersion by kind: other groups have kinds of these names, too."""

TEXT_MAPS = ("labels", "annotations", "nodeSelector", "matchLabels")
"""Maps in which null stands for the empty text, as it does for an API server."""

NAMESPACE = "default"
"""Where a manifest without a namespace goes."""

NAMESPACED = frozenset(
    {events.Kind.POD, events.Kind.POD_GROUP, events.Kind.BUDGET, events.Kind.QUOTA}
)
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?:key` in `)?\$\.?(?P<field>[^`]*)`)?", re.DOTALL)


class _Names(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Names = _Names()


_decode_named = msgspec.json.Decoder(_Named).decode


def decode(kind: events.Kind, item: bytes | msgspec.Raw) -> events.Upsert | events.Reject:
    """One object in JSON, a pod with a long affinity as a LargePod; nulls and the like, which API
    servers don't send, take a second look.

    Text that is no JSON at all is the sender's fault, not the object's: msgspec.DecodeError.
    """
    try:
        if kind is events.Kind.POD and (large := large_pods.read(item)) is not None:
            return events.Upsert(kind=kind, object=large)
    except msgspec.ValidationError:
        pass
    return _decode(kind, item)


def whole(pod: large_pods.LargePod) -> events.Upsert | events.Reject:
    """The same pod with its affinity."""
    return _decode(events.Kind.POD, pod.item)


def _decode(kind: events.Kind, item: bytes | msgspec.Raw) -> events.Upsert | events.Reject:
    try:
        return events.Upsert(kind=kind, object=DECODERS[kind].decode(item))
    except msgspec.ValidationError as error:
        try:
            plain = msgspec.json.decode(item)
        except msgspec.ValidationError:  # it is JSON, with a number that no float is as large as
            return _refused(kind, {"metadata": _named(item)}, error)
        return convert(kind, plain)


def convert(kind: events.Kind, document: object) -> events.Upsert | events.Reject:
    """One object as plain data, with what YAML makes of it: times, nulls, numbers as amounts."""
    try:
        plain = _plain(document)
        if kind in NAMESPACED and isinstance(plain, dict):
            names = plain.setdefault("metadata", {})
            if isinstance(names, dict):
                names.setdefault("namespace", NAMESPACE)
        return events.Upsert(kind=kind, object=msgspec.convert(plain, STRUCTS[kind]))
    except (msgspec.ValidationError, RecursionError) as error:
        return _refused(kind, document, error)


def _named(item: bytes | msgspec.Raw) -> dict[str, str]:
    """What an object in JSON is called, as far as that can be read."""
    try:
        return msgspec.structs.asdict(_decode_named(item).metadata)
    except msgspec.ValidationError:
        return {}


def _refused(kind: events.Kind, document: object, error: Exception) -> events.Reject:
    """What is wrong with the object, as far as it says what it is called."""
    field, message = "", "is nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        found = _PLACE.fullmatch(str(error))
        assert found is not None
        field, message = found["field"] or "", found["what"]
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    names = metadata if isinstance(metadata, Mapping) else {}
    return events.Reject(
        kind=kind,
        namespace=str(names.get("namespace") or (NAMESPACE if kind in NAMESPACED else "")),
        name=str(names.get("name") or ""),
        uid=str(names.get("uid") or ""),
        field=field,
        message=message,
    )


def kind_of(document: Mapping[str, Any]) -> events.Kind | None:
    """The kind of a manifest; None when it is none of those that decisions depend on."""
    try:
        kind = events.Kind(str(document.get("kind")))
    except ValueError:
        return None
    return kind if document.get("apiVersion") == API_VERSIONS[kind] else None


def removal(event: events.Upsert | events.Reject) -> events.Remove:
    """The object of this event is gone."""
    named = event.object.metadata if isinstance(event, events.Upsert) else event
    return events.Remove(kind=event.kind, namespace=named.namespace, name=named.name, uid=named.uid)


def _plain(value: object, key: object = None) -> object:
    """The value as JSON would have it."""
    if isinstance(value, Mapping):
        if key in TEXT_MAPS:
            return {name: "" if text is None else text for name, text in value.items()}
        return {name: _plain(part, name) for name, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return aware.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, dt.date):
        return f"{value.isoformat()}T00:00:00Z"
    return value
