"""The metadata of objects: what a new object gets, what an update may change, and what is valid."""

import random
import re
import uuid
from datetime import UTC, datetime

from tests.simulation.api_server import kinds, wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.wire import Cause, Object, RefusedError

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
PREFIX_MAX = 58

KEPT = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)
OPTIONAL = ("labels", "annotations", "ownerReferences", "finalizers", "generateName", "namespace")
"""Left out where empty."""
OWN = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Only the server changes these."""

NAME_MAX = 253
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
ANNOTATIONS_MAX = 256 * 1024

WRONG_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def stamp(now: float) -> str:
    """A time as objects have it, in whole seconds."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid(chance: random.Random) -> str:
    """A new UID."""
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def tidied(body: Object) -> Object:
    """The known fields of an object's metadata, without empty ones. Raises RefusedError."""
    given = body.get("metadata") or {}
    if not isinstance(given, dict):
        raise wire.bad_request("json: cannot unmarshal into Go struct field .metadata")
    made = {key: given[key] for key in KEPT if given.get(key) is not None}
    for key in ("labels", "annotations"):
        if isinstance(made.get(key), dict):
            made[key] = {name: text for name, text in made[key].items() if text is not None}
    for key in OPTIONAL:
        if key in made and not made[key]:
            del made[key]
    _check_types(made)
    body["metadata"] = made
    return made


def _check_types(found: Object) -> None:
    for key in ("labels", "annotations"):
        values = found.get(key, {})
        if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
            raise _mistyped(key)
    for key, kind in (("finalizers", str), ("ownerReferences", dict)):
        items = found.get(key, [])
        if not isinstance(items, list) or not all(isinstance(each, kind) for each in items):
            raise _mistyped(key)
    for key in ("name", "namespace", "uid", "resourceVersion", "generateName"):
        if not isinstance(found.get(key, ""), str):
            raise _mistyped(key)


def _mistyped(key: str) -> RefusedError:
    return wire.bad_request(
        f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{key}"
    )


def generated_name(prefix: str, chance: random.Random) -> str:
    """A name from generateName."""
    suffix = "".join(chance.choice(SUFFIX_LETTERS) for _ in range(SUFFIX_LENGTH))
    return prefix[:PREFIX_MAX] + suffix


def problems(kind: Kind, found: Object) -> list[Cause]:
    """What is wrong with an object's metadata."""
    name = found.get("name", "")
    causes = []
    if not name:
        text = "Required value: name or generateName is required"
        causes.append(Cause("metadata.name", text, "FieldValueRequired"))
    elif not _is_name(kind, name):
        causes.append(Cause("metadata.name", f'Invalid value: "{name}": {WRONG_NAME}'))
    if "labels" in found:
        causes += _label_problems(found["labels"])
    if "annotations" in found:
        causes += _annotation_problems(found["annotations"])
    for number, each in enumerate(found.get("ownerReferences", ())):
        causes += _owner_problems(number, each)
    for each in found.get("finalizers", ()):
        if not is_qualified(each):
            text = f'Invalid value: "{each}": name part must consist of alphanumeric characters'
            causes.append(Cause("metadata.finalizers", text))
    return causes


def _is_name(kind: Kind, name: str) -> bool:
    if kind is kinds.NAMESPACES:
        return len(name) <= 63 and LABEL_DOMAIN.fullmatch(name) is not None
    if kind.plural == "events":
        return len(name) <= NAME_MAX and "/" not in name
    return len(name) <= NAME_MAX and SUBDOMAIN.fullmatch(name) is not None


def is_qualified(key: str) -> bool:
    """Whether a label's key, or a finalizer, is `[DOMAIN/]NAME`."""
    domain, slash, name = key.rpartition("/")
    if slash and not (len(domain) <= NAME_MAX and SUBDOMAIN.fullmatch(domain)):
        return False
    return len(name) <= 63 and PART.fullmatch(name) is not None


def _label_problems(labels: Object) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        if not is_qualified(key):
            text = f'Invalid value: "{key}": name part must consist of alphanumeric characters'
            causes.append(Cause("metadata.labels", text))
        if value and (len(value) > 63 or PART.fullmatch(value) is None):
            text = f'Invalid value: "{value}": a valid label must be an empty string or consist of'
            causes.append(Cause("metadata.labels", text))
    return causes


def _annotation_problems(annotations: Object) -> list[Cause]:
    causes = []
    for key in annotations:
        if not is_qualified(key.lower()):
            text = f'Invalid value: "{key}": name part must consist of alphanumeric characters'
            causes.append(Cause("metadata.annotations", text))
    size = sum(len(key) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_MAX:
        text = f"Too long: may not be more than {ANNOTATIONS_MAX} bytes"
        causes.append(Cause("metadata.annotations", text, "FieldValueTooLong"))
    return causes


def _owner_problems(number: int, owner: Object) -> list[Cause]:
    return [
        Cause(f"metadata.ownerReferences[{number}].{key}", "must not be empty")
        for key in ("apiVersion", "kind", "name", "uid")
        if not owner.get(key)
    ]
