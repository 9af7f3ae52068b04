"""From a request's path to what it is about; and discovery."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.api_server import kinds
from tests.simulation.api_server.kinds import Catalogue, Kind
from tests.simulation.api_server.wire import Object

READ_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2",
    "gitTreeState": "clean",
    "platform": "linux/amd64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a path names."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def place(catalogue: Catalogue, path: str) -> Place | None:
    """The collection, object or subresource of a path; None for any other path."""
    segments = path.strip("/").split("/")
    if segments[0] == "api":
        group, rest = "", segments[1:]
    elif segments[0] == "apis" and len(segments) > 1:
        group, rest = segments[1], segments[2:]
    else:
        return None
    if len(rest) < 2:
        return None
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = catalogue.at(group, version, rest[0])
    if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
        return None
    name, subresource = [*rest[1:], "", ""][:2]
    if name and kind.namespaced and not namespace:
        return None
    return Place(kind=kind, namespace=namespace, name=name, subresource=subresource)


def is_served(catalogue: Catalogue, path: str) -> bool:
    """Whether the API group and version of a path are there at all."""
    segments = [each for each in path.split("/") if each]
    if segments[:1] == ["api"]:
        return segments[1:2] == ["v1"]
    return segments[:1] == ["apis"] and any(
        [each.group, each.version] == segments[1:3] for each in catalogue
    )


def discovered(catalogue: Catalogue, path: str) -> Object | None:
    """The answer of a discovery path, or None."""
    segments = [each for each in path.split("/") if each]
    if segments == ["version"]:
        return VERSION
    if segments == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if segments == ["apis"]:
        groups = dict.fromkeys(each.group for each in catalogue if each.group)
        found = [_group(group, catalogue) for group in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    if segments[:1] == ["apis"] and len(segments) == 2:
        if all(each.group != segments[1] for each in catalogue):
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(segments[1], catalogue)}
    return _resources(catalogue, segments)


def _resources(catalogue: Catalogue, segments: list[str]) -> Object | None:
    if segments[:1] == ["api"] and len(segments) == 2:
        group, version = "", segments[1]
    elif segments[:1] == ["apis"] and len(segments) == 3:
        _, group, version = segments
    else:
        return None
    served = [each for each in catalogue if (each.group, each.version) == (group, version)]
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": list(_described(served)),
    }


def _described(served: Iterable[Kind]) -> Iterable[Object]:
    for each in served:
        about = {"singularName": each.kind.lower(), "namespaced": each.namespaced}
        names = {"shortNames": list(each.short_names)} if each.short_names else {}
        yield {"name": each.plural, **about, "kind": each.kind, "verbs": READ_VERBS, **names}
        if each.status:
            verbs = ["get", "patch", "update"]
            yield {"name": f"{each.plural}/status", **about, "kind": each.kind, "verbs": verbs}
        if each is kinds.PODS:
            yield {"name": "pods/binding", **about, "kind": "Binding", "verbs": ["create"]}
            yield {"name": "pods/eviction", **about, "kind": "Eviction", "verbs": ["create"]}


def _group(name: str, catalogue: Catalogue) -> Object:
    versions = dict.fromkeys(each.version for each in catalogue if each.group == name)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}
