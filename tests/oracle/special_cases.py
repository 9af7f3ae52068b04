"""Small clusters made by hand, with what kube-scheduler 1.37 said of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.oracle import manifests
from tests.oracle.worlds import World

Document = manifests.Document

FEATURE = "special-cases"
CASES: Sequence[Mapping[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "special_cases.yaml").read_text()
)


def world(number: int) -> World:
    """The cluster of a case, and the one pod that is asked about."""
    case = CASES[number]
    return World(
        feature=FEATURE,
        seed=number,
        nodes=[_node(each) for each in case["nodes"]],
        standing=[_pod(each) for each in case.get("standing", ())],
        waiting=[_pod(case["probe"])],
    )


def _node(short: Mapping[str, Any]) -> Document:
    node = manifests.node(short["name"], short.get("labels"), **short["room"])
    return _described(node, short)


def _pod(short: Mapping[str, Any]) -> Document:
    return _described(manifests.pod(short["name"], **short.get("labels", {})), short)


def _described(document: Document, short: Mapping[str, Any]) -> Document:
    """What a case says of an object on top of what all have."""
    document["spec"] |= short.get("spec", {})
    if "status" in short:
        document["status"] = document.get("status", {}) | short["status"]
    if short.get("leaving"):
        document["metadata"]["deletionTimestamp"] = manifests.LEAVING
    return document
