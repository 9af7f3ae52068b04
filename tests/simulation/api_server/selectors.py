"""Label and field selectors, compiled to functions of an object."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from tests.simulation.api_server import wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.wire import Object

Match: TypeAlias = Callable[[Object], bool]
Labels: TypeAlias = Mapping[str, str]

REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<name>[^\s!=,()]+)"
    r"|(?P<key>[^\s!=,()]+)\s*(?:(?P<op>==|!=|=)\s*(?P<value>[^\s!=,()]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)

COMMON = {"metadata.name", "metadata.namespace"}
FIELDS: Mapping[str, set[str]] = {
    "pods": {
        "spec.nodeName",
        "spec.schedulerName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    },
    "nodes": {"spec.unschedulable"},
    "namespaces": {"status.phase"},
    "events": {
        *(
            f"involvedObject.{each}"
            for each in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")
        ),
        *(f"regarding.{each}" for each in ("kind", "namespace", "name", "uid", "apiVersion")),
        "reason",
        "type",
        "reportingComponent",
        "reportingController",
        "source",
    },
    "jobs": {"status.successful"},
    "replicasets": {"status.replicas"},
}


@lru_cache(maxsize=4096)
def labels(text: str) -> Callable[[Labels], bool]:
    """A label selector: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises RefusedError."""
    checks: list[Callable[[Labels], bool]] = []
    position = 0
    while position < len(text):
        found = REQUIREMENT.match(text, position)
        if found is None:
            raise wire.bad_request(f"unable to parse requirement: {text[position:]!r}")
        position = found.end()
        checks.append(_requirement(found))
    return lambda having: all(check(having) for check in checks)


def _requirement(found: re.Match[str]) -> Callable[[Labels], bool]:
    key = found["key"]
    if found["absent"]:
        name = found["name"]
        return lambda having: name not in having
    if found["op"]:
        value = found["value"]
        if found["op"] == "!=":
            return lambda having: having.get(key) != value
        return lambda having: having.get(key) == value
    if found["set"]:
        values = {each.strip() for each in found["values"].split(",")}
        if found["set"] == "in":
            return lambda having: having.get(key) in values
        return lambda having: having.get(key) not in values
    return lambda having: key in having


@lru_cache(maxsize=4096)
def fields(kind: Kind, text: str) -> Match:
    """A field selector: `a.b=c,d.e!=f`. Raises RefusedError."""
    checks: list[Match] = []
    for term in text.split(","):
        if not term.strip():
            continue
        found = re.fullmatch(r"\s*([\w.]+)\s*(==|!=|=)\s*(.*?)\s*", term)
        if found is None:
            raise wire.bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        name, operator, value = found.groups()
        if name not in COMMON and name not in FIELDS.get(kind.plural, ()):
            raise wire.bad_request(f"field label not supported: {name}")
        checks.append(_field(_path(kind, name), value, equal=operator != "!="))
    return lambda body: all(check(body) for check in checks)


def _path(kind: Kind, name: str) -> list[str]:
    """Where the field is; events are stored as events.k8s.io/v1."""
    if kind.plural == "events":
        name = name.replace("involvedObject.", "regarding.")
        name = {"reportingComponent": "reportingController", "source": "reportingController"}.get(
            name, name
        )
    return name.split(".")


def _field(path: list[str], value: str, *, equal: bool) -> Match:
    *parents, last = path

    def check(body: Object) -> bool:
        for parent in parents:
            body = body.get(parent) or {}
        return (_text(body.get(last)) == value) is equal

    return check


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def everything(_: Object) -> bool:
    """The selector without requirements."""
    return True


def compiled(kind: Kind, label_text: str, field_text: str) -> Match:
    """Both selectors of a request. Raises RefusedError."""
    if not label_text and not field_text:
        return everything
    by_field = fields(kind, field_text) if field_text else everything
    if not label_text:
        return by_field
    by_label = labels(label_text)
    return lambda body: by_label(body["metadata"].get("labels") or {}) and by_field(body)


def of_object(selector: Mapping[str, Any] | None) -> Callable[[Labels], bool]:
    """A LabelSelector (matchLabels, matchExpressions); None selects nothing, empty everything."""
    if selector is None:
        return lambda _: False
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        values = ",".join(each.get("values") or ())
        terms.append(
            {
                "In": f"{each['key']} in ({values})",
                "NotIn": f"{each['key']} notin ({values})",
                "Exists": each["key"],
                "DoesNotExist": f"!{each['key']}",
            }[each["operator"]]
        )
    return labels(",".join(terms))
