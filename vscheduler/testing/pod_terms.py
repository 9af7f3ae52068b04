"""What pods of a picture say about other pods, in short.

    near=app=db@zone    required affinity         like=app=db@zone:50     preferred, weight 50
    apart=app@host      required anti-affinity    dislike=app=db@zone:50  the same the other way
    spread=app=db@zone:1  at most 1 apart         even=app=db@zone:1      the same, if it can be

`app` without a value is any pod that has the label; `host` is short for kubernetes.io/hostname.
"""

from typing import Any

from vscheduler.testing.statements import Statement

Document = dict[str, Any]

SETTINGS = {"near", "apart", "like", "dislike", "spread", "even"}
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(statement: Statement) -> Document:
    """spec.affinity as far as it is about pods."""
    found = {}
    for kind, must, may in (
        ("podAffinity", "near", "like"),
        ("podAntiAffinity", "apart", "dislike"),
    ):
        terms: Document = {REQUIRED: [_term(text) for text in statement.many(must)]}
        terms[PREFERRED] = [_weighted(text) for text in statement.many(may)]
        if any(terms.values()):
            found[kind] = terms
    return found


def spreads(statement: Statement) -> list[Document]:
    """spec.topologySpreadConstraints."""
    return [
        _spread(text, action)
        for setting, action in (("spread", "DoNotSchedule"), ("even", "ScheduleAnyway"))
        for text in statement.many(setting)
    ]


def _term(text: str) -> Document:
    label, _, key = text.rpartition("@")
    name, equals, value = label.partition("=")
    exists = {"matchExpressions": [{"key": name, "operator": "Exists"}]}
    return {
        "labelSelector": {"matchLabels": {name: value}} if equals else exists,
        "topologyKey": HOST if key == "host" else key,
    }


def _weighted(text: str) -> Document:
    term, _, weight = text.rpartition(":")
    return {"weight": int(weight), "podAffinityTerm": _term(term)}


def _spread(text: str, action: str) -> Document:
    term, _, skew = text.rpartition(":")
    return {**_term(term), "maxSkew": int(skew), "whenUnsatisfiable": action}
