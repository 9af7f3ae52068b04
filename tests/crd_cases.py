"""Specs of Queues and PodGroups that the CRDs take, and those that they refuse, and how."""

from pathlib import Path

import pytest
import yaml

KINDS = {"queues": "Queue", "podgroups": "PodGroup"}
"""By plural."""

_CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
TAKEN = [
    pytest.param(plural, spec, id=f"{plural}: {name}")
    for plural in KINDS
    for name, spec in _CASES[plural]["taken"].items()
]
REFUSED = [
    pytest.param(plural, case["spec"], case["says"], id=f"{plural}: {case['spec']}")
    for plural in KINDS
    for case in _CASES[plural]["refused"]
]
"""With what is said of each field."""
