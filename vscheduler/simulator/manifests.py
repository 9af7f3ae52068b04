"""Manifests as kept by users, turned into the objects of a World, in canonical order.

Defaults of an API server are filled in: namespaces, UIDs, creation times, and the queues that
always exist. The order of the manifests makes no difference.
"""

import datetime as dt
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.documents import Document
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.paths import COLLECTIONS, OWNERS
from vscheduler.mirror.translate import storage
from vscheduler.model.queues import ROOT

DEFAULT_NAMESPACE = "default"
MOMENTS = frozenset(
    {"creationTimestamp", "lastHeartbeatTime", "lastTransitionTime", "startTime", "time"}
)
"""Fields with a time in the past. A deletionTimestamp is left out, for it may be in the future."""

LATEST_YEAR = 9999
LATEST = dt.datetime(LATEST_YEAR, 1, 1, tzinfo=dt.UTC).timestamp()
"""The end of the calendar, with room for further cycles."""

_PART = re.compile(r"[^.\[\]]+")
"""A step of a field path such as spec.containers[0].resources."""

RELEVANT = frozenset(Kind) - OWNERS
"""Kinds of manifests that decisions depend on. Of owners, only what they say about pods counts."""

ORDER = {kind: place for place, kind in enumerate(reversed(Kind))}
"""Sort order of kinds: priority classes first, pods last, as users would create them."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A document, or an item of a list, with its place."""

    tree: object
    document: Document | None = None
    """The source document; None for a manifest that isn't from a file."""
    path: tuple[str | int, ...] = ()
    """Path of the manifest in the document."""

    def place(self, field: str = "") -> str:
        """Return `jobs.yaml:12`, with the line of the field or of its innermost existing part."""
        if self.document is None:
            return ""
        inside = (int(part) if part.isdigit() else part for part in _PART.findall(field))
        return self.document.place((*self.path, *inside))


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A defect of the input, left out of the simulation."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest of a kind that decisions depend on."""

    kind: Kind
    namespace: str
    name: str
    tree: Mapping[str, Any]
    manifest: Manifest

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of a cluster-scoped object."""
        return events.key_of(self.namespace, self.name)


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """All manifests read: sorted by kind, namespace and name, without duplicates."""

    objects: tuple[Named, ...]
    problems: tuple[Problem, ...]
    ignored: Mapping[str, int]
    """Number of documents by kind, for kinds without influence on decisions."""


def collect(manifests: Iterable[Manifest]) -> Collection:
    """Return all usable objects, and the problems of the rest."""
    found: defaultdict[tuple[int, str, str], list[Named]] = defaultdict(list)
    problems: list[Problem] = []
    ignored: Counter[str] = Counter()
    for manifest in expanded(manifests):
        tree = manifest.tree
        if not isinstance(tree, Mapping):
            problems.append(
                Problem(place=manifest.place(), message="what stands here is no object")
            )
            continue
        missing = [key for key in ("apiVersion", "kind") if not isinstance(tree.get(key), str)]
        if missing:
            message = f"what stands here is no object: it has no {' and no '.join(missing)}"
            problems.append(Problem(place=manifest.place(), message=message))
            continue
        kind = events.kind_of(tree)
        if kind is None:
            ignored[_irrelevant_kind(tree)] += 1
            continue
        named = _named(kind, manifest, tree)
        if isinstance(named, Problem):
            problems.append(named)
        else:
            found[ORDER[kind], named.namespace, named.name].append(named)
    objects = [_one(found[key], problems) for key in sorted(found)]
    return Collection(
        objects=tuple(objects),
        problems=tuple(sorted(problems, key=str)),
        ignored=dict(sorted(ignored.items())),
    )


def latest(manifests: Iterable[Manifest]) -> float:
    """Return the latest time in any manifest, in seconds since the epoch; 0 without any time."""
    found = {moment for each in manifests for moment in _moments(each.tree)}
    return min(max(map(_instant, found), default=0.0), LATEST)


def complete(objects: Iterable[Named], now: float) -> Iterator[tuple[Named, Mapping[str, Any]]]:
    """Iterate over the objects with the metadata that an API server would add.

    An object without a UID, or with the UID of an earlier object (a copied dump), gets its
    `namespace/name` as UID. A claim without a class gets the default class.
    """
    taken: set[str] = set()
    listed = list(objects)
    default = _default_class(listed)
    created = dt.datetime.fromtimestamp(int(now), dt.UTC)
    for named in listed:
        metadata = {
            "creationTimestamp": created,
            **{key: value for key, value in _metadata(named.tree).items() if value is not None},
            "name": named.name,
        }
        if named.namespace:
            metadata["namespace"] = named.namespace
        uid = str(metadata.get("uid", ""))
        if not uid or uid in taken:
            metadata["uid"] = named.key
        taken.add(str(metadata["uid"]))
        whole = {**named.tree, "metadata": metadata}
        if default and named.kind is Kind.CLAIM:
            spec = whole.get("spec")
            if isinstance(spec, Mapping) and spec.get("storageClassName") is None:
                whole["spec"] = {**spec, "storageClassName": default}
        yield named, {**_defaults(named), **whole}


def _defaults(named: Named) -> Mapping[str, Any]:
    """Return what Kubernetes would have written to the object by now."""
    spec = named.tree.get("spec")
    if named.kind is Kind.VOLUME and not (isinstance(spec, Mapping) and spec.get("claimRef")):
        return {"status": {"phase": "Available"}}
    return {}


def _default_class(objects: Iterable[Named]) -> str:
    """Return the name of the default StorageClass: the youngest, then the first by name."""
    found = []
    for named in objects:
        metadata = _metadata(named.tree)
        annotations = metadata.get("annotations")
        notes = annotations if isinstance(annotations, Mapping) else {}
        default = str(notes.get(storage.DEFAULT_CLASS)) == "true"
        if named.kind is Kind.STORAGE_CLASS and default:
            found.append((-_instant(metadata.get("creationTimestamp")), named.name))
    return min(found)[1] if found else ""


def permanent_queues(default_queue: str) -> Iterator[Named]:
    """Iterate over the queues that a scheduler finds or creates at startup (Volcano: root and
    default).
    """
    for name in (ROOT, default_queue):
        tree = {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": name != "root"}}
        manifest = Manifest(tree=tree)
        yield Named(kind=Kind.QUEUE, namespace="", name=name, tree=tree, manifest=manifest)


def expanded(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Iterate over documents and list items; items inherit kind and apiVersion from their list."""
    for manifest in manifests:
        tree = manifest.tree
        if not _is_list(tree):
            if tree is not None:
                yield manifest
            continue
        kind = tree["kind"].removesuffix("List")
        implied = {"kind": kind, "apiVersion": tree.get("apiVersion")} if kind else {}
        items = (
            Manifest(
                tree={**implied, **item} if isinstance(item, Mapping) else item,
                document=manifest.document,
                path=(*manifest.path, "items", at),
            )
            for at, item in enumerate(tree["items"])
        )
        yield from expanded(items)


def _is_list(tree: object) -> TypeGuard[Mapping[str, Any]]:
    return (
        isinstance(tree, Mapping)
        and str(tree.get("kind")).endswith("List")
        and isinstance(tree.get("items"), list)
    )


def _named(kind: Kind, manifest: Manifest, tree: Mapping[str, Any]) -> Named | Problem:
    metadata = _metadata(tree)
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        place = manifest.place("metadata.name")
        return Problem(place=place, message=f"{kind}: metadata.name: it has no name")
    namespace = ""
    if COLLECTIONS[kind].namespaced:
        namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE)
    return Named(kind=kind, namespace=namespace, name=name, tree=tree, manifest=manifest)


def _irrelevant_kind(tree: Mapping[str, Any]) -> str:
    """Return the kind of an irrelevant manifest, with its group if the kind's name equals a
    relevant kind.
    """
    kind = str(tree["kind"])
    return f"{kind} of {tree['apiVersion']}" if kind in RELEVANT else kind


def _metadata(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = tree.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _one(same: Sequence[Named], problems: list[Problem]) -> Named:
    """Return one manifest of an object. Equal copies are fine; differing copies are problems."""
    if len(same) == 1:
        return same[0]
    contents = {
        _content(each): each for each in sorted(same, key=lambda each: each.manifest.place())
    }
    kept, *others = (contents[content] for content in sorted(contents))
    for other in others:
        message = f"{other.kind} {other.key}: differs from the one in {kept.manifest.place()}"
        problems.append(Problem(place=other.manifest.place(), message=message))
    return kept


def _content(named: Named) -> str:
    """Return a canonical text of the content."""
    return json.dumps(named.tree, sort_keys=True, default=str)


def _moments(tree: object) -> Iterator[str | dt.datetime]:
    """Iterate over the times in a tree, without recursion. A spec has none: nothing there has
    happened.
    """
    rest = [tree]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += value
        elif isinstance(value, Mapping):
            for key, part in value.items():
                if key in MOMENTS:
                    if isinstance(part, str | dt.datetime):
                        yield part
                elif not isinstance(part, str) and key != "spec":
                    rest.append(part)


def _instant(value: object) -> float:
    """Return seconds since the epoch. An invalid time is reported later, when the object is
    decoded.
    """
    try:
        moment = msgspec.convert(value, dt.datetime)
    except msgspec.ValidationError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
