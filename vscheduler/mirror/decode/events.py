"""Events about watched objects: the immutable input of the Mirror.

The decoding of a long affinity is put off: it dominates the cost of its pod and never changes,
while the pod is sent again with every status change. By then the pod class is known by the
affinity's text, so a digest of the text stands in for it until the content is needed.

JSON, and plain data from YAML, are decoded here, a single object at a time. An object that can't be
decoded becomes a DecodeFailed, so a bad object doesn't affect its neighbours. Lists and watch
streams around the objects are read by the callers.
"""

import datetime as dt
import hashlib
import re
import typing
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from vscheduler.mirror import paths
from vscheduler.mirror.decode import wire, wire_devices, wire_storage
from vscheduler.mirror.decode.wire import Pod, Struct
from vscheduler.mirror.paths import COLLECTIONS
from vscheduler.model import jobs
from vscheduler.model.jobs import JobId

LONG_BYTES = 16_384
"""An affinity of at least LONG_BYTES bytes isn't decoded at first."""

HEAD_BYTES = 64


class LargePod(Pod, frozen=True):
    """A pod without its affinity; `spec.affinity` is None."""

    item: bytes = b""
    """The whole pod in JSON."""
    digest: bytes = b""
    """Digest of the affinity's text."""


class _Spec(Struct, frozen=True):
    affinity: msgspec.Raw = msgspec.Raw()


class _Pod(Struct, frozen=True):
    spec: _Spec = _Spec()


_decode_affinity = msgspec.json.Decoder(_Pod).decode
_decode_pod = msgspec.json.Decoder(Pod).decode


def read_large(item: bytes | msgspec.Raw) -> LargePod | None:
    """Return the pod if its affinity is long.

    Return None for a short affinity, and for a pod with two affinity fields. Raises
    msgspec.ValidationError if anything but the affinity doesn't fit a pod.
    """
    if len(memoryview(item)) < LONG_BYTES:
        return None
    text = bytes(_decode_affinity(item).spec.affinity)
    if len(text) < LONG_BYTES:
        return None
    whole = bytes(item)
    begin = _place(text, whole)
    pod = _decode_pod(whole[:begin] + b"null" + whole[begin + len(text) :])
    if pod.spec.affinity is not None:
        return None
    return LargePod(
        metadata=pod.metadata,
        spec=pod.spec,
        status=pod.status,
        item=whole,
        digest=hashlib.blake2b(text).digest(),
    )


def _place(text: bytes, whole: bytes) -> int:
    """Return the position of `text` in `whole`.

    Only the first bytes are searched for: searching for the whole text is slower than decoding.
    """
    begin = whole.index(text[:HEAD_BYTES])
    while not whole.startswith(text, begin):
        begin = whole.index(text[:HEAD_BYTES], begin + 1)
    return begin


Kind = paths.Kind

Object: TypeAlias = wire.Object | wire_storage.Object | wire_devices.Object


class DecodeError(msgspec.Struct, frozen=True, kw_only=True):
    """Why an object is unusable. Users see the error, and everything else works without the
    object.
    """

    kind: Kind
    key: str
    """`namespace/name`, or the name of a cluster-scoped object."""
    field: str
    """Path as in a manifest: spec.containers[0].resources.requests.cpu; empty for the whole
    object.
    """
    message: str

    def __str__(self) -> str:
        place = f"{self.field}: " if self.field else ""
        return f"{self.kind} {self.key}: {place}{self.message}"


class Upsert(msgspec.Struct, frozen=True, kw_only=True):
    """The object exists and has the given content."""

    kind: Kind
    object: Object


class Remove(msgspec.Struct, frozen=True, kw_only=True):
    """The object is gone. An object of equal name with a different UID stays."""

    kind: Kind
    namespace: str
    name: str
    uid: str = ""


class DecodeFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The object exists, but a field has a value that its kind doesn't allow."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    field: str
    message: str

    @property
    def rejection(self) -> DecodeError:
        """The error as users see it."""
        key = key_of(self.namespace, self.name)
        return DecodeError(kind=self.kind, key=key, field=self.field, message=self.message)


Event: TypeAlias = Upsert | Remove | DecodeFailed


def key_of(namespace: str, name: str) -> str:
    """Return `namespace/name`, or the name alone without a namespace."""
    return f"{namespace}/{name}" if namespace else name


def kind_of_struct(struct: type) -> Kind:
    """Return the kind of the objects that decode to this struct, which has the kind's name."""
    native = struct is wire.NativePodGroup
    return Kind.NATIVE_POD_GROUP if native else Kind(struct.__name__)


STRUCTS: Mapping[Kind, type[Object]] = {
    kind_of_struct(struct): struct for struct in typing.get_args(Object)
}
"""The struct that objects of a kind decode to."""

DECODERS: Mapping[Kind, msgspec.json.Decoder[Object]] = {
    kind: msgspec.json.Decoder(struct) for kind, struct in STRUCTS.items()
}

_KINDS = {
    (each.api_version, each.kind): kind
    for kind, each in COLLECTIONS.items()
    if kind not in paths.OWNERS
}

TEXT_MAPS = ("labels", "annotations", "nodeSelector", "matchLabels")
"""Maps in which null means the empty text, as in API servers."""

NAMESPACE = "default"
"""The namespace of a manifest without metadata.namespace."""

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?:key` in `)?\$\.?(?P<field>[^`]*)`)?", re.DOTALL)


class _Names(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Names = _Names()


_decode_named = msgspec.json.Decoder(_Named).decode


def decode(kind: Kind, item: bytes | msgspec.Raw) -> Upsert | DecodeFailed:
    """Decode a single object from JSON; a pod with a long affinity becomes a LargePod.

    Objects that fail to decode are tried again as plain data, for manifests may contain nulls and
    similar values that API servers don't send. Raises msgspec.DecodeError for text that isn't JSON:
    then the sender is at fault, not the object.
    """
    try:
        if kind is Kind.POD and (large := read_large(item)) is not None:
            return Upsert(kind=kind, object=large)
    except msgspec.ValidationError:
        pass
    return _decode(kind, item)


def whole(pod: LargePod) -> Upsert | DecodeFailed:
    """Return the event of a LargePod with its affinity decoded."""
    return _decode(Kind.POD, pod.item)


def _decode(kind: Kind, item: bytes | msgspec.Raw) -> Upsert | DecodeFailed:
    try:
        return Upsert(kind=kind, object=DECODERS[kind].decode(item))
    except msgspec.ValidationError as error:
        try:
            plain = msgspec.json.decode(item)
        except msgspec.ValidationError:  # valid JSON, but with a number too large for a float
            return _refused(kind, {"metadata": _named(item)}, error)
        return convert(kind, plain)


def convert(kind: Kind, document: object) -> Upsert | DecodeFailed:
    """Decode a single object from plain data.

    YAML values are accepted: times, nulls, numbers as quantities. A namespaced object without a
    namespace is in namespace `default`.
    """
    try:
        found = msgspec.convert(document, STRUCTS[kind])
        if found.metadata.namespace or not COLLECTIONS[kind].namespaced:
            return Upsert(kind=kind, object=found)
    except (msgspec.ValidationError, RecursionError):
        pass  # nulls, or dates
    try:
        plain = _plain(document)
        if COLLECTIONS[kind].namespaced and isinstance(plain, dict):
            names = plain.setdefault("metadata", {})
            if isinstance(names, dict):
                names.setdefault("namespace", NAMESPACE)
        return Upsert(kind=kind, object=msgspec.convert(plain, STRUCTS[kind]))
    except (msgspec.ValidationError, RecursionError) as error:
        return _refused(kind, document, error)


def _named(item: bytes | msgspec.Raw) -> dict[str, str]:
    """Return name, namespace and UID of an object in JSON, as far as they can be read."""
    try:
        return msgspec.structs.asdict(_decode_named(item).metadata)
    except msgspec.ValidationError:
        return {}


def _refused(kind: Kind, document: object, error: Exception) -> DecodeFailed:
    """Return the decoding error, with the object's name as far as it can be read."""
    field, message = "", "is nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        place = _PLACE.fullmatch(str(error))
        assert place is not None
        field, message = place["field"] or "", place["what"]
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    names = metadata if isinstance(metadata, Mapping) else {}
    return DecodeFailed(
        kind=kind,
        namespace=str(
            names.get("namespace") or (NAMESPACE if COLLECTIONS[kind].namespaced else "")
        ),
        name=str(names.get("name") or ""),
        uid=str(names.get("uid") or ""),
        field=field,
        message=message,
    )


def kind_of(document: Mapping[str, Any]) -> Kind | None:
    """Return the kind of a manifest; None for a kind that decisions don't depend on, and for owners
    of pods, of which only annotations count.
    """
    named = str(document.get("apiVersion")), str(document.get("kind"))
    return _KINDS.get(named)


def kind_of_job(job: JobId) -> Kind:
    """Return the kind of the object that is a job."""
    if jobs.is_composite(job):
        return Kind.COMPOSITE_POD_GROUP
    if jobs.is_lone_pod(job):
        return Kind.POD
    return Kind.NATIVE_POD_GROUP if jobs.is_native(job) else Kind.POD_GROUP


def removal(event: Upsert | DecodeFailed) -> Remove:
    """Return the removal of the event's object."""
    named = event.object.metadata if isinstance(event, Upsert) else event
    return Remove(kind=event.kind, namespace=named.namespace, name=named.name, uid=named.uid)


def removal_of(kind: Kind, key: str) -> Remove:
    """Return the removal of the object with this key; that of a pod is its UID."""
    namespace, _, name = key.rpartition("/")
    uid = key if kind is Kind.POD else ""
    return Remove(kind=kind, namespace=namespace, name=name, uid=uid)


def _plain(value: object, key: object = None) -> object:
    """Return the value as JSON represents it."""
    if isinstance(value, Mapping):
        if key in TEXT_MAPS:
            return {name: "" if text is None else text for name, text in value.items()}
        return {
            # Most are texts, and abstract classes take long to ask.
            name: part if isinstance(part, str) else _plain(part, name)
            for name, part in value.items()
            if part is not None
        }
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return aware.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, dt.date):
        return f"{value.isoformat()}T00:00:00Z"
    return value
