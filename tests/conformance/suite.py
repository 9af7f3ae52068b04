"""The scenarios, those that can't pass yet, and how one is run."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.conformance import expectations
from vscheduler.core import actions, compat, plugins
from vscheduler.core.config import policy as policies
from vscheduler.core.config.policy import Parsed
from vscheduler.simulator import run as simulator
from vscheduler.simulator.run import Options

FOLDER = Path(__file__).parent / "scenarios"
DIFFERENCES = Path(__file__).parent / "differences.yaml"
EXPECTED_FAILURES = Path(__file__).parent / "expected_failures.yaml"

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NOW = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
"""When every scenario is run: long after whatever its objects date from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One file: a configuration, a cluster, and what one cycle must decide."""

    path: str
    """Below scenarios/: `gang/all-surplus-pods-may-go.yaml`."""
    scheduler: Mapping[str, Any]
    objects: list[dict[str, Any]]
    expect: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """The action or plugin that it is about."""
        return self.path.partition("/")[0]

    @property
    def expects_nothing(self) -> bool:
        """Whether nothing is to be bound, evicted or made to wait; phases aside."""
        return expectations.expects_nothing(self.expect)


def load(path: Path) -> Scenario:
    """A scenario's file; KeyError names a field that is missing."""
    content = yaml.load(path.read_text(), Loader=LOADER)  # noqa: S506 - a safe one, in C
    return Scenario(
        path=path.relative_to(FOLDER).as_posix(),
        scheduler=content["scheduler"],
        objects=content["objects"],
        expect=content["expect"],
    )


@cache
def scenarios() -> tuple[Scenario, ...]:
    """All of them, by path."""
    return tuple(load(path) for path in sorted(FOLDER.rglob("*.yaml")))


@cache
def expected_failures() -> Mapping[str, str]:
    """Path to the reason why it can't pass yet; ValueError for a path that doesn't exist."""
    listed = yaml.safe_load(EXPECTED_FAILURES.read_text()) or {}
    stale = sorted(set(listed) - {scenario.path for scenario in scenarios()})
    if stale:
        raise ValueError(f"{EXPECTED_FAILURES.name}: no such scenario: {', '.join(stale)}")
    return {path: str(reason) for path, reason in listed.items()}


@cache
def differences() -> Mapping[str, str]:
    """Path to the reason why ours is better, where the outcome differs without `compatibility`."""
    listed = yaml.safe_load(DIFFERENCES.read_text())
    return {path: str(reason) for path, reason in listed.items()}


OPTIONS = Options(scheduler_names=("volcano",), claim_unowned=True, now=NOW.timestamp())


def policy_of(scenario: Scenario, *, as_volcano: bool) -> Parsed:
    """Its configuration."""
    compatibility = {"compatibility": "volcano"} if as_volcano else {}
    tree = {**compatibility, **scenario.scheduler}
    return policies.parse(tree, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)


def run(scenario: Scenario, *, as_volcano: bool = True) -> list[str]:
    """What doesn't hold after one cycle: one sentence per key of `expect`."""
    parsed = policy_of(scenario, as_volcano=as_volcano)
    if parsed.policy is None:
        return [str(problem) for problem in parsed.problems]
    outcome = simulator.simulate(scenario.objects, parsed.policy, OPTIONS)
    problems = [str(problem) for problem in outcome.problems]
    return problems + expectations.failures(scenario.expect, outcome.last)
