"""What a scenario expects, compared with what a cycle decided.

The keys of `expect` are described in scenarios/README.md; all that are present must hold.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from vscheduler.mirror.decode import quantities
from vscheduler.model.decisions import CycleResult

TOLERANCE = 1e-6
"""Relative; Volcano computes deserved in floats."""


def failures(expect: Mapping[str, Any], result: CycleResult) -> list[str]:
    """One sentence per key that doesn't hold."""
    found = []
    for key, expected in expect.items():
        check = CHECKS.get(key)
        if check is None:
            raise KeyError(f"expect.{key} is no key of a scenario (see scenarios/README.md)")
        problem = check(expected, result)
        if problem:
            found.append(f"{key}: {problem}")
    return found


def expects_nothing(expect: Mapping[str, Any]) -> bool:
    """Whether the scenario only says that nothing is bound, evicted or made to wait."""
    said = {key: value for key, value in expect.items() if key not in ("notes", "podGroupPhases")}
    return bool(said) and not any(said.values())


def binds(result: CycleResult) -> dict[str, str]:
    """Pod to node."""
    return {bind.task.key: bind.node for bind in result.binds}


def _differs(expected: object, found: object) -> str:
    return "" if expected == found else f"expected {expected}, found {found}"


def _binds(expected: Mapping[str, str], result: CycleResult) -> str:
    return _differs(expected, binds(result))


def _binds_any_of(expected: list[Mapping[str, str]], result: CycleResult) -> str:
    found = binds(result)
    return "" if found in expected else f"expected one of {expected}, found {found}"


def _bind_count(expected: int, result: CycleResult) -> str:
    return _differs(expected, len(result.binds))


def _bind_count_by_group(expected: Mapping[str, int], result: CycleResult) -> str:
    found = Counter[str](bind.task.job for bind in result.binds)
    return _differs(expected, {group: found[group] for group in expected})


def _pipelined(expected: Mapping[str, str], result: CycleResult) -> str:
    return _differs(expected, {each.task.key: each.node for each in result.pipelined})


def _evicts(expected: list[str], result: CycleResult) -> str:
    return _differs(sorted(expected), sorted(evict.task.key for evict in result.evicts))


def _evict_count(expected: int, result: CycleResult) -> str:
    return _differs(expected, len(result.evicts))


def _evicts_among(expected: list[str], result: CycleResult) -> str:
    strangers = sorted({evict.task.key for evict in result.evicts} - set(expected))
    return f"{strangers} are not among {expected}" if strangers else ""


def _phases(expected: Mapping[str, str], result: CycleResult) -> str:
    found: dict[str, str] = {group.job: str(group.phase) for group in result.groups}
    return _differs(expected, {group: found.get(group) for group in expected})


def _queues(expected: Mapping[str, Mapping[str, Any]], result: CycleResult) -> str:
    entitlements = {queue.name: queue.entitlement for queue in result.queues}
    wrong = []
    for name, figures in expected.items():
        if set(figures) != {"deserved"}:
            raise KeyError(f"expect.queues.{name}: only deserved is known, not {sorted(figures)}")
        entitlement = entitlements.get(name)
        found = entitlement.deserved if entitlement else {}
        for resource, quantity in figures["deserved"].items():
            amount = quantities.parse(resource, quantity)
            if not math.isclose(found.get(resource, 0.0), amount, rel_tol=TOLERANCE):
                wrong.append(f"{name} deserves {found.get(resource)} {resource}, not {amount}")
    return "; ".join(wrong)


def _notes(_: str, __: CycleResult) -> str:
    return ""


CHECKS: Mapping[str, Callable[[Any, CycleResult], str]] = {
    "binds": _binds,
    "bindsAnyOf": _binds_any_of,
    "bindCount": _bind_count,
    "bindCountByPodGroup": _bind_count_by_group,
    "pipelined": _pipelined,
    "evicts": _evicts,
    "evictCount": _evict_count,
    "evictsAmong": _evicts_among,
    "podGroupPhases": _phases,
    "queues": _queues,
    "notes": _notes,
}
"""How each key of `expect` is checked: a sentence, or an empty one where it holds."""
