"""Specs of custom resources that the CRDs take, and those that they refuse, and how."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from vscheduler.mirror import paths

COLLECTIONS = {each.plural: each for each in (paths.QUEUES, paths.POD_GROUPS, paths.HYPER_NODES)}
CRDS = Path(__file__).parents[1] / "crds"


def definition(plural: str) -> Any:
    """The CRD of this plural, as plain data."""
    group = COLLECTIONS[plural].api_version.partition("/")[0]
    return yaml.safe_load((CRDS / f"{group}_{plural}.yaml").read_text())


def named(plural: str, name: str, **parts: Any) -> dict[str, Any]:
    """An object of this name with the given spec, status or metadata."""
    collection = COLLECTIONS[plural]
    metadata = {"name": name} | parts.pop("metadata", {})
    return {
        "apiVersion": collection.api_version,
        "kind": collection.kind,
        **parts,
        "metadata": metadata,
    }


_CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
TAKEN = [
    pytest.param(plural, spec, id=f"{plural}: {name}")
    for plural in COLLECTIONS
    for name, spec in _CASES[plural]["taken"].items()
]
REFUSED = [
    pytest.param(plural, case["spec"], case["says"], id=f"{plural}: {case['spec']}")
    for plural in COLLECTIONS
    for case in _CASES[plural]["refused"]
]
"""With what is said of each field."""
